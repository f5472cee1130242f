//! What BurntSushi/toml says of the mistakes that people make.
//!
//! The grammar is another crate's, so its complaint is too; for the usual mistakes the place is
//! looked at again, and the complaint is made in BurntSushi's words.

/// A complaint, and whether the key that was read last belongs in front of it.
pub(super) struct Fault {
    pub(super) text: String,
    pub(super) names_key: bool,
}

/// The complaint about a line (from 1) that could not be read; `None` where it is none of the usual
/// ones.
pub(super) fn of_line(text: &str, line: usize) -> Option<Fault> {
    let mut rest = text;
    for _ in 1..line {
        rest = rest.split_once('\n')?.1;
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    if rest.starts_with(['[', '"', '\'', '#']) {
        return None;
    }
    let key = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let has_key = key.len() < rest.len();
    let after = key.trim_start_matches([' ', '\t']);
    match (after.chars().next(), has_key) {
        (None, _) => Some(without_key("unexpected EOF; expected key separator '='")),
        (Some('='), true) => of_value(after.get(1..)?),
        (Some('='), false) => Some(without_key("unexpected '=': key name appears blank")),
        (Some(found), _) => Some(without_key(&format!(
            "expected '.' or '=', but got {found:?} instead"
        ))),
    }
}

fn of_value(text: &str) -> Option<Fault> {
    let value = text.trim_start_matches([' ', '\t']);
    let Some(first) = value.chars().next() else {
        return Some(with_key("unexpected EOF; expected value"));
    };
    match first {
        '"' | '\'' => of_string(value, first),
        '[' | '{' => None,
        '0'..='9' | '+' | '-' => of_number(value),
        '.' => Some(with_key("floats must start with a digit, not '.'")),
        _ if first.is_ascii_alphabetic() => of_word(value),
        _ => Some(with_key(&format!(
            "expected value but found {first:?} instead"
        ))),
    }
}

/// A number in decimal; dates and numbers of other bases are left to the grammar.
fn of_number(value: &str) -> Option<Fault> {
    let end = value
        .find(|c: char| !c.is_ascii_digit() && !"+-_.eE".contains(c))
        .unwrap_or(value.len());
    let (number, after) = value.split_at(end);
    let unsigned = number.trim_start_matches(['+', '-']);
    let is_float = unsigned.contains(['.', 'e', 'E']);
    let is_date = after.starts_with(':') || !is_float && unsigned.contains('-');
    if is_date || after.starts_with(['x', 'o', 'b']) {
        return None;
    }
    let kind = if is_float { "float" } else { "integer" };
    let wrong = |what: &str| Some(with_key(&format!("Invalid {kind} {number:?}: {what}")));
    let mut parts = number
        .split(['.', 'e', 'E'])
        .filter(|part| !part.is_empty());
    if !parts.clone().all(are_underscores_right) {
        return wrong("underscores must be surrounded by digits");
    }
    let whole = parts.next()?.trim_start_matches(['+', '-']);
    if whole.len() > 1 && whole.starts_with('0') {
        return wrong("cannot have leading zeroes");
    }
    let mut fractions = number.split('.').skip(1);
    if !fractions.all(|fraction| fraction.starts_with(|c: char| c.is_ascii_digit())) {
        return wrong("'.' must be followed by one or more digits");
    }
    let is_good = number.replace('_', "").parse::<f64>().is_ok();
    (is_float && !is_good).then(|| with_key(&format!("Invalid float value: {number:?}")))
}

fn are_underscores_right(digits: &str) -> bool {
    let digits = digits.trim_start_matches(['+', '-']);
    digits.split('_').all(|group| !group.is_empty())
}

/// A value that is no boolean and not quoted.
fn of_word(value: &str) -> Option<Fault> {
    let end = value
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(value.len());
    let word = value.get(..end)?;
    let is_value = ["true", "false", "inf", "nan"].contains(&word);
    (!is_value).then(|| with_key(&format!("expected value but found {word:?} instead")))
}

/// A string of one line that does not end.
fn of_string(value: &str, quote: char) -> Option<Fault> {
    let body = value.get(1..)?;
    if body.starts_with(quote) {
        return None;
    }
    let ends = body.find(['\n', quote]);
    match ends.and_then(|at| body.get(at..)?.chars().next()) {
        None if quote == '"' => Some(with_key("unexpected EOF; expected '\"'")),
        None => Some(with_key("unexpected EOF; expected \"'\"")),
        Some('\n') => Some(with_key("strings cannot contain newlines")),
        Some(_) => None,
    }
}

fn with_key(text: &str) -> Fault {
    Fault {
        text: text.to_owned(),
        names_key: true,
    }
}

fn without_key(text: &str) -> Fault {
    Fault {
        text: text.to_owned(),
        names_key: false,
    }
}

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
        '[' | '{' | '0'..='9' | '+' | '-' => None,
        _ if first.is_ascii_alphabetic() => of_word(value),
        _ => Some(with_key(&format!(
            "expected value but found {first:?} instead"
        ))),
    }
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

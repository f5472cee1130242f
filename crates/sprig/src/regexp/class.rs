//! Character classes and escapes.

use super::translate::{SyntaxError, append_code};

/// A class that no character is in.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10ffff}]";

type Parsed<T> = Result<T, SyntaxError>;

/// Reads `[…]` at the start of a text: the class for the `regex` crate, and what follows.
pub(super) fn bracketed(whole: &str) -> Parsed<(String, &str)> {
    let missing = || SyntaxError::new("missing closing ]", whole);
    let mut rest = whole.get(1..).unwrap_or_default();
    let mut class = String::from("[");
    if let Some(after) = rest.strip_prefix('^') {
        class.push('^');
        rest = after;
    }
    let mut members = String::new();
    let mut first = true;
    loop {
        match rest.strip_prefix(']') {
            Some(after) if !first => {
                // An empty class is possible when all members are surrogates.
                if members.is_empty() {
                    members.push_str(NOTHING);
                }
                class.push_str(&members);
                class.push(']');
                return Ok((class, after));
            }
            _ => first = false,
        }
        if let Some((member, after)) = posix(rest)? {
            members.push_str(member);
            rest = after;
        } else if let Some((member, after)) = escaped(rest)? {
            members.push_str(&member);
            rest = after;
        } else if rest.is_empty() {
            return Err(missing());
        } else {
            rest = range(rest, &missing, &mut members)?;
        }
    }
}

/// Reads a character or a range of two.
fn range<'a>(
    start: &'a str,
    missing: &dyn Fn() -> SyntaxError,
    members: &mut String,
) -> Parsed<&'a str> {
    let (low, mut rest) = character(start)?;
    let mut high = low;
    if let Some(after) = rest.strip_prefix('-')
        && !after.starts_with(']')
        && !after.is_empty()
    {
        (high, rest) = character(after)?;
        if high < low {
            let text = start.get(..start.len() - rest.len()).unwrap_or(start);
            return Err(SyntaxError::new("invalid character class range", text));
        }
    } else if rest.is_empty() {
        return Err(missing());
    }
    append_range(members, low, high);
    Ok(rest)
}

/// Surrogates are cut out: the crate knows none.
fn append_range(members: &mut String, low: u32, high: u32) {
    const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;
    let low = if SURROGATES.contains(&low) {
        0xe000
    } else {
        low
    };
    let high = if SURROGATES.contains(&high) {
        0xd7ff
    } else {
        high
    };
    if low > high {
        return;
    }
    append_code(members, low);
    if low < high {
        members.push('-');
        append_code(members, high);
    }
}

/// Reads `[:name:]` inside a class.
fn posix(text: &str) -> Parsed<Option<(&'static str, &str)>> {
    let Some(after) = text.strip_prefix("[:") else {
        return Ok(None);
    };
    let Some((name, rest)) = after.split_once(":]") else {
        return Ok(None);
    };
    let class = match name {
        "alnum" => "[0-9A-Za-z]",
        "^alnum" => "[^0-9A-Za-z]",
        "alpha" => "[A-Za-z]",
        "^alpha" => "[^A-Za-z]",
        "ascii" => r"[\x00-\x7F]",
        "^ascii" => r"[^\x00-\x7F]",
        "blank" => r"[\t ]",
        "^blank" => r"[^\t ]",
        "cntrl" => r"[\x00-\x1F\x7F]",
        "^cntrl" => r"[^\x00-\x1F\x7F]",
        "digit" => "[0-9]",
        "^digit" => "[^0-9]",
        "graph" => "[!-~]",
        "^graph" => "[^!-~]",
        "lower" => "[a-z]",
        "^lower" => "[^a-z]",
        "print" => "[ -~]",
        "^print" => "[^ -~]",
        "punct" => r"[!-/:-@\[-`{-~]",
        "^punct" => r"[^!-/:-@\[-`{-~]",
        "space" => r"[\t\n\v\f\r ]",
        "^space" => r"[^\t\n\v\f\r ]",
        "upper" => "[A-Z]",
        "^upper" => "[^A-Z]",
        "word" => "[0-9A-Za-z_]",
        "^word" => "[^0-9A-Za-z_]",
        "xdigit" => "[0-9A-Fa-f]",
        "^xdigit" => "[^0-9A-Fa-f]",
        _ => {
            let text = text.get(..name.len() + 4).unwrap_or(text);
            return Err(SyntaxError::new("invalid character class range", text));
        }
    };
    Ok(Some((class, rest)))
}

/// Reads `\d`, `\w`, `\s`, their negations, `\pL`, `\p{Greek}`, `\P…`.
pub(super) fn escaped(text: &str) -> Parsed<Option<(String, &str)>> {
    let Some(after) = text.strip_prefix('\\') else {
        return Ok(None);
    };
    let class = match after.as_bytes().first() {
        Some(b'd') => "[0-9]",
        Some(b'D') => "[^0-9]",
        Some(b's') => r"[\t\n\f\r ]",
        Some(b'S') => r"[^\t\n\f\r ]",
        Some(b'w') => "[0-9A-Za-z_]",
        Some(b'W') => "[^0-9A-Za-z_]",
        Some(b'p' | b'P') => return unicode(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((class.to_owned(), after.get(1..).unwrap_or_default())))
}

fn unicode(text: &str) -> Parsed<(String, &str)> {
    let invalid = |text| SyntaxError::new("invalid character class range", text);
    let after = text.get(2..).unwrap_or_default();
    let (name, rest) = match after.strip_prefix('{') {
        Some(after) => after.split_once('}').ok_or_else(|| invalid(text))?,
        None => {
            let first = after.chars().next().map_or(0, char::len_utf8);
            after.split_at(first)
        }
    };
    let sequence = text.get(..text.len() - rest.len()).unwrap_or(text);
    let mut negative = text.starts_with("\\P");
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negative = !negative;
            name
        }
        None => name,
    };
    let plain = |character: char| character.is_ascii_alphanumeric() || "_- ".contains(character);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(invalid(sequence));
    }
    let letter = if negative { 'P' } else { 'p' };
    let known = ["gc", "sc"]
        .iter()
        .map(|property| format!("\\{letter}{{{property}={name}}}"))
        .find(|class| regex_syntax::parse(class).is_ok());
    known
        .map(|class| (class, rest))
        .ok_or_else(|| invalid(sequence))
}

/// Reads one character, plain or escaped; escapes may name surrogates.
pub(super) fn character(text: &str) -> Parsed<(u32, &str)> {
    let mut characters = text.chars();
    match characters.next() {
        Some('\\') => escape(text, characters.as_str()),
        Some(character) => Ok((u32::from(character), characters.as_str())),
        None => Err(SyntaxError::new("missing closing ]", text)),
    }
}

fn escape<'a>(start: &'a str, after: &'a str) -> Parsed<(u32, &'a str)> {
    let mut characters = after.chars();
    let Some(first) = characters.next() else {
        return Err(SyntaxError::new(
            "trailing backslash at end of expression",
            "",
        ));
    };
    let rest = characters.as_str();
    let control = match first {
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        'x' => return hexadecimal(start, rest),
        '0' => return Ok(octal(after)),
        '1'..='7' if rest.starts_with(|next| matches!(next, '0'..='7')) => {
            return Ok(octal(after));
        }
        _ if first.is_ascii() && !first.is_ascii_alphanumeric() => u32::from(first),
        _ => return Err(invalid_escape(start, rest)),
    };
    Ok((control, rest))
}

fn invalid_escape(start: &str, rest: &str) -> SyntaxError {
    let text = start.get(..start.len() - rest.len()).unwrap_or(start);
    SyntaxError::new("invalid escape sequence", text)
}

/// Up to three octal digits, of which there is at least one.
fn octal(text: &str) -> (u32, &str) {
    let digits = text.bytes().take(3);
    let length = digits
        .take_while(|byte| matches!(byte, b'0'..=b'7'))
        .count();
    let (digits, rest) = text.split_at(length);
    (u32::from_str_radix(digits, 8).unwrap_or(0), rest)
}

/// `41` or `{1F600}` after `\x`.
fn hexadecimal<'a>(start: &'a str, rest: &'a str) -> Parsed<(u32, &'a str)> {
    let mut characters = rest.chars();
    let Some(first) = characters.next() else {
        return Err(invalid_escape(start, rest));
    };
    if first != '{' {
        let second = characters.next();
        let after = characters.as_str();
        let digits = first
            .to_digit(16)
            .zip(second.and_then(|digit| digit.to_digit(16)));
        return match digits {
            Some((high, low)) => Ok((high * 16 + low, after)),
            // Go reports a cut escape as bad UTF-8 of nothing.
            None if second.is_none() => Err(SyntaxError::new("invalid UTF-8", "")),
            None => Err(invalid_escape(start, after)),
        };
    }
    let mut code = 0;
    let mut digits = 0;
    loop {
        let next = characters.next();
        let after = characters.as_str();
        match next {
            Some('}') if digits > 0 => return Ok((code, after)),
            Some(digit) => match digit.to_digit(16) {
                Some(value) if code * 16 + value <= 0x0010_ffff => code = code * 16 + value,
                _ => return Err(invalid_escape(start, after)),
            },
            None => return Err(invalid_escape(start, after)),
        }
        digits += 1;
    }
}

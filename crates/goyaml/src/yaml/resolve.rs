//! The types of plain scalars.

use super::timestamp::is_timestamp;

/// What a plain scalar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Timestamp,
    String,
}

impl Resolved {
    /// The short tag of this type.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::String => "!!str",
        }
    }
}

/// The type of a plain scalar without a tag, as go-yaml v2 sees it.
#[inline]
pub(crate) fn resolve(text: &[u8]) -> Resolved {
    match text.first() {
        None => Resolved::Null,
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => resolve_number(text, true),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            resolve_word(text)
        }
        // `<<` is in go-yaml's table of words but not in its table of first characters.
        Some(_) => Resolved::String,
    }
}

/// As [`resolve`], for a scalar with an explicit tag other than `!!timestamp`: such a one is no
/// timestamp.
pub(crate) fn resolve_tagged(text: &[u8]) -> Resolved {
    match text.first() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => resolve_number(text, false),
        _ => resolve(text),
    }
}

fn resolve_word(text: &[u8]) -> Resolved {
    match text {
        b"y" | b"Y" | b"yes" | b"Yes" | b"YES" | b"true" | b"True" | b"TRUE" | b"on" | b"On"
        | b"ON" => Resolved::Bool(true),
        b"n" | b"N" | b"no" | b"No" | b"NO" | b"false" | b"False" | b"FALSE" | b"off" | b"Off"
        | b"OFF" => Resolved::Bool(false),
        b"~" | b"null" | b"Null" | b"NULL" => Resolved::Null,
        _ => Resolved::String,
    }
}

/// As [`resolve`], for a text that begins with a digit, a sign or a point.
fn resolve_number(text: &[u8], timestamps: bool) -> Resolved {
    match text {
        b".nan" | b".NaN" | b".NAN" => return Resolved::Float(f64::NAN),
        b".inf" | b".Inf" | b".INF" | b"+.inf" | b"+.Inf" | b"+.INF" => {
            return Resolved::Float(f64::INFINITY);
        }
        b"-.inf" | b"-.Inf" | b"-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        [b'.', ..] => return resolve_fraction(text),
        _ => {}
    }
    if timestamps && is_timestamp(text) {
        return Resolved::Timestamp;
    }
    if text.contains(&b'_') {
        let plain: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'_').collect();
        return resolve_digits(&plain);
    }
    resolve_digits(text)
}

/// As [`resolve`], for a text that begins with a point. Go's rule for underscores is stricter here:
/// they must stand between digits.
fn resolve_fraction(text: &[u8]) -> Resolved {
    let digit = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let separated = text
        .iter()
        .enumerate()
        .all(|(at, &byte)| byte != b'_' || (digit(at.checked_sub(1)) && digit(at.checked_add(1))));
    let plain: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'_').collect();
    match parse_float(&plain) {
        Some(value) if separated => Resolved::Float(value),
        _ => Resolved::String,
    }
}

/// As [`resolve`], for a text without underscores that may be an integer or a float.
fn resolve_digits(text: &[u8]) -> Resolved {
    let (sign, digits) = split_sign(text);
    if let Some(magnitude) = parse_magnitude(digits) {
        match (sign, i64::try_from(magnitude)) {
            (Some(b'-'), _) => {
                if let Some(value) = 0_i64.checked_sub_unsigned(magnitude) {
                    return Resolved::Int(value);
                }
            }
            (_, Ok(value)) => return Resolved::Int(value),
            (None, Err(_)) => return Resolved::Uint(magnitude),
            // Go's ParseUint takes no sign.
            (Some(_), Err(_)) => {}
        }
    }
    if let Some(value) = parse_float(text) {
        return Resolved::Float(value);
    }
    parse_signed_binary(text).map_or(Resolved::String, Resolved::Int)
}

fn split_sign(text: &[u8]) -> (Option<u8>, &[u8]) {
    match text {
        [sign @ (b'+' | b'-'), rest @ ..] => (Some(*sign), rest),
        _ => (None, text),
    }
}

/// An unsigned integer as Go reads it with base 0: a leading `0` means octal.
fn parse_magnitude(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', b'o' | b'O', rest @ ..] => (rest, 8),
        [b'0', b'b' | b'B', rest @ ..] => (rest, 2),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    parse_radix(digits, radix)
}

fn parse_radix(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))
    })
}

/// `0b-101`, which go-yaml reads because it cuts the prefix off before it looks for a sign.
fn parse_signed_binary(text: &[u8]) -> Option<i64> {
    let [b'0', b'b', sign @ (b'+' | b'-'), digits @ ..] = text else {
        return None;
    };
    let magnitude = parse_radix(digits, 2)?;
    match sign {
        b'-' => 0_i64.checked_sub_unsigned(magnitude),
        _ => i64::try_from(magnitude).ok(),
    }
}

/// A decimal float that is finite.
fn parse_float(text: &[u8]) -> Option<f64> {
    if !is_float(text) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &[u8]) -> bool {
    let (_, rest) = split_sign(text);
    let (whole, rest) = split_digits(rest);
    let rest = match rest {
        [b'.', rest @ ..] => {
            let (fraction, rest) = split_digits(rest);
            if whole == 0 && fraction == 0 {
                return false;
            }
            rest
        }
        _ if whole == 0 => return false,
        _ => rest,
    };
    match rest {
        [] => true,
        [b'e' | b'E', rest @ ..] => {
            let (_, rest) = split_sign(rest);
            let (digits, rest) = split_digits(rest);
            digits > 0 && rest.is_empty()
        }
        _ => false,
    }
}

/// How many digits a text begins with, and what follows them.
fn split_digits(text: &[u8]) -> (usize, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count, text.get(count..).unwrap_or_default())
}

/// Whether a text looks like a number to base 60, such as `12:30`: go-yaml reads it as a string but
/// quotes it for others.
pub(crate) fn is_base60(text: &[u8]) -> bool {
    let (_, rest) = split_sign(text);
    let [b'0'..=b'9', ..] = rest else {
        return false;
    };
    let whole = rest
        .iter()
        .take_while(|&&byte| byte.is_ascii_digit() || byte == b'_')
        .count();
    let mut rest = rest.get(whole..).unwrap_or_default();
    if rest.first() != Some(&b':') {
        return false;
    }
    while let [b':', tail @ ..] = rest {
        rest = match tail {
            [b'0'..=b'5', b'0'..=b'9', tail @ ..] | [b'0'..=b'9', tail @ ..] => tail,
            _ => return false,
        };
    }
    match rest {
        [] => true,
        [b'.', fraction @ ..] => fraction
            .iter()
            .all(|&byte| byte.is_ascii_digit() || byte == b'_'),
        _ => false,
    }
}

/// Whether go-yaml v2 would read this plain scalar as a string, and does not quote it for others.
#[inline]
pub(crate) fn is_plain_string_v2(text: &[u8]) -> bool {
    resolve(text) == Resolved::String && !is_base60(text)
}

/// As [`is_plain_string_v2`], for go-yaml v3, which also knows `0o7` in all its spellings.
#[inline]
pub(crate) fn is_plain_string_v3(text: &[u8]) -> bool {
    is_plain_string_v2(text) && !is_signed_octal(text)
}

/// `0o-7`, as [`parse_signed_binary`].
fn is_signed_octal(text: &[u8]) -> bool {
    let plain: Vec<u8> = match text {
        [b'0', ..] => text.iter().copied().filter(|&byte| byte != b'_').collect(),
        _ => return false,
    };
    let [b'0', b'o', sign @ (b'+' | b'-'), digits @ ..] = plain.as_slice() else {
        return false;
    };
    let limit = (1 << 63) - u64::from(*sign == b'+');
    parse_radix(digits, 8).is_some_and(|magnitude| magnitude <= limit)
}

//! Go string and character literals, written and read.

use crate::unicode::{self, Chars, REPLACEMENT};

/// Go's `strconv.Quote`: a double-quoted literal. What does not print is escaped, a byte that is no
/// UTF-8 as `\xff`.
///
/// ```
/// assert_eq!(gotmpl::strconv::quote(b"a\"b\n\xff"), r#""a\"b\n\xff""#);
/// ```
#[must_use]
pub fn quote(bytes: &[u8]) -> String {
    let mut buffer = Vec::with_capacity(bytes.len() + 2);
    append_quoted(&mut buffer, bytes, false);
    into_string(buffer)
}

/// Go's `strconv.QuoteRune`: a single-quoted literal of a character.
///
/// ```
/// assert_eq!(gotmpl::strconv::quote_rune(0x27), r"'\''");
/// ```
#[must_use]
pub fn quote_rune(code: u32) -> String {
    let mut buffer = Vec::with_capacity(4);
    append_quoted_rune(&mut buffer, code, false);
    into_string(buffer)
}

fn into_string(buffer: Vec<u8>) -> String {
    String::from_utf8(buffer)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Appends what [`quote`] gives; with `ascii`, every character beyond ASCII is escaped.
pub fn append_quoted(buffer: &mut Vec<u8>, bytes: &[u8], ascii: bool) {
    buffer.push(b'"');
    let mut rest = bytes;
    while !rest.is_empty() {
        let plain = plain_prefix(rest);
        let (head, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        buffer.extend_from_slice(head);
        let (code, length) = unicode::decode(tail);
        if code == REPLACEMENT && length == 1 {
            push_hex(
                buffer,
                b'x',
                u32::from(tail.first().copied().unwrap_or_default()),
                2,
            );
        } else if length > 0 {
            append_escaped(buffer, code, b'"', ascii);
        }
        rest = tail.get(length..).unwrap_or_default();
    }
    buffer.push(b'"');
}

/// How many bytes at the start go unchanged between double quotes.
fn plain_prefix(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| !(0x20..0x7F).contains(&byte) || byte == b'"' || byte == b'\\')
        .unwrap_or(bytes.len())
}

pub(crate) fn append_quoted_rune(buffer: &mut Vec<u8>, code: u32, ascii: bool) {
    let code = char::from_u32(code).map_or(REPLACEMENT, u32::from);
    buffer.push(b'\'');
    append_escaped(buffer, code, b'\'', ascii);
    buffer.push(b'\'');
}

fn append_escaped(buffer: &mut Vec<u8>, code: u32, quote: u8, ascii: bool) {
    if code == u32::from(quote) || code == u32::from(b'\\') {
        buffer.push(b'\\');
        unicode::push(buffer, code);
    } else if unicode::is_print(code) && (!ascii || code < 0x80) {
        unicode::push(buffer, code);
    } else {
        append_unprintable(buffer, code);
    }
}

fn append_unprintable(buffer: &mut Vec<u8>, code: u32) {
    let letter = match code {
        0x07 => b'a',
        0x08 => b'b',
        0x0C => b'f',
        0x0A => b'n',
        0x0D => b'r',
        0x09 => b't',
        0x0B => b'v',
        0..0x20 | 0x7F => return push_hex(buffer, b'x', code, 2),
        0..0x1_0000 => return push_hex(buffer, b'u', code, 4),
        _ => return push_hex(buffer, b'U', code, 8),
    };
    buffer.extend_from_slice(&[b'\\', letter]);
}

fn push_hex(buffer: &mut Vec<u8>, letter: u8, code: u32, digits: u32) {
    buffer.extend_from_slice(&[b'\\', letter]);
    for place in (0..digits).rev() {
        let digit = char::from_digit((code >> (4 * place)) & 0xF, 16).unwrap_or('0');
        unicode::push(buffer, u32::from(digit));
    }
}

/// Go's `strconv.CanBackquote`: whether the text can stand between backquotes.
pub(crate) fn can_backquote(bytes: &[u8]) -> bool {
    Chars(bytes).all(|(code, length)| match (code, length) {
        (0xFEFF, _) => false,
        (_, 2..) => true,
        (REPLACEMENT, _) => false,
        (0x09, _) => true,
        _ => code >= 0x20 && code != u32::from(b'`') && code != 0x7F,
    })
}

/// Go's `strconv.Unquote` for a whole literal in double quotes or backquotes; `None` is Go's
/// `invalid syntax`.
pub(crate) fn unquote(literal: &[u8]) -> Option<Vec<u8>> {
    let (&quote, rest) = literal.split_first()?;
    let (&end, body) = rest.split_last()?;
    if quote != end {
        return None;
    }
    match quote {
        b'`' if !body.contains(&b'`') => {
            Some(body.iter().copied().filter(|&byte| byte != b'\r').collect())
        }
        b'"' if !body.contains(&b'\n') => unquote_body(body, b'"'),
        _ => None,
    }
}

/// What stands between two quotes of that kind, with its escapes read as in a Go string; `None` is Go's
/// `invalid syntax`.
#[must_use]
pub fn unquote_body(mut body: &[u8], quote: u8) -> Option<Vec<u8>> {
    let mut buffer = Vec::with_capacity(body.len());
    let is_special = |&byte: &u8| !(0x20..0x7F).contains(&byte) || byte == quote || byte == b'\\';
    while !body.is_empty() {
        let plain = body.iter().position(is_special).unwrap_or(body.len());
        buffer.extend_from_slice(body.get(..plain)?);
        body = body.get(plain..)?;
        if body.is_empty() {
            break;
        }
        let (value, tail) = unquote_char(body, quote)?;
        match value {
            Unquoted::Byte(byte) => buffer.push(byte),
            Unquoted::Char(code) => unicode::push(&mut buffer, code),
        }
        body = tail;
    }
    Some(buffer)
}

/// One character of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unquoted {
    /// A byte by itself: ASCII, `\xff`, `\377`.
    Byte(u8),
    /// A character.
    Char(u32),
}

impl Unquoted {
    /// The number of it.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Byte(byte) => u32::from(byte),
            Self::Char(code) => code,
        }
    }
}

/// Go's `strconv.UnquoteChar`: the first character of what stands between quotes, and the rest.
pub(crate) fn unquote_char(text: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    let (&first, rest) = text.split_first()?;
    match first {
        _ if first == quote => None,
        0x80.. => {
            let (code, length) = unicode::decode(text);
            Some((Unquoted::Char(code), text.get(length..)?))
        }
        b'\\' => unquote_escape(rest, quote),
        _ => Some((Unquoted::Byte(first), rest)),
    }
}

fn unquote_escape(text: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    let (&letter, rest) = text.split_first()?;
    let byte = match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0B,
        b'\\' => b'\\',
        b'\'' | b'"' if letter == quote => letter,
        b'x' => {
            let (code, rest) = digits(rest, 2, 16)?;
            return Some((Unquoted::Byte(u8::try_from(code).ok()?), rest));
        }
        b'u' | b'U' => {
            let (code, rest) = digits(rest, if letter == b'u' { 4 } else { 8 }, 16)?;
            char::from_u32(code)?;
            return Some((Unquoted::Char(code), rest));
        }
        b'0'..=b'7' => {
            let (code, rest) = digits(text, 3, 8)?;
            return Some((Unquoted::Byte(u8::try_from(code).ok()?), rest));
        }
        _ => return None,
    };
    Some((Unquoted::Byte(byte), rest))
}

fn digits(text: &[u8], count: usize, base: u32) -> Option<(u32, &[u8])> {
    let (head, rest) = text.split_at_checked(count)?;
    let code = head.iter().try_fold(0u32, |code, &byte| {
        let digit = char::from(byte).to_digit(base)?;
        code.checked_mul(base)?.checked_add(digit)
    })?;
    Some((code, rest))
}

//! The bytes of a text, checked and made UTF-8.

use std::borrow::Cow;

use super::chars;

/// How many bytes go-yaml decodes at a time. A bad character is reported when its block is needed,
/// so that errors of earlier blocks come first.
const BLOCK: usize = 512;

const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// A text that is UTF-8 without control characters, as far as it goes.
pub(crate) struct Source<'a> {
    /// The text, or its part before the block with the bad character.
    pub(crate) text: Cow<'a, [u8]>,
    /// What is wrong with the character after `text`, if anything is.
    pub(crate) failure: Option<&'static str>,
    /// Up to where a line that starts before it loses its first character: a fault of go-yaml's in
    /// texts that begin with two byte order marks.
    pub(crate) bom_until: usize,
}

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xFF, 0xFE, rest @ ..] => Self::from_utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => Self::from_utf16(rest, u16::from_be_bytes),
            [0xEF, 0xBB, 0xBF, rest @ ..] => Self::from_utf8(rest, 3),
            _ => Self::from_utf8(bytes, 0),
        }
    }

    /// `skipped` is the length of the byte order mark before `text`.
    fn from_utf8(text: &'a [u8], skipped: usize) -> Self {
        let (valid, failure) = check(text);
        let end = match failure {
            // More could follow what is incomplete: it is reported when it is needed itself.
            Some(INCOMPLETE) | None => valid,
            Some(_) => block_start(text, valid, skipped),
        };
        let text = text.get(..end).unwrap_or_default();
        let bom_until = match text {
            [0xEF, 0xBB, 0xBF, ..] => end.min(BLOCK),
            _ => 0,
        };
        Self {
            text: Cow::Borrowed(text),
            failure,
            bom_until,
        }
    }

    fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Self {
        let (text, failure) = decode_utf16(bytes, unit);
        let (valid, control) = check(&text);
        Self {
            failure: control.or(failure),
            text: Cow::Owned(text.get(..valid).unwrap_or_default().to_vec()),
            bom_until: 0,
        }
    }
}

/// The start of the block that holds the byte at `bad`; a character is never cut in two.
fn block_start(text: &[u8], bad: usize, skipped: usize) -> usize {
    let mut start = 0;
    let mut end = BLOCK - skipped;
    let width = text.get(bad).map_or(1, |&byte| chars::width(byte));
    while end < bad + width {
        let mut cut = end;
        while cut > start && text.get(cut).is_some_and(|byte| byte & 0xC0 == 0x80) {
            cut -= 1;
        }
        start = if cut > start { cut } else { end };
        end = start + BLOCK;
    }
    start
}

/// How many bytes are good, and what is wrong with what follows them.
fn check(text: &[u8]) -> (usize, Option<&'static str>) {
    let mut at = 0;
    while at < text.len() {
        at = skip_plain(text, at);
        let Some(&byte) = text.get(at) else { break };
        if byte < 0x80 {
            if is_control(byte) {
                return (at, Some("control characters are not allowed"));
            }
            at += 1;
            continue;
        }
        match decode(text.get(at..).unwrap_or_default()) {
            Ok((0x80..=0x84 | 0x86..=0x9F | 0xFFFE | 0xFFFF, _)) => {
                return (at, Some("control characters are not allowed"));
            }
            Ok((_, width)) => at += width,
            Err(problem) => return (at, Some(problem)),
        }
    }
    (text.len(), None)
}

/// Skips whole chunks of ordinary ASCII; the loop is one that compilers vectorise.
fn skip_plain(text: &[u8], from: usize) -> usize {
    let mut at = from;
    for chunk in text.get(from..).unwrap_or_default().chunks_exact(32) {
        let odd = chunk.iter().fold(false, |odd, &byte| {
            odd | !(0x20..0x7F).contains(&byte) & (byte != b'\n')
        });
        if odd {
            break;
        }
        at += 32;
    }
    at
}

fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0B | 0x0C | 0x0E..=0x1F | 0x7F)
}

/// The character that `bytes` begin with and its width, or go-yaml's complaint.
fn decode(bytes: &[u8]) -> Result<(u32, usize), &'static str> {
    let lead = bytes.first().copied().unwrap_or(0);
    let (width, bits) = match lead {
        0xC0..=0xDF => (2, lead & 0x1F),
        0xE0..=0xEF => (3, lead & 0x0F),
        0xF0..=0xF7 => (4, lead & 0x07),
        _ => return Err("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else {
        return Err(INCOMPLETE);
    };
    let mut value = u32::from(bits);
    for &byte in rest {
        if byte & 0xC0 != 0x80 {
            return Err("invalid trailing UTF-8 octet");
        }
        value = value << 6 | u32::from(byte & 0x3F);
    }
    if value < [0, 0, 0x80, 0x800, 0x1_0000][width] {
        return Err("invalid length of a UTF-8 sequence");
    }
    if matches!(value, 0xD800..=0xDFFF) || value > 0x10_FFFF {
        return Err("invalid Unicode character");
    }
    Ok((value, width))
}

/// The text in UTF-8, as far as it is good, and what is wrong with what follows it.
fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (Vec<u8>, Option<&'static str>) {
    let mut text = String::with_capacity(bytes.len());
    let mut units = bytes.chunks(2).map(|pair| match *pair {
        [first, second] => Ok(unit([first, second])),
        _ => Err("incomplete UTF-16 character"),
    });
    while let Some(next) = units.next() {
        match next.and_then(|high| utf16_char(high, units.by_ref())) {
            Ok(character) => text.push(character),
            Err(problem) => return (text.into_bytes(), Some(problem)),
        }
    }
    (text.into_bytes(), None)
}

fn utf16_char(
    high: u16,
    mut rest: impl Iterator<Item = Result<u16, &'static str>>,
) -> Result<char, &'static str> {
    let code = match high {
        0xDC00..=0xDFFF => return Err("unexpected low surrogate area"),
        0xD800..=0xDBFF => match rest.next() {
            Some(Ok(low @ 0xDC00..=0xDFFF)) => {
                0x1_0000 + ((u32::from(high) & 0x3FF) << 10) + (u32::from(low) & 0x3FF)
            }
            Some(Ok(_)) => return Err("expected low surrogate area"),
            _ => return Err("incomplete UTF-16 surrogate pair"),
        },
        _ => u32::from(high),
    };
    char::from_u32(code).ok_or("invalid Unicode character")
}

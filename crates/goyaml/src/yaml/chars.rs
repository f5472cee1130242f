//! What go-yaml's scanner and emitter ask about bytes.

/// Space, tab, line break, end of text, or a byte that a longer line break begins with.
const STOP: u8 = 1;
/// `,` `?` `[` `]` `{` `}`: they end a plain scalar in flow context.
const FLOW: u8 = 2;
/// `:`.
const COLON: u8 = 4;
/// Not ASCII.
const HIGH: u8 = 8;
/// Letters, digits, `_` and `-`.
const ALPHA: u8 = 16;
/// CR, LF, end of text, or a byte that a longer line break begins with.
const BREAK: u8 = 32;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            0 | b'\r' | b'\n' => STOP | BREAK,
            b' ' | b'\t' => STOP,
            0xC2 | 0xE2 => STOP | BREAK | HIGH,
            0x80.. => HIGH,
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => FLOW,
            b':' => COLON,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-' => ALPHA,
            _ => 0,
        };
        byte += 1;
    }
    table
}

#[inline]
fn class(byte: u8) -> u8 {
    CLASS[usize::from(byte)]
}

/// How many bytes at the start of `text` surely belong to a plain scalar's word.
#[inline]
pub(crate) fn plain_run(text: &[u8], flow: bool) -> usize {
    let stop = if flow {
        STOP | COLON | HIGH | FLOW
    } else {
        STOP | COLON | HIGH
    };
    run(text, stop)
}

/// How many bytes at the start of `text` surely are neither blank, nor break, nor beyond ASCII.
#[inline]
pub(crate) fn word_run(text: &[u8]) -> usize {
    run(text, STOP | HIGH)
}

/// How many bytes at the start of `text` surely stand before the end of the line, and are ASCII.
#[inline]
pub(crate) fn line_run(text: &[u8]) -> usize {
    run(text, BREAK | HIGH)
}

#[inline]
fn run(text: &[u8], stop: u8) -> usize {
    text.iter()
        .position(|&byte| class(byte) & stop != 0)
        .unwrap_or(text.len())
}

#[inline]
pub(crate) fn is_alpha(byte: u8) -> bool {
    class(byte) & ALPHA != 0
}

/// Whether a line break longer than a byte begins with these: NEL, LS or PS.
#[inline]
pub(crate) fn is_long_break(text: &[u8]) -> bool {
    matches!(text, [0xC2, 0x85, ..] | [0xE2, 0x80, 0xA8 | 0xA9, ..])
}

#[inline]
pub(crate) fn is_break(text: &[u8]) -> bool {
    matches!(text, [b'\r' | b'\n', ..]) || is_long_break(text)
}

/// Whether a line break or the end of the text comes next.
#[inline]
pub(crate) fn is_breakz(text: &[u8]) -> bool {
    match text.first() {
        None => true,
        Some(&byte) => class(byte) & BREAK != 0 && (class(byte) & HIGH == 0 || is_long_break(text)),
    }
}

/// Whether a blank, a line break or the end of the text comes next.
#[inline]
pub(crate) fn is_blankz(text: &[u8]) -> bool {
    matches!(text, [b' ' | b'\t', ..]) || is_breakz(text)
}

/// How many bytes the character takes that begins with this byte.
#[inline]
pub(crate) fn width(byte: u8) -> usize {
    match byte {
        0..0x80 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF8 => 4,
        _ => 1,
    }
}

/// How many characters a UTF-8 text has.
pub(crate) fn count(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

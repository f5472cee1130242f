//! Which styles a scalar can be written in.

use super::writer::Dialect;
use crate::yaml::chars::width;

/// What go-yaml finds out about a scalar, for block context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Analysis {
    /// It has a line break.
    pub(super) multiline: bool,
    /// It may be plain.
    pub(super) plain: bool,
    /// It may stand in single quotes.
    pub(super) single: bool,
    /// It may be literal.
    pub(super) literal: bool,
}

/// Bytes that mean nothing by themselves, wherever they stand but at the start.
static ORDINARY: [bool; 256] = ordinary();

const fn ordinary() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7F {
        table[byte] = !matches!(byte as u8, b':' | b'#');
        byte += 1;
    }
    table
}

#[derive(Default)]
struct Flags {
    indicators: bool,
    line_breaks: bool,
    special: bool,
    tabs: bool,
    leading_space: bool,
    leading_break: bool,
    trailing_space: bool,
    trailing_break: bool,
    break_space: bool,
    space_break: bool,
}

/// Analyses a scalar that is UTF-8.
pub(super) fn analyze(text: &[u8], dialect: Dialect) -> Analysis {
    if text.is_empty() {
        return Analysis {
            multiline: false,
            plain: true,
            single: true,
            literal: false,
        };
    }
    let mut flags = Flags {
        indicators: starts_with_indicator(text),
        ..Flags::default()
    };
    scan(text, dialect, &mut flags);
    flags.conclude()
}

/// Whether the first characters alone forbid a plain scalar.
fn starts_with_indicator(text: &[u8]) -> bool {
    match text {
        [b'?' | b':' | b'-'] | [b'?' | b':' | b'-', b' ' | b'\t', ..] => true,
        [first, ..] if b"#,[]{}&*!|>'\"%@`".contains(first) => true,
        _ => text.starts_with(b"---") || text.starts_with(b"..."),
    }
}

fn scan(text: &[u8], dialect: Dialect, flags: &mut Flags) {
    let mut previous_space = false;
    let mut previous_break = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if ORDINARY[usize::from(byte)] {
            previous_space = false;
            previous_break = false;
            at += 1;
            continue;
        }
        let rest = text.get(at..).unwrap_or_default();
        let next = at + width(byte);
        match byte {
            b':' => {
                let blank = matches!(rest, [_] | [_, b' ' | b'\t', ..]);
                flags.indicators |= blank;
            }
            b'#' => flags.indicators |= at > 0 && after_whitespace(text, at),
            b'\t' if dialect == Dialect::V3 => flags.tabs = true,
            _ => flags.special |= !is_printable(rest),
        }
        if byte == b' ' {
            flags.leading_space |= at == 0;
            flags.trailing_space |= next == text.len();
            flags.break_space |= previous_break;
            previous_space = true;
            previous_break = false;
        } else if is_break(rest) {
            flags.line_breaks = true;
            flags.leading_break |= at == 0;
            flags.trailing_break |= next >= text.len();
            flags.space_break |= previous_space;
            previous_space = false;
            previous_break = true;
        } else {
            previous_space = false;
            previous_break = false;
        }
        at = next;
    }
}

/// Whether a blank or a line break ends at `at`.
fn after_whitespace(text: &[u8], at: usize) -> bool {
    matches!(
        text.get(..at).unwrap_or_default(),
        [.., b' ' | b'\t' | b'\r' | b'\n' | 0] | [.., 0xC2, 0x85] | [.., 0xE2, 0x80, 0xA8 | 0xA9]
    )
}

impl Flags {
    fn conclude(&self) -> Analysis {
        let mut plain = !self.line_breaks && !self.indicators;
        let mut single = true;
        let mut literal = !self.trailing_space;
        if self.leading_space || self.leading_break || self.trailing_space || self.trailing_break {
            plain = false;
        }
        if self.break_space || self.tabs {
            plain = false;
            single = false;
        }
        if self.space_break || self.special {
            plain = false;
            single = false;
            literal = false;
        }
        Analysis {
            multiline: self.line_breaks,
            plain,
            single,
            literal,
        }
    }
}

pub(super) fn is_break(text: &[u8]) -> bool {
    crate::yaml::chars::is_break(text)
}

/// Whether go-yaml prints the character that `text` begins with as it is. It knows none beyond
/// U+FFFF.
pub(super) fn is_printable(text: &[u8]) -> bool {
    match text {
        [b'\n' | 0x20..=0x7E, ..] => true,
        [0xC2, second, ..] => *second >= 0xA0,
        [0xC3..=0xEC | 0xEE, ..] => true,
        [0xED, second, ..] => *second < 0xA0,
        [0xEF, 0xBB, 0xBF, ..] | [0xEF, 0xBF, 0xBE | 0xBF, ..] => false,
        [0xEF, ..] => true,
        _ => false,
    }
}

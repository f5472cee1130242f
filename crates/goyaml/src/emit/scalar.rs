//! The scalar styles.

use super::analysis::{is_break, is_printable};
use super::output::Output;
use crate::yaml::chars::width;

/// The column after which a line is broken at the next blank, where it is broken at all.
const WIDTH: usize = 80;

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

impl Output {
    /// Writes a scalar; `fold` tells whether long lines are broken.
    pub(super) fn write_scalar(&mut self, text: &[u8], style: Style, fold: bool) {
        match style {
            Style::Plain => self.write_plain(text, fold),
            Style::Single => self.write_single(text, fold),
            Style::Double => self.write_double(text, fold),
            Style::Literal => self.write_literal(text),
        }
    }

    /// Whether a text of this length stays on its line.
    fn fits(&self, length: usize, fold: bool) -> bool {
        !fold || self.column + length <= WIDTH
    }

    fn write_plain(&mut self, text: &[u8], fold: bool) {
        if !self.whitespace {
            self.put(b' ');
        }
        if self.fits(text.len(), fold) {
            self.put_all(text);
        } else {
            self.write_folded_words(text, false, false);
        }
        self.end_scalar();
    }

    fn write_single(&mut self, text: &[u8], fold: bool) {
        self.write_indicator(b"'", true, false);
        let simple = !text
            .iter()
            .any(|&byte| matches!(byte, b'\'' | b'\n' | 0xE2));
        if simple && self.fits(text.len(), fold) {
            self.put_all(text);
        } else {
            self.write_folded_words(text, true, !fold);
        }
        self.write_indicator(b"'", false, false);
        self.end_scalar();
    }

    /// Writes words with the line broken at single blanks, once it is long enough.
    fn write_folded_words(&mut self, text: &[u8], quoted: bool, unbroken: bool) {
        let mut spaces = false;
        let mut breaks = false;
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            let done = if byte == b' ' {
                let inside = !quoted || (rest.len() < text.len() && rest.len() > 1);
                let fold = !unbroken
                    && !spaces
                    && self.column > WIDTH
                    && inside
                    && rest.get(1) != Some(&b' ');
                spaces = true;
                if fold {
                    self.write_indent();
                    1
                } else {
                    self.put_char(rest)
                }
            } else if is_break(rest) {
                if !breaks && byte == b'\n' {
                    self.put_break();
                }
                breaks = true;
                self.copy_break(rest)
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && byte == b'\'' {
                    self.put(b'\'');
                }
                self.indention = false;
                spaces = false;
                breaks = false;
                self.put_char(rest)
            };
            rest = rest.get(done..).unwrap_or_default();
        }
    }

    fn write_double(&mut self, text: &[u8], fold: bool) {
        self.write_indicator(b"\"", true, false);
        // go-yaml looks for a byte order mark at the start of the text, whichever character it is
        // about to write.
        let escape_all = text.starts_with("\u{FEFF}".as_bytes());
        let mut spaces = false;
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            let escape =
                escape_all || matches!(byte, b'"' | b'\\') || !is_printable(rest) || is_break(rest);
            let done = if escape {
                spaces = false;
                self.write_escape(rest)
            } else if byte == b' ' {
                let inside = rest.len() < text.len() && rest.len() > 1;
                let broken = fold && !spaces && self.column > WIDTH && inside;
                spaces = true;
                if broken {
                    self.write_indent();
                    if rest.get(1) == Some(&b' ') {
                        self.put(b'\\');
                    }
                    1
                } else {
                    self.put_char(rest)
                }
            } else {
                spaces = false;
                self.put_char(rest)
            };
            rest = rest.get(done..).unwrap_or_default();
        }
        self.write_indicator(b"\"", false, false);
        self.end_scalar();
    }

    /// Writes the character that `text` begins with as an escape; tells how many bytes it has.
    fn write_escape(&mut self, text: &[u8]) -> usize {
        let width = width(text.first().copied().unwrap_or(0));
        let character = text
            .get(..width)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .and_then(|text| text.chars().next())
            .unwrap_or('\u{FFFD}');
        let (letter, digits) = match character {
            '\0' => (b'0', 0),
            '\x07' => (b'a', 0),
            '\x08' => (b'b', 0),
            '\t' => (b't', 0),
            '\n' => (b'n', 0),
            '\x0B' => (b'v', 0),
            '\x0C' => (b'f', 0),
            '\r' => (b'r', 0),
            '\x1B' => (b'e', 0),
            '"' => (b'"', 0),
            '\\' => (b'\\', 0),
            '\u{85}' => (b'N', 0),
            '\u{A0}' => (b'_', 0),
            '\u{2028}' => (b'L', 0),
            '\u{2029}' => (b'P', 0),
            '\0'..='\u{FF}' => (b'x', 2),
            '\0'..='\u{FFFF}' => (b'u', 4),
            _ => (b'U', 8),
        };
        self.put(b'\\');
        self.put(letter);
        for place in (0..digits).rev() {
            let digit = (u32::from(character) >> (4 * place)) & 15;
            let digit = char::from_digit(digit, 16)
                .unwrap_or('0')
                .to_ascii_uppercase();
            self.put(u8::try_from(digit).unwrap_or(b'0'));
        }
        width
    }

    fn write_literal(&mut self, text: &[u8]) {
        self.write_indicator(b"|", true, false);
        self.write_hints(text);
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        let mut rest = text;
        while !rest.is_empty() {
            if is_break(rest) {
                let done = self.copy_break(rest);
                rest = rest.get(done..).unwrap_or_default();
                breaks = true;
                continue;
            }
            if breaks {
                self.write_indent();
            }
            let (run, after) = rest.split_at(literal_run(rest));
            self.put_all(run);
            self.indention = false;
            breaks = false;
            rest = after;
        }
    }

    /// Writes the indicators for indentation and for the line breaks at the end.
    fn write_hints(&mut self, text: &[u8]) {
        if text.first() == Some(&b' ') || is_break(text) {
            self.write_indicator(b"2", false, false);
        }
        let (breaks, whole) = trailing_breaks(text);
        match breaks {
            0 => self.write_indicator(b"-", false, false),
            1 if !whole => {}
            _ => self.write_indicator(b"+", false, false),
        }
    }
}

/// How many bytes come before the next line break.
fn literal_run(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(next) = rest
            .iter()
            .position(|&byte| matches!(byte, b'\n' | b'\r' | 0xC2 | 0xE2))
        else {
            return text.len();
        };
        at += next;
        if is_break(text.get(at..).unwrap_or_default()) {
            return at;
        }
        at += 1;
    }
}

/// How many line breaks a text ends with, two standing for more, and whether it is nothing else.
fn trailing_breaks(text: &[u8]) -> (usize, bool) {
    let (Some(before), count) = strip_break(text).map_or((None, 0), |before| (Some(before), 1))
    else {
        return (0, false);
    };
    match strip_break(before) {
        Some(_) => (count + 1, false),
        None => (count, before.is_empty()),
    }
}

fn strip_break(text: &[u8]) -> Option<&[u8]> {
    match text {
        [rest @ .., b'\n' | b'\r'] => Some(rest),
        [rest @ .., 0xC2, 0x85] | [rest @ .., 0xE2, 0x80, 0xA8 | 0xA9] => Some(rest),
        _ => None,
    }
}

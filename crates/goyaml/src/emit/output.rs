//! The text so far, and where in its layout it ends.

use crate::yaml::chars::{count, width};

pub(super) struct Output {
    pub(super) text: Vec<u8>,
    /// Characters since the last line break.
    pub(super) column: usize,
    /// A blank or a line break came last.
    pub(super) whitespace: bool,
    /// Nothing but indentation and indicators that count as such is on this line.
    pub(super) indention: bool,
    /// The current indentation; -1 outside of everything.
    pub(super) indent: isize,
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            text: Vec::new(),
            column: 0,
            whitespace: true,
            indention: true,
            indent: -1,
        }
    }

    #[inline]
    pub(super) fn put(&mut self, byte: u8) {
        self.text.push(byte);
        self.column += 1;
    }

    /// Writes characters that are no line breaks.
    #[inline]
    pub(super) fn put_all(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.column += count(text);
    }

    /// Writes the character that `text` begins with; tells how many bytes it has.
    #[inline]
    pub(super) fn put_char(&mut self, text: &[u8]) -> usize {
        let width = width(text.first().copied().unwrap_or(0));
        self.text
            .extend_from_slice(text.get(..width).unwrap_or(text));
        self.column += 1;
        width
    }

    #[inline]
    pub(super) fn put_break(&mut self) {
        self.text.push(b'\n');
        self.column = 0;
    }

    /// Writes the line break that `text` begins with; tells how many bytes it has.
    pub(super) fn copy_break(&mut self, text: &[u8]) -> usize {
        let width = match text.first() {
            Some(b'\n') => {
                self.put_break();
                1
            }
            _ => self.put_char(text),
        };
        self.column = 0;
        self.indention = true;
        width
    }

    /// Goes to the current indentation, on a new line unless nothing is on this one.
    pub(super) fn write_indent(&mut self) {
        let indent = usize::try_from(self.indent).unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        if self.column < indent {
            let blanks = indent - self.column;
            self.text.resize(self.text.len() + blanks, b' ');
            self.column = indent;
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes an indicator, after a blank if one is needed.
    pub(super) fn write_indicator(&mut self, indicator: &[u8], separate: bool, indention: bool) {
        if separate && !self.whitespace {
            self.put(b' ');
        }
        self.text.extend_from_slice(indicator);
        self.column += indicator.len();
        self.whitespace = false;
        self.indention &= indention;
    }

    /// Notes that a scalar was written.
    pub(super) fn end_scalar(&mut self) {
        self.whitespace = false;
        self.indention = false;
    }
}

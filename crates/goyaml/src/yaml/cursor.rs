//! A place in the text.

use super::chars::{self, is_breakz};
use super::source::Source;
use super::token::Fault;

/// Where the scanner is: bytes for us, characters and lines for its rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Characters before this place.
    pub(crate) index: u32,
    /// Line, counted from 0.
    pub(crate) line: u32,
    /// Characters before this place on its line.
    pub(crate) column: u32,
}

/// The text and the place in it.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    position: usize,
    failure: Option<&'static str>,
    bom_until: usize,
    pub(crate) mark: Mark,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: &'a Source<'_>) -> Self {
        Self {
            text: &source.text,
            position: 0,
            failure: source.failure,
            bom_until: source.bom_until,
            mark: Mark::default(),
        }
    }

    /// What comes next; empty at the end.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// The bytes between two positions.
    #[inline]
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The next byte, or 0 at the end: no good text holds a 0.
    #[inline]
    pub(crate) fn byte(&self) -> u8 {
        self.byte_at(0)
    }

    /// The byte `offset` bytes on, or 0 beyond the end.
    #[inline]
    pub(crate) fn byte_at(&self, offset: usize) -> u8 {
        self.text.get(self.position + offset).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn at_end(&self) -> bool {
        self.position >= self.text.len()
    }

    /// Whether a line break or the end of the text comes next.
    #[inline]
    pub(crate) fn at_breakz(&self) -> bool {
        is_breakz(self.rest())
    }

    /// An error if the text ends here because what follows is no text.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self.failure {
            Some(problem) if self.at_end() => Err(Fault::Reader(problem)),
            _ => Ok(()),
        }
    }

    /// As [`check`](Self::check), where as many characters are looked at together.
    #[inline]
    pub(crate) fn check_ahead(&self, count: usize) -> Result<(), Fault> {
        match self.failure {
            Some(problem) if self.position + count > self.text.len() => Err(Fault::Reader(problem)),
            _ => Ok(()),
        }
    }

    /// Goes over `count` ASCII characters of the same line.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.position += count;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.mark.index = self.mark.index.saturating_add(count);
        self.mark.column = self.mark.column.saturating_add(count);
    }

    /// Goes over one character, of any width.
    #[inline]
    pub(crate) fn skip(&mut self) {
        let width = chars::width(self.byte());
        self.advance(1);
        self.position += width - 1;
    }

    /// Goes over spaces and, if `tabs`, tabs.
    #[inline]
    pub(crate) fn skip_blanks(&mut self, tabs: bool) {
        let count = self
            .rest()
            .iter()
            .position(|&byte| byte != b' ' && !(tabs && byte == b'\t'))
            .unwrap_or(self.rest().len());
        self.advance(count);
    }

    /// Goes to the end of the line.
    pub(crate) fn skip_to_break(&mut self) {
        let rest = self.rest();
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        if line.is_ascii() {
            self.advance(end);
            return;
        }
        loop {
            self.advance(chars::line_run(self.rest()));
            if self.at_breakz() {
                return;
            }
            self.skip();
        }
    }

    /// Goes over a line break and tells what it stands for: `\n`, or itself if it is LS or PS.
    /// Without a line break it tells nothing and stays.
    #[inline]
    pub(crate) fn take_break(&mut self) -> &'a [u8] {
        let (width, characters, text): (_, _, &[u8]) = match self.rest() {
            [b'\r', b'\n', ..] => (2, 2, b"\n"),
            [b'\r' | b'\n', ..] => (1, 1, b"\n"),
            [0xC2, 0x85, ..] => (2, 1, b"\n"),
            [0xE2, 0x80, 0xA8, ..] => (3, 1, "\u{2028}".as_bytes()),
            [0xE2, 0x80, 0xA9, ..] => (3, 1, "\u{2029}".as_bytes()),
            _ => return b"",
        };
        self.position += width;
        self.mark.index = self.mark.index.saturating_add(characters);
        self.mark.line = self.mark.line.saturating_add(1);
        self.mark.column = 0;
        text
    }

    /// Whether a `---` or a `...` stands here alone.
    #[inline]
    pub(crate) fn at_document_indicator(&self) -> bool {
        self.mark.column == 0
            && matches!(self.rest(), [b'-', b'-', b'-', rest @ ..] | [b'.', b'.', b'.', rest @ ..]
                if chars::is_blankz(rest))
    }

    /// Loses the first character of a line, where go-yaml takes it for a byte order mark.
    #[inline]
    pub(crate) fn skip_bom(&mut self) {
        if self.mark.column == 0 && self.position < self.bom_until {
            self.skip();
        }
    }
}

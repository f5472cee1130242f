//! Plain scalars.

use std::borrow::Cow;

use super::chars;
use super::scanner::Scanner;
use super::token::Fault;

/// Line breaks between two lines of a flow scalar, which fold into a space or fewer breaks.
#[derive(Default)]
pub(super) struct Breaks {
    /// The first one: `\n`, LS or PS; empty if it was escaped.
    first: &'static [u8],
    /// The others.
    others: Vec<u8>,
}

impl Breaks {
    /// Adds a line break; `folded` tells whether it is not the first.
    pub(super) fn add(&mut self, text: &[u8], folded: bool) {
        if folded {
            self.others.extend_from_slice(text);
            return;
        }
        self.first = match text {
            b"\n" => b"\n",
            [_, _, 0xA8] => "\u{2028}".as_bytes(),
            _ => "\u{2029}".as_bytes(),
        };
    }

    /// Writes what the breaks fold into, and forgets them.
    pub(super) fn fold_into(&mut self, value: &mut Vec<u8>) {
        if self.first != b"\n" {
            value.extend_from_slice(self.first);
        } else if self.others.is_empty() {
            value.push(b' ');
        }
        value.extend_from_slice(&self.others);
        self.first = b"";
        self.others.clear();
    }
}

/// A scalar's text: a piece of the source as long as it can be.
pub(super) struct Pieces {
    start: usize,
    end: usize,
    owned: Option<Vec<u8>>,
}

impl Pieces {
    pub(super) fn at(position: usize) -> Self {
        Self {
            start: position,
            end: position,
            owned: None,
        }
    }

    /// The text so far, to change.
    pub(super) fn owned(&mut self, scanner: &Scanner<'_>) -> &mut Vec<u8> {
        let (start, end) = (self.start, self.end);
        self.owned
            .get_or_insert_with(|| scanner.cursor.slice(start, end).to_vec())
    }

    /// Adds the source up to `to`, from `from` on or, if it is all one piece, from the end on.
    pub(super) fn extend(&mut self, scanner: &Scanner<'_>, from: usize, to: usize) {
        if let Some(owned) = &mut self.owned {
            owned.extend_from_slice(scanner.cursor.slice(from, to));
        }
        self.end = to;
    }

    pub(super) fn finish<'a>(self, scanner: &Scanner<'a>) -> Cow<'a, [u8]> {
        match self.owned {
            Some(owned) => Cow::Owned(owned),
            None => Cow::Borrowed(scanner.cursor.slice(self.start, self.end)),
        }
    }
}

impl<'a> Scanner<'a> {
    /// Scans a plain scalar: words, with blanks and folded line breaks between them.
    pub(super) fn scan_plain(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        let indent = self.indent + 1;
        let mut pieces = Pieces::at(self.cursor.position());
        let mut blanks = self.cursor.position();
        let mut breaks = Breaks::default();
        let mut folding = false;
        while !self.cursor.at_document_indicator() && self.cursor.byte() != b'#' {
            let word = self.cursor.position();
            self.cursor.check_ahead(4)?;
            self.skip_word();
            if self.cursor.position() > word {
                if folding {
                    breaks.fold_into(pieces.owned(self));
                    folding = false;
                    blanks = word;
                }
                pieces.extend(self, blanks, self.cursor.position());
            }
            if !self.at_blank_or_break() {
                break;
            }
            blanks = self.cursor.position();
            self.skip_between_words(indent, &mut breaks, &mut folding)?;
            if self.flow_level == 0 && i64::from(self.cursor.mark.column) < indent {
                break;
            }
        }
        self.cursor.check()?;
        if folding {
            self.simple_key_allowed = true;
        }
        Ok(pieces.finish(self))
    }

    /// Goes to the end of a word: a blank, a line break, or an indicator that ends the scalar.
    #[inline]
    fn skip_word(&mut self) {
        let flow = self.flow_level > 0;
        loop {
            self.cursor
                .advance(chars::plain_run(self.cursor.rest(), flow));
            match self.cursor.byte() {
                b':' => {
                    if chars::is_blankz(self.cursor.rest().get(1..).unwrap_or_default()) {
                        return;
                    }
                }
                0x80.. if !chars::is_long_break(self.cursor.rest()) => {}
                _ => return,
            }
            self.cursor.skip();
        }
    }

    pub(super) fn at_blank_or_break(&self) -> bool {
        matches!(self.cursor.byte(), b' ' | b'\t') || chars::is_break(self.cursor.rest())
    }

    /// Goes over blanks and line breaks; `folding` tells whether there was a line break.
    fn skip_between_words(
        &mut self,
        indent: i64,
        breaks: &mut Breaks,
        folding: &mut bool,
    ) -> Result<(), Fault> {
        loop {
            match self.cursor.byte() {
                b' ' => self.cursor.skip_blanks(false),
                b'\t' => {
                    if *folding && i64::from(self.cursor.mark.column) < indent {
                        return Err(self.fault("found a tab character that violates indentation"));
                    }
                    self.cursor.advance(1);
                }
                _ => {
                    let text = self.cursor.take_break();
                    if text.is_empty() {
                        return Ok(());
                    }
                    breaks.add(text, *folding);
                    *folding = true;
                }
            }
        }
    }
}

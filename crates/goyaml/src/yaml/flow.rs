//! Quoted scalars.

use std::borrow::Cow;

use super::chars;
use super::plain::{Breaks, Pieces};
use super::scanner::Scanner;
use super::token::Fault;

impl<'a> Scanner<'a> {
    /// Scans a scalar in single or double quotes.
    pub(super) fn scan_quoted(&mut self, single: bool) -> Result<Cow<'a, [u8]>, Fault> {
        let quote = if single { b'\'' } else { b'"' };
        self.cursor.advance(1);
        let mut pieces = Pieces::at(self.cursor.position());
        let mut breaks = Breaks::default();
        loop {
            if self.cursor.at_document_indicator() {
                return Err(self.fault("found unexpected document indicator"));
            }
            self.cursor.check_ahead(4)?;
            if self.cursor.at_end() {
                return Err(self.fault("found unexpected end of stream"));
            }
            let mut folding = self.scan_quoted_word(&mut pieces, single)?;
            if self.cursor.byte() == quote {
                break;
            }
            self.scan_quoted_blanks(&mut pieces, &mut breaks, &mut folding);
        }
        self.cursor.advance(1);
        Ok(pieces.finish(self))
    }

    /// Scans up to a blank, a line break or the closing quote; tells whether it ended in an escaped
    /// line break.
    fn scan_quoted_word(&mut self, pieces: &mut Pieces, single: bool) -> Result<bool, Fault> {
        loop {
            let start = self.cursor.position();
            self.skip_quoted_run(single);
            pieces.extend(self, start, self.cursor.position());
            self.cursor.check_ahead(2)?;
            match (self.cursor.byte(), self.cursor.byte_at(1)) {
                (b'\'', b'\'') if single => {
                    pieces.owned(self).push(b'\'');
                    self.cursor.advance(2);
                }
                (b'\\', _) if !single => {
                    pieces.owned(self);
                    self.cursor.advance(1);
                    if !self.cursor.take_break().is_empty() {
                        return Ok(true);
                    }
                    self.scan_escape(pieces)?;
                }
                _ => return Ok(false),
            }
        }
    }

    /// Goes over what stands for itself: neither blank nor break, nor a quote or an escape.
    #[inline]
    fn skip_quoted_run(&mut self, single: bool) {
        loop {
            let word = chars::word_run(self.cursor.rest());
            let run = self.cursor.rest().get(..word).unwrap_or_default();
            let special = run.iter().position(|&byte| match single {
                true => byte == b'\'',
                false => byte == b'"' || byte == b'\\',
            });
            self.cursor.advance(special.unwrap_or(word));
            if special.is_some() || chars::is_blankz(self.cursor.rest()) {
                return;
            }
            self.cursor.skip();
        }
    }

    /// Scans blanks and line breaks; without a line break the blanks are kept.
    fn scan_quoted_blanks(&mut self, pieces: &mut Pieces, breaks: &mut Breaks, folding: &mut bool) {
        let start = self.cursor.position();
        loop {
            if matches!(self.cursor.byte(), b' ' | b'\t') {
                self.cursor.skip_blanks(true);
                continue;
            }
            let text = self.cursor.take_break();
            if text.is_empty() {
                break;
            }
            breaks.add(text, *folding);
            *folding = true;
        }
        if *folding {
            breaks.fold_into(pieces.owned(self));
        } else {
            pieces.extend(self, start, self.cursor.position());
        }
    }

    /// Scans what follows a backslash.
    fn scan_escape(&mut self, pieces: &mut Pieces) -> Result<(), Fault> {
        let digits = match self.cursor.byte() {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            byte => {
                let text = simple_escape(byte)
                    .ok_or_else(|| self.fault("found unknown escape character"))?;
                pieces.owned(self).extend_from_slice(text.as_bytes());
                self.cursor.advance(1);
                return Ok(());
            }
        };
        self.cursor.advance(1);
        self.cursor.check_ahead(digits)?;
        let mut code: u32 = 0;
        for offset in 0..digits {
            let Some(digit) = char::from(self.cursor.byte_at(offset)).to_digit(16) else {
                // The fault is where the escape's digits begin, on the same line.
                return Err(self.fault("did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let Some(character) = char::from_u32(code) else {
            return Err(self.fault("found invalid Unicode character escape code"));
        };
        let mut buffer = [0; 4];
        let text = character.encode_utf8(&mut buffer);
        pieces.owned(self).extend_from_slice(text.as_bytes());
        self.cursor.advance(digits);
        Ok(())
    }
}

fn simple_escape(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'0' => "\0",
        b'a' => "\x07",
        b'b' => "\x08",
        b't' | b'\t' => "\t",
        b'n' => "\n",
        b'v' => "\x0B",
        b'f' => "\x0C",
        b'r' => "\r",
        b'e' => "\x1B",
        b' ' => " ",
        b'"' => "\"",
        b'\'' => "'",
        b'\\' => "\\",
        b'N' => "\u{85}",
        b'_' => "\u{A0}",
        b'L' => "\u{2028}",
        b'P' => "\u{2029}",
        _ => return None,
    })
}

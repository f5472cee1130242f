//! Literal and folded scalars.

use super::scanner::Scanner;
use super::token::Fault;

/// What becomes of the line breaks at the end.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    /// Scans a literal (`|`) or folded (`>`) scalar.
    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Vec<u8>, Fault> {
        self.cursor.advance(1);
        let (chomping, increment) = self.scan_block_header()?;
        self.finish_header_line()?;
        let mut indent = match increment {
            0 => 0,
            _ => self.indent.max(0) + increment,
        };
        let mut breaks = Vec::new();
        self.scan_block_breaks(&mut indent, &mut breaks)?;
        let mut value = Vec::new();
        let mut first_break: &[u8] = b"";
        let mut after_blank = false;
        while i64::from(self.cursor.mark.column) == indent && !self.cursor.at_end() {
            let blank = matches!(self.cursor.byte(), b' ' | b'\t');
            let folds = !literal && !after_blank && !blank && first_break == b"\n";
            if !folds {
                value.extend_from_slice(first_break);
            } else if breaks.is_empty() {
                value.push(b' ');
            }
            value.append(&mut breaks);
            after_blank = blank;
            let start = self.cursor.position();
            self.cursor.skip_to_break();
            value.extend_from_slice(self.cursor.slice(start, self.cursor.position()));
            first_break = self.cursor.take_break();
            self.scan_block_breaks(&mut indent, &mut breaks)?;
        }
        self.cursor.check()?;
        if chomping != Chomping::Strip {
            value.extend_from_slice(first_break);
        }
        if chomping == Chomping::Keep {
            value.append(&mut breaks);
        }
        Ok(value)
    }

    /// Scans the indicators for chomping and indentation, in either order.
    fn scan_block_header(&mut self) -> Result<(Chomping, i64), Fault> {
        let chomping = self.scan_chomping();
        let increment = self.scan_increment()?;
        let chomping = match (chomping, increment) {
            (Some(chomping), _) => Some(chomping),
            (None, 0) => None,
            (None, _) => self.scan_chomping(),
        };
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn scan_chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.cursor.byte() {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return None,
        };
        self.cursor.advance(1);
        Some(chomping)
    }

    fn scan_increment(&mut self) -> Result<i64, Fault> {
        let increment = match self.cursor.byte() {
            b'0' => return Err(self.fault("found an indentation indicator equal to 0")),
            byte @ b'1'..=b'9' => i64::from(byte - b'0'),
            _ => return Ok(0),
        };
        self.cursor.advance(1);
        Ok(increment)
    }

    fn finish_header_line(&mut self) -> Result<(), Fault> {
        self.cursor.skip_blanks(true);
        if self.cursor.byte() == b'#' {
            self.cursor.skip_to_break();
        }
        if !self.cursor.at_breakz() {
            return Err(self.fault("did not find expected comment or line break"));
        }
        self.cursor.take_break();
        Ok(())
    }

    /// Goes over empty lines and indentation, which it finds out if it is not known yet.
    fn scan_block_breaks(&mut self, indent: &mut i64, breaks: &mut Vec<u8>) -> Result<(), Fault> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || i64::from(self.cursor.mark.column) < *indent)
                && self.cursor.byte() == b' '
            {
                self.cursor.advance(1);
            }
            let column = i64::from(self.cursor.mark.column);
            deepest = deepest.max(column);
            if (*indent == 0 || column < *indent) && self.cursor.byte() == b'\t' {
                return Err(
                    self.fault("found a tab character where an indentation space is expected")
                );
            }
            let text = self.cursor.take_break();
            if text.is_empty() {
                break;
            }
            breaks.extend_from_slice(text);
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}

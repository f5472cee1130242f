//! `%YAML` and `%TAG`.

use super::chars;
use super::scanner::Scanner;
use super::token::{Fault, TokenKind};

impl<'a> Scanner<'a> {
    /// Scans a directive with its line.
    pub(super) fn scan_directive(&mut self) -> Result<TokenKind<'a>, Fault> {
        self.cursor.advance(1);
        let token = match self.scan_directive_name()? {
            b"YAML" => TokenKind::Version(self.scan_version()?),
            b"TAG" => TokenKind::TagDirective(Box::new(self.scan_tag_directive()?)),
            _ => return Err(self.fault("found unknown directive name")),
        };
        self.cursor.check()?;
        self.cursor.skip_blanks(true);
        if self.cursor.byte() == b'#' {
            self.cursor.skip_to_break();
        }
        if !self.cursor.at_breakz() {
            return Err(self.fault("did not find expected comment or line break"));
        }
        self.cursor.take_break();
        Ok(token)
    }

    fn scan_directive_name(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.cursor.position();
        self.skip_alpha();
        self.cursor.check()?;
        let name = self.cursor.slice(start, self.cursor.position());
        if name.is_empty() {
            return Err(self.fault("could not find expected directive name"));
        }
        if !chars::is_blankz(self.cursor.rest()) {
            return Err(self.fault("found unexpected non-alphabetical character"));
        }
        Ok(name)
    }

    /// Scans a version; tells whether it is 1.1, the only one that go-yaml v2 reads.
    fn scan_version(&mut self) -> Result<bool, Fault> {
        self.cursor.skip_blanks(true);
        let major = self.scan_version_number()?;
        if self.cursor.byte() != b'.' {
            return Err(self.fault("did not find expected digit or '.' character"));
        }
        self.cursor.advance(1);
        let minor = self.scan_version_number()?;
        Ok(major == 1 && minor == 1)
    }

    fn scan_version_number(&mut self) -> Result<u32, Fault> {
        let start = self.cursor.position();
        let mut number = 0;
        while let byte @ b'0'..=b'9' = self.cursor.byte() {
            if self.cursor.position() >= start + 2 {
                return Err(self.fault("found extremely long version number"));
            }
            number = number * 10 + u32::from(byte - b'0');
            self.cursor.advance(1);
        }
        if self.cursor.position() == start {
            return Err(self.fault("did not find expected version number"));
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        self.cursor.skip_blanks(true);
        let handle = self.scan_tag_handle(true)?;
        if !matches!(self.cursor.byte(), b' ' | b'\t') {
            return Err(self.fault("did not find expected whitespace"));
        }
        self.cursor.skip_blanks(true);
        let mut prefix = Vec::new();
        self.scan_tag_uri(&mut prefix, false)?;
        if !chars::is_blankz(self.cursor.rest()) {
            return Err(self.fault("did not find expected whitespace or line break"));
        }
        Ok((handle, prefix))
    }
}

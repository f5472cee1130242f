//! Anchors, aliases and tags.

use super::chars::{self, is_alpha};
use super::scanner::Scanner;
use super::token::Fault;

impl<'a> Scanner<'a> {
    /// Scans the name of an anchor or an alias, after `&` or `*`.
    pub(super) fn scan_anchor(&mut self) -> Result<&'a [u8], Fault> {
        self.cursor.advance(1);
        let start = self.cursor.position();
        self.skip_alpha();
        self.cursor.check()?;
        let name = self.cursor.slice(start, self.cursor.position());
        let ends_well = chars::is_blankz(self.cursor.rest())
            || matches!(
                self.cursor.byte(),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if name.is_empty() || !ends_well {
            return Err(self.fault("did not find expected alphabetic or numeric character"));
        }
        Ok(name)
    }

    pub(super) fn skip_alpha(&mut self) {
        let rest = self.cursor.rest();
        let run = rest
            .iter()
            .position(|&byte| !is_alpha(byte))
            .unwrap_or(rest.len());
        self.cursor.advance(run);
    }

    /// Scans a tag into its handle, which is empty for `!<…>` and for `!`, and its suffix.
    pub(super) fn scan_tag(&mut self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let tag = match self.cursor.byte_at(1) {
            b'<' => self.scan_verbatim_tag()?,
            _ => self.scan_short_tag()?,
        };
        self.cursor.check()?;
        if !chars::is_blankz(self.cursor.rest()) {
            return Err(self.fault("did not find expected whitespace or line break"));
        }
        Ok(tag)
    }

    fn scan_verbatim_tag(&mut self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        self.cursor.advance(2);
        let mut suffix = Vec::new();
        self.scan_tag_uri(&mut suffix, false)?;
        if self.cursor.byte() != b'>' {
            return Err(self.fault("did not find the expected '>'"));
        }
        self.cursor.advance(1);
        Ok((Vec::new(), suffix))
    }

    fn scan_short_tag(&mut self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let handle = self.scan_tag_handle(false)?;
        if handle.len() > 1 && handle.ends_with(b"!") {
            let mut suffix = Vec::new();
            self.scan_tag_uri(&mut suffix, false)?;
            return Ok((handle, suffix));
        }
        // No handle after all, but the beginning of the suffix.
        let mut suffix = handle.get(1..).unwrap_or_default().to_vec();
        self.scan_tag_uri(&mut suffix, true)?;
        match suffix.is_empty() {
            true => Ok((suffix, b"!".to_vec())),
            false => Ok((b"!".to_vec(), suffix)),
        }
    }

    /// Scans `!`, `!!` or `!name!`, or what could be the beginning of it.
    pub(super) fn scan_tag_handle(&mut self, directive: bool) -> Result<Vec<u8>, Fault> {
        if self.cursor.byte() != b'!' {
            return Err(self.fault("did not find expected '!'"));
        }
        let start = self.cursor.position();
        self.cursor.advance(1);
        self.skip_alpha();
        let bare = self.cursor.position() == start + 1;
        if self.cursor.byte() == b'!' {
            self.cursor.advance(1);
        } else if directive && !bare {
            return Err(self.fault("did not find expected '!'"));
        }
        Ok(self.cursor.slice(start, self.cursor.position()).to_vec())
    }

    /// Scans the characters of a URI onto `uri`, which may stay empty if `has_head`.
    pub(super) fn scan_tag_uri(&mut self, uri: &mut Vec<u8>, has_head: bool) -> Result<(), Fault> {
        let start = self.cursor.position();
        loop {
            let byte = self.cursor.byte();
            if byte == b'%' {
                self.scan_uri_escape(uri)?;
            } else if is_uri(byte) {
                uri.push(byte);
                self.cursor.advance(1);
            } else {
                break;
            }
        }
        if !has_head && self.cursor.position() == start {
            return Err(self.fault("did not find expected tag URI"));
        }
        Ok(())
    }

    /// Scans the `%XX` of one character.
    fn scan_uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), Fault> {
        let mut left = None;
        while left != Some(0) {
            self.cursor.check_ahead(3)?;
            let octet = self.uri_octet()?;
            left = match left {
                None => Some(self.octet_width(octet)? - 1),
                Some(_) if octet & 0xC0 != 0x80 => {
                    return Err(self.fault("found an incorrect trailing UTF-8 octet"));
                }
                Some(count) => Some(count - 1),
            };
            uri.push(octet);
            self.cursor.advance(3);
        }
        Ok(())
    }

    fn uri_octet(&self) -> Result<u8, Fault> {
        let digit = |offset| char::from(self.cursor.byte_at(offset)).to_digit(16);
        match (self.cursor.byte(), digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => Ok(u8::try_from(high << 4 | low).unwrap_or(u8::MAX)),
            _ => Err(self.fault("did not find URI escaped octet")),
        }
    }

    fn octet_width(&self, octet: u8) -> Result<usize, Fault> {
        match octet {
            0x80..0xC0 | 0xF8.. => Err(self.fault("found an incorrect leading UTF-8 octet")),
            _ => Ok(chars::width(octet)),
        }
    }
}

fn is_uri(byte: u8) -> bool {
    is_alpha(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte)
}

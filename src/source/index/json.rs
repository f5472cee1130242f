//! The JSON form of an index.

use std::io::BufRead;

use super::layout::{IndexError, Layout};
use super::{MAX_CHARTS, MAX_LINE};

/// Deepest nesting that is followed.
const MAX_DEPTH: usize = 64;

/// Finds the entries of a JSON index; `offset` is where the reader stands in the file.
pub(super) fn scan(reader: impl BufRead, offset: u64) -> Result<Layout, IndexError> {
    let mut bytes = Bytes { reader, offset };
    let mut layout = Layout {
        is_json: true,
        ..Layout::default()
    };
    let mut has_api_version = false;
    bytes.expect(b'{')?;
    bytes.members(|bytes, key| match key.as_str() {
        "apiVersion" => {
            has_api_version = bytes.peek()? == b'"';
            bytes.skip_value(0)
        }
        "entries" => entries(bytes, &mut layout),
        _ => bytes.skip_value(0),
    })?;
    match has_api_version {
        true => Ok(layout),
        false => Err(IndexError::NoApiVersion),
    }
}

fn entries<R: BufRead>(bytes: &mut Bytes<R>, layout: &mut Layout) -> Result<(), IndexError> {
    if bytes.peek()? != b'{' {
        return bytes.skip_value(0);
    }
    bytes.expect(b'{')?;
    bytes.members(|bytes, name| {
        bytes.peek()?;
        let start = bytes.offset;
        bytes.skip_value(0)?;
        if layout.charts.len() >= MAX_CHARTS {
            return Err(IndexError::TooLarge("the number of charts of the index"));
        }
        match layout.charts.insert(name.clone(), start..bytes.offset) {
            None => Ok(()),
            Some(_) => Err(IndexError::Duplicate(name)),
        }
    })
}

/// A reader that knows where it stands.
struct Bytes<R> {
    reader: R,
    offset: u64,
}

impl<R: BufRead> Bytes<R> {
    fn next(&mut self) -> Result<u8, IndexError> {
        let byte = *self
            .reader
            .fill_buf()?
            .first()
            .ok_or_else(|| shape("it ends too early"))?;
        self.reader.consume(1);
        self.offset += 1;
        Ok(byte)
    }

    /// The next byte that is no blank space, still to be read.
    fn peek(&mut self) -> Result<u8, IndexError> {
        loop {
            match self.reader.fill_buf()?.first() {
                None => return Err(shape("it ends too early")),
                Some(b' ' | b'\n' | b'\r' | b'\t') => {
                    self.next()?;
                }
                Some(byte) => return Ok(*byte),
            }
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), IndexError> {
        let found = self.peek()?;
        self.next()?;
        match found == wanted {
            true => Ok(()),
            false => Err(shape("it is not valid JSON")),
        }
    }

    /// Visits the members of an object whose brace was read.
    fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, String) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        if self.peek()? == b'}' {
            return self.expect(b'}');
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            visit(self, key)?;
            match self.peek()? {
                b',' => self.expect(b',')?,
                _ => return self.expect(b'}'),
            }
        }
    }

    fn string(&mut self) -> Result<String, IndexError> {
        let mut text = vec![b'"'];
        self.expect(b'"')?;
        loop {
            let byte = self.next()?;
            text.push(byte);
            match byte {
                b'"' => break,
                b'\\' => text.push(self.next()?),
                _ => {}
            }
            if text.len() > MAX_LINE {
                return Err(IndexError::TooLarge("a string of the index"));
            }
        }
        serde_json::from_slice(&text).map_err(|_| shape("a key is not valid JSON"))
    }

    /// Skips a value by its brackets; what is used of it is parsed in earnest later.
    fn skip_value(&mut self, depth: usize) -> Result<(), IndexError> {
        if depth > MAX_DEPTH {
            return Err(IndexError::TooLarge("the depth of the index"));
        }
        match self.peek()? {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_word(),
        }
    }

    fn skip_nested(&mut self) -> Result<(), IndexError> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    self.next()?;
                    depth += 1;
                }
                b'}' | b']' => {
                    self.next()?;
                    depth -= 1;
                }
                _ => {
                    self.next()?;
                }
            }
            match depth {
                0 => return Ok(()),
                depth if depth > MAX_DEPTH => {
                    return Err(IndexError::TooLarge("the depth of the index"));
                }
                _ => {}
            }
        }
    }

    fn skip_string(&mut self) -> Result<(), IndexError> {
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => {
                    self.next()?;
                }
                _ => {}
            }
        }
    }

    fn skip_word(&mut self) -> Result<(), IndexError> {
        while !matches!(self.peek()?, b',' | b'}' | b']') {
            self.next()?;
        }
        Ok(())
    }
}

fn shape(what: &str) -> IndexError {
    IndexError::Shape {
        line: 0,
        what: what.to_owned(),
    }
}

//! Reading JSON, with the complaints of Go's scanner.

use std::borrow::Cow;

use gotmpl::Str;

use crate::yaml::Build;
use crate::{Error, MAX_DEPTH, Node};

/// Reads a whole text.
pub(crate) fn decode<B: Build<Key = Str>>(text: &[u8]) -> Result<B, Error> {
    let (value, overflow) = decode_lenient(text)?;
    overflow.map_or(Ok(value), Err)
}

/// As [`decode`], with the complaint about a number that is too large beside the value: other
/// complaints may come first.
pub(crate) fn decode_lenient<B: Build<Key = Str>>(
    text: &[u8],
) -> Result<(B, Option<Error>), Error> {
    let mut reader = Reader::new(text, false);
    let value = reader.document()?;
    reader.skip_spaces();
    match reader.peek() {
        Some(byte) => Err(unexpected(byte, "after top-level value")),
        None => Ok((value, reader.overflow)),
    }
}

/// Reads the value that a text begins with, as a `json.Decoder`; tells how many bytes it took.
pub(crate) fn decode_prefix<B: Build<Key = Str>>(text: &[u8]) -> Result<(B, usize), Error> {
    let mut reader = Reader::new(text, true);
    let value = reader.document()?;
    match reader.overflow {
        Some(error) => Err(error),
        None => Ok((value, reader.position)),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    position: usize,
    depth: usize,
    /// Whether more text could follow, so that an end is an end of file.
    stream: bool,
    /// The first number that is too large; Go goes on after it.
    overflow: Option<Error>,
}

fn unexpected(byte: u8, context: &str) -> Error {
    Error::new(format!("invalid character {} {context}", quote(byte)))
}

/// A byte as Go quotes it: as the character with that number.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\\' => r"'\\'".into(),
        0x07 => r"'\a'".into(),
        0x08 => r"'\b'".into(),
        0x0C => r"'\f'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        0x0B => r"'\v'".into(),
        b' '..=b'~' => format!("'{}'", char::from(byte)),
        0..0x80 => format!("'\\x{byte:02x}'"),
        0x80..=0xA0 | 0xAD => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl<'t> Reader<'t> {
    fn new(text: &'t [u8], stream: bool) -> Self {
        Self {
            text,
            position: 0,
            depth: 0,
            stream,
            overflow: None,
        }
    }

    fn document<B: Build<Key = Str>>(&mut self) -> Result<B, Error> {
        self.skip_spaces();
        if self.stream && self.peek().is_none() {
            return Err(Error::new("EOF"));
        }
        self.value()
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.position += 1;
        }
    }

    fn end_of_text(&self) -> Error {
        Error::new(match self.stream {
            true => "unexpected EOF",
            false => "unexpected end of JSON input",
        })
    }

    /// What is wrong here, where something else was wanted.
    fn fault(&self, context: &str) -> Error {
        match self.peek() {
            Some(byte) => unexpected(byte, context),
            None => self.end_of_text(),
        }
    }

    /// As [`fault`](Self::fault), inside a literal: Go takes the end of the text for a space there.
    fn literal_fault(&self, context: &str) -> Error {
        match self.peek() {
            None if !self.stream => unexpected(b' ', context),
            _ => self.fault(context),
        }
    }

    fn value<B: Build<Key = Str>>(&mut self) -> Result<B, Error> {
        match self.peek() {
            Some(opening @ (b'{' | b'[')) => {
                if self.depth >= MAX_DEPTH {
                    return Err(unexpected(opening, "exceeded max depth"));
                }
                self.depth += 1;
                self.position += 1;
                let value = match opening {
                    b'{' => self.object(),
                    _ => self.array(),
                };
                self.depth -= 1;
                value
            }
            Some(b'"') => Ok(B::scalar(Node::String(self.string()?))),
            Some(b'-' | b'0'..=b'9') => Ok(B::scalar(Node::Float(self.number()?))),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            _ => Err(self.fault("looking for beginning of value")),
        }
    }

    fn word<B: Build<Key = Str>>(&mut self, word: &str, value: Node) -> Result<B, Error> {
        for wanted in word.bytes() {
            if self.peek() != Some(wanted) {
                let context = format!("in literal {word} (expecting '{}')", char::from(wanted));
                return Err(self.literal_fault(&context));
            }
            self.position += 1;
        }
        Ok(B::scalar(value))
    }

    fn object<B: Build<Key = Str>>(&mut self) -> Result<B, Error> {
        let mut entries = Vec::new();
        self.skip_spaces();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(B::map(entries));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                return Err(self.fault("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_spaces();
            if self.peek() != Some(b':') {
                return Err(self.fault("after object key"));
            }
            self.position += 1;
            self.skip_spaces();
            entries.push((key, self.value()?));
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => break,
                _ => return Err(self.fault("after object key:value pair")),
            }
        }
        self.position += 1;
        Ok(B::map(entries))
    }

    fn array<B: Build<Key = Str>>(&mut self) -> Result<B, Error> {
        let mut items = Vec::new();
        self.skip_spaces();
        if self.peek() == Some(b']') {
            self.position += 1;
            return Ok(B::list(items));
        }
        loop {
            self.skip_spaces();
            items.push(self.value()?);
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => break,
                _ => return Err(self.fault("after array element")),
            }
        }
        self.position += 1;
        Ok(B::list(items))
    }

    fn number(&mut self) -> Result<f64, Error> {
        let start = self.position;
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        match self.peek() {
            Some(b'0') => self.position += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(self.literal_fault("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.position += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = self.text.get(start..self.position).unwrap_or_default();
        Ok(self.parse_number(text))
    }

    fn digits(&mut self, context: &str) -> Result<(), Error> {
        match self.peek() {
            Some(b'0'..=b'9') => self.skip_digits(),
            _ => return Err(self.literal_fault(context)),
        }
        Ok(())
    }

    fn skip_digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.position += 1;
        }
    }

    fn parse_number(&mut self, text: &[u8]) -> f64 {
        let text = String::from_utf8_lossy(text);
        let number: f64 = text.parse().unwrap_or(f64::INFINITY);
        if !number.is_finite() {
            self.overflow
                .get_or_insert_with(|| Error::json_mismatch(&format!("number {text}"), "float64"));
        }
        number
    }

    fn string(&mut self) -> Result<Str, Error> {
        self.position += 1;
        let start = self.position;
        let mut text: Cow<'t, [u8]> = Cow::Borrowed(b"");
        let mut piece = start;
        loop {
            let rest = self.text.get(self.position..).unwrap_or_default();
            let run = rest
                .iter()
                .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
                .unwrap_or(rest.len());
            self.position += run;
            let slice = self.text.get(piece..self.position).unwrap_or_default();
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    if text.is_empty() {
                        return Ok(crate::utf8::valid(slice).into_owned_str());
                    }
                    text.to_mut().extend_from_slice(&crate::utf8::valid(slice));
                    return Ok(text.into_owned_str());
                }
                Some(b'\\') => {
                    text.to_mut().extend_from_slice(&crate::utf8::valid(slice));
                    self.position += 1;
                    self.escape(text.to_mut())?;
                    piece = self.position;
                }
                _ => return Err(self.fault("in string literal")),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        let byte = match self.peek() {
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'\\' | b'/' | b'"')) => byte,
            Some(b'u') => {
                self.position += 1;
                let character = self.unicode_escape()?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.literal_fault("in string escape code")),
        };
        self.position += 1;
        text.push(byte);
        Ok(())
    }

    /// The character of a `\u`, or of two that make a pair; U+FFFD if they make none.
    fn unicode_escape(&mut self) -> Result<char, Error> {
        let high = self.hex()?;
        if let 0xD800..=0xDBFF = high
            && self.text.get(self.position..self.position + 2) == Some(b"\\u")
        {
            let after_high = self.position;
            self.position += 2;
            if let low @ 0xDC00..=0xDFFF = self.hex()? {
                let code = 0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
                return Ok(char::from_u32(code).unwrap_or('\u{FFFD}'));
            }
            self.position = after_high;
        }
        Ok(char::from_u32(high).unwrap_or('\u{FFFD}'))
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return Err(self.literal_fault("in \\u hexadecimal character escape"));
            };
            code = code << 4 | digit;
            self.position += 1;
        }
        Ok(code)
    }
}

trait IntoOwnedStr {
    /// The string, copied once.
    fn into_owned_str(self) -> Str;
}

impl IntoOwnedStr for Cow<'_, [u8]> {
    fn into_owned_str(self) -> Str {
        match self {
            Self::Borrowed(bytes) => bytes.into(),
            Self::Owned(bytes) => bytes.into(),
        }
    }
}

//! A schema document: JSON whose numbers keep their text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::decimal::Decimal;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    String(String),
    Array(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Json {
    /// Reads a document; the error is that of Go's decoder.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let (_, taken) = goyaml::read_json_prefix(text).map_err(|error| error.to_string())?;
        let (document, rest) = text.split_at_checked(taken).unwrap_or((text, b""));
        if !rest.trim_ascii().is_empty() {
            return Err("invalid character after top-level value".to_owned());
        }
        // What Go's reader has taken is well-formed, and nests no deeper than its limit.
        let text = String::from_utf8_lossy(document);
        let mut reader = Reader { rest: &text };
        Ok(reader.value().unwrap_or(Self::Null))
    }

    pub(super) fn as_object(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Self::Number(text) => Some(Decimal::parse(text)),
            _ => None,
        }
    }

    /// The value at a JSON pointer, whose parts are escaped.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        let mut parts = pointer.split('/');
        parts.next();
        parts.try_fold(self, |value, part| {
            let part: Cow<'_, str> = match part.contains('~') {
                true => part.replace("~1", "/").replace("~0", "~").into(),
                false => part.into(),
            };
            match value {
                Self::Object(entries) => entries.get(&*part),
                Self::Array(items) => items.get(part.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }
}

/// Reads JSON that is known to be well-formed.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(value)
    }

    fn value(&mut self) -> Option<Json> {
        self.skip_blanks();
        match self.rest.chars().next()? {
            'n' => self.word("null", Json::Null),
            't' => self.word("true", Json::Bool(true)),
            'f' => self.word("false", Json::Bool(false)),
            '"' => self.string().map(Json::String),
            '[' => self.array(),
            '{' => self.object(),
            _ => Some(self.number()),
        }
    }

    fn number(&mut self) -> Json {
        let end = self
            .rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        Json::Number(number.to_owned())
    }

    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find_map(|(at, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends.then_some(at + 1)
        })?;
        let (literal, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        match goyaml::read_json(literal.as_bytes()).ok()? {
            goyaml::Tree::String(text) => Some(text.to_text().into_owned()),
            _ => None,
        }
    }

    fn array(&mut self) -> Option<Json> {
        self.eat('[');
        let mut items = Vec::new();
        while !self.eat(']') {
            items.push(self.value()?);
            self.eat(',');
        }
        Some(Json::Array(items))
    }

    fn object(&mut self) -> Option<Json> {
        self.eat('{');
        let mut entries = BTreeMap::new();
        while !self.eat('}') {
            self.skip_blanks();
            let key = self.string()?;
            self.eat(':');
            entries.insert(key, self.value()?);
            self.eat(',');
        }
        Some(Json::Object(entries))
    }
}

//! The layout: from values to lines.

use std::borrow::Cow;

use gotmpl::{Object, Str};

use super::analysis::analyze;
use super::keys;
use super::output::Output;
use super::scalar::Style;
use crate::number::{push_float, push_int, push_json_float, push_uint};
use crate::visit::{Source, Writer, write_encoded};
use crate::yaml::resolve::{is_plain_string_v2, is_plain_string_v3};
use crate::yaml::unsupported_number;
use crate::{Error, MAX_DEPTH, base64, json, utf8};

/// Keys up to this length need no `?`.
const SIMPLE_KEY: usize = 128;
/// Keys up to this length surely have a JSON form that YAML reads as a key.
const SURE_KEY: usize = 160;

/// Whose YAML it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dialect {
    /// go-yaml v2, of a value that went through JSON.
    Json,
    /// go-yaml v2, of a document that it read itself.
    V2,
    /// go-yaml v3 with an indent of 2.
    V3,
}

/// Why writing stops.
pub(crate) enum Stop {
    /// The value has what reads differently after its trip through JSON; nothing is wrong with it.
    Trip,
    /// It cannot be written.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Writes a document, with a line break at its end.
pub(crate) fn encode(source: &impl Source, dialect: Dialect) -> Result<Vec<u8>, Stop> {
    let mut writer = YamlWriter {
        output: Output::new(),
        dialect,
        depth: 0,
        mapping: false,
    };
    source.accept(&mut writer)?;
    writer.output.write_indent();
    Ok(writer.output.text)
}

struct YamlWriter {
    output: Output,
    dialect: Dialect,
    depth: usize,
    /// Whether the next node is a value of a mapping.
    mapping: bool,
}

/// A string, and how it is to be written.
struct StyledString<'t> {
    text: Cow<'t, [u8]>,
    style: Style,
    multiline: bool,
    /// It stands for bytes that are no text.
    binary: bool,
}

impl YamlWriter {
    /// Writes the text of a number or a word.
    fn word(&mut self, text: &[u8]) {
        let output = &mut self.output;
        if !output.whitespace {
            output.put(b' ');
        }
        output.text.extend_from_slice(text);
        output.column += text.len();
        output.end_scalar();
    }

    /// Writes what `push` appends, which is short and ASCII.
    fn number(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        if !self.output.whitespace {
            self.output.put(b' ');
        }
        let start = self.output.text.len();
        push(&mut self.output.text);
        self.output.column += self.output.text.len() - start;
        self.output.end_scalar();
    }

    fn enter(&mut self, kind: &str) -> Result<(), Stop> {
        if self.depth >= MAX_DEPTH {
            let error = json::cycle(kind);
            return Err(Stop::Error(match self.dialect {
                Dialect::V3 => error,
                _ => error.prefixed("error marshaling into JSON"),
            }));
        }
        self.depth += 1;
        Ok(())
    }

    fn empty(&mut self, brackets: &[u8]) {
        self.output.write_indicator(brackets, true, false);
    }

    /// Decides on a string's style.
    fn styled<'t>(&self, text: &'t [u8]) -> Result<StyledString<'t>, Stop> {
        let mut binary = false;
        let text = match self.dialect {
            Dialect::V3 => match std::str::from_utf8(text) {
                Ok(_) => Cow::Borrowed(text),
                Err(_) => {
                    binary = true;
                    Cow::Owned(base64_lines(text))
                }
            },
            Dialect::Json => after_json(text)?,
            Dialect::V2 => Cow::Borrowed(text),
        };
        let analysis = analyze(&text, self.dialect);
        let plain = binary
            || match self.dialect {
                Dialect::V3 => is_plain_string_v3(&text),
                _ => is_plain_string_v2(&text),
            };
        let style = if analysis.multiline && text.contains(&b'\n') {
            match analysis.literal {
                true => Style::Literal,
                false => Style::Double,
            }
        } else if !plain {
            Style::Double
        } else if analysis.plain {
            Style::Plain
        } else if analysis.single {
            Style::Single
        } else {
            Style::Double
        };
        Ok(StyledString {
            text,
            style,
            multiline: analysis.multiline,
            binary,
        })
    }

    fn write_styled(&mut self, string: &StyledString<'_>, simple_key: bool) {
        if string.binary {
            self.output.write_indicator(b"!!binary", true, false);
        }
        let indent = self.output.indent;
        self.output.indent = indent.max(0) + 2;
        let fold = self.dialect != Dialect::V3 && !simple_key;
        self.output.write_scalar(&string.text, string.style, fold);
        self.output.indent = indent;
    }

    /// Writes a key, and leaves the place for its value.
    fn key(&mut self, key: &[u8]) -> Result<(), Stop> {
        if self.dialect == Dialect::Json && key.len() > SURE_KEY {
            return Err(Stop::Trip);
        }
        let string = self.styled(key)?;
        self.output.write_indent();
        let tag = if string.binary { "!!binary".len() } else { 0 };
        if !string.multiline && string.text.len() + tag <= SIMPLE_KEY {
            self.write_styled(&string, true);
            self.output.write_indicator(b":", false, false);
        } else {
            self.output.write_indicator(b"?", true, true);
            self.write_styled(&string, false);
            self.output.write_indent();
            self.output.write_indicator(b":", true, true);
        }
        Ok(())
    }
}

/// The text after a trip through JSON; a text that changes on it in other ways must really go.
fn after_json(text: &[u8]) -> Result<Cow<'_, [u8]>, Stop> {
    if text.is_ascii() {
        return match text.contains(&0x7F) {
            true => Err(Stop::Trip),
            false => Ok(Cow::Borrowed(text)),
        };
    }
    let text = utf8::valid(text);
    let odd = text.windows(3).any(|window| {
        matches!(
            window,
            [0x7F, ..] | [0xC2, 0x80..=0x9F, _] | [0xEF, 0xBF, 0xBE | 0xBF]
        )
    }) || matches!(&*text, [.., 0x7F] | [.., 0x7F, _] | [.., 0xC2, 0x80..=0x9F]);
    match odd {
        true => Err(Stop::Trip),
        false => Ok(text),
    }
}

/// Base64 as go-yaml writes it: in lines of 70 characters, if they do not fit one.
fn base64_lines(bytes: &[u8]) -> Vec<u8> {
    const LINE: usize = 70;
    let mut text = Vec::new();
    base64::push(&mut text, bytes);
    if text.len() < LINE {
        return text;
    }
    let mut lines = Vec::with_capacity(text.len() + text.len() / LINE + 1);
    for line in text.chunks(LINE) {
        lines.extend_from_slice(line);
        lines.push(b'\n');
    }
    lines
}

impl Writer for YamlWriter {
    type Stop = Stop;

    fn null(&mut self) -> Result<(), Stop> {
        self.word(b"null");
        Ok(())
    }

    fn nil(&mut self, brackets: &str) -> Result<(), Stop> {
        match self.dialect {
            Dialect::V3 => self.empty(brackets.as_bytes()),
            _ => self.word(b"null"),
        }
        Ok(())
    }

    fn bool(&mut self, value: bool) -> Result<(), Stop> {
        self.word(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn int(&mut self, value: i64) -> Result<(), Stop> {
        self.number(|out| push_int(out, value));
        Ok(())
    }

    fn uint(&mut self, value: u64) -> Result<(), Stop> {
        self.number(|out| push_uint(out, value));
        Ok(())
    }

    fn float(&mut self, value: f64) -> Result<(), Stop> {
        if self.dialect == Dialect::Json {
            if !value.is_finite() {
                let error = unsupported_number(value);
                return Err(Stop::Error(error.prefixed("error marshaling into JSON")));
            }
            self.number(|out| push_number_after_json(out, value));
            return Ok(());
        }
        match value {
            f64::INFINITY => self.word(b".inf"),
            f64::NEG_INFINITY => self.word(b"-.inf"),
            _ if value.is_nan() => self.word(b".nan"),
            _ => self.number(|out| push_float(out, value)),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Stop> {
        let string = self.styled(text)?;
        self.write_styled(&string, false);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.dialect == Dialect::V3 {
            let items: Vec<crate::Node> = bytes
                .iter()
                .map(|&byte| crate::Node::Int(i64::from(byte)))
                .collect();
            return self.list(items.iter());
        }
        let mut text = Vec::new();
        base64::push(&mut text, bytes);
        self.string(&text)
    }

    fn list<'s, S: Source + 's>(
        &mut self,
        items: impl ExactSizeIterator<Item = &'s S>,
    ) -> Result<(), Stop> {
        self.enter("[]interface {}")?;
        if items.len() == 0 {
            self.empty(b"[]");
            self.depth -= 1;
            return Ok(());
        }
        let indent = self.output.indent;
        let indentless = self.dialect != Dialect::V3 && self.mapping && !self.output.indention;
        self.output.indent = match indent {
            ..0 => 0,
            _ if indentless => indent,
            _ => indent + 2,
        };
        for item in items {
            self.output.write_indent();
            self.output.write_indicator(b"-", true, true);
            self.mapping = false;
            item.accept(self)?;
        }
        self.output.indent = indent;
        self.depth -= 1;
        Ok(())
    }

    fn map<'s, S: Source + 's>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (&'s Str, &'s S)>,
        fields: bool,
    ) -> Result<(), Stop> {
        self.enter("map[string]interface {}")?;
        if entries.len() == 0 {
            self.empty(b"{}");
            self.depth -= 1;
            return Ok(());
        }
        let mut entries: Vec<(&Str, &S)> = entries.collect();
        if !fields || self.dialect != Dialect::V3 {
            keys::sort(&mut entries, |(key, _)| key, self.dialect);
        }
        let indent = self.output.indent;
        self.output.indent = if indent < 0 { 0 } else { indent + 2 };
        for (key, value) in entries {
            self.key(key)?;
            self.mapping = true;
            value.accept(self)?;
        }
        self.output.indent = indent;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, object: &dyn Object) -> Result<(), Stop> {
        if self.dialect == Dialect::V3
            && let Some(text) = object.to_plain_yaml()
        {
            self.word(&text);
            return Ok(());
        }
        match self.dialect {
            Dialect::V3 => write_encoded(self, object, object.to_yaml(), object.yaml_fields()),
            _ => write_encoded(self, object, object.to_json(), object.json_fields()),
        }
    }
}

/// Appends a float as go-yaml prints what it reads from its JSON form: whole numbers that fit 64
/// bits stay whole.
fn push_number_after_json(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 {
        out.push(b'0');
    } else if value.fract() == 0.0 && value.abs() < 18_446_744_073_709_551_616.0 {
        let start = out.len();
        push_json_float(out, value);
        let digits = out.get(start..).unwrap_or_default();
        let text = String::from_utf8_lossy(digits);
        if text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
            out.truncate(start);
            push_float(out, value);
        }
    } else {
        push_float(out, value);
    }
}

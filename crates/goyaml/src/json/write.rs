//! Writing JSON.

use gotmpl::{Object, Str};

use crate::number::{push_int, push_json_float, push_uint};
use crate::visit::{Source, Writer, write_encoded};
use crate::{Error, MAX_DEPTH, base64};

/// How JSON is written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Style {
    /// `<`, `>` and `&` as they are.
    pub(crate) raw: bool,
    /// One element a line, indented by two spaces.
    pub(crate) indented: bool,
}

/// Writes a value as `encoding/json` does.
pub(crate) fn encode(source: &impl Source, style: Style) -> Result<Vec<u8>, Error> {
    let mut writer = JsonWriter {
        out: Vec::new(),
        style,
        depth: 0,
    };
    source.accept(&mut writer)?;
    Ok(writer.out)
}

struct JsonWriter {
    out: Vec<u8>,
    style: Style,
    depth: usize,
}

impl JsonWriter {
    fn open(&mut self, bracket: u8, kind: &str) -> Result<(), Error> {
        if self.depth >= MAX_DEPTH {
            return Err(cycle(kind));
        }
        self.depth += 1;
        self.out.push(bracket);
        Ok(())
    }

    /// Ends a collection; an empty one stays on its line.
    fn close(&mut self, bracket: u8, empty: bool) {
        self.depth -= 1;
        if !empty {
            self.new_line();
        }
        self.out.push(bracket);
    }

    fn separate(&mut self, first: bool) {
        if !first {
            self.out.push(b',');
        }
        self.new_line();
    }

    fn new_line(&mut self) {
        if self.style.indented {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * self.depth, b' ');
        }
    }
}

/// What Go says of a value that contains itself.
pub(crate) fn cycle(kind: &str) -> Error {
    Error::new(format!(
        "json: unsupported value: encountered a cycle via {kind}"
    ))
}

impl Writer for JsonWriter {
    type Stop = Error;

    fn null(&mut self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn nil(&mut self, _brackets: &str) -> Result<(), Error> {
        self.null()
    }

    fn bool(&mut self, value: bool) -> Result<(), Error> {
        let word: &[u8] = if value { b"true" } else { b"false" };
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn int(&mut self, value: i64) -> Result<(), Error> {
        push_int(&mut self.out, value);
        Ok(())
    }

    fn uint(&mut self, value: u64) -> Result<(), Error> {
        push_uint(&mut self.out, value);
        Ok(())
    }

    fn float(&mut self, value: f64) -> Result<(), Error> {
        if !value.is_finite() {
            return Err(crate::yaml::unsupported_number(value));
        }
        push_json_float(&mut self.out, value);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Error> {
        push_string(&mut self.out, text, self.style.raw);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.push(b'"');
        base64::push(&mut self.out, bytes);
        self.out.push(b'"');
        Ok(())
    }

    fn list<'s, S: Source + 's>(
        &mut self,
        items: impl ExactSizeIterator<Item = &'s S>,
    ) -> Result<(), Error> {
        let empty = items.len() == 0;
        self.open(b'[', "[]interface {}")?;
        for (index, item) in items.enumerate() {
            self.separate(index == 0);
            item.accept(self)?;
        }
        self.close(b']', empty);
        Ok(())
    }

    fn map<'s, S: Source + 's>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (&'s Str, &'s S)>,
        _fields: bool,
    ) -> Result<(), Error> {
        let empty = entries.len() == 0;
        self.open(b'{', "map[string]interface {}")?;
        for (index, (key, value)) in entries.enumerate() {
            self.separate(index == 0);
            push_string(&mut self.out, key, self.style.raw);
            self.out.push(b':');
            if self.style.indented {
                self.out.push(b' ');
            }
            value.accept(self)?;
        }
        self.close(b'}', empty);
        Ok(())
    }

    fn object(&mut self, object: &dyn Object) -> Result<(), Error> {
        write_encoded(self, object, object.to_json(), object.json_fields())
    }
}

/// Bytes that stand for themselves in a JSON string: 1 in any, 2 in those that are not for HTML.
static SAFE: [u8; 128] = safe();

const fn safe() -> [u8; 128] {
    let mut table = [0; 128];
    let mut byte = 0x20;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'"' | b'\\' => 0,
            b'<' | b'>' | b'&' => 2,
            _ => 1,
        };
        byte += 1;
    }
    table
}

/// How many bytes at the start of a text are ASCII and stand for themselves.
fn safe_run(text: &[u8], raw: bool) -> usize {
    let most = if raw { 2 } else { 1 };
    text.iter()
        .position(|&byte| {
            let class = SAFE.get(usize::from(byte)).copied().unwrap_or(0);
            class == 0 || class > most
        })
        .unwrap_or(text.len())
}

fn push_string(out: &mut Vec<u8>, text: &[u8], raw: bool) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let run = safe_run(text, raw);
    let (before, rest) = text.split_at(run);
    out.extend_from_slice(before);
    if !rest.is_empty() {
        push_odd(out, rest, raw);
    }
    out.push(b'"');
}

/// Appends a text that needs escapes, or is not ASCII.
fn push_odd(out: &mut Vec<u8>, text: &[u8], raw: bool) {
    for chunk in text.utf8_chunks() {
        push_separated(out, chunk.valid(), raw);
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
}

/// Appends a text, with the line and paragraph separators escaped that JavaScript minds.
fn push_separated(out: &mut Vec<u8>, text: &str, raw: bool) {
    for piece in text.split_inclusive(['\u{2028}', '\u{2029}']) {
        if let Some(before) = piece.strip_suffix('\u{2028}') {
            push_safe(out, before.as_bytes(), raw);
            out.extend_from_slice(b"\\u2028");
        } else if let Some(before) = piece.strip_suffix('\u{2029}') {
            push_safe(out, before.as_bytes(), raw);
            out.extend_from_slice(b"\\u2029");
        } else {
            push_safe(out, piece.as_bytes(), raw);
        }
    }
}

fn push_safe(out: &mut Vec<u8>, text: &[u8], raw: bool) {
    let mut rest = text;
    loop {
        let (before, after) = rest.split_at(safe_run(rest, raw));
        out.extend_from_slice(before);
        let Some((&byte, after)) = after.split_first() else {
            return;
        };
        match byte {
            0x80.. => out.push(byte),
            _ => push_escape(out, byte),
        }
        rest = after;
    }
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.push(b'\\');
    out.push(letter);
}

//! The encoder.

use gotmpl::{FunctionError, Map, Object, Str, Value, strconv};

use super::{LOCAL_DATE, LOCAL_DATETIME, LOCAL_TIME};
use crate::depth::{DEPTH_LIMIT, descend};
use crate::reflection::elements;
use crate::time::{Time, Zone, as_duration, as_time, format_duration};

/// The text, or the error of the encoder; the outer error is for values without end.
type Written = Result<Result<Vec<u8>, String>, FunctionError>;

pub(super) fn to_toml(value: &Value) -> Written {
    if matches!(value, Value::Map(map) if map.is_nil()) {
        return Ok(Ok(Vec::new()));
    }
    let mut writer = Writer::default();
    Ok(match writer.entry(value, DEPTH_LIMIT) {
        Ok(()) => Ok(writer.output),
        Err(Fault::Encoder(text)) => Err(text.to_owned()),
        Err(Fault::Function(error)) => return Err(error),
    })
}

enum Fault {
    Encoder(&'static str),
    Function(FunctionError),
}

impl From<FunctionError> for Fault {
    fn from(error: FunctionError) -> Self {
        Self::Function(error)
    }
}

/// What TOML makes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nil,
    Plain,
    Array,
    TableArray,
    Table,
}

/// The fields of a struct or the entries of a map.
enum Table {
    Map(Map),
    Struct(Vec<(Str, Value)>),
}

#[derive(Default)]
struct Writer {
    output: Vec<u8>,
    keys: Vec<Str>,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// A line break, but not at the very start.
    fn line_break(&mut self) {
        if !self.output.is_empty() {
            self.output.push(b'\n');
        }
    }

    fn indent(&mut self) {
        let width = self.keys.len().saturating_sub(1) * 2;
        self.output.resize(self.output.len() + width, b' ');
    }

    /// A value under the current keys.
    fn entry(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        match kind(value, depth)? {
            // Only at the top, where nothing has left it out before.
            Kind::Nil if matches!(value, Value::List(_)) => self.key_value(value, depth, false),
            Kind::Nil => Ok(()),
            Kind::Plain | Kind::Array => self.key_value(value, depth, false),
            Kind::TableArray => self.table_array(value, depth),
            Kind::Table => {
                if self.keys.len() == 1 {
                    self.line_break();
                }
                if !self.keys.is_empty() {
                    self.header("[", "]");
                }
                self.table(value, depth)
            }
        }
    }

    fn header(&mut self, open: &str, close: &str) {
        self.indent();
        self.text(open);
        let keys: Vec<_> = self.keys.iter().map(|key| quoted_key(key)).collect();
        self.output.extend_from_slice(&keys.join(&b'.'));
        self.text(close);
        self.line_break();
    }

    fn table_array(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        if self.keys.is_empty() {
            return Err(Fault::Encoder(
                "toml: top-level values must be Go maps or structs",
            ));
        }
        for item in elements(value).unwrap_or_default().iter() {
            if is_nil(item) {
                continue;
            }
            self.line_break();
            self.header("[[", "]]");
            descend(depth, |depth| self.table(item, depth))?;
        }
        Ok(())
    }

    /// The entries of a table: those that are no tables first.
    fn table(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        let entries = entries(value);
        for tables in [false, true] {
            for (key, value) in &entries {
                if is_table(kind(value, depth)?) == tables && !is_nil(value) {
                    self.keys.push(key.clone());
                    descend(depth, |depth| self.entry(value, depth))?;
                    self.keys.pop();
                }
            }
        }
        Ok(())
    }

    fn key_value(&mut self, value: &Value, depth: usize, inline: bool) -> Result<(), Fault> {
        let Some(key) = self.keys.last().cloned() else {
            return self.element(value, depth);
        };
        if !inline {
            self.indent();
        }
        self.output.extend_from_slice(&quoted_key(&key));
        self.text(" = ");
        self.element(value, depth)?;
        if !inline {
            self.line_break();
        }
        Ok(())
    }

    /// A value on one line.
    fn element(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        match value {
            Value::Nil => {}
            Value::Bool(value) => self.text(if *value { "true" } else { "false" }),
            Value::Int(number) | Value::Int64(number) => self.text(&number.to_string()),
            Value::Uint64(number) => self.text(&number.to_string()),
            Value::Int32(number) => self.text(&number.to_string()),
            Value::Uint8(number) => self.text(&number.to_string()),
            Value::Float64(number) => self.text(&float(*number)),
            Value::String(text) => self.output.extend_from_slice(&quoted(text)),
            Value::Bytes(_) | Value::List(_) => self.array(value, depth)?,
            Value::Map(_) => self.inline_table(value, depth)?,
            Value::Object(object) => match plain_object(&**object, value) {
                Some(text) => self.output.extend_from_slice(&text),
                None if elements(value).is_some() => self.array(value, depth)?,
                None => self.inline_table(value, depth)?,
            },
        }
        Ok(())
    }

    fn array(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        self.output.push(b'[');
        for (index, item) in elements(value).unwrap_or_default().iter().enumerate() {
            if index > 0 {
                self.text(", ");
            }
            descend(depth, |depth| self.element(item, depth))?;
        }
        self.output.push(b']');
        Ok(())
    }

    /// `{a = 1, b = 2}`; where the last value is nil, its separator is left over, as in the
    /// original.
    fn inline_table(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        let (mut direct, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in entries(value) {
            match is_table(kind(&value, depth)?) {
                true => tables.push((key, value)),
                false => direct.push((key, value)),
            }
        }
        self.output.push(b'{');
        for (group, more) in [(&direct, !tables.is_empty()), (&tables, false)] {
            for (index, (key, value)) in group.iter().enumerate() {
                if is_nil(value) {
                    continue;
                }
                let outer = std::mem::replace(&mut self.keys, vec![key.clone()]);
                descend(depth, |depth| self.key_value(value, depth, true))?;
                self.keys = outer;
                if more || index + 1 != group.len() {
                    self.text(", ");
                }
            }
        }
        self.output.push(b'}');
        Ok(())
    }
}

fn is_table(kind: Kind) -> bool {
    matches!(kind, Kind::Table | Kind::TableArray)
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Map(map) => map.is_nil(),
        Value::List(list) => list.is_nil(),
        _ => false,
    }
}

fn kind(value: &Value, depth: usize) -> Result<Kind, Fault> {
    Ok(match value {
        value if is_nil(value) => Kind::Nil,
        Value::Map(_) => Kind::Table,
        Value::Bytes(_) => Kind::Array,
        Value::List(_) => array_kind(value, depth)?,
        Value::Object(object) => match plain_object(&**object, value) {
            Some(_) => Kind::Plain,
            None if elements(value).is_some() => array_kind(value, depth)?,
            None => Kind::Table,
        },
        _ => Kind::Plain,
    })
}

/// Tables only make an array of tables; nil elements cannot be written.
fn array_kind(value: &Value, depth: usize) -> Result<Kind, Fault> {
    let items = elements(value).unwrap_or_default();
    let mut only_tables = !items.is_empty();
    for item in items.iter() {
        match descend(depth, |depth| kind(item, depth))? {
            Kind::Nil => {
                return Err(Fault::Encoder("toml: cannot encode array with nil element"));
            }
            kind => only_tables &= kind == Kind::Table,
        }
    }
    Ok(if only_tables {
        Kind::TableArray
    } else {
        Kind::Array
    })
}

/// The entries of a map in byte order, or the fields of a struct as they are declared.
fn entries(value: &Value) -> Vec<(Str, Value)> {
    let table = match value {
        Value::Map(map) => Table::Map(map.clone()),
        Value::Object(object) => match object.as_map() {
            Some(map) => Table::Map(map),
            None => {
                let members = object.members().unwrap_or_default();
                let exported = |name: &str| name.starts_with(|first: char| first.is_uppercase());
                let members = members.into_iter().filter(|(name, _)| exported(name));
                Table::Struct(members.map(|(name, value)| (name.into(), value)).collect())
            }
        },
        _ => Table::Struct(Vec::new()),
    };
    match table {
        Table::Struct(members) => members,
        Table::Map(map) => map
            .entries()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

/// The text of an object that is a value of its own in TOML: a time, a duration, a number, or one
/// that makes text of itself.
fn plain_object(object: &dyn Object, value: &Value) -> Option<Vec<u8>> {
    if let Some(time) = as_time(value) {
        return Some(time_text(time));
    }
    if let Some(duration) = as_duration(value) {
        return Some(quoted(format_duration(duration).as_bytes()));
    }
    match object.as_basic() {
        Some(Value::Int(number) | Value::Int64(number)) => Some(number.to_string().into_bytes()),
        Some(Value::String(text)) => Some(quoted(&text)),
        Some(_) => None,
        None => match object.to_json() {
            Some(Value::String(text)) => Some(quoted(&text)),
            _ => None,
        },
    }
}

fn time_text(time: &Time) -> Vec<u8> {
    let local = match &time.zone {
        Zone::Fixed(name, _) => match name.as_str() {
            LOCAL_DATETIME => Some("2006-01-02T15:04:05.999999999"),
            LOCAL_DATE => Some("2006-01-02"),
            LOCAL_TIME => Some("15:04:05.999999999"),
            _ => None,
        },
        _ => None,
    };
    match local {
        Some(layout) => time.in_zone(Zone::Utc).format(layout.as_bytes()),
        None => time.format(b"2006-01-02T15:04:05.999999999Z07:00"),
    }
}

fn float(number: f64) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_nan() {
        return format!("{sign}nan");
    }
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let text = strconv::format_float(number, b'g', None);
    match text.contains(['e', '.']) {
        true => text,
        false => text + ".0",
    }
}

fn quoted_key(key: &[u8]) -> Vec<u8> {
    let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !key.is_empty() && key.iter().all(bare) {
        true => key.to_vec(),
        false => quoted(key),
    }
}

/// A basic string.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    for byte in text {
        match byte {
            b'"' => quoted.extend_from_slice(b"\\\""),
            b'\\' => quoted.extend_from_slice(b"\\\\"),
            0x08 => quoted.extend_from_slice(b"\\b"),
            b'\t' => quoted.extend_from_slice(b"\\t"),
            b'\n' => quoted.extend_from_slice(b"\\n"),
            0x0c => quoted.extend_from_slice(b"\\f"),
            b'\r' => quoted.extend_from_slice(b"\\r"),
            0..=0x1f | 0x7f => quoted.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

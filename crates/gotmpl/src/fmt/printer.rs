//! Values by verb.

use super::TooLarge;
use super::format::{BYTES_AT_ONCE, Flags, Integer, push_bytes};
use crate::complex::Complex;
use crate::value::{List, Map, Object};
use crate::{Type, Value};

/// How deep values may be nested: a map may hold itself, which stops Go for good.
const DEPTH: usize = 1000;

/// Writes values into a buffer that may grow to a bound.
pub(crate) struct Printer<'b> {
    pub(super) buffer: &'b mut Vec<u8>,
    pub(super) flags: Flags,
    limit: usize,
    too_large: bool,
    /// While complaining about a verb, values are shown without their methods.
    erroring: bool,
}

impl<'b> Printer<'b> {
    pub(crate) fn new(buffer: &'b mut Vec<u8>, limit: usize) -> Self {
        Self {
            buffer,
            flags: Flags::default(),
            limit,
            too_large: false,
            erroring: false,
        }
    }

    pub(crate) fn finish(self) -> Result<(), TooLarge> {
        if self.too_large || self.buffer.len() > self.limit {
            Err(TooLarge)
        } else {
            Ok(())
        }
    }

    /// Whether there is room for more; once there is not, nothing more is worth doing.
    pub(super) fn has_room(&mut self) -> bool {
        self.too_large |= self.buffer.len() > self.limit;
        !self.too_large
    }

    pub(super) fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    /// `fmt.Sprint`
    pub(crate) fn print(&mut self, values: &[Value]) {
        let mut after_string = false;
        for (index, value) in values.iter().enumerate() {
            let string = matches!(value, Value::String(_));
            if index > 0 && !string && !after_string {
                self.text(" ");
            }
            self.print_argument(value, 'v');
            after_string = string;
        }
    }

    /// `fmt.Sprintln`
    pub(super) fn print_line(&mut self, values: &[Value]) {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.text(" ");
            }
            self.print_argument(value, 'v');
        }
        self.text("\n");
    }

    /// An argument of a print function, with a verb.
    pub(crate) fn print_argument(&mut self, value: &Value, verb: char) {
        if !self.has_room() {
            return;
        }
        match (verb, value) {
            ('T' | 'v', Value::Nil) => self.flags.pad(self.buffer, b"<nil>"),
            ('T', _) => {
                let mut name = Vec::new();
                append_type(&mut name, value);
                self.flags.string(self.buffer, &name);
            }
            ('p', _) => self.pointer(value, verb),
            ('w', Value::List(_) | Value::Map(_) | Value::Object(_)) => {
                self.bad_verb(verb, Some(value));
            }
            _ => self.print_value(value, verb, 0),
        }
    }

    /// The struct behind a pointer, which does not have the pointer's methods.
    pub(crate) fn print_pointee(&mut self, value: &Value) {
        if let Value::Object(object) = value
            && let Some(name) = object.go_type().strip_prefix('*')
            && let Some(members) = object.members()
        {
            return self.structure(name, &members, 'v', 0);
        }
        self.print_argument(value, 'v');
    }

    fn print_value(&mut self, value: &Value, verb: char, depth: usize) {
        if depth > DEPTH {
            self.too_large = true;
        }
        if !self.has_room() {
            return;
        }
        match value {
            Value::Nil => self.nil(verb, depth),
            Value::Bool(value) => match verb {
                't' | 'v' => self.flags.boolean(self.buffer, *value),
                _ => self.bad_verb(verb, Some(&Value::Bool(*value))),
            },
            Value::Int(number) | Value::Int64(number) => {
                self.integer(value, (*number).into(), verb);
            }
            Value::Int32(number) => self.integer(value, i64::from(*number).into(), verb),
            Value::Uint64(number) => self.integer(value, (*number).into(), verb),
            Value::Uint8(number) => self.integer(value, u64::from(*number).into(), verb),
            Value::Float64(number) => self.float(value, *number, verb),
            Value::String(text) => self.string(value, text, verb),
            Value::Bytes(bytes) => self.bytes(value, bytes, verb, depth),
            Value::List(list) => self.list(list, value, verb, depth),
            Value::Map(map) => self.map(map, value, verb, depth),
            Value::Object(object) => self.object(object.as_ref(), value, verb, depth),
        }
    }

    /// Nil by itself, or a nil interface inside a container.
    fn nil(&mut self, verb: char, depth: usize) {
        match (verb, depth) {
            ('v', 0) => self.flags.pad(self.buffer, b"<nil>"),
            (_, 0) => self.bad_verb(verb, None),
            _ if self.flags.sharp_v => self.text("interface {}(nil)"),
            _ => self.text("<nil>"),
        }
    }

    /// `%!d(string=x)`
    fn bad_verb(&mut self, verb: char, value: Option<&Value>) {
        let outer = std::mem::replace(&mut self.erroring, true);
        self.complaint(verb, "(");
        match value {
            None => self.text("<nil>"),
            Some(value) => {
                append_type(self.buffer, value);
                self.text("=");
                self.print_value(value, 'v', 0);
            }
        }
        self.text(")");
        self.erroring = outer;
    }

    /// `%!verb` and what follows.
    pub(super) fn complaint(&mut self, verb: char, rest: &str) {
        self.text("%!");
        self.text(verb.encode_utf8(&mut [0; 4]));
        self.text(rest);
    }

    fn integer(&mut self, value: &Value, number: Integer, verb: char) {
        let (flags, buffer) = (&self.flags, &mut *self.buffer);
        match verb {
            'v' if flags.sharp_v && !number.signed => self.go_hex(number),
            'v' | 'd' => flags.integer(buffer, number, 10, verb),
            'b' => flags.integer(buffer, number, 2, verb),
            'o' | 'O' => flags.integer(buffer, number, 8, verb),
            'x' | 'X' => flags.integer(buffer, number, 16, verb),
            'c' => flags.character(buffer, number),
            'q' => flags.quoted_character(buffer, number),
            'U' => flags.unicode(buffer, number),
            _ => self.bad_verb(verb, Some(value)),
        }
    }

    /// `0x2a`, as unsigned numbers read in Go syntax.
    fn go_hex(&mut self, number: Integer) {
        let flags = Flags {
            sharp: true,
            ..self.flags
        };
        flags.integer(self.buffer, number, 16, 'v');
    }

    fn float(&mut self, value: &Value, number: f64, verb: char) {
        match float_verb(verb) {
            Some((verb, usual)) => self.flags.float(self.buffer, number, verb, usual),
            None => self.bad_verb(verb, Some(value)),
        }
    }

    fn complex(&mut self, value: &Value, number: &Complex, verb: char) {
        let Some((verb, usual)) = float_verb(verb) else {
            return self.bad_verb(verb, Some(value));
        };
        self.text("(");
        self.flags.float(self.buffer, number.real, verb, usual);
        let with_sign = Flags {
            plus: true,
            ..self.flags
        };
        with_sign.float(self.buffer, number.imaginary, verb, usual);
        self.text("i)");
    }

    fn string(&mut self, value: &Value, text: &[u8], verb: char) {
        let (flags, buffer) = (&self.flags, &mut *self.buffer);
        match verb {
            'v' if flags.sharp_v => flags.quoted(buffer, text),
            'v' | 's' => flags.string(buffer, text),
            'x' | 'X' => flags.hex_string(buffer, text, verb == 'X'),
            'q' => flags.quoted(buffer, text),
            _ => self.bad_verb(verb, Some(value)),
        }
    }

    fn bytes(&mut self, value: &Value, bytes: &[u8], verb: char, depth: usize) {
        match verb {
            's' | 'q' | 'x' | 'X' => self.string(value, bytes, verb),
            'v' | 'd' if !self.flags.sharp_v && self.flags.is_plain() => {
                self.plain_bytes(bytes);
            }
            _ => {
                if self.flags.sharp_v {
                    self.text(if depth == 0 { "[]byte" } else { "[]uint8" });
                }
                self.sequence(bytes.iter().map(|&byte| Value::Uint8(byte)), verb, depth);
            }
        }
    }

    /// `[104 101]`. Charts that hand on their root by mistake print all of their files so, millions of bytes.
    fn plain_bytes(&mut self, bytes: &[u8]) {
        self.text("[");
        for chunk in bytes.chunks(BYTES_AT_ONCE) {
            if !self.has_room() {
                return;
            }
            push_bytes(self.buffer, chunk);
        }
        if !bytes.is_empty() {
            self.buffer.pop();
        }
        self.text("]");
    }

    /// Values in brackets, or in braces in Go syntax.
    fn sequence(&mut self, items: impl Iterator<Item = Value>, verb: char, depth: usize) {
        let (open, between, close) = if self.flags.sharp_v {
            ("{", ", ", "}")
        } else {
            ("[", " ", "]")
        };
        self.text(open);
        for (index, item) in items.enumerate() {
            if !self.has_room() {
                return;
            }
            if index > 0 {
                self.text(between);
            }
            self.print_value(&item, verb, depth + 1);
        }
        self.text(close);
    }

    fn list(&mut self, list: &List, value: &Value, verb: char, depth: usize) {
        if self.flags.sharp_v {
            append_type(self.buffer, value);
            if list.is_nil() {
                return self.text("(nil)");
            }
        }
        self.sequence(list.items().iter().cloned(), verb, depth);
    }

    fn map(&mut self, map: &Map, value: &Value, verb: char, depth: usize) {
        let (open, between, close) = if self.flags.sharp_v {
            append_type(self.buffer, value);
            if map.is_nil() {
                return self.text("(nil)");
            }
            ("{", ", ", "}")
        } else {
            ("map[", " ", "]")
        };
        self.text(open);
        for (index, (key, item)) in map.entries().iter().enumerate() {
            if !self.has_room() {
                return;
            }
            if index > 0 {
                self.text(between);
            }
            self.print_value(&Value::String(key.clone()), verb, depth + 1);
            self.text(":");
            self.print_value(item, verb, depth + 1);
        }
        self.text(close);
    }

    fn object(&mut self, object: &dyn Object, value: &Value, verb: char, depth: usize) {
        if let Some(number) = object.as_any().downcast_ref::<Complex>() {
            return self.complex(value, number, verb);
        }
        if let Some(map) = object.as_map() {
            return self.map(&map, value, verb, depth);
        }
        if let Some(list) = object.as_list() {
            return self.list(&list, value, verb, depth);
        }
        let stringable = matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') && !self.flags.sharp_v;
        if stringable && !self.erroring && object.is_stringer() {
            return self.string(value, &object.display(), verb);
        }
        match (object.as_basic(), object.members()) {
            (Some(basic), _) => self.basic(value, &basic, verb, depth),
            // Go follows a pointer only where nothing is around it.
            (None, Some(_)) if depth > 0 && object.go_type().starts_with('*') => {
                self.pointer(value, verb);
            }
            (None, Some(members)) => self.structure(object.go_type(), &members, verb, depth),
            (None, None) if verb == 'v' => self.flags.string(self.buffer, &object.display()),
            (None, None) if stringable => self.string(value, &object.display(), verb),
            (None, None) => self.bad_verb(verb, Some(value)),
        }
    }

    /// An object as the plain value that it is; complaints name its own type.
    fn basic(&mut self, value: &Value, basic: &Value, verb: char, depth: usize) {
        match basic {
            Value::Int(number) | Value::Int64(number) => {
                self.integer(value, (*number).into(), verb);
            }
            Value::Uint64(number) => self.integer(value, (*number).into(), verb),
            Value::Float64(number) => self.float(value, *number, verb),
            Value::String(text) => self.string(value, text, verb),
            _ => self.print_value(basic, verb, depth),
        }
    }

    /// `{1 a}`, `{X:1 Y:a}`, `main.T{X:1, Y:"a"}`, with `&` in front of a pointer at the top.
    fn structure(&mut self, name: &str, members: &[(&str, Value)], verb: char, depth: usize) {
        let pointed = name.strip_prefix('*');
        if pointed.is_some() {
            self.text("&");
        }
        if self.flags.sharp_v {
            self.text(pointed.unwrap_or(name));
        }
        self.text("{");
        for (index, (name, value)) in members.iter().enumerate() {
            if index > 0 {
                self.text(if self.flags.sharp_v { ", " } else { " " });
            }
            if self.flags.sharp_v || self.flags.plus_v {
                self.text(name);
                self.text(":");
            }
            self.print_value(value, verb, depth + 1);
        }
        self.text("}");
    }

    /// `%p`, or a pointer inside a container.
    fn pointer(&mut self, value: &Value, verb: char) {
        let pointer = match value {
            Value::List(_) | Value::Map(_) | Value::Bytes(_) => true,
            Value::Object(object) => object.go_type().starts_with('*'),
            _ => false,
        };
        if !pointer {
            return self.bad_verb(
                verb,
                Some(value).filter(|value| !matches!(value, Value::Nil)),
            );
        }
        match verb {
            'v' if self.flags.sharp_v => {
                self.text("(");
                append_type(self.buffer, value);
                self.text(")(");
                self.go_hex(ADDRESS.into());
                self.text(")");
            }
            'v' | 'p' => {
                let flags = Flags {
                    sharp: !self.flags.sharp,
                    ..self.flags
                };
                flags.integer(self.buffer, ADDRESS.into(), 16, 'v');
            }
            'b' | 'o' | 'd' | 'x' | 'X' => self.integer(value, ADDRESS.into(), verb),
            _ => self.bad_verb(verb, Some(value)),
        }
    }
}

/// The address of everything: the real one would make the output of a chart differ from run to run.
const ADDRESS: u64 = 0xc0_0000_0000;

/// The verb of `strconv` and the usual precision.
fn float_verb(verb: char) -> Option<(u8, Option<usize>)> {
    Some(match verb {
        'v' => (b'g', None),
        'b' | 'g' | 'G' | 'x' | 'X' => (u8::try_from(verb).ok()?, None),
        'f' | 'e' | 'E' => (u8::try_from(verb).ok()?, Some(6)),
        'F' => (b'f', Some(6)),
        _ => return None,
    })
}

/// Appends the name of the type, as `%T` prints it.
pub(crate) fn append_type(buffer: &mut Vec<u8>, value: &Value) {
    use std::io::Write;
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Nil => buffer.write_all(b"<nil>"),
        Value::List(list) => write!(buffer, "[]{}", list.element()),
        Value::Map(map) => match map.type_name() {
            Some(name) => buffer.write_all(name.as_bytes()),
            None => write!(buffer, "map[string]{}", map.element()),
        },
        Value::Object(object) => buffer.write_all(object.go_type().as_bytes()),
        _ => write!(buffer, "{}", value.go_type().unwrap_or(Type::Any)),
    };
}

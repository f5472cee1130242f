//! How writers look at values, trees and nodes.

use gotmpl::{List, Object, Str, Type, Value};

use crate::{Error, Node, Tree};

/// Something that can be written.
pub(crate) trait Source {
    fn accept<W: Writer>(&self, writer: &mut W) -> Result<(), W::Stop>;
}

/// What takes a value apart, whatever it is kept in.
pub(crate) trait Writer: Sized {
    /// Why writing stops.
    type Stop: From<Error>;

    fn null(&mut self) -> Result<(), Self::Stop>;
    /// A nil map or slice, whose brackets these are.
    fn nil(&mut self, brackets: &str) -> Result<(), Self::Stop>;
    fn bool(&mut self, value: bool) -> Result<(), Self::Stop>;
    fn int(&mut self, value: i64) -> Result<(), Self::Stop>;
    fn uint(&mut self, value: u64) -> Result<(), Self::Stop>;
    fn float(&mut self, value: f64) -> Result<(), Self::Stop>;
    fn string(&mut self, text: &[u8]) -> Result<(), Self::Stop>;
    /// A `[]byte`.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Stop>;
    fn list<'s, S: Source + 's>(
        &mut self,
        items: impl ExactSizeIterator<Item = &'s S>,
    ) -> Result<(), Self::Stop>;
    /// The entries come in byte order of the keys, or, if they are `fields` of a struct, in the
    /// order of their declaration.
    fn map<'s, S: Source + 's>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (&'s Str, &'s S)>,
        fields: bool,
    ) -> Result<(), Self::Stop>;
    fn object(&mut self, object: &dyn Object) -> Result<(), Self::Stop>;
}

impl Source for Value {
    fn accept<W: Writer>(&self, writer: &mut W) -> Result<(), W::Stop> {
        match self {
            Self::Nil => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::Int(value) | Self::Int64(value) => writer.int(*value),
            Self::Uint64(value) => writer.uint(*value),
            Self::Int32(value) => writer.int(i64::from(*value)),
            Self::Uint8(value) => writer.int(i64::from(*value)),
            Self::Float64(value) => writer.float(*value),
            Self::String(text) => writer.string(text),
            Self::Bytes(bytes) => writer.bytes(bytes),
            Self::List(list) if list.is_nil() => writer.nil("[]"),
            Self::List(list) if list.element() == Type::Uint8 => writer.bytes(&byte_slice(list)),
            Self::List(list) => writer.list(list.items().iter()),
            Self::Map(map) if map.is_nil() => writer.nil("{}"),
            Self::Map(map) => writer.map(map.entries().iter(), false),
            Self::Object(object) => writer.object(&**object),
        }
    }
}

/// The bytes of a `[]uint8`.
fn byte_slice(list: &List) -> Vec<u8> {
    let byte = |item: &Value| match item {
        Value::Uint8(byte) => Some(*byte),
        _ => None,
    };
    list.items().iter().filter_map(byte).collect()
}

impl Source for Tree {
    fn accept<W: Writer>(&self, writer: &mut W) -> Result<(), W::Stop> {
        match self {
            Self::Null => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::Int64(value) => writer.int(*value),
            Self::Float64(value) => writer.float(*value),
            Self::String(text) => writer.string(text),
            Self::List(items) => writer.list(items.iter()),
            Self::Map(entries) => writer.map(entries.iter(), false),
        }
    }
}

impl Source for Node {
    fn accept<W: Writer>(&self, writer: &mut W) -> Result<(), W::Stop> {
        match self {
            Self::Null => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::Int(value) => writer.int(*value),
            Self::Uint(value) => writer.uint(*value),
            Self::Float(value) => writer.float(*value),
            Self::String(text) => writer.string(text),
            Self::List(items) => writer.list(items.iter()),
            Self::Map(entries) => writer.map(entries.iter(), false),
        }
    }
}

/// Writes a struct's fields in the order of their names, or the plain value that stands for an
/// object.
pub(crate) fn write_encoded<W: Writer>(
    writer: &mut W,
    object: &dyn Object,
    encoded: Option<Value>,
    names: &[&str],
) -> Result<(), W::Stop> {
    let value = encoded
        .or_else(|| object.as_map().map(Value::Map))
        .or_else(|| object.as_list().map(Value::List))
        .or_else(|| object.as_basic())
        .unwrap_or_else(|| Value::String(object.display()));
    let Value::Map(map) = &value else {
        return value.accept(writer);
    };
    if names.is_empty() {
        return value.accept(writer);
    }
    let entries = map.entries();
    let fields: Vec<(&Str, &Value)> = names
        .iter()
        .filter_map(|name| entries.get_key_value(name.as_bytes()))
        .collect();
    writer.map(fields.into_iter(), true)
}

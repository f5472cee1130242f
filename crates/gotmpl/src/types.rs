//! Go types, as far as templates can see them.

use std::fmt;

use crate::{List, Map, Str, Value};

/// The Go type of a value, of the elements of a container, or of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// `interface {}`
    Any,
    /// `bool`
    Bool,
    /// `int`: template constants, `len`, `until`
    Int,
    /// `int64`: `--set` numbers, sprig arithmetic
    Int64,
    /// `uint64`: fields of a semantic version
    Uint64,
    /// `uint32`: the counter of `derivePassword`; its values travel as `uint64`
    Uint32,
    /// `int32`: a character, from `index "abc" 0` it is `uint8`
    Int32,
    /// `uint8`: an element of a string or of `[]byte`
    Uint8,
    /// `float64`: every number of a YAML or JSON document
    Float64,
    /// `string`
    String,
    /// `[]T`; `[]byte` is `List(&Type::Uint8)`
    List(&'static Self),
    /// `map[string]T`
    Map(&'static Self),
    /// any other type, by the name that Go's `%T` prints
    Named(&'static str),
}

impl Type {
    /// Whether nil is a value of this type: interfaces, slices, maps and pointers.
    pub(crate) fn can_be_nil(self) -> bool {
        match self {
            Self::Any | Self::List(_) | Self::Map(_) => true,
            Self::Named(name) => name.starts_with('*'),
            _ => false,
        }
    }

    /// The zero value, as Go has it for a missing key.
    pub(crate) fn zero(self) -> Value {
        match self {
            Self::Any | Self::Named(_) => Value::Nil,
            Self::Bool => Value::Bool(false),
            Self::Int => Value::Int(0),
            Self::Int64 => Value::Int64(0),
            Self::Uint64 | Self::Uint32 => Value::Uint64(0),
            Self::Int32 => Value::Int32(0),
            Self::Uint8 => Value::Uint8(0),
            Self::Float64 => Value::Float64(0.0),
            Self::String => Value::String(Str::default()),
            Self::List(Self::Uint8) => Value::Bytes(Str::default()),
            Self::List(element) => Value::List(List::nil(*element)),
            Self::Map(element) => Value::Map(Map::nil(*element)),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("interface {}"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Int64 => f.write_str("int64"),
            Self::Uint64 => f.write_str("uint64"),
            Self::Uint32 => f.write_str("uint32"),
            Self::Int32 => f.write_str("int32"),
            Self::Uint8 => f.write_str("uint8"),
            Self::Float64 => f.write_str("float64"),
            Self::String => f.write_str("string"),
            Self::List(element) => write!(f, "[]{element}"),
            Self::Map(element) => write!(f, "map[string]{element}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

//! The value model: Go's kinds kept apart, maps with reference semantics.

mod cycles;
mod entries;
mod list;
mod map;
mod object;
mod release;
mod unfolded;

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::{Str, Type};
pub use cycles::CycleGuard;
pub use entries::Entries;
pub use list::List;
pub use map::{Map, NamedMap};
pub use object::Object;
pub use unfolded::unfolded_size;

/// A value that a template can hold. Cheap to clone: containers are shared, not copied.
///
/// Values belong to one thread, as one render does; what is kept between renders is a
/// `goyaml::Tree`, which is `Send` and shares its strings with the values made from it.
#[derive(Clone)]
pub enum Value {
    /// The untyped nil, and the nil interface; prints `<no value>` at top level, `<nil>` inside.
    Nil,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `int64`
    Int64(i64),
    /// `uint64`
    Uint64(u64),
    /// `int32` (a Go `rune`)
    Int32(i32),
    /// `uint8` (a Go `byte`)
    Uint8(u8),
    /// `float64`
    Float64(f64),
    /// `string`
    String(Str),
    /// `[]byte`
    Bytes(Str),
    /// A slice; never changed in place, as no template function does so.
    List(List),
    /// A map with string keys and reference semantics.
    Map(Map),
    /// A struct or a pointer to one, with fields and methods: `.Files`, a certificate, a time.
    Object(Rc<dyn Object>),
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A `[]interface {}`.
    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    /// The Go type, as `%T` prints it; `None` for nil.
    #[must_use]
    pub fn go_type(&self) -> Option<Type> {
        Some(match self {
            Self::Nil => return None,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Int64(_) => Type::Int64,
            Self::Uint64(_) => Type::Uint64,
            Self::Int32(_) => Type::Int32,
            Self::Uint8(_) => Type::Uint8,
            Self::Float64(_) => Type::Float64,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::List(&Type::Uint8),
            // Elements of a container of containers are reported as `interface {}` unless known.
            Self::List(list) => match list.element() {
                Type::Bool => Type::List(&Type::Bool),
                Type::String => Type::List(&Type::String),
                Type::Int => Type::List(&Type::Int),
                Type::Int64 => Type::List(&Type::Int64),
                Type::Float64 => Type::List(&Type::Float64),
                Type::Map(Type::Any) => Type::List(&Type::Map(&Type::Any)),
                Type::Map(Type::String) => Type::List(&Type::Map(&Type::String)),
                Type::List(Type::Any) => Type::List(&Type::List(&Type::Any)),
                Type::List(Type::String) => Type::List(&Type::List(&Type::String)),
                _ => Type::List(&Type::Any),
            },
            Self::Map(map) => match (map.type_name(), map.element()) {
                (Some(name), _) => Type::Named(name),
                (None, Type::String) => Type::Map(&Type::String),
                (None, Type::List(Type::Uint8)) => Type::Map(&Type::List(&Type::Uint8)),
                (None, Type::List(Type::String)) => Type::Map(&Type::List(&Type::String)),
                _ => Type::Map(&Type::Any),
            },
            Self::Object(object) => Type::Named(object.go_type()),
        })
    }

    /// Whether it may hold other values.
    fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Object(_))
    }

    /// The name of the Go type, as `%T` prints it: `<nil>` for nil.
    #[must_use]
    pub fn type_name(&self) -> Cow<'static, str> {
        match self {
            Self::Nil => "<nil>".into(),
            Self::Object(object) => object.go_type().into(),
            _ => {
                let mut name = Vec::new();
                crate::fmt::append_type(&mut name, self);
                String::from_utf8_lossy(&name).into_owned().into()
            }
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "int({value})"),
            Self::Int64(value) => write!(f, "int64({value})"),
            Self::Uint64(value) => write!(f, "uint64({value})"),
            Self::Int32(value) => write!(f, "int32({value})"),
            Self::Uint8(value) => write!(f, "uint8({value})"),
            Self::Float64(value) => write!(f, "float64({value})"),
            Self::String(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => write!(f, "bytes({bytes:?})"),
            Self::List(list) => f.debug_list().entries(list.items()).finish(),
            Self::Map(map) => f.debug_map().entries(map.entries().iter()).finish(),
            Self::Object(object) => write!(f, "{}({:?})", object.go_type(), object.display()),
        }
    }
}

//! A document as it is kept between renders.

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Value};

/// What a YAML or JSON document holds after Go's trip through JSON: `Send`, cheap to share, and
/// turned into template values without copying a string.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// An `int64`: only from `--set`, never from a document.
    Int64(i64),
    /// Every number of a document.
    Float64(f64),
    /// A string.
    String(Str),
    /// A list.
    List(Vec<Tree>),
    /// A map; keys are in byte order.
    Map(BTreeMap<Str, Tree>),
}

impl Tree {
    /// The template value: a deep copy in which maps may be changed.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Nil,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int64(value) => Value::Int64(*value),
            Self::Float64(value) => Value::Float64(*value),
            Self::String(text) => Value::String(text.clone()),
            Self::List(items) => Value::List(List::new(items.iter().map(Self::to_value).collect())),
            Self::Map(entries) => Value::Map(Map::from_entries(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), value.to_value())),
            )),
        }
    }
}

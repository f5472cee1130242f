//! A document as it is kept between renders.

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Value};

use crate::Error;

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
    List(Vec<Self>),
    /// A map; keys are in byte order.
    Map(BTreeMap<Str, Self>),
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

    /// The tree that `value` is after a trip through JSON: numbers are `float64`, byte slices are
    /// base64, objects are what they are in JSON.
    ///
    /// # Errors
    /// As [`to_json`](crate::to_json).
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        crate::read_json(&crate::to_json(value)?)
    }

    /// The value of a key; `None` if this is no map or has no such key.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Self> {
        self.as_map()?.get(key.as_ref())
    }

    /// The value at a path of keys.
    #[must_use]
    pub fn path(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// The entries, if this is a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&BTreeMap<Str, Self>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entries, to change, if this is a map.
    pub fn as_map_mut(&mut self) -> Option<&mut BTreeMap<Str, Self>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The elements, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if this is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float64(value) => Some(*value),
            #[expect(clippy::cast_precision_loss, reason = "as Go's conversion does")]
            Self::Int64(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// What JSON calls this kind of value: `object`, `array`, `string`, `number`, `bool`, `null`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int64(_) | Self::Float64(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }
}

impl Default for Tree {
    /// `null`.
    fn default() -> Self {
        Self::Null
    }
}

impl From<bool> for Tree {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Tree {
    fn from(value: i64) -> Self {
        Self::Int64(value)
    }
}

impl From<f64> for Tree {
    fn from(value: f64) -> Self {
        Self::Float64(value)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Str> for Tree {
    fn from(text: Str) -> Self {
        Self::String(text)
    }
}

impl From<Vec<Self>> for Tree {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}

impl From<BTreeMap<Str, Self>> for Tree {
    fn from(entries: BTreeMap<Str, Self>) -> Self {
        Self::Map(entries)
    }
}

impl<K: Into<Str>> FromIterator<(K, Self)> for Tree {
    fn from_iter<I: IntoIterator<Item = (K, Self)>>(entries: I) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }
}

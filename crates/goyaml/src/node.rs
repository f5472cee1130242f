//! A document with the types that YAML gave its scalars.

use std::collections::BTreeMap;

use gotmpl::Str;

use crate::number::push_float32;
use crate::yaml::{Build, unsupported_number};
use crate::{Error, Tree};

/// A YAML document before the trip through JSON made every number a `float64`.
///
/// Structs with string fields need it: `sigs.k8s.io/yaml` turns a number or a boolean into a string
/// where the field wants one, and prints integers whole but floats with 32 bits of precision, so
/// that `appVersion: 1.10` is `1.1`. See [`to_go_string`](Self::to_go_string).
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `null`, in all its spellings.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number that fits `int64`.
    Int(i64),
    /// A whole number that only fits `uint64`.
    Uint(u64),
    /// Any other number, `.nan` and `.inf` among them.
    Float(f64),
    /// A string, or a timestamp as it was written.
    String(Str),
    /// A sequence.
    List(Vec<Self>),
    /// A mapping; keys are strings by now, in byte order.
    Map(BTreeMap<Str, Self>),
}

impl Node {
    /// The string that `sigs.k8s.io/yaml` puts into a string field in place of this scalar; `None`
    /// for `null`, sequences and mappings.
    #[must_use]
    pub fn to_go_string(&self) -> Option<Str> {
        match self {
            Self::Bool(value) => Some(value.to_string().into()),
            Self::Int(value) => Some(value.to_string().into()),
            Self::Uint(value) => Some(value.to_string().into()),
            Self::Float(value) => {
                let mut text = Vec::new();
                push_float32(&mut text, *value);
                Some(text.into())
            }
            Self::String(text) => Some(text.clone()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Whether JSON can have all numbers of this document.
    ///
    /// # Errors
    /// `error converting YAML to JSON: json: unsupported value: NaN` for the first one that it
    /// cannot have.
    pub fn check_finite(&self) -> Result<(), Error> {
        match self.non_finite() {
            Some(number) => {
                Err(unsupported_number(number).prefixed("error converting YAML to JSON"))
            }
            None => Ok(()),
        }
    }

    /// The value of a key; `None` if this is no mapping or has no such key.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.get(key.as_ref()),
            _ => None,
        }
    }

    /// What JSON calls this kind of value: `object`, `array`, `string`, `number`, `bool`, `null`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }

    /// The tree after the trip through JSON.
    #[must_use]
    pub fn into_tree(self) -> Tree {
        match self {
            Self::Null => Tree::Null,
            Self::Bool(value) => Tree::Bool(value),
            #[expect(clippy::cast_precision_loss, reason = "as Go's conversion does")]
            Self::Int(value) => Tree::Float64(value as f64),
            #[expect(clippy::cast_precision_loss, reason = "as Go's conversion does")]
            Self::Uint(value) => Tree::Float64(value as f64),
            Self::Float(value) => Tree::Float64(value),
            Self::String(text) => Tree::String(text),
            Self::List(items) => Tree::List(items.into_iter().map(Self::into_tree).collect()),
            Self::Map(entries) => entries
                .into_iter()
                .map(|(key, value)| (key, value.into_tree()))
                .collect(),
        }
    }
}

//! What documents are built into: trees, template values, nodes, heads.

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Value};

use crate::number::push_float32;
use crate::{Node, Tree};

/// What a document can be built into.
pub(crate) trait Build: Sized {
    /// A key of a mapping.
    type Key;

    /// Whether the text of strings matters.
    const TEXT: bool = true;

    /// Whether the value of a key matters; `depth` is 1 in the outermost mapping.
    fn wants(key: &Node, depth: usize) -> bool {
        let _ = (key, depth);
        true
    }

    /// The key that a scalar is, or the scalar back if it cannot be one.
    fn key(scalar: Node) -> Result<Self::Key, Node>;

    fn scalar(scalar: Node) -> Self;

    fn list(items: Vec<Self>) -> Self;

    /// The entries may hold a key more than once; the last one counts.
    fn map(entries: Vec<(Self::Key, Self)>) -> Self;

    /// The first number, in the order of keys, that JSON cannot have.
    fn non_finite(&self) -> Option<f64>;
}

/// The string that `sigs.k8s.io/yaml` makes of a key, or the key back if it makes none.
fn key_string(key: Node) -> Result<Str, Node> {
    match key {
        Node::String(text) => Ok(text),
        Node::Float(value) => {
            let mut text = Vec::new();
            match value {
                _ if value.is_nan() => text.extend_from_slice(b".nan"),
                _ => push_float32(&mut text, value),
            }
            Ok(match text.as_slice() {
                b"+Inf" => ".inf".into(),
                b"-Inf" => "-.inf".into(),
                _ => text.into(),
            })
        }
        Node::Bool(_) | Node::Int(_) => key.to_go_string().ok_or(key),
        _ => Err(key),
    }
}

impl Build for Tree {
    type Key = Str;

    fn key(scalar: Node) -> Result<Str, Node> {
        key_string(scalar)
    }

    fn scalar(scalar: Node) -> Self {
        scalar.into_tree()
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(entries: Vec<(Str, Self)>) -> Self {
        Self::Map(BTreeMap::from_iter(entries))
    }

    fn non_finite(&self) -> Option<f64> {
        match self {
            Self::Float64(value) => (!value.is_finite()).then_some(*value),
            Self::List(items) => items.iter().find_map(Self::non_finite),
            Self::Map(entries) => entries.values().find_map(Self::non_finite),
            _ => None,
        }
    }
}

impl Build for Node {
    type Key = Str;

    fn key(scalar: Node) -> Result<Str, Node> {
        key_string(scalar)
    }

    fn scalar(scalar: Node) -> Self {
        scalar
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(entries: Vec<(Str, Self)>) -> Self {
        Self::Map(BTreeMap::from_iter(entries))
    }

    fn non_finite(&self) -> Option<f64> {
        match self {
            Self::Float(value) => (!value.is_finite()).then_some(*value),
            Self::List(items) => items.iter().find_map(Self::non_finite),
            Self::Map(entries) => entries.values().find_map(Self::non_finite),
            _ => None,
        }
    }
}

/// A value that nobody wants: it is decoded only to see that it can be.
pub(super) struct Skipped;

impl Build for Skipped {
    const TEXT: bool = false;

    type Key = ();

    fn key(scalar: Node) -> Result<(), Node> {
        match scalar {
            Node::Null | Node::Uint(_) => Err(scalar),
            _ => Ok(()),
        }
    }

    fn scalar(_scalar: Node) -> Self {
        Self
    }

    fn list(_items: Vec<Self>) -> Self {
        Self
    }

    fn map(_entries: Vec<((), Self)>) -> Self {
        Self
    }

    fn non_finite(&self) -> Option<f64> {
        None
    }
}

/// A document of which only the head is kept.
pub(super) struct HeadNode(pub(super) Node);

impl Build for HeadNode {
    type Key = Str;

    fn wants(key: &Node, depth: usize) -> bool {
        match key {
            Node::String(name) if depth == 1 => crate::head::is_field(name),
            _ => depth > 1,
        }
    }

    fn key(scalar: Node) -> Result<Str, Node> {
        key_string(scalar)
    }

    fn scalar(scalar: Node) -> Self {
        Self(scalar)
    }

    fn list(items: Vec<Self>) -> Self {
        Self(Node::List(items.into_iter().map(|item| item.0).collect()))
    }

    fn map(entries: Vec<(Str, Self)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key, value.0));
        Self(Node::Map(entries.collect()))
    }

    fn non_finite(&self) -> Option<f64> {
        self.0.non_finite()
    }
}

impl Build for Value {
    type Key = Str;

    fn key(scalar: Node) -> Result<Str, Node> {
        key_string(scalar)
    }

    fn scalar(scalar: Node) -> Self {
        scalar.into_tree().to_value()
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    fn map(entries: Vec<(Str, Self)>) -> Self {
        Self::Map(Map::from_entries(entries))
    }

    fn non_finite(&self) -> Option<f64> {
        match self {
            Self::Float64(value) => (!value.is_finite()).then_some(*value),
            Self::List(list) => list.items().iter().find_map(Self::non_finite),
            Self::Map(map) => map.entries().values().find_map(Self::non_finite),
            _ => None,
        }
    }
}

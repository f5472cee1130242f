//! Values in Go syntax, for the errors about keys that are none.

use gotmpl::Str;
use gotmpl::strconv::append_quoted;

use super::build::Build;
use crate::Node;
use crate::number::{push_float, push_int};

/// How long such a text may get.
const LIMIT: usize = 64 * 1024;

/// A value as go-yaml decodes it, keys of any type included.
pub(super) enum GoValue {
    Scalar(Node),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl Build for GoValue {
    type Key = Self;

    fn key(scalar: Node) -> Result<Self, Node> {
        Ok(Self::Scalar(scalar))
    }

    fn scalar(scalar: Node) -> Self {
        Self::Scalar(scalar)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(mut entries: Vec<(Self, Self)>) -> Self {
        entries.sort_by(|(left, _), (right, _)| left.rank().cmp(&right.rank()));
        let mut unique: Vec<(Self, Self)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match unique.last_mut() {
                Some(last) if last.0.rank() == entry.0.rank() => *last = entry,
                _ => unique.push(entry),
            }
        }
        Self::Map(unique)
    }

    fn non_finite(&self) -> Option<f64> {
        None
    }
}

impl GoValue {
    /// What Go's `%#v` prints.
    pub(super) fn to_syntax(&self) -> String {
        if let Self::Scalar(Node::Null) = self {
            return "<nil>".into();
        }
        let mut out = Vec::new();
        self.push(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The complaint about the first key that JSON cannot have.
    pub(super) fn bad_key(&self) -> Option<String> {
        match self {
            Self::Scalar(_) => None,
            Self::List(items) => items.iter().find_map(Self::bad_key),
            Self::Map(entries) => entries.iter().find_map(|(key, value)| {
                let kind = match key {
                    Self::Scalar(Node::Null) => "%!s(<nil>)",
                    Self::Scalar(Node::Uint(_)) => "uint64",
                    _ => return value.bad_key(),
                };
                Some(format!(
                    "unsupported map key of type: {kind}, key: {}, value: {}",
                    key.to_syntax(),
                    value.to_syntax()
                ))
            }),
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        if out.len() > LIMIT {
            return;
        }
        match self {
            Self::Scalar(scalar) => push_scalar(out, scalar),
            Self::List(items) => {
                out.extend_from_slice(b"[]interface {}{");
                for (index, item) in items.iter().enumerate() {
                    push_separator(out, index);
                    item.push(out);
                }
                out.push(b'}');
            }
            Self::Map(entries) => {
                out.extend_from_slice(b"map[interface {}]interface {}{");
                for (index, (key, value)) in entries.iter().enumerate() {
                    push_separator(out, index);
                    key.push(out);
                    out.push(b':');
                    value.push(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Orders keys as Go prints them: by type, then by value. The order of types is that of their
    /// addresses in a Go program, as seen in one.
    fn rank(&self) -> (u8, u64, Option<&Str>) {
        match self {
            Self::Scalar(Node::Null) => (0, 0, None),
            Self::Scalar(Node::Bool(value)) => (5, u64::from(*value), None),
            Self::Scalar(Node::Int(value)) => (3, value.cast_unsigned() ^ (1 << 63), None),
            Self::Scalar(Node::Uint(value)) => (2, *value, None),
            Self::Scalar(Node::Float(value)) => (4, float_rank(*value), None),
            Self::Scalar(Node::String(text)) => (1, 0, Some(text)),
            _ => (6, 0, None),
        }
    }
}

fn float_rank(value: f64) -> u64 {
    let bits = value.to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

fn push_separator(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.extend_from_slice(b", ");
    }
}

fn push_scalar(out: &mut Vec<u8>, scalar: &Node) {
    match scalar {
        Node::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Node::Int(value) => push_int(out, *value),
        Node::Uint(value) => out.extend_from_slice(format!("{value:#x}").as_bytes()),
        Node::Float(value) => push_float(out, *value),
        Node::String(text) => append_quoted(out, text, false),
        _ => out.extend_from_slice(b"interface {}(nil)"),
    }
}

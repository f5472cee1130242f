//! JSON as Go's `encoding/json` writes it, and what release records need of serde.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gotmpl::Str;
use goyaml::Tree;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Writes a value as `json.Marshal` does: compact, keys of maps sorted, HTML characters escaped.
///
/// # Errors
/// What serde reports, and a number that JSON cannot hold (NaN and the infinities).
pub(crate) fn to_vec(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, GoFormatter);
    value.serialize(&mut serializer)?;
    Ok(out)
}

/// A tree on its way to JSON.
pub(crate) struct Json<'a>(pub(crate) &'a Tree);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Tree::Null => serializer.serialize_unit(),
            Tree::Bool(value) => serializer.serialize_bool(*value),
            Tree::Int64(value) => serializer.serialize_i64(*value),
            Tree::Float64(value) => serializer.serialize_f64(*value),
            Tree::String(text) => serializer.serialize_str(&text.to_text()),
            Tree::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Json(item))?;
                }
                list.end()
            }
            Tree::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&*key.to_text(), &Json(value))?;
                }
                map.end()
            }
        }
    }
}

/// A tree that came from JSON.
pub(crate) struct OwnedJson(pub(crate) Tree);

impl<'de> Deserialize<'de> for OwnedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Go reads every number as float64"
    )]
    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Float64(value as f64))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Go reads every number as float64"
    )]
    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Float64(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float64(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<OwnedJson>()? {
            items.push(item.0);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, OwnedJson>()? {
            entries.insert(Str::from(key), value.0);
        }
        Ok(Tree::Map(entries))
    }
}

/// Compact JSON with Go's number format and HTML escapes.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(format_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, tail) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let Some(special) = tail.chars().next() else {
                break;
            };
            write!(writer, "\\u{:04x}", u32::from(special))?;
            rest = tail.get(special.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

/// A float as `encoding/json` writes it: plain digits between 1e-6 and 1e21, else an exponent.
pub(crate) fn format_float(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    if (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// Reads `null` as the default, as Go leaves a field alone.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub(crate) fn serialize_trees<S: Serializer>(
    trees: &[Tree],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(trees.iter().map(Json))
}

pub(crate) fn deserialize_trees<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Tree>, D::Error> {
    let trees = Option::<Vec<OwnedJson>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(trees.into_iter().map(|json| json.0).collect())
}

/// An optional tree: `null` when absent.
pub(crate) mod tree {
    use super::{Deserialize, Deserializer, Json, OwnedJson, Serialize, Serializer, Tree};

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(
        tree: &Option<Tree>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        tree.as_ref().map(Json).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Tree>, D::Error> {
        Ok(Option::<OwnedJson>::deserialize(deserializer)?.map(|json| json.0))
    }
}

/// Go's `time.Time`: RFC 3339 with nanoseconds; `None` is the zero time, `0001-01-01T00:00:00Z`.
/// Helm 3 wrote an empty string for it.
pub(crate) mod go_time {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;

    use super::{Deserialize, Deserializer, Serializer};

    const ZERO: &str = "0001-01-01T00:00:00Z";

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<T: Display, S: Serializer>(
        time: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(time),
            None => serializer.serialize_str(ZERO),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            None | Some("" | ZERO) => Ok(None),
            Some(text) => text.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

/// Bytes as standard base64; `null` for absent ones.
pub(crate) mod bytes {
    use serde::de::Error;

    use super::{Deserialize, Deserializer, Engine, STANDARD, Serializer, Str};

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Str>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_str(&STANDARD.encode(bytes.as_bytes())),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Str>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else {
            return Ok(None);
        };
        STANDARD
            .decode(text)
            .map(|bytes| Some(bytes.into()))
            .map_err(D::Error::custom)
    }
}

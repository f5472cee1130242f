//! YAML as Go reads and writes it, byte for byte.
//!
//! Helm sees YAML through `sigs.k8s.io/yaml`: a text is parsed as YAML 1.1 by go-yaml v2, turned
//! into JSON, and read from there, so that every number becomes a `float64` and every key a string;
//! a value is written as JSON, read as YAML, and written by go-yaml v2's emitter. The functions here
//! go the direct way and give the same results, the same error texts included.
//!
//! ```
//! use goyaml::{Tree, read};
//!
//! let tree = read(b"on: yes\nport: 0o17\n").unwrap();
//! assert_eq!(tree.get("true"), Some(&Tree::Bool(true)));
//! assert_eq!(tree.get("port"), Some(&Tree::Float64(15.0)));
//!
//! let error = read(b"a: b\nc: d: e\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context"
//! );
//! ```

//!
//! # Where it is not as in Go
//! - Documents and values are read and written up to [`MAX_DEPTH`] levels, not 10,000, with the
//!   error that Go has for more.
//! - Where Go goes through a map in random order, the last key in the document wins (`1: a` and
//!   `"1": b` are one key in JSON), and errors are told in the order of keys. The order of keys in
//!   YAML is not transitive for all of them (`a02`, `a10`, `a1b`): Go's result varies, this one does
//!   not.
//! - Go's text of a bad key is cut after 64 KiB, and its list of duplicate keys after 1,000.

mod base64;
mod emit;
mod error;
mod head;
mod json;
mod node;
mod number;
mod tree;
mod utf8;
mod values;
mod visit;
mod yaml;

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Type, Value};

use emit::{Dialect, Stop};

pub use error::Error;
pub use head::Head;
pub use node::Node;
pub use tree::Tree;

/// How deep a document or a value may be nested: what fits the stack of any thread, several times.
/// Go allows 10,000 levels; nobody writes a hundred.
pub const MAX_DEPTH: usize = 300;

const MAP_TYPE: &str = "map[string]interface {}";
const LIST_TYPE: &str = "[]interface {}";

/// What JSON calls a value that was read.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    }
}

/// The first document of a text, as `yaml.Unmarshal` reads it into an `interface{}`.
///
/// Of duplicate keys the last one wins; `<<` merges where it stands. An empty text is
/// [`Tree::Null`].
///
/// ```
/// let tree = goyaml::read(b"a: &x [1, 2]\nb: *x\na: 3\n").unwrap();
/// assert_eq!(goyaml::to_json_tree(&tree).unwrap(), br#"{"a":3,"b":[1,2]}"#);
/// ```
///
/// # Errors
/// Go's text: `error converting YAML to JSON: yaml: line 2: …`.
pub fn read(text: &[u8]) -> Result<Tree, Error> {
    Ok(yaml::decode(text, false, true)?.unwrap_or_default())
}

/// As [`read`], but as `yaml.UnmarshalStrict`: a duplicate key is an error.
///
/// ```
/// let error = goyaml::read_strict(b"a: 1\na: 2\n").unwrap_err();
/// assert!(error.to_string().ends_with("line 2: key \"a\" already set in map"));
/// ```
///
/// # Errors
/// As [`read`], and `yaml: unmarshal errors:\n  line 2: key "a" already set in map`.
pub fn read_strict(text: &[u8]) -> Result<Tree, Error> {
    Ok(yaml::decode(text, true, true)?.unwrap_or_default())
}

/// The first document of a text, which must be a mapping or nothing, as `yaml.Unmarshal` reads it
/// into a `map[string]interface{}`.
///
/// ```
/// assert!(goyaml::read_map(b"# nothing\n").unwrap().is_empty());
/// assert!(goyaml::read_map(b"- a\n").is_err());
/// ```
///
/// # Errors
/// As [`read`], and `error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into
/// Go value of type map[string]interface {}`.
pub fn read_map(text: &[u8]) -> Result<BTreeMap<Str, Tree>, Error> {
    match read(text)? {
        Tree::Map(entries) => Ok(entries),
        Tree::Null => Ok(BTreeMap::new()),
        other => Err(Error::mismatch(other.kind(), MAP_TYPE)),
    }
}

/// As [`read_map`], as a template value: what `fromYaml` returns.
///
/// ```
/// let map = goyaml::read_map_value(b"a: b\n").unwrap();
/// assert_eq!(map.len(), 1);
/// ```
///
/// # Errors
/// As [`read_map`].
pub fn read_map_value(text: &[u8]) -> Result<Map, Error> {
    match yaml::decode(text, false, true)?.unwrap_or(Value::Nil) {
        Value::Map(map) => Ok(map),
        Value::Nil => Ok(Map::new()),
        other => Err(Error::mismatch(kind(&other), MAP_TYPE)),
    }
}

/// The first document of a text, which must be a sequence or nothing, as a template value: what
/// `fromYamlArray` returns.
///
/// ```
/// let list = goyaml::read_list_value(b"- a\n- b\n").unwrap();
/// assert_eq!(list.items().len(), 2);
/// ```
///
/// # Errors
/// As [`read`], and `… cannot unmarshal object into Go value of type []interface {}`.
pub fn read_list_value(text: &[u8]) -> Result<List, Error> {
    match yaml::decode(text, false, true)?.unwrap_or(Value::Nil) {
        Value::List(list) => Ok(list),
        Value::Nil => Ok(List::new(Vec::new())),
        other => Err(Error::mismatch(kind(&other), LIST_TYPE)),
    }
}

/// The first document of a text with the types of its scalars, to read a struct from.
///
/// ```
/// let node = goyaml::read_node(b"appVersion: 1.10\n").unwrap();
/// let version = node.get("appVersion").unwrap().to_go_string().unwrap();
/// assert_eq!(version.as_bytes(), b"1.1");
/// ```
///
/// # Errors
/// As [`read`], but `.nan` and `.inf` are let through: they are an error only where the struct
/// wants a number.
pub fn read_node(text: &[u8]) -> Result<Node, Error> {
    Ok(yaml::decode(text, false, false)?.unwrap_or(Node::Null))
}

/// As [`read_node`], but a duplicate key is an error.
///
/// ```
/// assert!(goyaml::read_node_strict(b"a: 1\na: 2\n").is_err());
/// ```
///
/// # Errors
/// As [`read_strict`].
pub fn read_node_strict(text: &[u8]) -> Result<Node, Error> {
    Ok(yaml::decode(text, true, false)?.unwrap_or(Node::Null))
}

/// A values file as Helm 4 reads it: all documents of the text, deep-merged, later ones winning.
///
/// ```
/// let values = goyaml::read_values(b"a: {b: 1}\n---\na: {c: 2}\n").unwrap();
/// assert_eq!(values["a".as_bytes()].as_map().unwrap().len(), 2);
/// ```
///
/// # Errors
/// `error reading yaml document: invalid Yaml document separator: …` for text after a `---`, and
/// `cannot unmarshal yaml document: …` with the error of [`read_map`]; lines count from the
/// document's start, as Go's do.
pub fn read_values(text: &[u8]) -> Result<BTreeMap<Str, Tree>, Error> {
    values::read_values(text)
}

/// The head of a manifest: its first document is checked whole, and only the head is kept.
///
/// ```
/// let head = goyaml::read_head(b"kind: Job\nmetadata: {name: x, annotations: {weight: 5}}\n").unwrap();
/// assert_eq!(head.kind.as_bytes(), b"Job");
/// assert_eq!(head.annotations.unwrap()["weight".as_bytes()].as_bytes(), b"5");
/// ```
///
/// # Errors
/// As [`read`], and a mismatch such as `… json: cannot unmarshal array into Go struct field
/// SimpleHead.kind of type string`.
pub fn read_head(text: &[u8]) -> Result<Head, Error> {
    head::read_head(text)
}

/// A JSON text as `json.Unmarshal` reads it into an `interface{}`.
///
/// ```
/// assert_eq!(goyaml::read_json(b"[1]").unwrap(), vec![1.0.into()].into());
/// assert_eq!(
///     goyaml::read_json(b"[1").unwrap_err().to_string(),
///     "unexpected end of JSON input"
/// );
/// ```
///
/// # Errors
/// Go's text: `invalid character 'x' looking for beginning of value`,
/// `unexpected end of JSON input`, …
pub fn read_json(text: &[u8]) -> Result<Tree, Error> {
    json::decode(text)
}

/// The JSON value that a text begins with, as a `json.Decoder` reads it, and how many bytes it
/// took.
///
/// ```
/// let (tree, length) = goyaml::read_json_prefix(b"true, and more").unwrap();
/// assert_eq!((tree, length), (true.into(), 4));
/// ```
///
/// # Errors
/// As [`read_json`], but `EOF` for an empty text and `unexpected EOF` for a cut one.
pub fn read_json_prefix(text: &[u8]) -> Result<(Tree, usize), Error> {
    json::decode_prefix(text)
}

/// A JSON object as a template value: what `fromJson` returns; `null` is a nil map.
///
/// ```
/// assert_eq!(goyaml::read_json_map_value(br#"{"a":1}"#).unwrap().len(), 1);
/// ```
///
/// # Errors
/// As [`read_json`], and `json: cannot unmarshal array into Go value of type
/// map[string]interface {}`.
pub fn read_json_map_value(text: &[u8]) -> Result<Map, Error> {
    match json::decode_lenient(text)? {
        (Value::Map(_), Some(overflow)) => Err(overflow),
        (Value::Map(map), None) => Ok(map),
        (Value::Nil, _) => Ok(Map::nil(Type::Any)),
        (other, _) => Err(Error::json_mismatch(kind(&other), MAP_TYPE)),
    }
}

/// A JSON array as a template value: what `fromJsonArray` returns; `null` is a nil
/// slice.
///
/// ```
/// assert_eq!(goyaml::read_json_list_value(b"[1,2]").unwrap().items().len(), 2);
/// ```
///
/// # Errors
/// As [`read_json`], and `json: cannot unmarshal object into Go value of type []interface {}`.
pub fn read_json_list_value(text: &[u8]) -> Result<List, Error> {
    match json::decode_lenient(text)? {
        (Value::List(_), Some(overflow)) => Err(overflow),
        (Value::List(list), None) => Ok(list),
        (Value::Nil, _) => Ok(List::nil(Type::Any)),
        (other, _) => Err(Error::json_mismatch(kind(&other), LIST_TYPE)),
    }
}

/// Any JSON value as a template value: what `mustFromJson` returns.
///
/// ```
/// assert!(matches!(goyaml::read_json_value(b"true"), Ok(gotmpl::Value::Bool(true))));
/// ```
///
/// # Errors
/// As [`read_json`].
pub fn read_json_value(text: &[u8]) -> Result<Value, Error> {
    json::decode(text)
}

/// `json.Marshal`: compact, keys in byte order, `<`, `>` and `&` escaped.
///
/// ```
/// assert_eq!(goyaml::to_json(&"<a>".into()).unwrap(), br#""\u003ca\u003e""#);
/// ```
///
/// # Errors
/// `json: unsupported value: NaN`, and `json: unsupported value: encountered a cycle via …` for a
/// value that contains itself or is nested deeper than [`MAX_DEPTH`].
pub fn to_json(value: &Value) -> Result<Vec<u8>, Error> {
    json::encode(value, json::Style::default())
}

/// As [`to_json`], of a document.
///
/// ```
/// assert_eq!(goyaml::to_json_tree(&1e21.into()).unwrap(), b"1e+21");
/// ```
///
/// # Errors
/// As [`to_json`].
pub fn to_json_tree(tree: &Tree) -> Result<Vec<u8>, Error> {
    json::encode(tree, json::Style::default())
}

/// `json.MarshalIndent` with two spaces: what `toPrettyJson` returns.
///
/// ```
/// let list = gotmpl::Value::list(vec!["a".into()]);
/// assert_eq!(goyaml::to_json_pretty(&list).unwrap(), b"[\n  \"a\"\n]");
/// ```
///
/// # Errors
/// As [`to_json`].
pub fn to_json_pretty(value: &Value) -> Result<Vec<u8>, Error> {
    let style = json::Style {
        indented: true,
        ..json::Style::default()
    };
    json::encode(value, style)
}

/// As [`to_json`], without the escapes for HTML: what `toRawJson` returns.
///
/// ```
/// assert_eq!(goyaml::to_json_raw(&"<a>".into()).unwrap(), br#""<a>""#);
/// ```
///
/// # Errors
/// As [`to_json`].
pub fn to_json_raw(value: &Value) -> Result<Vec<u8>, Error> {
    let style = json::Style {
        raw: true,
        ..json::Style::default()
    };
    json::encode(value, style)
}

/// `yaml.Marshal` of `sigs.k8s.io/yaml`: what `toYaml` returns, with the line break at the end that
/// Helm then cuts off.
///
/// ```
/// let value = goyaml::read(b"{a10: yes, a9: 'yes', l: [1]}").unwrap().to_value();
/// assert_eq!(goyaml::to_yaml(&value).unwrap(), b"a9: \"yes\"\na10: true\nl:\n- 1\n");
/// ```
///
/// # Errors
/// `error marshaling into JSON: json: unsupported value: NaN`, or what YAML makes of the JSON:
/// `yaml: control characters are not allowed`, …
pub fn to_yaml(value: &Value) -> Result<Vec<u8>, Error> {
    match emit::encode(value, Dialect::Json) {
        Ok(text) => Ok(text),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Trip) => trip(to_json(value)),
    }
}

/// As [`to_yaml`], of a document.
///
/// ```
/// assert_eq!(goyaml::to_yaml_tree(&"a: b".into()).unwrap(), b"'a: b'\n");
/// ```
///
/// # Errors
/// As [`to_yaml`].
pub fn to_yaml_tree(tree: &Tree) -> Result<Vec<u8>, Error> {
    match emit::encode(tree, Dialect::Json) {
        Ok(text) => Ok(text),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Trip) => trip(to_json_tree(tree)),
    }
}

/// The YAML of a JSON text, which is read as YAML.
fn trip(json: Result<Vec<u8>, Error>) -> Result<Vec<u8>, Error> {
    let json = json.map_err(|error| error.prefixed("error marshaling into JSON"))?;
    let node = yaml::decode_bare(&json)?.unwrap_or(Node::Null);
    match emit::encode(&node, Dialect::V2) {
        Ok(text) => Ok(text),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Trip) => Err(Error::new("yaml: document cannot be written")),
    }
}

/// go-yaml v3's encoder with an indent of 2, on the value itself: what `toYamlPretty` returns, with
/// the line break at the end that Helm then cuts off.
///
/// ```
/// let value = goyaml::read(b"l: [1000000]").unwrap().to_value();
/// assert_eq!(goyaml::to_yaml_pretty(&value).unwrap(), b"l:\n  - 1e+06\n");
/// ```
///
/// # Errors
/// A value that contains itself, or is nested deeper than [`MAX_DEPTH`].
pub fn to_yaml_pretty(value: &Value) -> Result<Vec<u8>, Error> {
    match emit::encode(value, Dialect::V3) {
        Ok(text) => Ok(text),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Trip) => Err(Error::new("yaml: value cannot be written")),
    }
}

//! YAML as Go reads and writes it, byte for byte.
//!
//! Helm sees YAML through `sigs.k8s.io/yaml`: a text is parsed as YAML 1.1 by go-yaml v2, turned
//! into JSON, and read from there, so that every number becomes a `float64` and every key a string;
//! a value is written as JSON, read as YAML, and written by go-yaml v2's emitter. The functions here
//! go the direct way and give the same results, the same error texts included.
//!
//! ```no_run
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

mod error;
mod node;
mod tree;

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Value};

pub use error::Error;
pub use node::Node;
pub use tree::Tree;

/// How deep a document or a value may be nested. Go allows 10,000 levels; nobody writes a hundred.
pub const MAX_DEPTH: usize = 1_000;

/// The first document of a text, as `yaml.Unmarshal` reads it into an `interface{}`.
///
/// Of duplicate keys the last one wins; `<<` merges where it stands. An empty text is
/// [`Tree::Null`].
///
/// # Errors
/// Go's text: `error converting YAML to JSON: yaml: line 2: …`.
pub fn read(text: &[u8]) -> Result<Tree, Error> {
    let _ = text;
    Err(Error::new("yaml: not there yet"))
}

/// As [`read`], but as `yaml.UnmarshalStrict`: a duplicate key is an error.
///
/// # Errors
/// As [`read`], and `yaml: unmarshal errors:\n  line 2: key "a" already set in map`.
pub fn read_strict(text: &[u8]) -> Result<Tree, Error> {
    read(text)
}

/// The first document of a text, which must be a mapping or nothing, as `yaml.Unmarshal` reads it
/// into a `map[string]interface{}`.
///
/// # Errors
/// As [`read`], and `error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into
/// Go value of type map[string]interface {}`.
pub fn read_map(text: &[u8]) -> Result<BTreeMap<Str, Tree>, Error> {
    read(text).map(|_| BTreeMap::new())
}

/// As [`read_map`], as a template value: what `fromYaml` returns.
///
/// # Errors
/// As [`read_map`].
pub fn read_map_value(text: &[u8]) -> Result<Map, Error> {
    read(text).map(|_| Map::new())
}

/// The first document of a text, which must be a sequence or nothing, as a template value: what
/// `fromYamlArray` returns.
///
/// # Errors
/// As [`read`], and `… cannot unmarshal object into Go value of type []interface {}`.
pub fn read_list_value(text: &[u8]) -> Result<List, Error> {
    read(text).map(|_| List::new(Vec::new()))
}

/// The first document of a text with the types of its scalars, to read a struct from.
///
/// # Errors
/// As [`read`], but `.nan` and `.inf` are let through: they are an error only where the struct
/// wants a number.
pub fn read_node(text: &[u8]) -> Result<Node, Error> {
    let _ = text;
    Err(Error::new("yaml: not there yet"))
}

/// As [`read_node`], but a duplicate key is an error.
///
/// # Errors
/// As [`read_strict`].
pub fn read_node_strict(text: &[u8]) -> Result<Node, Error> {
    read_node(text)
}

/// A values file as Helm 4 reads it: all documents of the text, deep-merged, later ones winning.
///
/// # Errors
/// `error reading yaml document: invalid Yaml document separator: …` for text after a `---`, and
/// `cannot unmarshal yaml document: …` with the error of [`read_map`]; lines count from the
/// document's start, as Go's do.
pub fn read_values(text: &[u8]) -> Result<BTreeMap<Str, Tree>, Error> {
    read_map(text)
}

/// What Helm looks at in each rendered document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`, or nothing.
    pub api_version: Str,
    /// `kind`, or nothing.
    pub kind: Str,
    /// `metadata.name`, or nothing.
    pub name: Str,
    /// `metadata.annotations`; numbers and booleans are strings by now.
    pub annotations: Option<BTreeMap<Str, Str>>,
    /// Whether there is a `metadata` that is not null.
    pub has_metadata: bool,
}

/// The head of a manifest: its first document is checked whole, and only the head is kept.
///
/// # Errors
/// As [`read`], and a mismatch such as `… json: cannot unmarshal array into Go struct field
/// SimpleHead.kind of type string`.
pub fn read_head(text: &[u8]) -> Result<Head, Error> {
    read(text).map(|_| Head::default())
}

/// A JSON text as `json.Unmarshal` reads it into an `interface{}`.
///
/// # Errors
/// Go's text: `invalid character 'x' looking for beginning of value`,
/// `unexpected end of JSON input`, …
pub fn read_json(text: &[u8]) -> Result<Tree, Error> {
    let _ = text;
    Err(Error::new("json: not there yet"))
}

/// The JSON value that a text begins with, as a `json.Decoder` reads it, and how many bytes it
/// took.
///
/// # Errors
/// As [`read_json`], but `EOF` for an empty text and `unexpected EOF` for a cut one.
pub fn read_json_prefix(text: &[u8]) -> Result<(Tree, usize), Error> {
    read_json(text).map(|tree| (tree, text.len()))
}

/// A JSON object as a template value: what `fromJson` returns; `null` is an empty map.
///
/// # Errors
/// As [`read_json`], and `json: cannot unmarshal array into Go value of type
/// map[string]interface {}`.
pub fn read_json_map_value(text: &[u8]) -> Result<Map, Error> {
    read_json(text).map(|_| Map::new())
}

/// A JSON array as a template value: what `fromJsonArray` returns; `null` is an empty list.
///
/// # Errors
/// As [`read_json`], and `json: cannot unmarshal object into Go value of type []interface {}`.
pub fn read_json_list_value(text: &[u8]) -> Result<List, Error> {
    read_json(text).map(|_| List::new(Vec::new()))
}

/// Any JSON value as a template value: what `mustFromJson` returns.
///
/// # Errors
/// As [`read_json`].
pub fn read_json_value(text: &[u8]) -> Result<Value, Error> {
    read_json(text).map(|tree| tree.to_value())
}

/// `json.Marshal`: compact, keys in byte order, `<`, `>` and `&` escaped.
///
/// # Errors
/// `json: unsupported value: NaN`, and `json: unsupported value: encountered a cycle via …` for a
/// value that contains itself or is nested deeper than [`MAX_DEPTH`].
pub fn to_json(value: &Value) -> Result<Vec<u8>, Error> {
    let _ = value;
    Err(Error::new("json: not there yet"))
}

/// As [`to_json`], of a document.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_tree(tree: &Tree) -> Result<Vec<u8>, Error> {
    let _ = tree;
    Err(Error::new("json: not there yet"))
}

/// `json.MarshalIndent` with two spaces: what `toPrettyJson` returns.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_pretty(value: &Value) -> Result<Vec<u8>, Error> {
    to_json(value)
}

/// As [`to_json`], without the escapes for HTML: what `toRawJson` returns.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_raw(value: &Value) -> Result<Vec<u8>, Error> {
    to_json(value)
}

/// `yaml.Marshal` of `sigs.k8s.io/yaml`: what `toYaml` returns, with the line break at the end that
/// Helm then cuts off.
///
/// # Errors
/// `error marshaling into JSON: json: unsupported value: NaN`, or what YAML makes of the JSON:
/// `yaml: control characters are not allowed`, …
pub fn to_yaml(value: &Value) -> Result<Vec<u8>, Error> {
    let _ = value;
    Err(Error::new("yaml: not there yet"))
}

/// As [`to_yaml`], of a document.
///
/// # Errors
/// As [`to_yaml`].
pub fn to_yaml_tree(tree: &Tree) -> Result<Vec<u8>, Error> {
    let _ = tree;
    Err(Error::new("yaml: not there yet"))
}

/// go-yaml v3's encoder with an indent of 2, on the value itself: what `toYamlPretty` returns, with
/// the line break at the end that Helm then cuts off.
///
/// # Errors
/// A value that contains itself, or is nested deeper than [`MAX_DEPTH`].
pub fn to_yaml_pretty(value: &Value) -> Result<Vec<u8>, Error> {
    let _ = value;
    Err(Error::new("yaml: not there yet"))
}

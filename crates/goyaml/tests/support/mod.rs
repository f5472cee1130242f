//! What the tests share: the operations by name, and the oracle that Go answers.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gotmpl::{List, Map, Str, Value};
use goyaml::{Error, Tree};

/// What came out, or the text of the error.
pub(crate) type Answer = Result<Vec<u8>, String>;

/// Does what the oracle does for an operation; see `oracle/main.go`.
pub(crate) fn answer(operation: &str, text: &[u8]) -> Answer {
    perform(operation, text).map_err(|error| error.to_string())
}

fn perform(operation: &str, text: &[u8]) -> Result<Vec<u8>, Error> {
    match operation {
        "read" => goyaml::to_json_tree(&goyaml::read(text)?),
        "strict" => goyaml::to_json_tree(&goyaml::read_strict(text)?),
        "map" => {
            let tree = goyaml::read_map(text).map(Tree::Map);
            let value = goyaml::read_map_value(text).map(Value::Map);
            assert_eq!(
                tree.as_ref().map(goyaml::to_json_tree),
                value.as_ref().map(goyaml::to_json),
                "trees and values are read alike"
            );
            goyaml::to_json_tree(&tree?)
        }
        "list" => goyaml::to_json(&Value::List(goyaml::read_list_value(text)?)),
        "values" => goyaml::to_json_tree(&Tree::Map(goyaml::read_values(text)?)),
        "head" => head(text),
        "json" => goyaml::to_json_tree(&goyaml::read_json(text)?),
        "jsonmap" => goyaml::to_json(&Value::Map(goyaml::read_json_map_value(text)?)),
        "jsonlist" => goyaml::to_json(&Value::List(goyaml::read_json_list_value(text)?)),
        "jsonprefix" => {
            let (tree, length) = goyaml::read_json_prefix(text)?;
            goyaml::to_json_tree(&vec![tree, (length as f64).into()].into())
        }
        "toyaml" => goyaml::to_yaml(&plain(&goyaml::read_json(text)?)),
        "topretty" => goyaml::to_yaml_pretty(&plain(&goyaml::read_json(text)?)),
        "tojson" => goyaml::to_json(&plain(&goyaml::read_json(text)?)),
        "tojsonpretty" => goyaml::to_json_pretty(&plain(&goyaml::read_json(text)?)),
        "tojsonraw" => goyaml::to_json_raw(&plain(&goyaml::read_json(text)?)),
        _ => panic!("there is no operation {operation}"),
    }
}

/// A head as Go's struct looks in JSON.
fn head(text: &[u8]) -> Result<Vec<u8>, Error> {
    let head = goyaml::read_head(text)?;
    let quote = |text: &Str| {
        let json = goyaml::to_json(&Value::String(text.clone()));
        String::from_utf8(json.unwrap()).unwrap()
    };
    let mut out = format!("{{\"apiVersion\":{}", quote(&head.api_version));
    if !head.kind.is_empty() {
        write!(out, ",\"kind\":{}", quote(&head.kind)).unwrap();
    }
    if head.has_metadata {
        let annotations = head.annotations.as_ref().map_or(Value::Nil, |entries| {
            Value::Map(Map::from_entries(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), Value::String(value.clone()))),
            ))
        });
        let annotations = String::from_utf8(goyaml::to_json(&annotations)?).unwrap();
        let name = quote(&head.name);
        write!(
            out,
            ",\"metadata\":{{\"name\":{name},\"annotations\":{annotations}}}"
        )
        .unwrap();
    }
    out.push('}');
    Ok(out.into_bytes())
}

/// The value that a tree stands for; see `plain` in `oracle/main.go`.
fn plain(tree: &Tree) -> Value {
    match tree {
        Tree::List(items) => Value::List(List::new(items.iter().map(plain).collect())),
        Tree::Map(entries) => special(tree).unwrap_or_else(|| {
            Value::Map(Map::from_entries(entries.iter().map(|(key, value)| {
                let key = match key.strip_prefix(b"$string:") {
                    Some(text) => decode_base64(text).into(),
                    None => key.clone(),
                };
                (key, plain(value))
            })))
        }),
        _ => tree.to_value(),
    }
}

fn special(tree: &Tree) -> Option<Value> {
    let entries = tree.as_map()?;
    let (kind, text) = match entries.len() {
        1 => entries.first_key_value()?,
        _ => return None,
    };
    let text = text.as_str()?;
    let number = text.to_text();
    match kind.as_bytes() {
        b"$int" => number.parse().ok().map(Value::Int64),
        b"$uint" => number.parse().ok().map(Value::Uint64),
        b"$float" => number.parse().ok().map(Value::Float64),
        b"$string" => Some(Value::String(decode_base64(text).into())),
        b"$bytes" => Some(Value::Bytes(decode_base64(text).into())),
        _ => None,
    }
}

/// The bytes of a base64 text.
pub(crate) fn decode_base64(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut group = 0_u32;
    let mut bits = 0;
    for &byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        group = group << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits) as u8);
            group &= (1 << bits) - 1;
        }
    }
    bytes
}

/// The base64 of some bytes.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    let json = goyaml::to_json(&Value::Bytes(bytes.into())).unwrap();
    String::from_utf8(json).unwrap().trim_matches('"').into()
}

/// The oracle's process: the program that `GOYAML_ORACLE` names.
pub(crate) struct Oracle {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it; `None` if none is named.
    pub(crate) fn start() -> Option<Self> {
        let program = std::env::var_os("GOYAML_ORACLE")?;
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("GOYAML_ORACLE names the oracle's program");
        Some(Self {
            requests: process.stdin.take(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        })
    }

    pub(crate) fn ask(&mut self, operation: &str, text: &[u8]) -> Answer {
        let text = encode_base64(text);
        let requests = self.requests.as_mut().unwrap();
        writeln!(requests, "{{\"op\":\"{operation}\",\"text\":\"{text}\"}}").unwrap();
        let mut line = Vec::new();
        self.answers.read_until(b'\n', &mut line).unwrap();
        let answer = goyaml::read_json(&line).unwrap();
        let error = answer.get("err").and_then(Tree::as_str).unwrap();
        if !error.is_empty() {
            return Err(error.to_text().into_owned());
        }
        let out = answer.get("out").and_then(Tree::as_str);
        Ok(out.map(|out| decode_base64(out)).unwrap_or_default())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}

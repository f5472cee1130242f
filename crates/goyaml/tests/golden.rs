//! Tables of what Go makes of texts and values: go-yaml v2.4.4 through sigs.k8s.io/yaml 1.6.0,
//! go-yaml v3.0.5 and encoding/json of Go 1.26.
//!
//! The inputs are ours, the outputs are the oracle's: see `bless`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use gotmpl::{Str, Value};
use goyaml::Tree;
use support::{Answer, Oracle, answer, decode_base64, encode_base64};

/// A line of a table.
struct Row {
    operation: String,
    input: Vec<u8>,
    wanted: Answer,
}

fn tables() -> Vec<PathBuf> {
    let directory = "tests/golden";
    let mut tables: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    tables.sort();
    tables
}

/// A field that is text, or bytes in base64 under another name.
fn bytes_of(row: &Tree, text: &str, bytes: &str) -> Option<Vec<u8>> {
    let field = |name| row.get(name).and_then(Tree::as_str);
    field(text)
        .map(|text| text.to_vec())
        .or_else(|| field(bytes).map(|text| decode_base64(text)))
}

fn rows(table: &PathBuf) -> Vec<Row> {
    let text = fs::read(table).unwrap();
    let lines = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let row = goyaml::read_json(line).unwrap();
            let wanted = match row.get("err").and_then(Tree::as_str) {
                Some(error) => Err(error.to_text().into_owned()),
                None => Ok(bytes_of(&row, "out", "outbytes").unwrap_or_default()),
            };
            Row {
                operation: row
                    .get("op")
                    .and_then(Tree::as_str)
                    .unwrap()
                    .to_text()
                    .into(),
                input: bytes_of(&row, "text", "bytes").unwrap(),
                wanted,
            }
        })
        .collect()
}

#[test]
fn every_row_comes_out_as_in_go() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for table in tables() {
        for row in rows(&table) {
            count += 1;
            let got = answer(&row.operation, &row.input);
            if got != row.wanted {
                wrong.push(format!(
                    "{}: {} of {:?}\n  wanted {:?}\n  got    {:?}",
                    table.file_name().unwrap().display(),
                    row.operation,
                    String::from_utf8_lossy(&row.input),
                    row.wanted
                        .map(|out| String::from_utf8_lossy(&out).into_owned()),
                    got.map(|out| String::from_utf8_lossy(&out).into_owned()),
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 2_000, "only {count} rows");
}

/// Asks the oracle again and writes its answers into the tables: `cargo xtask oracle --bless`.
#[test]
#[ignore = "needs the oracle's program: run by `cargo xtask oracle --bless`"]
fn bless() {
    let mut oracle = Oracle::start().expect("GOYAML_ORACLE names the oracle's program");
    for table in tables() {
        let mut out = Vec::new();
        for row in rows(&table) {
            let answer = oracle.ask(&row.operation, &row.input);
            out.extend(line(&row.operation, &row.input, answer));
        }
        fs::write(table, out).unwrap();
    }
}

fn line(operation: &str, input: &[u8], answer: Answer) -> Vec<u8> {
    let mut fields = BTreeMap::from([(Str::from("op"), Value::from(operation))]);
    let mut add = |text: &str, bytes: &str, value: &[u8]| match std::str::from_utf8(value) {
        Ok(value) => fields.insert(text.into(), value.into()),
        Err(_) => fields.insert(bytes.into(), encode_base64(value).as_str().into()),
    };
    add("text", "bytes", input);
    match answer {
        Ok(out) => add("out", "outbytes", &out),
        Err(error) => add("err", "err", error.as_bytes()),
    };
    let fields = gotmpl::Map::typed(gotmpl::Type::Any, fields.into());
    let mut line = goyaml::to_json_raw(&Value::Map(fields)).unwrap();
    line.push(b'\n');
    line
}

//! `values.schema.json`: JSON Schema drafts 4 to 2020-12 with the errors that Helm prints.
//!
//! Helm uses santhosh-tekuri/jsonschema v6, whose error tree is part of what users see; so the
//! schema is compiled and the values are checked in its order. Nothing is ever fetched: a `$ref` to
//! a file or a web page is an error.

mod compare;
mod compile;
mod decimal;
mod document;
mod format;
mod message;
mod plain;
mod resources;
mod url;
mod validate;

use gotmpl::{Map, Value};

use crate::node::Node;
pub(crate) use compile::Schema;

const LOCATION: &str = "file:///values.schema.json";

/// Checks the values of a chart and then of each of its subcharts against their schemas. The error
/// lists the violations by chart, in Helm's words.
pub(crate) fn validate(node: &Node<'_>, values: &Map) -> Result<(), String> {
    let mut violations = String::new();
    check(node, values, &mut violations);
    if violations.is_empty() {
        return Ok(());
    }
    Err(violations)
}

fn check(node: &Node<'_>, values: &Map, violations: &mut String) {
    if let Some(text) = &node.chart.schema
        && let Err(error) = check_one(node, text, values)
    {
        violations.push_str(node.name());
        violations.push_str(":\n");
        violations.push_str(&error);
    }
    for child in node.children().iter() {
        match values.get(child.name().as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(values)) => check(child, &values, violations),
            Some(other) => {
                let name = child.name();
                let kind = other.go_type().map(|kind| kind.to_string());
                let kind = kind.unwrap_or_default();
                violations.push_str(name);
                violations.push_str(":\ninvalid type for values: expected object (map), got ");
                violations.push_str(&kind);
                violations.push('\n');
            }
        }
    }
}

/// Checks values against one schema.
pub(crate) fn validate_single(text: &[u8], values: &Map) -> Result<(), String> {
    check_compiled(&*Schema::compile(LOCATION, text)?, values)
}

fn check_one(node: &Node<'_>, text: &[u8], values: &Map) -> Result<(), String> {
    let schema = node
        .chart
        .compiled
        .schema(|| Schema::compile(LOCATION, text))?;
    check_compiled(&schema, values)
}

fn check_compiled(schema: &Schema, values: &Map) -> Result<(), String> {
    let violation = schema.validate(&Value::Map(values.clone()));
    match violation {
        None => Ok(()),
        Some(violation) => {
            let text = violation.to_string();
            let head = format!("jsonschema validation failed with '{LOCATION}#'\n");
            Err(format!("{}\n", text.strip_prefix(&head).unwrap_or(&text)))
        }
    }
}

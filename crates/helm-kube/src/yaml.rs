//! From YAML to JSON, as the Kubernetes clients do it.

use goyaml::Node;
use serde_json::{Map, Number, Value};

/// Reads one document. Whole numbers stay whole, whatever their size.
///
/// # Errors
/// The text is no YAML, or holds a number that JSON has not; the error is the cause alone.
pub(crate) fn to_json(document: &str) -> Result<Value, String> {
    let node = goyaml::read_node(document.as_bytes()).map_err(|error| error.to_string())?;
    value(node)
}

fn value(node: Node) -> Result<Value, String> {
    Ok(match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(value),
        Node::Int(value) => value.into(),
        Node::Uint(value) => value.into(),
        Node::Float(value) => Value::Number(number(value)?),
        Node::String(text) => Value::String(text.to_text().into_owned()),
        Node::List(items) => Value::Array(items.into_iter().map(value).collect::<Result<_, _>>()?),
        Node::Map(entries) => {
            let mut map = Map::new();
            for (key, node) in entries {
                map.insert(key.to_text().into_owned(), value(node)?);
            }
            Value::Object(map)
        }
    })
}

/// A float without a fraction is written as a whole number, as Go's JSON has it.
fn number(value: f64) -> Result<Number, String> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked by converting back"
    )]
    let whole = value as i64;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a difference shows that it does not fit"
    )]
    let is_whole = whole as f64 == value && value.abs() < 1e18;
    if is_whole {
        return Ok(whole.into());
    }
    Number::from_f64(value).ok_or_else(|| format!("json: unsupported value: {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let text = "{a: yes, b: 010, c: 9007199254740993, d: 1e3, e: 1.5, f: '1', g: ~, h: 18446744073709551615}";
        let expected = json!({"a": true, "b": 8, "c": 9_007_199_254_740_993_i64, "d": 1000, "e": 1.5,
            "f": "1", "g": null, "h": 18_446_744_073_709_551_615_u64});
        assert_eq!(to_json(text).unwrap(), expected);
    }

    #[test]
    fn numbers_that_json_has_not_are_refused() {
        assert!(
            to_json("a: .inf")
                .unwrap_err()
                .contains("unsupported value")
        );
        assert!(
            to_json("a: b: c")
                .unwrap_err()
                .contains("mapping values are not allowed")
        );
    }
}

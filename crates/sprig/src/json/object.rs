//! API objects as template values.

use gotmpl::{List, Map, Value};

/// The value of an API object as client-go decodes it: whole numbers are `int64`, others `float64`.
pub(crate) fn object_value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int64(whole),
            (None, Some(real)) => Value::Float64(real),
            (None, None) => Value::Nil,
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => {
            Value::List(List::new(items.iter().map(object_value).collect()))
        }
        serde_json::Value::Object(entries) => Value::Map(Map::from_entries(
            entries
                .iter()
                .map(|(key, value)| (key.as_str(), object_value(value))),
        )),
    }
}

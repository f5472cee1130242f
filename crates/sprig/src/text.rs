//! Values as text, and whether they are empty: what many functions share.

use gotmpl::fmt::TooLarge;
use gotmpl::{Str, Value, fmt};

/// Sprig's `strval`: a string or bytes as they are, anything else as `%v` prints it.
pub(crate) fn strval(value: &Value) -> Result<Str, TooLarge> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => display(other),
    }
}

/// What `%v` prints.
pub(crate) fn display(value: &Value) -> Result<Str, TooLarge> {
    let mut printed = Vec::new();
    append_display(&mut printed, value)?;
    Ok(printed.into())
}

/// Appends what `%v` prints.
pub(crate) fn append_display(printed: &mut Vec<u8>, value: &Value) -> Result<(), TooLarge> {
    match value {
        Value::String(text) => {
            printed.extend_from_slice(text);
            Ok(())
        }
        other => fmt::append_value(printed, other, fmt::LIMIT),
    }
}

/// Sprig's `empty`: nil, false, zero, and anything of length 0; a struct never is.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => match object.as_basic() {
            Some(Value::Object(_)) => false,
            Some(basic) => is_empty(&basic),
            None => {
                object.as_map().is_some_and(|map| map.is_empty())
                    || object.as_list().is_some_and(|list| list.items().is_empty())
            }
        },
        Value::Nil => true,
        Value::Bool(value) => !value,
        Value::Int(number) | Value::Int64(number) => *number == 0,
        Value::Uint64(number) => *number == 0,
        Value::Int32(number) => *number == 0,
        Value::Uint8(number) => *number == 0,
        Value::Float64(number) => *number == 0.0,
        Value::String(text) | Value::Bytes(text) => text.is_empty(),
        Value::List(list) => list.items().is_empty(),
        Value::Map(map) => map.is_empty(),
    }
}

//! Truth and comparison as Go's text/template knows them.

use std::rc::Rc;

use crate::complex::Complex;
use crate::{FunctionError, Value, fmt};

/// Whether `if` takes a value as true: it is not false, 0, nil, or empty.
#[must_use]
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Nil => false,
        Value::Bool(value) => *value,
        Value::Int(number) | Value::Int64(number) => *number != 0,
        Value::Uint64(number) => *number != 0,
        Value::Int32(number) => *number != 0,
        Value::Uint8(number) => *number != 0,
        Value::Float64(number) => *number != 0.0,
        Value::String(text) | Value::Bytes(text) => !text.is_empty(),
        Value::List(list) => !list.items().is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Object(object) => {
            if let Some(map) = object.as_map() {
                !map.is_empty()
            } else if let Some(list) = object.as_list() {
                !list.items().is_empty()
            } else if let Some(value) = object.as_basic() {
                is_true(&value)
            } else {
                object.is_true()
            }
        }
    }
}

/// A value as comparison sees it: the basic kinds, and the rest.
enum Basic<'a> {
    Bool(bool),
    Complex(Complex),
    Int(i64),
    Float(f64),
    String(&'a [u8]),
    Uint(u64),
    Other(Kind),
}

/// The kinds that are not basic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nil,
    Slice,
    Map,
    Pointer,
    Struct,
}

fn basic(value: &Value) -> Basic<'_> {
    match value {
        Value::Nil => Basic::Other(Kind::Nil),
        Value::Bool(value) => Basic::Bool(*value),
        Value::Int(number) | Value::Int64(number) => Basic::Int(*number),
        Value::Int32(number) => Basic::Int(i64::from(*number)),
        Value::Uint64(number) => Basic::Uint(*number),
        Value::Uint8(number) => Basic::Uint(u64::from(*number)),
        Value::Float64(number) => Basic::Float(*number),
        Value::String(text) => Basic::String(text),
        Value::Bytes(_) | Value::List(_) => Basic::Other(Kind::Slice),
        Value::Map(_) => Basic::Other(Kind::Map),
        Value::Object(object) => {
            if let Some(number) = object.as_any().downcast_ref::<Complex>() {
                return Basic::Complex(*number);
            }
            match object.as_basic() {
                Some(Value::Bool(value)) => Basic::Bool(value),
                Some(Value::Int(number) | Value::Int64(number)) => Basic::Int(number),
                Some(Value::Uint64(number)) => Basic::Uint(number),
                Some(Value::Float64(number)) => Basic::Float(number),
                _ if object.as_map().is_some() => Basic::Other(Kind::Map),
                _ if object.as_list().is_some() => Basic::Other(Kind::Slice),
                _ if object.go_type().starts_with('*') => Basic::Other(Kind::Pointer),
                _ => Basic::Other(Kind::Struct),
            }
        }
    }
}

/// Whether `==` holds for two values, as the built-in `eq` finds it.
///
/// # Errors
/// The kinds differ, or cannot be compared: `incompatible types for comparison: int and float64`,
/// `non-comparable type …`.
pub fn equal(left: &Value, right: &Value) -> Result<bool, FunctionError> {
    Ok(match (basic(left), basic(right)) {
        (Basic::Bool(left), Basic::Bool(right)) => left == right,
        (Basic::Complex(left), Basic::Complex(right)) => left == right,
        (Basic::Int(left), Basic::Int(right)) => left == right,
        (Basic::Float(left), Basic::Float(right)) => left == right,
        (Basic::String(left), Basic::String(right)) => left == right,
        (Basic::Uint(left), Basic::Uint(right)) => left == right,
        (Basic::Int(left), Basic::Uint(right)) | (Basic::Uint(right), Basic::Int(left)) => {
            u64::try_from(left) == Ok(right)
        }
        (Basic::Other(first), Basic::Other(second)) => equal_other(left, first, right, second)?,
        // Nil is unequal to all that is not nil.
        _ if matches!(left, Value::Nil) || matches!(right, Value::Nil) => false,
        _ => return Err(incompatible(left, right)),
    })
}

fn incompatible(left: &Value, right: &Value) -> FunctionError {
    FunctionError(format!(
        "incompatible types for comparison: {} and {}",
        left.type_name(),
        right.type_name()
    ))
}

fn equal_other(
    left: &Value,
    left_kind: Kind,
    right: &Value,
    right_kind: Kind,
) -> Result<bool, FunctionError> {
    if left_kind != right_kind && left_kind != Kind::Nil && right_kind != Kind::Nil {
        // The order of the four is Go's.
        return Err(FunctionError(format!(
            "non-comparable types {}: {}, {}: {}",
            text(left)?,
            left.type_name(),
            right.type_name(),
            fmt::sprint(std::slice::from_ref(right))?.to_text(),
        )));
    }
    if is_nil(left) || is_nil(right) {
        return Ok(is_nil(left) == is_nil(right));
    }
    match (left, right) {
        (Value::Object(left), Value::Object(right))
            if matches!(right_kind, Kind::Pointer | Kind::Struct) =>
        {
            Ok(Rc::ptr_eq(left, right)
                || left.go_type() == right.go_type() && left.equals(right.as_ref()))
        }
        _ => Err(FunctionError(format!(
            "non-comparable type {}: {}",
            text(right)?,
            right.type_name()
        ))),
    }
}

/// What `%s` prints.
fn text(value: &Value) -> Result<String, FunctionError> {
    let text = fmt::sprintf(b"%s", std::slice::from_ref(value))?;
    Ok(text.to_text().into_owned())
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

/// Whether `<` holds for two values, as the built-in `lt` finds it.
///
/// # Errors
/// The kinds differ or have no order: `invalid type for comparison`, `incompatible types for
/// comparison: int and float64`.
pub fn less(left: &Value, right: &Value) -> Result<bool, FunctionError> {
    Ok(match (basic(left), basic(right)) {
        (Basic::Other(_), _) | (_, Basic::Other(_)) => return Err(bad_type()),
        (Basic::Bool(_), Basic::Bool(_)) | (Basic::Complex(_), Basic::Complex(_)) => {
            return Err(bad_type());
        }
        (Basic::Int(left), Basic::Int(right)) => left < right,
        (Basic::Float(left), Basic::Float(right)) => left < right,
        (Basic::String(left), Basic::String(right)) => left < right,
        (Basic::Uint(left), Basic::Uint(right)) => left < right,
        (Basic::Int(left), Basic::Uint(right)) => {
            u64::try_from(left).is_ok_and(|left| left < right) || left < 0
        }
        (Basic::Uint(left), Basic::Int(right)) => {
            u64::try_from(right).is_ok_and(|right| left < right)
        }
        _ => return Err(incompatible(left, right)),
    })
}

fn bad_type() -> FunctionError {
    FunctionError("invalid type for comparison".to_owned())
}

//! Types and kinds of values, and deep equality.

use std::borrow::Cow;

use gotmpl::{FunctionError, Functions, Object, Type, Value};

use crate::arguments::{any, charge_unfolded, define, string};
use crate::depth::{DEPTH_LIMIT, descend};

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "typeOf", &[Type::Any], |_, a| {
        Ok(Value::from(&*any(a, 0).type_name()))
    });
    define(functions, "typeIs", &[Type::String, Type::Any], |_, a| {
        Ok(Value::Bool(type_is(string(a, 0)?, any(a, 1))))
    });
    define(
        functions,
        "typeIsLike",
        &[Type::String, Type::Any],
        |_, a| Ok(Value::Bool(type_is_like(string(a, 0)?, any(a, 1)))),
    );
    define(functions, "kindOf", &[Type::Any], |_, a| {
        Ok(Value::from(kind(any(a, 0))))
    });
    define(functions, "kindIs", &[Type::String, Type::Any], |_, a| {
        Ok(Value::Bool(
            string(a, 0)?.as_bytes() == kind(any(a, 1)).as_bytes(),
        ))
    });
    define(
        functions,
        "deepEqual",
        &[Type::Any, Type::Any],
        |call, a| {
            charge_unfolded(call, any(a, 0))?;
            deep_equal(any(a, 0), any(a, 1)).map(Value::Bool)
        },
    );
}

fn type_is(target: &[u8], value: &Value) -> bool {
    target == value.type_name().as_bytes()
}

fn type_is_like(target: &[u8], value: &Value) -> bool {
    let name = value.type_name();
    let name = name.as_bytes();
    target == name || name.strip_prefix(b"*") == Some(target)
}

/// What Go's `reflect.Kind` prints.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Int64(_) => "int64",
        Value::Uint64(_) => "uint64",
        Value::Int32(_) => "int32",
        Value::Uint8(_) => "uint8",
        Value::Float64(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) | Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Object(object) => object_kind(&**object),
    }
}

fn object_kind(object: &dyn Object) -> &'static str {
    match object.as_basic() {
        Some(Value::Object(_)) | None => {}
        Some(basic) => return kind(&basic),
    }
    if object.go_type().starts_with('*') {
        "ptr"
    } else if object.as_map().is_some() {
        "map"
    } else if object.as_list().is_some() {
        "slice"
    } else {
        "struct"
    }
}

/// The elements of a slice; `None` if the value is none.
pub(crate) fn elements(value: &Value) -> Option<Cow<'_, [Value]>> {
    match value {
        Value::List(list) => Some(Cow::Borrowed(list.items())),
        Value::Bytes(bytes) => Some(bytes.iter().map(|byte| Value::Uint8(*byte)).collect()),
        Value::Object(object) => object.as_list().map(|list| list.items().to_vec().into()),
        _ => None,
    }
}

/// Go's `reflect.DeepEqual`: types count, so `int` 1 is not `float64` 1.
pub(crate) fn deep_equal(left: &Value, right: &Value) -> Result<bool, FunctionError> {
    equal(left, right, DEPTH_LIMIT)
}

fn equal(left: &Value, right: &Value, depth: usize) -> Result<bool, FunctionError> {
    Ok(match (left, right) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) | (Value::Int64(left), Value::Int64(right)) => {
            left == right
        }
        (Value::Uint64(left), Value::Uint64(right)) => left == right,
        (Value::Int32(left), Value::Int32(right)) => left == right,
        (Value::Uint8(left), Value::Uint8(right)) => left == right,
        (Value::Float64(left), Value::Float64(right)) => left == right,
        (Value::String(left), Value::String(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            left == right
        }
        (Value::List(left), Value::List(right)) => {
            if left.element() != right.element()
                || left.is_nil() != right.is_nil()
                || left.items().len() != right.items().len()
            {
                return Ok(false);
            }
            all_equal(left.items().iter().zip(right.items()), depth)?
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.same(right) {
                return Ok(true);
            }
            if left.element() != right.element()
                || left.type_name() != right.type_name()
                || left.is_nil() != right.is_nil()
                || left.len() != right.len()
            {
                return Ok(false);
            }
            let (left, right) = (left.entries(), right.entries());
            left.keys().eq(right.keys()) && all_equal(left.values().zip(right.values()), depth)?
        }
        (Value::Object(left), Value::Object(right)) => {
            std::rc::Rc::ptr_eq(left, right)
                || left.go_type() == right.go_type() && left.equals(&**right)
        }
        _ => false,
    })
}

fn all_equal<'a>(
    mut pairs: impl Iterator<Item = (&'a Value, &'a Value)>,
    depth: usize,
) -> Result<bool, FunctionError> {
    pairs.try_fold(true, |so_far, (left, right)| {
        Ok(so_far && descend(depth, |depth| equal(left, right, depth))?)
    })
}

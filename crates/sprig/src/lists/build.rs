//! Making lists out of values and of other lists.

use gotmpl::{Call, Function, FunctionError, Functions, List, Type, Value};

use super::{define_both, items, list, nil_list};
use crate::arguments::{Returned, alias, any, define_variadic, fail, int};
use crate::text::is_empty;

pub(super) fn register(functions: &mut Functions) {
    define_variadic(functions, "list", &[], Type::Any, |call, a| {
        list(call, a.to_vec())
    });
    alias(functions, "tuple", "list");
    let push = Function::new(&[Type::Any, Type::Any], None, |call, a| {
        let old = items(any(a, 0), "Cannot push on type")?;
        extended(call, &old, std::slice::from_ref(any(a, 1)))
    });
    define_both(functions, "append", "mustAppend", push.clone());
    define_both(functions, "push", "mustPush", push);
    let prepend = Function::new(&[Type::Any, Type::Any], None, |call, a| {
        let old = items(any(a, 0), "Cannot prepend on type")?;
        extended(call, std::slice::from_ref(any(a, 1)), &old)
    });
    define_both(functions, "prepend", "mustPrepend", prepend);
    define_variadic(functions, "concat", &[], Type::Any, concat);
    let reverse = Function::new(&[Type::Any], None, |call, a| {
        let mut items = items(any(a, 0), "Cannot find reverse on type")?.into_owned();
        items.reverse();
        list(call, items)
    });
    define_both(functions, "reverse", "mustReverse", reverse);
    let compact = Function::new(&[Type::Any], None, |call, a| {
        let items = items(any(a, 0), "Cannot compact on type")?;
        let full = items.iter().filter(|item| !is_empty(item));
        list(call, full.cloned().collect())
    });
    define_both(functions, "compact", "mustCompact", compact);
    let chunk = Function::new(&[Type::Int, Type::Any], None, |call, a| {
        chunk(call, int(a, 0)?, any(a, 1))
    });
    define_both(functions, "chunk", "mustChunk", chunk);
}

fn extended(call: &mut dyn Call, first: &[Value], second: &[Value]) -> Returned {
    let mut items = Vec::with_capacity(first.len() + second.len());
    items.extend_from_slice(first);
    items.extend_from_slice(second);
    list(call, items)
}

fn concat(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let mut joined = Vec::new();
    for argument in arguments {
        match items(argument, "") {
            Ok(items) => joined.extend_from_slice(&items),
            Err(_) if !matches!(argument, Value::Nil) => {
                let kind = crate::reflection::kind(argument);
                return fail(format!("Cannot concat type {kind} as list"));
            }
            Err(error) => return Err(error),
        }
    }
    if joined.is_empty() {
        return Ok(nil_list());
    }
    list(call, joined)
}

/// Lists of `size` elements; the arithmetic is that of sprig, in floating point, which decides what
/// sizes of 0 and less do.
fn chunk(call: &mut dyn Call, size: i64, value: &Value) -> Returned {
    let items = items(value, "Cannot chunk type")?;
    #[expect(clippy::cast_precision_loss, reason = "sprig computes in float64")]
    let (length, float_size) = (items.len() as f64, size as f64);
    let count = ((length - 1.0) / float_size).floor() + 1.0;
    if !(0.0..9e15).contains(&count) {
        return makeslice();
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
    #[expect(clippy::cast_sign_loss, reason = "checked to be positive")]
    let count = count as usize;
    call.charge(count.saturating_mul(size_of::<Value>() * 2))?;
    let mut chunks = Vec::with_capacity(count);
    let mut rest: &[Value] = &items;
    for index in 0..count {
        let last = index + 1 == count;
        let left = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let taken = match left.checked_rem(size) {
            Some(remainder) if last && remainder != 0 => remainder,
            _ => size,
        };
        let Ok(taken) = usize::try_from(taken) else {
            return makeslice();
        };
        let (piece, after) = rest.split_at(taken.min(rest.len()));
        chunks.push(list(call, piece.to_vec())?);
        rest = after;
    }
    Ok(Value::List(List::typed(Type::List(&Type::Any), chunks)))
}

fn makeslice() -> Result<Value, FunctionError> {
    fail("runtime error: makeslice: len out of range")
}

//! Parts of lists.

use gotmpl::{Call, Function, Functions, List, Str, Type, Value};

use super::{define_both, items, list, nil_list};
use crate::arguments::{Returned, any, fail};
use crate::math::to_int64;

pub(super) fn register(functions: &mut Functions) {
    let first = Function::new(&[Type::Any], None, |_, a| {
        let items = items(any(a, 0), "Cannot find first on type")?;
        Ok(items.first().cloned().unwrap_or(Value::Nil))
    });
    define_both(functions, "first", "mustFirst", first);
    let last = Function::new(&[Type::Any], None, |_, a| {
        let items = items(any(a, 0), "Cannot find last on type")?;
        Ok(items.last().cloned().unwrap_or(Value::Nil))
    });
    define_both(functions, "last", "mustLast", last);
    let rest = Function::new(&[Type::Any], None, |call, a| {
        let items = items(any(a, 0), "Cannot find rest on type")?;
        part(call, items.split_first().map(|(_, rest)| rest))
    });
    define_both(functions, "rest", "mustRest", rest);
    let initial = Function::new(&[Type::Any], None, |call, a| {
        let items = items(any(a, 0), "Cannot find initial on type")?;
        part(call, items.split_last().map(|(_, initial)| initial))
    });
    define_both(functions, "initial", "mustInitial", initial);
    let slice = Function::new(&[Type::Any], Some(Type::Any), slice);
    define_both(functions, "slice", "mustSlice", slice);
}

fn part(call: &mut dyn Call, part: Option<&[Value]>) -> Returned {
    match part {
        Some(part) => list(call, part.to_vec()),
        None => Ok(nil_list()),
    }
}

/// Go's slice expression on a list: the result has the type of the list.
fn slice(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let value = any(arguments, 0);
    let items = items(value, "list should be type of slice or array but")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let start = arguments.get(1).map_or(0, to_int64);
    let end = match arguments.get(2) {
        Some(end) => to_int64(end),
        None => i64::try_from(items.len()).unwrap_or(i64::MAX),
    };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let Some(part) = range.and_then(|(start, end)| items.get(start..end)) else {
        return fail("reflect.Value.Slice: slice index out of bounds");
    };
    call.charge(size_of_val(part))?;
    Ok(match value {
        Value::Bytes(bytes) => {
            let part = range.and_then(|(start, end)| bytes.get(start..end));
            Value::Bytes(Str::from(part.unwrap_or_default()))
        }
        Value::List(whole) => Value::List(List::typed(whole.element(), part.to_vec())),
        _ => Value::List(List::typed(Type::String, part.to_vec())),
    })
}

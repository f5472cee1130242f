//! Lists: building, parts, order, membership.

mod build;
mod parts;
mod search;

use std::borrow::Cow;

use gotmpl::{Call, Function, FunctionError, Functions, List, Value};

use crate::arguments::{Returned, fail};
use crate::reflection::{elements, kind};

pub(crate) fn register(functions: &mut Functions) {
    build::register(functions);
    parts::register(functions);
    search::register(functions);
}

/// The elements of a list argument, or the error that the Go function returns for another kind.
fn items<'v>(value: &'v Value, complaint: &str) -> Result<Cow<'v, [Value]>, FunctionError> {
    if matches!(value, Value::Nil) {
        return fail("runtime error: invalid memory address or nil pointer dereference");
    }
    match elements(value) {
        Some(items) => Ok(items),
        None => fail(format!("{complaint} {}", kind(value))),
    }
}

/// A new `[]interface {}`, charged.
fn list(call: &mut dyn Call, items: Vec<Value>) -> Returned {
    call.charge(items.len() * size_of::<Value>())?;
    Ok(Value::list(items))
}

/// The nil slice that some functions return for an empty list: `null` in JSON.
fn nil_list() -> Value {
    Value::List(List::nil(gotmpl::Type::Any))
}

/// Adds a function under two names: the plain one panics where the `must` one returns an error,
/// which templates cannot tell apart.
fn define_both(
    functions: &mut Functions,
    name: &'static str,
    must: &'static str,
    function: Function,
) {
    functions.insert(name, function.clone());
    functions.insert(must, function);
}

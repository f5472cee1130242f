//! Reading the arguments of a call, and adding functions to the table.
//!
//! Execution has checked and converted the arguments by the function's signature before the body
//! sees them, so the errors here are those of a caller that did not.

use gotmpl::{Call, Function, FunctionError, Functions, List, Map, Str, Type, Value};

/// What the body of a function returns.
pub(crate) type Returned = Result<Value, FunctionError>;

/// Adds a function of fixed parameters.
pub(crate) fn define(
    functions: &mut Functions,
    name: &'static str,
    parameters: &'static [Type],
    body: impl Fn(&mut dyn Call, &[Value]) -> Returned + Send + Sync + 'static,
) {
    functions.insert(name, Function::new(parameters, None, body));
}

/// Adds a function whose last parameter is variadic.
pub(crate) fn define_variadic(
    functions: &mut Functions,
    name: &'static str,
    parameters: &'static [Type],
    variadic: Type,
    body: impl Fn(&mut dyn Call, &[Value]) -> Returned + Send + Sync + 'static,
) {
    functions.insert(name, Function::new(parameters, Some(variadic), body));
}

/// Makes a second name of a function.
pub(crate) fn alias(functions: &mut Functions, name: &'static str, of: &str) {
    if let Some(function) = functions.get(of).cloned() {
        functions.insert(name, function);
    }
}

/// Lengths from which it is looked ahead. Execution charges every string that a function returns, so that shorter ones
/// need no more.
const LARGE: usize = 1 << 20;

/// Whether there is room for a string that is about to be made, if it is large, and for the copy that is returned.
pub(crate) fn reserve(call: &mut dyn Call, length: usize) -> Result<(), FunctionError> {
    if length < LARGE {
        return Ok(());
    }
    call.foresee(length.saturating_mul(2))
}

/// Charges a value that is about to be gone over as if nothing in it were shared, if it is large then.
pub(crate) fn charge_unfolded(call: &mut dyn Call, value: &Value) -> Result<usize, FunctionError> {
    /// More than any budget has.
    const MOST: usize = 1 << 30;
    let size = gotmpl::unfolded_size(value, MOST);
    if size >= LARGE {
        call.charge(size)?;
    }
    Ok(size)
}

/// The same for a value that is written out, with room for the text.
pub(crate) fn charge_written(call: &mut dyn Call, value: &Value) -> Result<(), FunctionError> {
    let size = charge_unfolded(call, value)?;
    if size < LARGE {
        return Ok(());
    }
    call.foresee(size.saturating_mul(gotmpl::GROWTH))
}

/// The error of a Go function, or the text of its panic.
pub(crate) fn fail<T>(text: impl Into<String>) -> Result<T, FunctionError> {
    Err(FunctionError(text.into()))
}

/// An argument of any type; nil where there is none.
pub(crate) fn any(arguments: &[Value], index: usize) -> &Value {
    arguments.get(index).unwrap_or(&Value::Nil)
}

/// A `string` argument.
pub(crate) fn string(arguments: &[Value], index: usize) -> Result<&Str, FunctionError> {
    match any(arguments, index) {
        Value::String(text) => Ok(text),
        other => mismatch("string", other),
    }
}

/// A `string` argument as text, invalid bytes replaced.
pub(crate) fn text(
    arguments: &[Value],
    index: usize,
) -> Result<std::borrow::Cow<'_, str>, FunctionError> {
    Ok(string(arguments, index)?.to_text())
}

/// An `int` argument.
pub(crate) fn int(arguments: &[Value], index: usize) -> Result<i64, FunctionError> {
    match any(arguments, index) {
        Value::Int(number) => Ok(*number),
        other => mismatch("int", other),
    }
}

/// A `bool` argument.
pub(crate) fn boolean(arguments: &[Value], index: usize) -> Result<bool, FunctionError> {
    match any(arguments, index) {
        Value::Bool(value) => Ok(*value),
        other => mismatch("bool", other),
    }
}

/// A `map[string]interface {}` argument; `None` is Go's nil map.
pub(crate) fn map(arguments: &[Value], index: usize) -> Result<Option<Map>, FunctionError> {
    as_map(any(arguments, index))
}

/// The map that a value is; `None` is Go's nil map.
pub(crate) fn as_map(value: &Value) -> Result<Option<Map>, FunctionError> {
    match value {
        Value::Nil => Ok(None),
        Value::Map(map) if map.is_nil() => Ok(None),
        Value::Map(map) => Ok(Some(map.clone())),
        Value::Object(object) => match object.as_map() {
            Some(map) => Ok(Some(map)),
            None => mismatch("map[string]interface {}", value),
        },
        other => mismatch("map[string]interface {}", other),
    }
}

/// A `[]interface {}` argument; `None` is Go's nil slice.
pub(crate) fn list(arguments: &[Value], index: usize) -> Result<Option<&List>, FunctionError> {
    match any(arguments, index) {
        Value::Nil => Ok(None),
        Value::List(list) if list.is_nil() => Ok(None),
        Value::List(list) => Ok(Some(list)),
        other => mismatch("[]interface {}", other),
    }
}

fn mismatch<T>(expected: &str, got: &Value) -> Result<T, FunctionError> {
    fail(format!(
        "wrong type for value; expected {expected}; got {}",
        got.type_name()
    ))
}

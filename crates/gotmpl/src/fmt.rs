//! Go's `fmt`: values as text, and `printf`.
//!
//! Texts are bounded, so that a value that holds one list a million times does not fill the memory:
//! each function takes the number of bytes that it may make, or uses [`LIMIT`].

mod format;
mod printer;
mod printf;

use thiserror::Error;

use crate::{Str, Value};
pub(crate) use printer::{Printer, append_type};

/// The most bytes that one call makes where the caller names no bound: 64 MiB.
pub const LIMIT: usize = 64 << 20;

/// A value whose text is larger than allowed, or nested without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the text of the value is too large or too deeply nested; make the value smaller")]
pub struct TooLarge;

/// Go's `fmt.Sprint`: the default text of each value, with a space between two of which neither is
/// a string.
///
/// ```
/// use gotmpl::{Value, fmt::sprint};
/// let text = sprint(&[Value::Int(1), Value::Int(2), "a".into(), Value::Nil]).unwrap();
/// assert_eq!(text.to_text(), "1 2a<nil>");
/// ```
///
/// # Errors
/// The text is larger than [`LIMIT`].
pub fn sprint(values: &[Value]) -> Result<Str, TooLarge> {
    let mut buffer = Vec::new();
    append_print(&mut buffer, values, LIMIT)?;
    Ok(buffer.into())
}

/// Go's `fmt.Sprintln`: the default text of each value, with a space between any two and a newline
/// at the end.
///
/// # Errors
/// The text is larger than [`LIMIT`].
pub fn sprintln(values: &[Value]) -> Result<Str, TooLarge> {
    let mut buffer = Vec::new();
    let mut printer = Printer::new(&mut buffer, LIMIT);
    printer.print_line(values);
    printer.finish()?;
    Ok(buffer.into())
}

/// Go's `fmt.Sprintf`, with all its verbs, flags and complaints.
///
/// ```
/// use gotmpl::{Value, fmt::sprintf};
/// let text = sprintf(b"%05.1f|%-4s|%d", &[Value::Float64(2.25), "é".into(), "x".into()]).unwrap();
/// assert_eq!(text.to_text(), "002.2|é   |%!d(string=x)");
/// ```
///
/// # Errors
/// The text is larger than [`LIMIT`].
pub fn sprintf(format: &[u8], values: &[Value]) -> Result<Str, TooLarge> {
    let mut buffer = Vec::new();
    append_printf(&mut buffer, format, values, LIMIT)?;
    Ok(buffer.into())
}

/// Appends the text that `%v` gives for a value; the buffer may grow to that many bytes.
///
/// # Errors
/// The text is larger than allowed; the buffer then holds a part of it.
pub fn append_value(buffer: &mut Vec<u8>, value: &Value, limit: usize) -> Result<(), TooLarge> {
    let mut printer = Printer::new(buffer, limit);
    printer.print_argument(value, 'v');
    printer.finish()
}

/// Appends the text of a value as actions print it: a pointer without `String()` is followed.
pub(crate) fn append_printable(
    buffer: &mut Vec<u8>,
    value: &Value,
    limit: usize,
) -> Result<(), TooLarge> {
    match value {
        Value::Object(object) if !object.is_stringer() => append_pointee(buffer, value, limit),
        _ => append_value(buffer, value, limit),
    }
}

/// Appends the text of a value, of what it points to for a pointer.
pub(crate) fn append_pointee(
    buffer: &mut Vec<u8>,
    value: &Value,
    limit: usize,
) -> Result<(), TooLarge> {
    let mut printer = Printer::new(buffer, limit);
    printer.print_pointee(value);
    printer.finish()
}

/// Appends what [`sprint`] gives; the buffer may grow to that many bytes.
///
/// # Errors
/// The text is larger than allowed; the buffer then holds a part of it.
pub fn append_print(buffer: &mut Vec<u8>, values: &[Value], limit: usize) -> Result<(), TooLarge> {
    let mut printer = Printer::new(buffer, limit);
    printer.print(values);
    printer.finish()
}

/// Appends what [`sprintf`] gives; the buffer may grow to that many bytes.
///
/// # Errors
/// The text is larger than allowed; the buffer then holds a part of it.
pub fn append_printf(
    buffer: &mut Vec<u8>,
    format: &[u8],
    values: &[Value],
    limit: usize,
) -> Result<(), TooLarge> {
    let mut printer = Printer::new(buffer, limit);
    printf::print(&mut printer, format, values);
    printer.finish()
}

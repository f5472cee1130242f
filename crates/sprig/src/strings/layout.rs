//! Indentation, repetition, abbreviation.

use gotmpl::{Call, Functions, Str, Type, Value};

use super::repeat;
use crate::arguments::{Returned, define, fail, int, reserve, string};

pub(super) fn register(functions: &mut Functions) {
    define(
        functions,
        "indent",
        &[Type::Int, Type::String],
        |call, a| indent(call, int(a, 0)?, string(a, 1)?, b""),
    );
    define(
        functions,
        "nindent",
        &[Type::Int, Type::String],
        |call, a| indent(call, int(a, 0)?, string(a, 1)?, b"\n"),
    );
    define(
        functions,
        "repeat",
        &[Type::Int, Type::String],
        |call, a| repeat(call, int(a, 0)?, string(a, 1)?).map(Value::string),
    );
    define(functions, "abbrev", &[Type::Int, Type::String], |_, a| {
        let (width, text) = (int(a, 0)?, string(a, 1)?);
        Ok(match usize::try_from(width) {
            Ok(width) if width >= 4 => abbreviate(text, 0, width),
            _ => Value::String(text.clone()),
        })
    });
    define(
        functions,
        "abbrevboth",
        &[Type::Int, Type::Int, Type::String],
        |_, a| {
            let (left, right, text) = (int(a, 0)?, int(a, 1)?, string(a, 2)?);
            Ok(match usize::try_from(right) {
                Ok(width) if width >= 7 || width >= 4 && left <= 0 => abbreviate(text, left, width),
                _ => Value::String(text.clone()),
            })
        },
    );
    define(
        functions,
        "plural",
        &[Type::String, Type::String, Type::Int],
        |_, a| {
            let chosen = if int(a, 2)? == 1 { 0 } else { 1 };
            Ok(Value::String(string(a, chosen)?.clone()))
        },
    );
}

/// Puts spaces before every line, empty ones too, after a first text.
fn indent(call: &mut dyn Call, width: i64, text: &Str, first: &[u8]) -> Returned {
    let Ok(width) = usize::try_from(width) else {
        return fail("strings: negative Repeat count");
    };
    let lines = 1 + memchr::memchr_iter(b'\n', text).count();
    let length = lines
        .saturating_mul(width)
        .saturating_add(text.len() + first.len());
    reserve(call, length)?;
    let mut indented = Vec::with_capacity(length);
    indented.extend_from_slice(first);
    indented.resize(indented.len() + width, b' ');
    let mut copied = 0;
    for newline in memchr::memchr_iter(b'\n', text) {
        indented.extend_from_slice(text.get(copied..=newline).unwrap_or_default());
        indented.resize(indented.len() + width, b' ');
        copied = newline + 1;
    }
    indented.extend_from_slice(text.get(copied..).unwrap_or_default());
    Ok(Value::string(indented))
}

/// Cuts a text to a width, with dots for what is left out; from an offset on if that is over 4.
/// The width is at least 4, and at least 7 with such an offset.
fn abbreviate(text: &Str, offset: i64, width: usize) -> Value {
    let length = text.len();
    if length <= width {
        return Value::String(text.clone());
    }
    // Negative offsets count as 0 in all that follows.
    let offset = usize::try_from(offset).unwrap_or(0).min(length);
    let kept = width - 3;
    let offset = offset.min(length - kept);
    let cut = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let pieces: [&[u8]; 3] = if offset <= 4 {
        [cut(0, kept), b"...", b""]
    } else if width < 7 {
        [b"", b"", b""]
    } else if offset + kept < length {
        [b"...", cut(offset, offset + kept - 3), b"..."]
    } else {
        [b"...", cut(length - kept, length), b""]
    };
    Value::string(pieces.concat())
}

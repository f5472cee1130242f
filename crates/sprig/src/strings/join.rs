//! Values as strings: quoting, joining, sorting.

use std::borrow::Cow;

use gotmpl::fmt::TooLarge;
use gotmpl::strconv::append_quoted;
use gotmpl::{Call, FunctionError, Functions, List, Str, Type, Value};

use crate::arguments::{Returned, any, define, define_variadic, reserve, string};
use crate::reflection::elements;
use crate::text::{append_display, strval};

pub(super) fn register(functions: &mut Functions) {
    define_variadic(functions, "quote", &[], Type::Any, |_, a| {
        spaced(a, |printed, value| {
            match value {
                Value::String(text) => append_quoted(printed, text, false),
                other => append_quoted(printed, &strval(other)?, false),
            }
            Ok(())
        })
    });
    define_variadic(functions, "squote", &[], Type::Any, |_, a| {
        spaced(a, |printed, value| {
            printed.push(b'\'');
            append_display(printed, value)?;
            printed.push(b'\'');
            Ok(())
        })
    });
    define_variadic(functions, "cat", &[], Type::Any, |_, a| {
        spaced(a, append_display)
    });
    define(functions, "toString", &[Type::Any], |_, a| {
        Ok(Value::String(strval(any(a, 0))?))
    });
    define(functions, "toStrings", &[Type::Any], |call, a| {
        if let Value::List(list) = any(a, 0)
            && list.element() == Type::String
        {
            return Ok(any(a, 0).clone());
        }
        let strings = strings_of(call, any(a, 0))?;
        Ok(Value::List(List::strings(strings)))
    });
    define(functions, "join", &[Type::String, Type::Any], |call, a| {
        join(call, string(a, 0)?, any(a, 1))
    });
    define(functions, "sortAlpha", &[Type::Any], |call, a| {
        let mut strings = match any(a, 0) {
            Value::Nil => vec![strval(&Value::Nil)?],
            value => strings_of(call, value)?,
        };
        strings.sort_unstable();
        Ok(Value::List(List::strings(strings)))
    });
}

/// Prints every argument that is not nil, with a space between two.
fn spaced(
    arguments: &[Value],
    print: impl Fn(&mut Vec<u8>, &Value) -> Result<(), TooLarge>,
) -> Returned {
    let mut printed = Vec::new();
    let mut first = true;
    for value in arguments {
        if matches!(value, Value::Nil) {
            continue;
        }
        if !first {
            printed.push(b' ');
        }
        first = false;
        print(&mut printed, value)?;
    }
    Ok(Value::string(printed))
}

/// Sprig's list of strings of a value: of a list each element that is not nil; of nil nothing; of
/// anything else the one string.
pub(crate) fn strings_of(call: &mut dyn Call, value: &Value) -> Result<Vec<Str>, FunctionError> {
    if matches!(value, Value::Nil) {
        return Ok(Vec::new());
    }
    let Some(items) = elements(value) else {
        return Ok(vec![strval(value)?]);
    };
    call.charge(items.len() * size_of::<Value>())?;
    let full = items.iter().filter(|item| !matches!(item, Value::Nil));
    Ok(full.map(strval).collect::<Result<_, _>>()?)
}

fn join(call: &mut dyn Call, separator: &[u8], value: &Value) -> Returned {
    let Value::List(list) = value else {
        let strings = strings_of(call, value)?;
        let joined: Vec<&[u8]> = strings.iter().map(|text| &text[..]).collect();
        return Ok(Value::string(joined.join(separator)));
    };
    let mut pieces: Vec<Cow<'_, [u8]>> = Vec::with_capacity(list.items().len());
    for item in list.items() {
        match item {
            Value::Nil => {}
            Value::String(text) => pieces.push(Cow::Borrowed(text)),
            other => pieces.push(Cow::Owned(strval(other)?.to_vec())),
        }
    }
    let text: usize = pieces.iter().map(|piece| piece.len()).sum();
    let separators = pieces.len().saturating_mul(separator.len());
    reserve(call, text.saturating_add(separators))?;
    Ok(Value::string(pieces.join(separator)))
}

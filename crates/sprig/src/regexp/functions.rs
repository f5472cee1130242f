//! `regexMatch`, `regexFind`, `regexReplaceAll` and their like.

use std::sync::Arc;

use gotmpl::{Call, Function, FunctionError, Functions, List, Str, Type, Value, strconv};

use super::expression::{Expression, compile};
use super::replace::{Mode, replace_all};
use crate::arguments::{Returned, define, fail, int, string};

const TWO: &[Type] = &[Type::String, Type::String];
const THREE: &[Type] = &[Type::String, Type::String, Type::String];
const LIMITED: &[Type] = &[Type::String, Type::String, Type::Int];

/// What a function does with a compiled expression and its arguments.
type Use = fn(&mut dyn Call, &Expression, &[Value]) -> Returned;

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "regexMatch", TWO, |call, a| {
        let expression = compile(call, string(a, 0)?)?;
        let text = string(a, 1)?;
        Ok(Value::Bool(
            expression.is_ok_and(|expression| expression.is_match(text)),
        ))
    });
    functions.insert(
        "mustRegexMatch",
        with(TWO, Failure::Error, |_, expression, a| {
            Ok(Value::Bool(expression.is_match(string(a, 1)?)))
        }),
    );
    both(
        functions,
        "regexFind",
        "mustRegexFind",
        TWO,
        |_, expression, a| Ok(Value::string(expression.find(string(a, 1)?))),
    );
    both(
        functions,
        "regexFindAll",
        "mustRegexFindAll",
        LIMITED,
        find_all,
    );
    both(functions, "regexSplit", "mustRegexSplit", LIMITED, split);
    both(
        functions,
        "regexReplaceAll",
        "mustRegexReplaceAll",
        THREE,
        |call, expression, a| replace(call, expression, a, Mode::Template),
    );
    both(
        functions,
        "regexReplaceAllLiteral",
        "mustRegexReplaceAllLiteral",
        THREE,
        |call, expression, a| replace(call, expression, a, Mode::Literal),
    );
    define(functions, "regexQuoteMeta", &[Type::String], |_, a| {
        Ok(Value::string(quote_meta(string(a, 0)?)))
    });
}

/// What becomes of a bad pattern.
#[derive(Clone, Copy)]
enum Failure {
    /// The error as it is.
    Error,
    /// The panic of `regexp.MustCompile`.
    Panic,
}

fn both(
    functions: &mut Functions,
    name: &'static str,
    must: &'static str,
    parameters: &'static [Type],
    body: Use,
) {
    functions.insert(name, with(parameters, Failure::Panic, body));
    functions.insert(must, with(parameters, Failure::Error, body));
}

fn with(parameters: &'static [Type], failure: Failure, body: Use) -> Function {
    Function::new(parameters, None, move |call, arguments| {
        let pattern = string(arguments, 0)?;
        let expression: Arc<Expression> = match compile(call, pattern)? {
            Ok(expression) => expression,
            Err(error) => {
                return match failure {
                    Failure::Error => fail(error.to_string()),
                    Failure::Panic => {
                        fail(format!("regexp: Compile({}): {error}", quoted(pattern)))
                    }
                };
            }
        };
        body(call, &expression, arguments)
    })
}

/// The pattern in backquotes, or in double quotes if it cannot stand in those.
fn quoted(pattern: &Str) -> String {
    let plain = |byte: u8| byte == b'\t' || !(byte < b' ' || byte == b'`' || byte == 0x7f);
    match std::str::from_utf8(pattern) {
        Ok(text) if text.bytes().all(plain) && !text.contains('\u{feff}') => format!("`{text}`"),
        _ => strconv::quote(pattern),
    }
}

fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn find_all(call: &mut dyn Call, expression: &Expression, arguments: &[Value]) -> Returned {
    let text = string(arguments, 1)?;
    let found = expression.find_all(call, text, limit(int(arguments, 2)?))?;
    call.charge(found.len().saturating_mul(size_of::<Value>() + 16))?;
    let pieces = found
        .into_iter()
        .map(|range| text.get(range).unwrap_or_default());
    Ok(strings(pieces.map(Value::string).collect()))
}

fn split(call: &mut dyn Call, expression: &Expression, arguments: &[Value]) -> Returned {
    let (text, limit) = (string(arguments, 1)?, limit(int(arguments, 2)?));
    let mut pieces = Vec::new();
    if limit == 0 {
        return Ok(strings(pieces));
    }
    if text.is_empty() && !string(arguments, 0)?.is_empty() {
        return Ok(strings(vec![Value::from("")]));
    }
    let (mut start, mut end) = (0, 0);
    let matches = expression.find_all(call, text, limit)?;
    call.charge((matches.len() + 1).saturating_mul(size_of::<Value>() + 16))?;
    for found in matches {
        if pieces.len() == limit - 1 {
            break;
        }
        end = found.start;
        if found.end != 0 {
            pieces.push(Value::string(text.get(start..end).unwrap_or_default()));
        }
        start = found.end;
    }
    if end != text.len() {
        pieces.push(Value::string(text.get(start..).unwrap_or_default()));
    }
    Ok(Value::List(List::typed(Type::String, pieces)))
}

/// A list of strings, nil if there is none.
fn strings(pieces: Vec<Value>) -> Value {
    Value::List(match pieces.is_empty() {
        true => List::nil(Type::String),
        false => List::typed(Type::String, pieces),
    })
}

fn replace(
    call: &mut dyn Call,
    expression: &Expression,
    arguments: &[Value],
    mode: Mode,
) -> Result<Value, FunctionError> {
    let (text, replacement) = (string(arguments, 1)?, string(arguments, 2)?);
    let replaced = replace_all(call, expression, text, replacement, mode)?;
    Ok(replaced.map_or_else(|| Value::String(text.clone()), Value::string))
}

fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for byte in text {
        if br"\.+*?()|[]{}^$".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted
}

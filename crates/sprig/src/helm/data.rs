//! YAML and JSON in and out of templates.

use gotmpl::{Call, FunctionError, Functions, List, Map, Type, Value};

use crate::arguments::{Returned, alias, any, charge_written, define, fail, string};

pub(super) fn register(functions: &mut Functions) {
    register_writers(functions);
    define(functions, "fromYaml", &[Type::String], |call, a| {
        let text = parsed(call, a)?;
        Ok(map_or_error(goyaml::read_map_value(text)))
    });
    define(functions, "fromYamlArray", &[Type::String], |call, a| {
        let text = parsed(call, a)?;
        Ok(list_or_error(goyaml::read_list_value(text)))
    });
    define(functions, "fromJson", &[Type::String], |call, a| {
        let text = parsed(call, a)?;
        Ok(map_or_error(goyaml::read_json_map_value(text)))
    });
    define(functions, "fromJsonArray", &[Type::String], |call, a| {
        let text = parsed(call, a)?;
        Ok(list_or_error(goyaml::read_json_list_value(text)))
    });
    define(functions, "mustFromJson", &[Type::String], |call, a| {
        Ok(goyaml::read_json_value(parsed(call, a)?)?)
    });
}

/// What writes a value, and what is made of the text or the error.
type Write = fn(&Value) -> Result<Vec<u8>, goyaml::Error>;
type Told = fn(Result<Vec<u8>, goyaml::Error>) -> Returned;

fn register_writers(functions: &mut Functions) {
    let writers: [(&str, Write, Told); 8] = [
        ("toYaml", goyaml::to_yaml, or_nothing),
        ("mustToYaml", goyaml::to_yaml, or_error),
        ("toYamlPretty", goyaml::to_yaml_pretty, or_nothing),
        ("toJson", goyaml::to_json, or_nothing),
        ("mustToJson", goyaml::to_json, or_error),
        ("toPrettyJson", goyaml::to_json_pretty, or_nothing),
        ("mustToPrettyJson", goyaml::to_json_pretty, or_error),
        ("toRawJson", goyaml::to_json_raw, or_error),
    ];
    for (name, write, told) in writers {
        define(functions, name, &[Type::Any], move |call, a| {
            charge_written(call, any(a, 0))?;
            told(write(any(a, 0)))
        });
    }
    alias(functions, "mustToRawJson", "toRawJson");
}

const LARGE: usize = 1 << 20;

/// The text to read. What it makes takes a few times its length, and in the worst case, which only
/// large texts are charged for, sixteen times.
fn parsed<'a>(call: &mut dyn Call, arguments: &'a [Value]) -> Result<&'a [u8], FunctionError> {
    let text = string(arguments, 0)?;
    let factor = if text.len() < LARGE { 4 } else { 16 };
    call.charge(text.len().saturating_mul(factor))?;
    Ok(text)
}

/// The text without the line break at its end; errors are swallowed.
#[expect(clippy::unnecessary_wraps, reason = "one of two ways to tell")]
fn or_nothing(written: Result<Vec<u8>, goyaml::Error>) -> Returned {
    Ok(Value::string(without_line_break(
        written.unwrap_or_default(),
    )))
}

fn or_error(written: Result<Vec<u8>, goyaml::Error>) -> Returned {
    match written {
        Ok(text) => Ok(Value::string(without_line_break(text))),
        Err(error) => fail(error.to_string()),
    }
}

fn without_line_break(mut text: Vec<u8>) -> Vec<u8> {
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    text
}

fn map_or_error(read: Result<Map, goyaml::Error>) -> Value {
    Value::Map(
        read.unwrap_or_else(|error| {
            Map::from_entries([("Error", Value::string(error.to_string()))])
        }),
    )
}

fn list_or_error(read: Result<List, goyaml::Error>) -> Value {
    Value::List(read.unwrap_or_else(|error| List::new(vec![Value::string(error.to_string())])))
}

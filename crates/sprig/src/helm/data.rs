//! YAML and JSON in and out of templates.

use gotmpl::{Call, FunctionError, Functions, List, Map, Type, Value};

use crate::arguments::{Returned, alias, any, define, fail, string};

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

fn register_writers(functions: &mut Functions) {
    define(functions, "toYaml", &[Type::Any], |_, a| {
        Ok(or_nothing(goyaml::to_yaml(any(a, 0))))
    });
    define(functions, "mustToYaml", &[Type::Any], |_, a| {
        or_error(goyaml::to_yaml(any(a, 0)))
    });
    define(functions, "toYamlPretty", &[Type::Any], |_, a| {
        Ok(or_nothing(goyaml::to_yaml_pretty(any(a, 0))))
    });
    define(functions, "toJson", &[Type::Any], |_, a| {
        Ok(or_nothing(goyaml::to_json(any(a, 0))))
    });
    define(functions, "mustToJson", &[Type::Any], |_, a| {
        or_error(goyaml::to_json(any(a, 0)))
    });
    define(functions, "toPrettyJson", &[Type::Any], |_, a| {
        Ok(or_nothing(goyaml::to_json_pretty(any(a, 0))))
    });
    define(functions, "mustToPrettyJson", &[Type::Any], |_, a| {
        or_error(goyaml::to_json_pretty(any(a, 0)))
    });
    define(functions, "toRawJson", &[Type::Any], |_, a| {
        or_error(goyaml::to_json_raw(any(a, 0)))
    });
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
fn or_nothing(written: Result<Vec<u8>, goyaml::Error>) -> Value {
    Value::string(without_line_break(written.unwrap_or_default()))
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

//! The functions that reach into the render: `include`, `tpl`, `required`, `fail`, `lookup`.

use gotmpl::{Call, Functions, Map, Str, Type, Value};

use super::host::{enter, host};
use super::{MESSAGE_END, MESSAGE_START};
use crate::arguments::{Returned, any, define, fail, string, text};
use crate::json;

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "include", &[Type::String, Type::Any], include);
    define(functions, "tpl", &[Type::String, Type::Any], tpl);
    define(functions, "required", &[Type::String, Type::Any], required);
    define(functions, "fail", &[Type::String], |call, arguments| {
        refuse(call, string(arguments, 0)?)
    });
    define(
        functions,
        "lookup",
        &[Type::String, Type::String, Type::String, Type::String],
        lookup,
    );
}

fn include(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let name = string(arguments, 0)?;
    enter(call, name)?;
    let printed = call.execute(&name.to_text(), any(arguments, 1));
    if let Some(host) = host(call) {
        host.leave(name);
    }
    printed.map(Value::String)
}

fn tpl(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let printed = call.execute_text(string(arguments, 0)?, any(arguments, 1))?;
    Ok(Value::String(without_no_value(printed)))
}

/// Removes every `<no value>`, as Helm does with what `tpl` and whole files print.
fn without_no_value(printed: Str) -> Str {
    const NO_VALUE: &[u8] = b"<no value>";
    if memchr::memmem::find(&printed, NO_VALUE).is_none() {
        return printed;
    }
    let mut kept = Vec::with_capacity(printed.len());
    let mut start = 0;
    for found in memchr::memmem::find_iter(&printed, NO_VALUE) {
        kept.extend_from_slice(printed.get(start..found).unwrap_or_default());
        start = found + NO_VALUE.len();
    }
    kept.extend_from_slice(printed.get(start..).unwrap_or_default());
    kept.into()
}

fn required(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let value = any(arguments, 1);
    match value {
        Value::Nil => refuse(call, string(arguments, 0)?),
        Value::String(text) if text.is_empty() => refuse(call, string(arguments, 0)?),
        _ => Ok(value.clone()),
    }
}

/// Stops the render with the chart's own message, or notes it when linting.
fn refuse(call: &mut dyn Call, message: &Str) -> Returned {
    let message = message.to_text();
    if let Some(host) = host(call)
        && host.lint_mode
    {
        host.lint_notes.push(message.into_owned());
        return Ok(Value::from(""));
    }
    fail(format!("{MESSAGE_START}{message}{MESSAGE_END}"))
}

fn lookup(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let cluster = host(call).and_then(|host| match host.lint_mode {
        true => None,
        false => host.lookup.clone(),
    });
    let Some(cluster) = cluster else {
        return Ok(Value::Map(Map::new()));
    };
    let (api_version, kind) = (text(arguments, 0)?, text(arguments, 1)?);
    let (namespace, name) = (text(arguments, 2)?, text(arguments, 3)?);
    match cluster.lookup(&api_version, &kind, &namespace, &name) {
        Ok(Some(found)) => Ok(json::object_value(&found)),
        Ok(None) => Ok(Value::Map(Map::new())),
        Err(text) => fail(text),
    }
}

//! `merge` and `mergeOverwrite` with the rules of mergo 1.0.1.

use gotmpl::{Call, Function, FunctionError, Functions, Map, Str, Type, Value};

use crate::arguments::{Returned, any, as_map, fail, map};
use crate::depth::{DEPTH_LIMIT, descend};

const DICT: Type = Type::Map(&Type::Any);

pub(super) fn register(functions: &mut Functions) {
    for (name, overwrite) in [
        ("merge", false),
        ("mustMerge", false),
        ("mergeOverwrite", true),
        ("mustMergeOverwrite", true),
    ] {
        let function = Function::new(&[DICT], Some(DICT), move |call, a| {
            merge_all(call, a, overwrite)
        });
        functions.insert(name, function);
    }
}

/// Merges every further map into the first one, in place.
fn merge_all(call: &mut dyn Call, arguments: &[Value], overwrite: bool) -> Returned {
    let target = map(arguments, 0)?;
    let created = target.is_none();
    let target = target.unwrap_or_default();
    for source in arguments.get(1..).unwrap_or_default() {
        if let Some(source) = as_map(source)? {
            merge(call, &target, &source, overwrite, DEPTH_LIMIT)?;
        }
    }
    Ok(match created && target.is_empty() {
        true => Value::Map(Map::nil(Type::Any)),
        false if created => Value::Map(target),
        false => any(arguments, 0).clone(),
    })
}

fn merge(
    call: &mut dyn Call,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), FunctionError> {
    if target.same(source) {
        return Ok(());
    }
    // The maps may be nested in one another, so what is read must not be held while it is written.
    let entries: Vec<(Str, Value)> = source
        .entries()
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    call.charge(entries.len() * 2 * size_of::<Value>())?;
    for (key, value) in entries {
        merge_entry(call, target, key, value, overwrite, depth)?;
    }
    Ok(())
}

fn merge_entry(
    call: &mut dyn Call,
    target: &Map,
    key: Str,
    value: Value,
    overwrite: bool,
    depth: usize,
) -> Result<(), FunctionError> {
    if matches!(value, Value::Nil) {
        if overwrite {
            assign(target, key, value)?;
        }
        return Ok(());
    }
    let Some(current) = target.get(&key) else {
        return assign(target, key, value);
    };
    if let (Some(inner), Some(source)) = (inner_map(&current), inner_map(&value)) {
        descend(depth, |depth| {
            merge(call, &inner, &source, overwrite, depth)
        })?;
        // An empty map that got nothing is replaced by the source's, which is then shared.
        if !inner.is_empty() {
            return Ok(());
        }
    }
    if overwrite || is_empty(&current) {
        return assign(target, key, value);
    }
    Ok(())
}

fn inner_map(value: &Value) -> Option<Map> {
    match value {
        Value::Map(map) if !map.is_nil() => Some(map.clone()),
        _ => None,
    }
}

/// mergo's own notion of empty, which looks through pointers and finds no struct empty.
fn is_empty(value: &Value) -> bool {
    crate::text::is_empty(value)
}

/// Sets a key; a map of strings takes nothing else.
fn assign(target: &Map, key: Str, value: Value) -> Result<(), FunctionError> {
    if target.element() == Type::String && !matches!(value, Value::String(_)) {
        return fail(
            "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string",
        );
    }
    target.insert(key, value);
    Ok(())
}

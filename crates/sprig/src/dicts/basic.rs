//! Building maps and reading and writing their entries.

use gotmpl::{Call, FunctionError, Functions, List, Map, Str, Type, Value};

use crate::arguments::{Returned, any, as_map, define, define_variadic, fail, map, string};
use crate::text::strval;

const DICT: Type = Type::Map(&Type::Any);

pub(super) fn register(functions: &mut Functions) {
    define_variadic(functions, "dict", &[], Type::Any, dict);
    define(functions, "get", &[DICT, Type::String], |_, a| {
        let found = map(a, 0)?.and_then(|map| map.get(string(a, 1).ok()?));
        Ok(found.unwrap_or_else(|| Value::from("")))
    });
    define(
        functions,
        "set",
        &[DICT, Type::String, Type::Any],
        |call, a| set(call, a),
    );
    define(functions, "unset", &[DICT, Type::String], |_, a| {
        if let Some(map) = map(a, 0)? {
            map.remove(string(a, 1)?);
        }
        Ok(any(a, 0).clone())
    });
    define(functions, "hasKey", &[DICT, Type::String], |_, a| {
        let key = string(a, 1)?;
        Ok(Value::Bool(map(a, 0)?.is_some_and(|map| map.contains(key))))
    });
    define_variadic(functions, "pluck", &[Type::String], DICT, pluck);
    define_variadic(functions, "keys", &[], DICT, keys);
    define(functions, "values", &[DICT], |call, a| {
        let values: Vec<Value> = match map(a, 0)? {
            Some(map) => map.entries().values().cloned().collect(),
            None => Vec::new(),
        };
        call.charge(values.len() * size_of::<Value>())?;
        Ok(Value::list(values))
    });
    define_variadic(functions, "pick", &[DICT], Type::String, pick);
    define_variadic(functions, "omit", &[DICT], Type::String, omit);
    define_variadic(functions, "dig", &[], Type::Any, |_, a| dig(a));
}

/// What one entry of a map takes.
const ENTRY: usize = size_of::<Str>() + size_of::<Value>();

fn dict(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    call.charge(arguments.len() / 2 * ENTRY)?;
    let map = Map::new();
    let mut entries = map.entries_mut();
    for pair in arguments.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::from(""));
        entries.insert(strval(any(pair, 0))?, value);
    }
    drop(entries);
    Ok(Value::Map(map))
}

fn set(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let Some(map) = map(arguments, 0)? else {
        return fail("assignment to entry in nil map");
    };
    call.charge(ENTRY)?;
    map.insert(string(arguments, 1)?.clone(), any(arguments, 2).clone());
    Ok(any(arguments, 0).clone())
}

fn pluck(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let key = string(arguments, 0)?;
    let mut found = Vec::new();
    for dict in maps(arguments, 1)? {
        found.extend(dict.get(key));
    }
    call.charge(found.len() * size_of::<Value>())?;
    Ok(Value::list(found))
}

/// The keys of all maps, in byte order inside each: Go's order is random, so that charts sort them.
fn keys(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let mut keys = Vec::new();
    for dict in maps(arguments, 0)? {
        keys.extend(dict.entries().keys().cloned().map(Value::String));
    }
    call.charge(keys.len() * size_of::<Value>())?;
    Ok(Value::List(List::typed(Type::String, keys)))
}

/// The maps among the variadic arguments, without the nil ones.
fn maps(arguments: &[Value], from: usize) -> Result<Vec<Map>, FunctionError> {
    let dicts = arguments.get(from..).unwrap_or_default();
    dicts
        .iter()
        .filter_map(|dict| as_map(dict).transpose())
        .collect()
}

fn pick(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let picked = Map::new();
    if let Some(dict) = map(arguments, 0)? {
        for index in 1..arguments.len() {
            let key = string(arguments, index)?;
            if let Some(value) = dict.get(key) {
                picked.insert(key.clone(), value);
            }
        }
    }
    call.charge(picked.len() * ENTRY)?;
    Ok(Value::Map(picked))
}

fn omit(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let Some(dict) = map(arguments, 0)? else {
        return Ok(Value::Map(Map::new()));
    };
    call.charge(dict.len() * ENTRY)?;
    let mut entries = dict.entries().clone();
    for index in 1..arguments.len() {
        entries.remove(&string(arguments, index)?[..]);
    }
    Ok(Value::Map(Map::typed(Type::Any, entries)))
}

/// Follows keys into nested maps: `dig KEY… DEFAULT MAP`.
fn dig(arguments: &[Value]) -> Returned {
    let [keys @ .., default, dict] = arguments else {
        return fail("dig needs at least three arguments");
    };
    if keys.is_empty() {
        return fail("dig needs at least three arguments");
    }
    let mut current = plain_map(dict)?;
    let mut path = Vec::with_capacity(keys.len());
    for key in keys {
        match key {
            Value::String(key) => path.push(key),
            other => return conversion(other, "string"),
        }
    }
    let last = path.pop();
    for key in path {
        match current.get(key) {
            Some(next) => current = plain_map(&next)?,
            None => return Ok(default.clone()),
        }
    }
    let found = last.and_then(|key| current.get(key));
    Ok(found.unwrap_or_else(|| default.clone()))
}

/// Go's type assertion to `map[string]interface {}`: maps of other types fail, and so do named ones
/// as Helm's values at the top.
fn plain_map(value: &Value) -> Result<Map, FunctionError> {
    match value {
        Value::Map(map) if map.element() == Type::Any && map.type_name().is_none() => {
            Ok(map.clone())
        }
        other => conversion(other, "map[string]interface {}"),
    }
}

fn conversion<T>(value: &Value, wanted: &str) -> Result<T, FunctionError> {
    let found = match value {
        Value::Nil => "nil".into(),
        other => other.type_name(),
    };
    fail(format!(
        "interface conversion: interface {{}} is {found}, not {wanted}"
    ))
}

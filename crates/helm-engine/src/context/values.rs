//! `.Values`, a map with methods that come before its keys.

use gotmpl::{Map, NamedMap, Signature, Type, Value};

use crate::dependencies;

/// Go's `common.Values`: `.Values` itself, the context of a template, and `.Template`. Tables
/// inside are plain maps.
static VALUES: NamedMap = NamedMap {
    name: "common.Values",
    signature,
    call,
};

/// A map as `common.Values`.
pub(crate) fn named(map: &Map) -> Value {
    Value::Map(map.with_name(&VALUES))
}

fn signature(method: &str) -> Option<Signature> {
    let parameters: &'static [Type] = match method {
        "AsMap" | "YAML" => &[],
        "Table" | "PathValue" => &[Type::String],
        _ => return None,
    };
    Some(Signature {
        parameters,
        variadic: None,
    })
}

fn call(map: &Map, method: &str, arguments: &[Value]) -> Result<Value, String> {
    match (method, arguments) {
        ("AsMap", []) => Ok(Value::Map(map.without_name())),
        ("YAML", []) => goyaml::to_yaml(&Value::Map(map.clone()))
            .map(|text| Value::String(text.into()))
            .map_err(|error| error.to_string()),
        ("Table", [Value::String(path)]) => table(map, &path.to_text()),
        ("PathValue", [Value::String(path)]) => path_value(map, &path.to_text()),
        _ => Err(format!("common.Values has no method {method}")),
    }
}

fn table(map: &Map, path: &str) -> Result<Value, String> {
    let mut table = map.clone();
    for key in path.split('.') {
        match dependencies::table(&table, key) {
            Some(next) => table = next,
            None => return Err(format!("{} is not a table", crate::text::quote(key))),
        }
    }
    Ok(named(&table))
}

fn path_value(map: &Map, path: &str) -> Result<Value, String> {
    if path.is_empty() {
        return Err("YAML path cannot be empty".to_owned());
    }
    dependencies::path_value(map, path).ok_or_else(|| {
        let key = path.rsplit('.').next().unwrap_or(path);
        format!("{} is not a value", crate::text::quote(key))
    })
}

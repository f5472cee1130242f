//! Slash-separated paths. `os*` are the same on the systems that this runs on.

use gotmpl::{Functions, Type, Value};

use crate::arguments::{alias, define, string};

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "base", &[Type::String], |_, a| {
        Ok(Value::string(base(string(a, 0)?)))
    });
    define(functions, "dir", &[Type::String], |_, a| {
        let path = string(a, 0)?;
        let directory = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        Ok(Value::string(clean(
            path.get(..directory).unwrap_or_default(),
        )))
    });
    define(functions, "clean", &[Type::String], |_, a| {
        Ok(Value::string(clean(string(a, 0)?)))
    });
    define(functions, "ext", &[Type::String], |_, a| {
        Ok(Value::string(extension(string(a, 0)?)))
    });
    define(functions, "isAbs", &[Type::String], |_, a| {
        Ok(Value::Bool(string(a, 0)?.starts_with(b"/")))
    });
    for (name, of) in [
        ("osBase", "base"),
        ("osDir", "dir"),
        ("osClean", "clean"),
        ("osExt", "ext"),
        ("osIsAbs", "isAbs"),
    ] {
        alias(functions, name, of);
    }
}

/// `path.Base`: the last element, without slashes at its end.
fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/');
    let Some(end) = end else {
        return b"/";
    };
    let path = path.get(..=end).unwrap_or_default();
    let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    path.get(start..).unwrap_or_default()
}

/// `path.Ext`: from the last dot of the last element on.
fn extension(path: &[u8]) -> &[u8] {
    let name = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = path.get(name..).unwrap_or_default();
    let dot = memchr::memrchr(b'.', name).unwrap_or(name.len());
    name.get(dot..).unwrap_or_default()
}

/// `path.Clean`: the shortest path that means the same, by its text alone.
fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for element in path.split(|byte| *byte == b'/') {
        match element {
            b"" | b"." => {}
            b".." if kept.last().is_some_and(|last| *last != b"..") => {
                kept.pop();
            }
            b".." if rooted => {}
            _ => kept.push(element),
        }
    }
    let joined = kept.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

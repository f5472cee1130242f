//! `urlParse` and `urlJoin` with the rules of Go's `net/url`.

mod escape;
mod parse;

use gotmpl::{FunctionError, Functions, Map, Str, Type, Value};

use self::escape::{Encoding, escape};
use self::parse::{Url, UserInfo};
use crate::arguments::{Returned, define, fail, map, string};
use crate::reflection::kind;

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "urlParse", &[Type::String], |_, a| {
        let url = parse::parse(string(a, 0)?)
            .map_err(|error| FunctionError(format!("unable to parse url: {error}")))?;
        Ok(Value::Map(dict(&url)))
    });
    define(functions, "urlJoin", &[Type::Map(&Type::Any)], |_, a| {
        join(&map(a, 0)?.unwrap_or_default())
    });
}

fn dict(url: &Url) -> Map {
    let user = url.user.as_ref().map(user_text).unwrap_or_default();
    let entries: [(&str, &[u8]); 8] = [
        ("scheme", &url.scheme),
        ("host", &url.host),
        ("hostname", parse::hostname(&url.host)),
        ("path", &url.path),
        ("query", &url.query),
        ("opaque", &url.opaque),
        ("fragment", &url.fragment),
        ("userinfo", &user),
    ];
    Map::from_entries(entries.map(|(key, value)| (key, Value::string(value))))
}

fn user_text(user: &UserInfo) -> Vec<u8> {
    let mut text = escape(&user.name, Encoding::UserPassword);
    if let Some(password) = &user.password {
        text.push(b':');
        text.extend_from_slice(&escape(password, Encoding::UserPassword));
    }
    text
}

/// A string of the map, or nothing.
fn entry(dict: &Map, key: &str) -> Result<Str, FunctionError> {
    match dict.get(key.as_bytes()) {
        None => Ok(Str::default()),
        Some(Value::String(text)) => Ok(text),
        Some(Value::Nil) => {
            fail("runtime error: invalid memory address or nil pointer dereference")
        }
        Some(other) => fail(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            kind(&other)
        )),
    }
}

/// `URL.String` of the parts in a map.
fn join(dict: &Map) -> Returned {
    let [scheme, host, path, query] =
        ["scheme", "host", "path", "query"].map(|key| entry(dict, key));
    let (scheme, host, path, query) = (scheme?, host?, path?, query?);
    let (opaque, fragment) = (entry(dict, "opaque")?, entry(dict, "fragment")?);
    let user = user(&entry(dict, "userinfo")?)?;
    let mut joined = Vec::new();
    if !scheme.is_empty() {
        joined.extend_from_slice(&scheme);
        joined.push(b':');
    }
    if opaque.is_empty() {
        append_authority(&mut joined, &host, &path, user.as_ref());
        append_path(&mut joined, &host, &path);
    } else {
        joined.extend_from_slice(&opaque);
    }
    if !query.is_empty() {
        joined.push(b'?');
        joined.extend_from_slice(&query);
    }
    if !fragment.is_empty() {
        joined.push(b'#');
        joined.extend_from_slice(&escape(&fragment, Encoding::Fragment));
    }
    Ok(Value::string(joined))
}

fn user(text: &[u8]) -> Result<Option<UserInfo>, FunctionError> {
    if text.is_empty() {
        return Ok(None);
    }
    let url = [b"proto://", text, b"@host"].concat();
    match parse::parse(&url) {
        Ok(url) => Ok(url.user),
        Err(error) => fail(format!("unable to parse userinfo in dict: {error}")),
    }
}

fn append_authority(joined: &mut Vec<u8>, host: &[u8], path: &[u8], user: Option<&UserInfo>) {
    let has_scheme = !joined.is_empty();
    if !has_scheme && host.is_empty() && user.is_none() {
        return;
    }
    if !host.is_empty() || !path.is_empty() || user.is_some() {
        joined.extend_from_slice(b"//");
    }
    if let Some(user) = user {
        joined.extend_from_slice(&user_text(user));
        joined.push(b'@');
    }
    joined.extend_from_slice(&escape(host, Encoding::Host));
}

fn append_path(joined: &mut Vec<u8>, host: &[u8], path: &[u8]) {
    let path = match path {
        b"*" => b"*".to_vec(),
        path => escape(path, Encoding::Path),
    };
    if !path.is_empty() && !path.starts_with(b"/") && !host.is_empty() {
        joined.push(b'/');
    }
    let mut segments = path.split(|byte| *byte == b'/');
    if joined.is_empty() && segments.next().is_some_and(|first| first.contains(&b':')) {
        joined.extend_from_slice(b"./");
    }
    joined.extend_from_slice(&path);
}

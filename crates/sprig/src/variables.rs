//! `env` and `expandenv`, which Helm gives to `--name-template` alone.

use std::sync::Arc;

use gotmpl::{Functions, Type, Value};

use crate::arguments::{define, text};

/// The value of a variable of the process, if it is set.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub(crate) fn register(functions: &mut Functions, variables: &Variables) {
    let read = Arc::clone(variables);
    define(functions, "env", &[Type::String], move |_, a| {
        Ok(Value::string(read(&text(a, 0)?).unwrap_or_default()))
    });
    let read = Arc::clone(variables);
    define(functions, "expandenv", &[Type::String], move |_, a| {
        Ok(Value::string(expand(&text(a, 0)?, &read)))
    });
}

/// Go's `os.Expand`: `$name` and `${name}` become values.
fn expand(text: &str, read: &Variables) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, length) = name(after);
        match name {
            Some(name) => out.push_str(&read(name).unwrap_or_default()),
            // A dollar that begins no name stays; what is malformed behind one is dropped.
            None if length == 0 => out.push('$'),
            None => {}
        }
        rest = after.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The name at the start of a text, and how many bytes it takes with its braces.
fn name(text: &str) -> (Option<&str>, usize) {
    let is_special = |c: char| c.is_ascii_digit() || "*#$@!?-".contains(c);
    let Some(inner) = text.strip_prefix('{') else {
        if text.starts_with(is_special) {
            return (text.get(..1), 1);
        }
        let length = text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        return (text.get(..length).filter(|name| !name.is_empty()), length);
    };
    match inner.find('}') {
        // `${` alone, and `${}`.
        None => (None, 1),
        Some(0) => (None, 2),
        Some(end) => (inner.get(..end), end + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_go_does() {
        let read: Variables =
            Arc::new(|name| (name == "A" || name == "B_1").then(|| "x".to_owned()));
        for (text, expected) in [
            ("a$A-${B_1}b", "ax-xb"),
            ("$A_", ""),
            ("$ $", "$ $"),
            ("${} ${", " "),
            ("$$A", "A"),
            ("$1A", "A"),
            ("none", "none"),
        ] {
            assert_eq!(expand(text, &read), expected, "{text}");
        }
    }
}

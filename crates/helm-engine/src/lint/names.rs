//! The names that Kubernetes allows to objects.

use crate::text::quote;

/// What is wrong with `metadata.name` of an object of this kind.
pub(super) fn check(kind: &str, name: &str) -> Result<(), String> {
    let errors = match kind.to_lowercase().as_str() {
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        "service" => dns_1035_label(name),
        "namespace" => dns_1123_label(name),
        _ => dns_1123_subdomain(name),
    };
    let value = quote(name);
    let errors: Vec<String> = errors
        .into_iter()
        .map(|error| format!("metadata.name: Invalid value: {value}: {error}"))
        .collect();
    let aggregate = match errors.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(format!(
        "object name does not conform to Kubernetes naming requirements: {value}: {aggregate}"
    ))
}

fn too_long(name: &str, limit: usize) -> Option<String> {
    (name.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

fn is_inner(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| is_inner(*byte))
        && bytes.first().is_some_and(|byte| *byte != b'-')
        && bytes.last().is_some_and(|byte| *byte != b'-')
}

fn dns_1123_subdomain(name: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(name, 253).into_iter().collect();
    if !name.split('.').all(is_label) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

fn dns_1123_label(name: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(name, 63).into_iter().collect();
    if is_label(name) {
        return errors;
    }
    errors.push(if name.split('.').all(is_label) {
        "must not contain dots".to_owned()
    } else {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
         and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
         regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    });
    errors
}

fn dns_1035_label(name: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(name, 63).into_iter().collect();
    let starts = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts || !is_label(name) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

//! URLs and JSON pointers, as far as schemas refer by them.

use std::borrow::Cow;

/// Splits at `#`; without the mark.
pub(super) fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// Undoes percent-encoding; `None` if it is malformed.
pub(super) fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let code = digit(bytes.next())? * 16 + digit(bytes.next())?;
            out.push(u8::try_from(code).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// Percent-encodes the parts of a pointer, as Go's `url.PathEscape` does.
pub(super) fn encode(pointer: &str) -> String {
    let mut out = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~$&+=:@/".contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                out.push(digit.to_ascii_uppercase());
            }
        }
    }
    out
}

/// A part of a pointer with `~` and `/` escaped.
pub(super) fn escape(part: &str) -> Cow<'_, str> {
    if !part.contains(['~', '/']) {
        return part.into();
    }
    part.replace('~', "~0").replace('/', "~1").into()
}

/// A pointer with one more part.
pub(super) fn append(pointer: &str, part: &str) -> String {
    // Every schema of a document has a pointer: this is done thousands of times.
    [pointer, "/", &escape(part)].concat()
}

/// A location as errors print it.
pub(super) fn location(url: &str, pointer: &str) -> String {
    [url, "#", &encode(pointer)].concat()
}

/// The scheme of an absolute URL.
pub(super) fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let mut chars = scheme.chars();
    let valid = chars.next()?.is_ascii_alphabetic()
        && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    valid.then_some(scheme)
}

/// Resolves a reference without fragment against a base (RFC 3986, section 5).
pub(super) fn join(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if scheme(reference).is_some() {
        return normalize(reference);
    }
    let Some(base_scheme) = scheme(base) else {
        return reference.to_owned();
    };
    let rest = base.get(base_scheme.len() + 1..).unwrap_or_default();
    let Some(hierarchy) = rest.strip_prefix("//") else {
        // An opaque base, such as a URN, has nothing to resolve against.
        return base.to_owned();
    };
    if let Some(reference) = reference.strip_prefix("//") {
        return normalize(&format!("{base_scheme}://{reference}"));
    }
    let end = hierarchy.find(['/', '?']).unwrap_or(hierarchy.len());
    let (authority, path) = hierarchy.split_at(end);
    let path = path.split('?').next().unwrap_or_default();
    let joined = match reference.chars().next() {
        Some('/') => reference.to_owned(),
        Some('?') => format!("{path}{reference}"),
        _ => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{reference}")
        }
    };
    normalize(&format!("{base_scheme}://{authority}{joined}"))
}

/// Removes `.` and `..` from the path of an absolute URL.
fn normalize(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let Some((authority, path)) = rest.split_once('/') else {
        return url.to_owned();
    };
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for part in path.split('/') {
        ends_in_folder = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if ends_in_folder {
        parts.push("");
    }
    let path = parts.join("/");
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::{append, decode, encode, join};

    #[test]
    fn parts_of_pointers_are_escaped() {
        assert_eq!(append("/properties", "image"), "/properties/image");
        assert_eq!(append("", "a/b~c"), "/a~1b~0c");
    }

    #[test]
    fn references_resolve_as_in_rfc_3986() {
        for (base, reference, wanted) in [
            ("http://a/b/c/d", "g", "http://a/b/c/g"),
            ("http://a/b/c/d", "./g", "http://a/b/c/g"),
            ("http://a/b/c/d", "g/", "http://a/b/c/g/"),
            ("http://a/b/c/d", "/g", "http://a/g"),
            ("http://a/b/c/d", "//g/h", "http://g/h"),
            ("http://a/b/c/d", "..", "http://a/b/"),
            ("http://a/b/c/d", "../../g", "http://a/g"),
            ("http://a/b/c/d", "../../../g", "http://a/g"),
            ("http://a/b/c/d", "?y", "http://a/b/c/d?y"),
            ("http://a/b/c/d", "", "http://a/b/c/d"),
            ("file:///values.schema.json", "x.json", "file:///x.json"),
            ("urn:a:b", "x", "urn:a:b"),
            ("http://a/b", "urn:x:y", "urn:x:y"),
        ] {
            assert_eq!(join(base, reference), wanted, "{reference} at {base}");
        }
    }

    #[test]
    fn percent_encoding_goes_both_ways() {
        assert_eq!(encode("/a b/ü"), "/a%20b/%C3%BC");
        assert_eq!(decode("/a%20b/%C3%BC").as_deref(), Some("/a b/ü"));
        assert_eq!(decode("%zz"), None);
    }
}

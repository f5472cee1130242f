//! The escapers behind `html`, `js` and `urlquery`.

use crate::unicode;

/// Go's `template.HTMLEscape`: `"`, `'`, `&`, `<`, `>` and NUL.
///
/// ```
/// assert_eq!(gotmpl::escape::html(b"<a b='c'>"), b"&lt;a b=&#39;c&#39;&gt;");
/// ```
#[must_use]
pub fn html(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            0 => escaped.extend_from_slice("\u{FFFD}".as_bytes()),
            b'"' => escaped.extend_from_slice(b"&#34;"),
            b'\'' => escaped.extend_from_slice(b"&#39;"),
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            b'>' => escaped.extend_from_slice(b"&gt;"),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// Go's `template.JSEscape`: what may not stand in a JavaScript string.
///
/// ```
/// assert_eq!(gotmpl::escape::js("it's\n<é>".as_bytes()), "it\\'s\\u000A\\u003Cé\\u003E".as_bytes());
/// ```
#[must_use]
pub fn js(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let mut length = 1;
        match byte {
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\'' => escaped.extend_from_slice(b"\\'"),
            b'"' => escaped.extend_from_slice(b"\\\""),
            b'<' | b'>' | b'&' | b'=' | 0..0x20 => {
                escaped.extend_from_slice(format!("\\u{byte:04X}").as_bytes());
            }
            0x20..0x80 => escaped.push(byte),
            _ => {
                let (code, bytes) = unicode::decode(rest);
                length = bytes.max(1);
                if unicode::is_print(code) {
                    escaped.extend_from_slice(rest.get(..length).unwrap_or_default());
                } else {
                    escaped.extend_from_slice(format!("\\u{code:04X}").as_bytes());
                }
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    escaped
}

/// Go's `url.QueryEscape`: all but letters, digits and `-_.~`, a space as `+`.
///
/// ```
/// assert_eq!(gotmpl::escape::url_query("a b&é".as_bytes()), b"a+b%26%C3%A9");
/// ```
#[must_use]
pub fn url_query(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b' ' => escaped.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => escaped.push(byte),
            _ if byte.is_ascii_alphanumeric() => escaped.push(byte),
            _ => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    escaped
}

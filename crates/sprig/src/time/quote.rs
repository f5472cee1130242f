//! Quoting as in the error texts of Go's `time`.

use std::fmt::Write as _;

/// The text in quotes; bytes of characters that are not printable ASCII as `\x…`.
pub(super) fn quote(text: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(*byte));
            }
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\x{byte:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}

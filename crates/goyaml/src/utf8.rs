//! Strings that need not be UTF-8.

use std::borrow::Cow;

/// The text with every byte that belongs to no character replaced by U+FFFD, as Go does.
pub(crate) fn valid(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            text.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
    Cow::Owned(text)
}

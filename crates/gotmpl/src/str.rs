//! Byte strings: Go's `string` may hold any bytes, so ours do too.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An immutable byte string that is cheap to clone and may be shared between threads.
///
/// Most strings are UTF-8, none has to be: `trunc` and `substr` may cut a character in two, and the
/// pieces must survive until they are printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Arc<[u8]>);

impl Str {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing else refers to the bytes.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The text, with every invalid byte replaced by U+FFFD.
    #[must_use]
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        // Checked in large steps; only what is no UTF-8 is looked at byte by byte.
        match std::str::from_utf8(&self.0) {
            Ok(text) => text.into(),
            Err(_) => String::from_utf8_lossy(&self.0),
        }
    }
}

impl Default for Str {
    fn default() -> Self {
        Self(Arc::from(&[][..]))
    }
}

impl Deref for Str {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Arc::from(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(Arc::from(text.into_bytes()))
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }
}

impl From<Arc<[u8]>> for Str {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_text(), f)
    }
}

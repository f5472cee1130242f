//! Errors with the text that Go prints.

/// Why a text could not be read or a value not be written. It prints what Helm prints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    text: Box<str>,
    line: Option<u32>,
}

impl Error {
    /// An error with this text and no line.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self {
            text: text.into(),
            line: None,
        }
    }

    pub(crate) fn at(line: u32, text: impl Into<Box<str>>) -> Self {
        Self {
            text: text.into(),
            line: Some(line),
        }
    }

    /// The line of the text at which reading stopped, counted from 1, where one is known.
    ///
    /// Go's own text may name the line before it, or none at all for the first line.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The text that Go prints.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same error behind a prefix, as `fmt.Errorf("prefix: %w", err)` makes it.
    #[must_use]
    pub fn prefixed(self, prefix: &str) -> Self {
        Self {
            text: format!("{prefix}: {}", self.text).into(),
            line: self.line,
        }
    }

    /// The error of a YAML document whose JSON does not fit the type that it is read into:
    /// `found` is `object`, `array`, `string`, `number` or `bool`, `wanted` a Go type.
    #[must_use]
    pub fn mismatch(found: &str, wanted: &str) -> Self {
        Self::json_mismatch(found, wanted)
            .prefixed("while decoding JSON")
            .prefixed("error unmarshaling JSON")
    }

    /// As [`mismatch`](Self::mismatch), for a JSON text.
    #[must_use]
    pub fn json_mismatch(found: &str, wanted: &str) -> Self {
        Self::new(format!(
            "json: cannot unmarshal {found} into Go value of type {wanted}"
        ))
    }

    /// As [`mismatch`](Self::mismatch), for a field of a struct: `path` is `Metadata.name`.
    #[must_use]
    pub fn field_mismatch(found: &str, path: &str, wanted: &str) -> Self {
        Self::new(format!(
            "json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
        ))
        .prefixed("while decoding JSON")
        .prefixed("error unmarshaling JSON")
    }
}

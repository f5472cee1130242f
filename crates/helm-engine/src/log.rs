//! What Helm logs while it works on a chart.

use std::fmt;

use crate::text::quote;

/// How much a [`LogLine`] matters, as Helm has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `INFO`, also for the warnings that Helm prints with Go's older `log`.
    Info,
    /// `WARN`.
    Warn,
}

/// A line that Helm logs while it works on a chart: for people, and never a reason to fail.
///
/// Displayed as text with its attributes, in the form of Go's `log/slog` without time and level:
/// ```
/// let line = helm_engine::LogLine::warn("returned non-bool value").with("tag", "a b");
/// assert_eq!(line.to_string(), r#"returned non-bool value tag="a b""#);
/// assert_eq!(line.as_slog().to_string(), r#"level=WARN msg="returned non-bool value" tag="a b""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What happened.
    pub message: String,
    /// Names and values of what it is about.
    pub attributes: Vec<(&'static str, String)>,
}

impl LogLine {
    /// A line of level [`Info`](LogLevel::Info).
    #[must_use]
    pub fn info(message: impl Into<String>) -> Self {
        Self {
            level: LogLevel::Info,
            message: message.into(),
            attributes: Vec::new(),
        }
    }

    /// A line of level [`Warn`](LogLevel::Warn).
    #[must_use]
    pub fn warn(message: impl Into<String>) -> Self {
        Self {
            level: LogLevel::Warn,
            ..Self::info(message)
        }
    }

    /// The line with one more attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// The line as the helm command writes it to standard error.
    #[must_use]
    pub fn as_slog(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            let level = match self.level {
                LogLevel::Info => "INFO",
                LogLevel::Warn => "WARN",
            };
            write!(f, "level={level} msg={}", slog_value(&self.message))?;
            self.write_attributes(f)
        })
    }

    fn write_attributes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attributes
            .iter()
            .try_for_each(|(name, value)| write!(f, " {name}={}", slog_value(value)))
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.write_attributes(f)
    }
}

/// A value as slog's text handler writes it: quoted if it is empty or holds a space, `=`, `"` or what cannot be printed.
fn slog_value(text: &str) -> String {
    let quoted = quote(text);
    let is_plain = |c: char| !matches!(c, ' ' | '=' | '"');
    // A backslash needs no quotes, but is written as two within them.
    let is_printable = quoted.len() == text.len() + 2 + text.matches('\\').count();
    if !text.is_empty() && text.chars().all(is_plain) && is_printable {
        return text.to_owned();
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_slog_quotes_them() {
        for (text, written) in [
            ("", r#""""#),
            ("crd-install", "crd-install"),
            (r"a\b", r"a\b"),
            ("é", "é"),
            ("a b", r#""a b""#),
            ("a=b", r#""a=b""#),
            (r#"say "é\q"#, r#""say \"é\\q""#),
            ("a\tb", r#""a\tb""#),
            ("\u{200b}", r#""\u200b""#),
        ] {
            assert_eq!(slog_value(text), written, "{text:?}");
        }
    }
}

//! Errors of parsing and execution, with the texts of Go's text/template.

use std::fmt;

use crate::Str;

/// A text that is no template: `template: NAME:LINE: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The name that the text was parsed under.
    pub name: Str,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            line,
            message,
        } = self;
        write!(f, "template: {}:{line}: {message}", name.to_text())
    }
}

impl std::error::Error for ParseError {}

/// Where in a template's text execution stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name that the text was parsed under: a file of the chart, or `gotpl` inside `tpl`.
    pub name: Str,
    /// The line, from 1.
    pub line: usize,
    /// The byte in the line, from 0.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, column } = self;
        write!(f, "{}:{line}:{column}", name.to_text())
    }
}

/// Which of Go's errors one level of an [`ExecError`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `template: LOCATION: executing "TEMPLATE" at <CONTEXT>: MESSAGE`, Go's `ExecError`.
    Executing {
        /// Where.
        location: Location,
        /// The template or definition that was executing.
        template: Str,
        /// The source of the node, as Go prints it: whole, never shortened.
        context: String,
        /// What went wrong; it ends with the text of the [`source`](ExecError::source), if there is
        /// one.
        message: String,
    },
    /// `template: no template "a" associated with template "b"`.
    NoTemplate {
        /// The one that is missing.
        name: Str,
    },
    /// The text given to `tpl` is no template. In Go a level of its own, below one of kind
    /// [`Other`](Self::Other).
    Parse(ParseError),
    /// The error of a function, or one that wraps the next level without a position.
    Other,
}

/// A failed execution: the outermost error, which wraps the one that it came from, and so on, just
/// as Go's errors do through `include` and `tpl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError(Box<Level>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    text: String,
    kind: ErrorKind,
    source: Option<ExecError>,
}

impl ExecError {
    fn new(text: String, kind: ErrorKind, source: Option<Self>) -> Self {
        Self(Box::new(Level { text, kind, source }))
    }

    pub(crate) fn executing(
        location: Location,
        template: Str,
        context: String,
        message: String,
        source: Option<Self>,
    ) -> Self {
        let quoted = crate::strconv::quote(&template);
        let text = format!("template: {location}: executing {quoted} at <{context}>: {message}");
        let kind = ErrorKind::Executing {
            location,
            template,
            context,
            message,
        };
        Self::new(text, kind, source)
    }

    pub(crate) fn no_template(name: &[u8], set: &[u8]) -> Self {
        let (missing, root) = (crate::strconv::quote(name), crate::strconv::quote(set));
        let text = format!("template: no template {missing} associated with template {root}");
        Self::new(text, ErrorKind::NoTemplate { name: name.into() }, None)
    }

    pub(crate) fn parse(error: ParseError) -> Self {
        Self::new(error.to_string(), ErrorKind::Parse(error), None)
    }

    pub(crate) fn other(text: String, source: Option<Self>) -> Self {
        Self::new(text, ErrorKind::Other, source)
    }

    /// The whole text, as Go prints it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What this level is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The error that this one wraps.
    #[must_use]
    pub fn source(&self) -> Option<&Self> {
        self.0.source.as_ref()
    }

    /// This error and all that it wraps, outermost first: what `errors.Unwrap` yields in Go, each
    /// level once.
    pub fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |error| error.source())
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_ref()?;
        Some(source)
    }
}

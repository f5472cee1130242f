//! Why a chart cannot be rendered, in Helm's words.

use gotmpl::{ExecError, ParseError};
use sprig::helm::{MESSAGE_END, MESSAGE_START};
use thiserror::Error;

use crate::coalesce::TypeMismatch;
use crate::manifest::ManifestError;

/// Why a chart cannot be rendered.
#[derive(Debug, Error)]
pub enum RenderError {
    /// A subchart's values are no map, which shows as dependencies are chosen.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(TypeMismatch),
    /// A subchart's values are no map.
    #[error(transparent)]
    Values(#[from] TypeMismatch),
    /// The values break the schema of the chart or of a subchart.
    #[error(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{0}"
    )]
    Schema(String),
    /// The chart is not made for this version of Kubernetes.
    #[error(
        "chart requires kubeVersion: {constraint} which is incompatible with Kubernetes {version}"
    )]
    KubeVersion {
        /// What the chart asks for.
        constraint: String,
        /// What there is.
        version: String,
    },
    /// A template is malformed: `parse error at (FILE:LINE): …`.
    #[error("{0}")]
    Parse(String),
    /// A template failed: the message of `fail` and `required`, or where and why, level by level.
    #[error("{0}")]
    Execute(String),
    /// What the templates printed is no YAML.
    #[error("{error}")]
    Manifest {
        /// Which document, and why.
        error: ManifestError,
        /// All that was printed.
        partial: String,
    },
}

/// `parse error at (NAME:LINE): MESSAGE`, by Helm's way of cutting Go's text at `: `.
pub(crate) fn reformat_parse(path: &str, error: &ParseError) -> String {
    let text = error.to_string();
    let mut tokens = text.split(": ");
    let (_, location) = (tokens.next(), tokens.next());
    match location {
        None => format!("parse error in ({path}): {text}"),
        Some(location) => {
            let message = tokens.last().unwrap_or(location);
            format!("parse error at ({location}): {message}")
        }
    }
}

/// One level of a chain of errors, as Helm 4 prints it.
#[derive(PartialEq, Eq)]
struct Level<'a> {
    location: &'a str,
    executing: Option<&'a str>,
    message: &'a str,
}

/// The error of a template as Helm 4 prints it: the message of `fail` and `required` with its
/// place, or one paragraph for each level, or Go's text where a level has a form of its own.
pub(crate) fn reformat_exec(error: &ExecError) -> String {
    let text = error.text();
    // Helm does this for errors of execution alone, not for those of functions.
    if !matches!(error.kind(), gotmpl::ErrorKind::Executing { .. }) {
        return text.to_owned();
    }
    let mut tokens = text.splitn(3, ": ").skip(1);
    if let (Some(location), Some(rest)) = (tokens.next(), tokens.next())
        && let Some(message) = between_marks(rest)
    {
        return format!("execution error at ({location}): {message}");
    }
    let mut levels: Vec<Level<'_>> = Vec::new();
    for current in error.levels() {
        let Some(level) = Level::parse(current.text()) else {
            return text.to_owned();
        };
        if levels.last() != Some(&level) {
            levels.push(level);
        }
    }
    let paragraphs: String = levels.iter().map(Level::print).collect();
    paragraphs.trim().to_owned()
}

/// From the first start mark to the last end mark.
fn between_marks(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(MESSAGE_START)?;
    rest.rsplit_once(MESSAGE_END).map(|(message, _)| message)
}

impl<'a> Level<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix("template: ")?;
        if rest.starts_with("no template ") {
            return Some(Self {
                location: "",
                executing: None,
                message: text,
            });
        }
        Self::executing(rest).or_else(|| Self::simple(rest))
    }

    /// `LOCATION: executing "NAME" at <CONTEXT>: MESSAGE`
    fn executing(rest: &'a str) -> Option<Self> {
        const EXECUTING: &str = ": executing ";
        let (location, after) = rest.split_once(EXECUTING)?;
        let name = after.strip_prefix('"')?;
        let (_, context) = name.split_once('"')?;
        let (context, message) = context.strip_prefix(" at <")?.split_once(">: ")?;
        // `executing "NAME" at <CONTEXT>:`, cut out of the text as it stands there.
        let start = location.len() + EXECUTING.len();
        let length = after.len() - message.len() - 1;
        let quoted = rest.get(start - "executing ".len()..start + length)?;
        debug_assert!(quoted.contains(context));
        Some(Self {
            location,
            executing: Some(quoted),
            message: before_next(message),
        })
    }

    /// `LOCATION: MESSAGE`
    fn simple(rest: &'a str) -> Option<Self> {
        let (location, message) = rest.rsplit_once(": ")?;
        Some(Self {
            location,
            executing: None,
            message: before_next(message),
        })
    }

    fn print(&self) -> String {
        let mut out = String::new();
        if !self.location.is_empty() {
            out.push_str(self.location);
            out.push_str("\n  ");
        }
        if let Some(executing) = self.executing {
            out.push_str(executing);
            out.push_str("\n    ");
        }
        if !self.message.is_empty() {
            out.push_str(self.message);
            out.push('\n');
        }
        out
    }
}

/// The message without the next level, which follows it in Go's text.
fn before_next(message: &str) -> &str {
    message
        .split_once(" template:")
        .map_or(message, |(message, _)| message)
}

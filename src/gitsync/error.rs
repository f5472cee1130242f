//! Why a source cannot be used, told apart as a user needs it.

use std::{fmt, time::Duration};

/// The state that a failed source is in: the reason of the condition and of the Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The first fetch is under way; the release is woken when it ends.
    Cloning,
    /// The server wants credentials, or refuses the ones that we have; also a Secret that is missing or incomplete.
    AuthFailed,
    /// The SSH host key or the TLS certificate is not the expected one.
    HostKeyMismatch,
    /// The repository has no such branch, tag or commit.
    RefNotFound,
    /// The commit has no such directory or file.
    PathNotFound,
    /// No progress for longer than the timeout.
    Timeout,
    /// The server does not answer, or answers with a server error.
    Unreachable,
    /// The server answers that there is no such repository.
    RepositoryNotFound,
    /// A limit on bytes, entries or depth was reached.
    TooLarge,
    /// The source is written in a way that can never work, or is not allowed here.
    InvalidSource,
    /// The repository has no chart of that name.
    ChartNotFound,
    /// The chart has no version that satisfies what is asked for.
    VersionNotFound,
    /// The server breaks the protocol, or what it sent does not match its checksums.
    InvalidData,
    /// A file of the chart is a Git LFS pointer and not the file itself.
    LfsPointer,
    /// The commit carries no signature by one of the expected keys.
    SignatureInvalid,
    /// The cache directory cannot be read or written (full, read-only, damaged).
    StorageFailed,
}

impl Reason {
    /// The reason in the form of Kubernetes conditions and Events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cloning => "Cloning",
            Self::AuthFailed => "AuthFailed",
            Self::HostKeyMismatch => "HostKeyMismatch",
            Self::RefNotFound => "RefNotFound",
            Self::PathNotFound => "PathNotFound",
            Self::Timeout => "Timeout",
            Self::Unreachable => "Unreachable",
            Self::RepositoryNotFound => "RepositoryNotFound",
            Self::TooLarge => "TooLarge",
            Self::InvalidSource => "InvalidSource",
            Self::ChartNotFound => "ChartNotFound",
            Self::VersionNotFound => "VersionNotFound",
            Self::InvalidData => "InvalidData",
            Self::LfsPointer => "LfsPointer",
            Self::SignatureInvalid => "SignatureInvalid",
            Self::StorageFailed => "StorageFailed",
        }
    }

    /// True when trying again later, with nothing changed by anyone, can succeed.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Cloning
                | Self::Timeout
                | Self::Unreachable
                | Self::InvalidData
                | Self::StorageFailed
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed fetch: a reason and a text for people, lower-case, cause first, without secrets.
///
/// Cheap to clone: the same error is shown by every release of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    reason: Reason,
    message: String,
    retry_after: Option<Duration>,
}

/// Longest message that is kept, in bytes: a server writes part of it.
const MAX_MESSAGE: usize = 1024;

impl SourceError {
    /// An error with its text. Control characters are replaced, and a long text is cut: part of it may come from a
    /// server, and it ends in a terminal and in an Event.
    #[must_use]
    pub fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        Self {
            reason,
            message: clean(message.as_ref()),
            retry_after: None,
        }
    }

    /// The same error, of a server that says how long to stay away.
    #[must_use]
    pub fn with_retry_after(self, pause: Duration) -> Self {
        Self {
            retry_after: Some(pause),
            ..self
        }
    }

    /// How long the server wants to be left alone, if it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The state that the source is in.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// True when trying again later, with nothing changed by anyone, can succeed. A release with an error that is not
    /// transient need not be retried: it is woken when its source changes.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.reason.is_transient()
    }

    /// The same error with what it is about behind it.
    #[must_use]
    pub fn about(self, what: impl fmt::Display) -> Self {
        let message = clean(&format!("{}: {what}", self.message));
        Self { message, ..self }
    }

    /// The same error with what was being done in front of it.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        let message = clean(&format!("{context}: {}", self.message));
        Self { message, ..self }
    }
}

fn clean(text: &str) -> String {
    let mut out: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_MESSAGE)
        .collect();
    if out.len() < text.len() && text.chars().nth(MAX_MESSAGE).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_server_do_not_reach_the_message() {
        let error = SourceError::new(Reason::Unreachable, "remote: \u{1b}[31mno\r\nEvent: forged");
        assert_eq!(error.to_string(), "remote:  [31mno  Event: forged");
    }

    #[test]
    fn a_long_message_is_cut() {
        let error = SourceError::new(Reason::InvalidData, "x".repeat(100_000));
        assert_eq!(error.to_string().chars().count(), MAX_MESSAGE + 1);
    }

    #[test]
    fn context_keeps_the_reason() {
        let error = SourceError::new(Reason::Timeout, "no byte for 20s").context("fetching main");
        assert_eq!(
            (error.reason(), error.to_string().as_str()),
            (Reason::Timeout, "fetching main: no byte for 20s")
        );
    }
}

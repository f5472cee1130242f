//! What can go wrong with an action, in classes that say what to do next.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::outcome::HookRun;
use crate::request::{ApiStatus, Failure};

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The cause lies outside of the inputs (network, API server, webhook, quota, readiness of a
    /// dependency): try again, with backoff, for as long as it takes.
    Transient,
    /// The same inputs fail again: wait for other inputs.
    Permanent,
}

/// The reason of a failure, in the form of an Event's `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The API server cannot be reached, or does not answer in time.
    ClusterUnreachable,
    /// The API server or a webhook failed.
    ServerError,
    /// The API server asks for patience (429).
    Throttled,
    /// The credentials are not accepted (401).
    Unauthorized,
    /// The identity that the release is deployed as lacks a right (403).
    Forbidden,
    /// A quota is used up (403 with that message).
    QuotaExceeded,
    /// The namespace of the release, or of an object, does not exist.
    NamespaceNotFound,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// An admission webhook or policy said no.
    AdmissionDenied,
    /// A kind of the manifest is not served by the cluster.
    KindNotFound,
    /// The manifest holds something that is no object.
    InvalidManifest,
    /// The API server found an object invalid.
    InvalidObject,
    /// A field that cannot be changed would change.
    ImmutableField,
    /// Another field manager owns a field with another value.
    Conflict,
    /// An object exists and belongs to something else.
    OwnershipConflict,
    /// The rendered chart has no objects where the release had some.
    EmptyRender,
    /// The release record is larger than a Secret may be.
    ReleaseTooLarge,
    /// A record of the release cannot be read.
    InvalidRecord,
    /// Another client changed the release at the same time.
    ConcurrentChange,
    /// Another client's action on the release is in progress.
    OperationInProgress,
    /// There is no such release, or no such revision.
    ReleaseNotFound,
    /// The release's state does not allow the action.
    InvalidState,
    /// A hook failed.
    HookFailed,
    /// A test failed.
    TestFailed,
    /// Objects did not become ready, or did not go away, in time.
    WaitTimeout,
    /// An object reported that it will not become ready.
    ObjectFailed,
    /// A custom resource definition was not established in time.
    CrdNotEstablished,
    /// The action was given up by its caller.
    Canceled,
}

impl Reason {
    /// The word for Events and conditions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterUnreachable => "ClusterUnreachable",
            Self::ServerError => "ServerError",
            Self::Throttled => "Throttled",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::NamespaceNotFound => "NamespaceNotFound",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::AdmissionDenied => "AdmissionDenied",
            Self::KindNotFound => "KindNotFound",
            Self::InvalidManifest => "InvalidManifest",
            Self::InvalidObject => "InvalidObject",
            Self::ImmutableField => "ImmutableField",
            Self::Conflict => "Conflict",
            Self::OwnershipConflict => "OwnershipConflict",
            Self::EmptyRender => "EmptyRender",
            Self::ReleaseTooLarge => "ReleaseTooLarge",
            Self::InvalidRecord => "InvalidRecord",
            Self::ConcurrentChange => "ConcurrentChange",
            Self::OperationInProgress => "OperationInProgress",
            Self::ReleaseNotFound => "ReleaseNotFound",
            Self::InvalidState => "InvalidState",
            Self::HookFailed => "HookFailed",
            Self::TestFailed => "TestFailed",
            Self::WaitTimeout => "WaitTimeout",
            Self::ObjectFailed => "ObjectFailed",
            Self::CrdNotEstablished => "CrdNotEstablished",
            Self::Canceled => "Canceled",
        }
    }

    /// The class of failures with this reason.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Self::ClusterUnreachable
            | Self::ServerError
            | Self::Throttled
            | Self::Unauthorized
            | Self::QuotaExceeded
            | Self::NamespaceNotFound
            | Self::NamespaceTerminating
            | Self::KindNotFound
            | Self::ConcurrentChange
            | Self::OperationInProgress
            | Self::WaitTimeout
            | Self::CrdNotEstablished
            | Self::Canceled => Class::Transient,
            Self::Forbidden
            | Self::AdmissionDenied
            | Self::InvalidManifest
            | Self::InvalidObject
            | Self::ImmutableField
            | Self::Conflict
            | Self::OwnershipConflict
            | Self::EmptyRender
            | Self::ReleaseTooLarge
            | Self::InvalidRecord
            | Self::ReleaseNotFound
            | Self::InvalidState
            | Self::HookFailed
            | Self::TestFailed
            | Self::ObjectFailed => Class::Permanent,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an action failed.
///
/// The text names the object and the cause and says what to do; it never holds the content of an
/// object, so that it may be logged and shown in Events and conditions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ActionError {
    /// What kind of failure it is.
    pub reason: Reason,
    /// The text for people: lower-case, cause first.
    pub message: String,
    /// The revision that was recorded as failed by this action, if one was.
    pub revision: Option<i64>,
    /// How long the API server asked to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the revision stays pending, to be taken up again where it stopped. It is so when
    /// the API server could not be used any more; [`recover`](crate::recover) then says `Resume`.
    pub resumable: bool,
    /// The hooks and tests that had been run, with the logs of those that failed. They may hold
    /// anything: they are for people who may read the Pods' logs, not for Events.
    pub hooks: Vec<HookRun>,
}

impl ActionError {
    /// A failure with a reason and a text.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            revision: None,
            retry_after: None,
            resumable: false,
            hooks: Vec::new(),
        }
    }

    /// What to do next: the class of the reason.
    #[must_use]
    pub fn class(&self) -> Class {
        self.reason.class()
    }

    /// The failure of a request, told with what it was for (`apply Deployment default/web`).
    #[must_use]
    pub fn from_failure(what: &str, failure: &Failure) -> Self {
        match failure {
            Failure::Transport(cause) => Self::new(
                Reason::ClusterUnreachable,
                format!("{cause}: cannot {what}: check that the API server can be reached"),
            ),
            Failure::Deadline(after) => Self::new(
                Reason::ClusterUnreachable,
                format!("no answer from the API server within {after:?}: cannot {what}"),
            ),
            Failure::Undecodable(cause) => Self::new(
                Reason::ServerError,
                format!("cannot read the API server's answer: {cause}: cannot {what}"),
            ),
            Failure::Status(status) => {
                let mut error = Self::new(
                    reason_of(status),
                    format!("{}: cannot {what}", status.message),
                );
                error.retry_after = status.retry_after;
                error
            }
        }
    }

    /// Puts a clause in front of the text: `clause: text`.
    #[must_use]
    pub fn context(mut self, clause: &str) -> Self {
        self.message = format!("{clause}: {}", self.message);
        self
    }

    /// Whether the API server itself is the trouble, so that recording the failure is not
    /// possible either and the action is best taken up later where it stopped.
    #[must_use]
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self.reason,
            Reason::ClusterUnreachable
                | Reason::ServerError
                | Reason::Throttled
                | Reason::Unauthorized
        )
    }
}

/// The reason that the API server's answer stands for.
#[must_use]
pub(crate) fn reason_of(status: &ApiStatus) -> Reason {
    match status.code {
        // Webhooks and policies choose the code.
        400.. if is_denied(&status.message) => Reason::AdmissionDenied,
        401 => Reason::Unauthorized,
        403 => forbidden(status),
        404 if status.details_kind == "namespaces" => Reason::NamespaceNotFound,
        404 => Reason::KindNotFound,
        409 if status.is_field_conflict() => Reason::Conflict,
        409 => Reason::ConcurrentChange,
        422 if status.is_immutable() => Reason::ImmutableField,
        400 | 405 | 413 | 415 | 422 => Reason::InvalidObject,
        429 => Reason::Throttled,
        // What the API server cannot merge is answered as if it were its own fault.
        500 if status
            .message
            .starts_with("failed to create typed patch object") =>
        {
            Reason::InvalidObject
        }
        code if code >= 500 => Reason::ServerError,
        _ => Reason::InvalidObject,
    }
}

fn forbidden(status: &ApiStatus) -> Reason {
    if status.has_cause("NamespaceTerminating") {
        Reason::NamespaceTerminating
    } else if status.message.contains("exceeded quota") {
        Reason::QuotaExceeded
    } else {
        Reason::Forbidden
    }
}

fn is_denied(message: &str) -> bool {
    let has = |words: &str| message.contains(words);
    has("admission webhook") && has("denied the request")
        || has("ValidatingAdmissionPolicy") && has("denied request")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str) -> ApiStatus {
        ApiStatus {
            code,
            message: message.to_owned(),
            ..ApiStatus::default()
        }
    }

    #[test]
    fn answers_of_the_api_server_have_specific_reasons() {
        let table = [
            (401, "Unauthorized", Reason::Unauthorized),
            (
                403,
                "pods is forbidden: User \"x\" cannot create",
                Reason::Forbidden,
            ),
            (
                403,
                "exceeded quota: objects, requested: 1",
                Reason::QuotaExceeded,
            ),
            (
                400,
                "admission webhook \"a.b\" denied the request: no",
                Reason::AdmissionDenied,
            ),
            (
                403,
                "ValidatingAdmissionPolicy 'p' denied request",
                Reason::AdmissionDenied,
            ),
            (
                422,
                "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                Reason::AdmissionDenied,
            ),
            (
                404,
                "the server could not find the requested resource",
                Reason::KindNotFound,
            ),
            (
                409,
                "the object has been modified",
                Reason::ConcurrentChange,
            ),
            (422, "spec.x: Invalid value", Reason::InvalidObject),
            (
                422,
                "spec.selector: Invalid value: field is immutable",
                Reason::ImmutableField,
            ),
            (429, "too many requests", Reason::Throttled),
            (500, "failed calling webhook", Reason::ServerError),
            (
                500,
                "failed to create typed patch object (a/b; /v1, Kind=ConfigMap): .data.key: expected string",
                Reason::InvalidObject,
            ),
            (503, "apiserver not ready", Reason::ServerError),
        ];
        for (code, message, expected) in table {
            assert_eq!(
                reason_of(&status(code, message)),
                expected,
                "{code} {message}"
            );
        }
    }

    #[test]
    fn a_missing_namespace_is_told_from_a_missing_kind() {
        let missing = ApiStatus {
            details_kind: "namespaces".to_owned(),
            ..status(404, "namespaces \"a\" not found")
        };
        assert_eq!(reason_of(&missing), Reason::NamespaceNotFound);
    }

    #[test]
    fn outages_are_transient() {
        for failure in [
            Failure::Transport("connection refused".to_owned()),
            Failure::Deadline(Duration::from_secs(30)),
            Failure::Status(status(503, "x")),
        ] {
            let error = ActionError::from_failure("apply ConfigMap a/b", &failure);
            assert_eq!(error.class(), Class::Transient);
            assert!(error.is_outage());
        }
    }
}

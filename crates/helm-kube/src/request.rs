//! Requests and answers as plain values: what the step machines ask for and what they are told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Catalog;

/// One thing to ask the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// What kinds the cluster serves. It is answered from a cache, unless `fresh` is asked for.
    Discover {
        /// Ask the API server, even if the answer is known.
        fresh: bool,
    },
    /// One call of the API server.
    Call(Call),
}

/// The HTTP verb of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `GET` of an object or a collection.
    Get,
    /// `POST` into a collection.
    Create,
    /// `PUT` of an object.
    Replace,
    /// `PATCH` with the content type of the body.
    Patch,
    /// `DELETE` of an object.
    Delete,
}

/// The content types that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// `application/json`
    Json,
    /// `application/apply-patch+yaml`, holding JSON.
    Apply,
    /// `application/json-patch+json`
    JsonPatch,
    /// `application/merge-patch+json`
    MergePatch,
}

/// The form in which the answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The whole object.
    Full,
    /// Its metadata only (`PartialObjectMetadata`), or those of each item of a list.
    Metadata,
    /// Plain text, such as a log; at most this many bytes of it are kept.
    Text(usize),
}

/// One call of the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The HTTP verb.
    pub verb: Verb,
    /// Path and query, such as `/api/v1/namespaces/a/secrets/b?dryRun=All`.
    pub uri: String,
    /// The form of the answer.
    pub accept: Accept,
    /// The body, with its content type.
    pub body: Option<(Content, Vec<u8>)>,
    /// What it is for, as the end of the sentence `cannot …`: `apply Deployment default/web`.
    pub what: String,
}

/// What a request is answered with.
pub type Response = Result<Reply, Failure>;

/// The good answer to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To [`Request::Discover`].
    Catalog(Arc<Catalog>),
    /// To a call: the HTTP code and the JSON body.
    Object {
        /// 200, 201 or 202.
        code: u16,
        /// The object, its metadata, a list or a `Status`.
        body: Value,
    },
    /// To a call for text.
    Text(String),
    /// The time of a [`Wait`](crate::Wait) has come, or something has changed.
    Woken,
}

/// The bad answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The API server said no.
    Status(ApiStatus),
    /// The API server could not be reached, or the connection broke.
    Transport(String),
    /// There was no answer in this time.
    Deadline(Duration),
    /// The answer was not understood.
    Undecodable(String),
}

impl Failure {
    /// The HTTP code, if there was an answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the object, the namespace or the kind does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// An error answer of the API server (`meta/v1.Status`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiStatus {
    /// The HTTP code.
    pub code: u16,
    /// Such as `AlreadyExists`.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The kind in `details`, for a 404 the resource that is missing.
    pub details_kind: String,
    /// The causes in `details`.
    pub causes: Vec<ApiCause>,
    /// How long to wait before the next try.
    pub retry_after: Option<Duration>,
}

/// One cause of an error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiCause {
    /// Such as `FieldManagerConflict`.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl ApiStatus {
    /// Reads a body; a body that is no `Status` becomes the message.
    #[must_use]
    pub fn parse(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let parsed = serde_json::from_slice::<Value>(body).unwrap_or(Value::Null);
        let text = |value: &Value, key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let details = parsed.get("details").unwrap_or(&Value::Null);
        let mut message = text(&parsed, "message");
        if message.is_empty() {
            message = short(&String::from_utf8_lossy(body), 512);
        }
        if message.is_empty() {
            message = format!("the API server answered {code}");
        }
        Self {
            code,
            reason: text(&parsed, "reason"),
            message: short(&without_values(&message), 4096),
            details_kind: text(details, "kind"),
            causes: causes(details),
            retry_after: retry_after.or_else(|| seconds(details)),
        }
    }

    /// Whether a field manager's claim stood in the way of a server-side apply.
    #[must_use]
    pub fn is_field_conflict(&self) -> bool {
        self.has_cause("FieldManagerConflict")
    }

    /// Whether an object of that name was there already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.code == 409 && self.reason == "AlreadyExists"
    }

    /// Whether the object has changed since it was read.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.code == 409 && self.reason == "Conflict" && !self.is_field_conflict()
    }

    /// Whether the change of an immutable field was refused.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.code == 422
            && [
                "immutable",
                "updates to statefulset spec for fields other than",
                "may not be changed",
                "may not change once set",
                "is forbidden after creation",
            ]
            .iter()
            .any(|words| self.message.contains(words))
    }

    /// Whether a cause has that reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|cause| cause.reason == reason)
    }
}

/// A server-side apply of a value of the wrong type is answered with that value, which may be a secret: what was got is
/// left out, the field and what was expected stay.
fn without_values(message: &str) -> String {
    const GOT: &str = ", got &";
    if !message.contains(GOT) {
        return message.to_owned();
    }
    let mut kept: Vec<String> = Vec::new();
    let mut in_value = false;
    for line in message.lines() {
        // Each error is one line that begins with its field; a value may go over several.
        if in_value && !line.trim_start().starts_with('.') {
            continue;
        }
        in_value = line.contains(GOT);
        kept.push(match line.split_once(GOT) {
            Some((before, _)) => format!("{before}, got something else"),
            None => line.to_owned(),
        });
    }
    kept.join("\n")
}

fn causes(details: &Value) -> Vec<ApiCause> {
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let listed = details.get("causes").and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .take(64)
        .map(|cause| ApiCause {
            reason: text(cause, "reason"),
            message: text(cause, "message"),
            field: text(cause, "field"),
        })
        .collect()
}

fn seconds(details: &Value) -> Option<Duration> {
    details
        .get("retryAfterSeconds")
        .and_then(Value::as_u64)
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// Cuts a text between characters.
#[must_use]
pub(crate) fn short(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_its_causes() {
        let body = br#"{"kind":"Status","status":"Failure","message":"Apply failed with 1 conflict","reason":"Conflict","details":{"name":"web","group":"apps","kind":"deployments","causes":[{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using apps/v1","field":".spec.replicas"}]},"code":409}"#;
        let status = ApiStatus::parse(409, body, None);
        assert!(status.is_field_conflict());
        assert!(!status.is_stale());
        assert_eq!(status.causes[0].field, ".spec.replicas");
        assert_eq!(status.details_kind, "deployments");
    }

    #[test]
    fn values_of_the_wrong_type_are_not_repeated() {
        for (message, expected) in [
            ("no such thing", "no such thing"),
            (
                "failed to create typed patch object (a/b; /v1, Kind=Secret): .stringData: expected map, got &{canary}",
                "failed to create typed patch object (a/b; /v1, Kind=Secret): .stringData: expected map, got something else",
            ),
            (
                "errors:\n  .a: expected string, got &value.valueUnstructured{Value:1}\n  .b: expected map, got &{one\ntwo canary}\n  .c: field not declared in schema",
                "errors:\n  .a: expected string, got something else\n  .b: expected map, got something else\n  .c: field not declared in schema",
            ),
        ] {
            assert_eq!(without_values(message), expected);
        }
    }

    #[test]
    fn a_body_that_is_no_status_becomes_the_message() {
        assert_eq!(
            ApiStatus::parse(502, b"bad gateway", None).message,
            "bad gateway"
        );
        assert_eq!(
            ApiStatus::parse(502, b"", None).message,
            "the API server answered 502"
        );
    }

    #[test]
    fn retry_after_of_the_body_is_used_without_a_header() {
        let body = br#"{"details":{"retryAfterSeconds":7}}"#;
        let expected = Some(Duration::from_secs(7));
        assert_eq!(ApiStatus::parse(429, body, None).retry_after, expected);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(short("aä", 2), "a…");
        assert_eq!(short("aä", 3), "aä");
    }
}

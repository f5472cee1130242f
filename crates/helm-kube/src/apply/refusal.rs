//! What the API server said when it refused an object, in words that help and give nothing away.

use crate::error::{ActionError, Reason};
use crate::object::{ObjectKey, Resource};
use crate::request::{ApiStatus, Failure};

/// The failure of an apply, in Helm's words, with what can be done.
pub(super) fn refused(resource: &Resource, failure: &Failure) -> ActionError {
    let what = format!("apply {}", resource.key);
    let Failure::Status(status) = failure else {
        return ActionError::from_failure(&what, failure);
    };
    let status = ApiStatus {
        message: redact(&resource.key.kind, status),
        ..status.clone()
    };
    let error = ActionError::from_failure(&what, &Failure::Status(status.clone()));
    match error.reason {
        Reason::Conflict => conflict(resource, &status),
        Reason::ImmutableField => immutable(resource, &status),
        _ => error,
    }
}

/// The message without values: those that the API server could not read, and all that a Secret
/// has.
fn redact(kind: &str, status: &ApiStatus) -> String {
    let message = hide(&status.message, "valueUnstructured{Value:", "}");
    if kind != "Secret" {
        return message;
    }
    match status.code {
        // What admission says is told: it is for people.
        400 | 403 => message,
        _ if fields(status).is_empty() => hide(&message, "Invalid value:", ": "),
        _ => format!("invalid fields {}", fields(status)),
    }
}

/// Replaces what stands between a word and the next mark, wherever the word is.
fn hide(text: &str, word: &str, mark: &str) -> String {
    let mut parts = text.split(word);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(word);
        out.push_str("***");
        out.push_str(
            part.find(mark)
                .and_then(|at| part.get(at..))
                .unwrap_or_default(),
        );
    }
    out
}

fn fields(status: &ApiStatus) -> String {
    let fields = status.causes.iter().map(|cause| cause.field.as_str());
    fields
        .filter(|field| !field.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

fn conflict(resource: &Resource, status: &ApiStatus) -> ActionError {
    let causes: Vec<_> = status
        .causes
        .iter()
        .map(|cause| format!("{}: {}", cause.message, cause.field))
        .collect();
    ActionError::new(
        Reason::Conflict,
        format!(
            "conflict occurred while applying object {} {}: {}: take the fields out of the chart, \
             or have them taken over by force",
            resource.key,
            resource.key.api_version,
            causes.join("; ")
        ),
    )
}

fn immutable(resource: &Resource, status: &ApiStatus) -> ActionError {
    let fields = match fields(status) {
        fields if fields.is_empty() => fields,
        fields => format!(" ({fields})"),
    };
    ActionError::new(
        Reason::ImmutableField,
        format!(
            "a field{fields} of {} cannot be changed: {}: give the object another name, or allow \
             its kind to be recreated",
            resource.key, status.message
        ),
    )
}

/// An object that kept changing.
pub(super) fn busy(key: &ObjectKey) -> ActionError {
    ActionError::new(
        Reason::ConcurrentChange,
        format!("{key} keeps being changed by others: it is tried again later"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::cluster::ApiResource;
    use crate::request::ApiCause;

    fn resource(kind: &str) -> Resource {
        Resource {
            key: ObjectKey {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                namespace: "a".to_owned(),
                name: "b".to_owned(),
            },
            api: ApiResource {
                group: String::new(),
                version: "v1".to_owned(),
                kind: kind.to_owned(),
                plural: "x".to_owned(),
                namespaced: true,
            },
            content: Map::new(),
        }
    }

    fn message(kind: &str, code: u16, text: &str, fields: &[&str]) -> String {
        let causes = fields.iter().map(|field| ApiCause {
            field: (*field).to_owned(),
            ..ApiCause::default()
        });
        let status = ApiStatus {
            code,
            message: text.to_owned(),
            causes: causes.collect(),
            ..ApiStatus::default()
        };
        refused(&resource(kind), &Failure::Status(status)).message
    }

    #[test]
    fn values_of_secrets_are_not_repeated() {
        let table = [
            (
                500,
                "failed to create typed patch object: .stringData.k: expected string, got &value.valueUnstructured{Value:31337}",
                &[][..],
            ),
            (
                422,
                "Secret \"b\" is invalid: data[k]: Invalid value: \"31337\": too bad",
                &["data[k]"],
            ),
            (
                422,
                "Secret \"b\" is invalid: data[k]: Invalid value: \"31337\": too bad",
                &[],
            ),
        ];
        for (code, text, fields) in table {
            let told = message("Secret", code, text, fields);
            assert!(!told.contains("31337"), "{told}");
            assert!(told.contains("Secret a/b"), "{told}");
        }
    }

    #[test]
    fn the_cause_is_told_for_other_kinds() {
        let told = message(
            "Service",
            422,
            "spec.ports[0].port: Invalid value: 0: too small",
            &[],
        );
        assert_eq!(
            told,
            "spec.ports[0].port: Invalid value: 0: too small: cannot apply Service a/b"
        );
        let told = message(
            "Pod",
            500,
            "failed to create typed patch object: env: expected string, got &value.valueUnstructured{Value:1} at x",
            &[],
        );
        assert!(told.contains("valueUnstructured{Value:***} at x"), "{told}");
    }
}

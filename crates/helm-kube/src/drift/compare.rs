//! The differences between two states of an object.

use std::fmt;

use serde_json::Value;

/// One place in which two states of an object differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A JSON pointer.
    pub path: String,
    /// How.
    pub kind: DifferenceKind,
}

/// How a place differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    /// The live object lacks it.
    Missing,
    /// The live object has it in surplus.
    Surplus,
    /// The live object has another value.
    Changed,
}

impl fmt::Display for Difference {
    /// `/spec/replicas changed`: no values, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            DifferenceKind::Missing => "missing",
            DifferenceKind::Surplus => "surplus",
            DifferenceKind::Changed => "changed",
        };
        write!(f, "{} {word}", self.path)
    }
}

/// The most differences that are told of one object.
const MAX_DIFFERENCES: usize = 100;

/// In what a live object differs from what is wanted; what the API server keeps for itself (status,
/// versions, managed fields) does not count.
#[must_use]
pub fn differences(live: &Value, wanted: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(live, wanted, "", &mut found);
    found
}

fn is_of_the_server(path: &str) -> bool {
    matches!(
        path,
        "/status"
            | "/metadata/managedFields"
            | "/metadata/resourceVersion"
            | "/metadata/generation"
            | "/metadata/creationTimestamp"
            | "/metadata/uid"
            | "/metadata/selfLink"
    )
}

fn compare(live: &Value, wanted: &Value, path: &str, found: &mut Vec<Difference>) {
    if found.len() >= MAX_DIFFERENCES || is_of_the_server(path) || live == wanted {
        return;
    }
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (key, value) in live {
                let path = format!("{path}/{}", escape(key));
                match wanted.get(key) {
                    Some(wanted) => compare(value, wanted, &path, found),
                    None => note(path, DifferenceKind::Surplus, found),
                }
            }
            for key in wanted.keys().filter(|key| !live.contains_key(*key)) {
                note(
                    format!("{path}/{}", escape(key)),
                    DifferenceKind::Missing,
                    found,
                );
            }
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            for (at, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                compare(live, wanted, &format!("{path}/{at}"), found);
            }
        }
        _ => note(path.to_owned(), DifferenceKind::Changed, found),
    }
}

fn note(path: String, kind: DifferenceKind, found: &mut Vec<Difference>) {
    if !is_of_the_server(&path) {
        found.push(Difference { path, kind });
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_told_by_path() {
        let live = json!({
            "metadata": {"resourceVersion": "2", "generation": 2, "labels": {"a/b": "x", "own": "y"}},
            "spec": {"replicas": 3, "list": [1, 2], "long": [1]},
            "status": {"ready": 1},
        });
        let wanted = json!({
            "metadata": {"resourceVersion": "1", "labels": {"a/b": "z"}},
            "spec": {"replicas": 3, "list": [1, 3], "long": [1, 2], "more": true},
        });
        let found: Vec<_> = differences(&live, &wanted)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "/metadata/labels/a~1b changed",
                "/metadata/labels/own surplus",
                "/spec/list/1 changed",
                "/spec/long changed",
                "/spec/more missing",
            ]
        );
        assert!(differences(&live, &live).is_empty());
    }

    #[test]
    fn there_is_an_end_to_what_is_told() {
        let list = |value: i64| json!({"list": (0..500).map(|_| value).collect::<Vec<_>>()});
        assert_eq!(differences(&list(1), &list(2)).len(), 100);
    }
}

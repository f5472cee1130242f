//! Which release an object belongs to: Helm's label and annotations.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{ActionError, Reason};
use crate::object::{ObjectKey, edit_map};
use crate::release::ReleaseKey;

/// The label that says who looks after an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of that label.
pub const MANAGER: &str = "Helm";
/// The annotation with the name of the release.
pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// The annotation with the namespace of the release.
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Marks an object as belonging to a release; what the chart says about it is overwritten.
pub(crate) fn stamp(content: &mut Map<String, Value>, release: &ReleaseKey) {
    edit_map(content, "metadata", |metadata| {
        edit_map(metadata, "labels", |labels| {
            labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
        });
        edit_map(metadata, "annotations", |annotations| {
            annotations.insert(RELEASE_NAME.to_owned(), release.name.as_str().into());
            annotations.insert(
                RELEASE_NAMESPACE.to_owned(),
                release.namespace.as_str().into(),
            );
        });
    });
}

/// Gives an object more annotations; what the chart says about them is overwritten.
pub(crate) fn annotate(content: &mut Map<String, Value>, more: &BTreeMap<String, String>) {
    edit_map(content, "metadata", |metadata| {
        edit_map(metadata, "annotations", |annotations| {
            for (key, value) in more {
                annotations.insert(key.clone(), value.as_str().into());
            }
        });
    });
}

/// Whether a live object belongs to a release.
#[must_use]
pub fn is_owned(live: &Value, release: &ReleaseKey) -> bool {
    faults(live, release).is_empty()
}

/// Checks that a live object may be taken into a release: that it says that it belongs to it.
///
/// # Errors
/// It does not, with Helm's text.
pub(crate) fn check(
    live: &Value,
    key: &ObjectKey,
    release: &ReleaseKey,
) -> Result<(), ActionError> {
    let faults = faults(live, release);
    if faults.is_empty() {
        return Ok(());
    }
    let ObjectKey {
        kind,
        name,
        namespace,
        ..
    } = key;
    Err(ActionError::new(
        Reason::OwnershipConflict,
        format!(
            "{kind} \"{name}\" in namespace \"{namespace}\" exists and cannot be imported into the \
             current release: invalid ownership metadata; {}",
            faults.join("; ")
        ),
    ))
}

/// The release that a live object says it belongs to, if it says so.
#[must_use]
pub fn owner(live: &Value) -> Option<ReleaseKey> {
    let annotations = live.get("metadata")?.get("annotations")?;
    Some(ReleaseKey {
        name: annotations.get(RELEASE_NAME)?.as_str()?.to_owned(),
        namespace: annotations.get(RELEASE_NAMESPACE)?.as_str()?.to_owned(),
    })
}

fn faults(live: &Value, release: &ReleaseKey) -> Vec<String> {
    let wanted = [
        ("label", "labels", MANAGED_BY, MANAGER),
        (
            "annotation",
            "annotations",
            RELEASE_NAME,
            release.name.as_str(),
        ),
        (
            "annotation",
            "annotations",
            RELEASE_NAMESPACE,
            release.namespace.as_str(),
        ),
    ];
    wanted
        .into_iter()
        .filter_map(|(what, place, key, value)| {
            let actual = live
                .get("metadata")?
                .get(place)
                .and_then(|map| map.get(key));
            let fault = match actual.and_then(Value::as_str) {
                Some(actual) if actual == value => return None,
                Some(actual) => {
                    format!("key \"{key}\" must equal \"{value}\": current value is \"{actual}\"")
                }
                None => format!("missing key \"{key}\": must be set to \"{value}\""),
            };
            Some(format!("{what} validation error: {fault}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release() -> ReleaseKey {
        ReleaseKey::new("web", "shop")
    }

    fn key() -> ObjectKey {
        ObjectKey {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace: "shop".to_owned(),
            name: "front".to_owned(),
        }
    }

    #[test]
    fn a_stamped_object_is_owned() {
        let mut content = Map::new();
        stamp(&mut content, &release());
        let live = Value::Object(content);
        assert!(is_owned(&live, &release()));
        assert_eq!(owner(&live), Some(release()));
        assert!(!is_owned(&live, &ReleaseKey::new("web", "other")));
    }

    #[test]
    fn foreign_objects_are_refused_in_the_words_of_helm() {
        let live = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}});
        let error = check(&live, &key(), &release()).unwrap_err();
        assert_eq!(error.reason, Reason::OwnershipConflict);
        assert_eq!(
            error.message,
            "Service \"front\" in namespace \"shop\" exists and cannot be imported into the current \
             release: invalid ownership metadata; label validation error: missing key \
             \"app.kubernetes.io/managed-by\": must be set to \"Helm\"; annotation validation error: \
             key \"meta.helm.sh/release-name\" must equal \"web\": current value is \"other\"; \
             annotation validation error: missing key \"meta.helm.sh/release-namespace\": must be \
             set to \"shop\""
        );
    }
}

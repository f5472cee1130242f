//! The calls of the API server that actions are made of.

use serde_json::{Map, Value};

use crate::cluster::ApiResource;
use crate::object::{ObjectKey, Resource};
use crate::request::{Accept, Call, Content, Verb};

/// The field manager of Helm.
pub const FIELD_MANAGER: &str = "helm";

/// How an object is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApplyMode {
    /// Take fields from other managers.
    pub(crate) force: bool,
    /// Refuse fields that the kind does not have.
    pub(crate) strict: bool,
    /// Only try.
    pub(crate) dry_run: bool,
}

/// The path of an object.
pub(crate) fn object_path(api: &ApiResource, namespace: &str, name: &str) -> String {
    format!("{}/{}", collection_path(api, namespace), escape(name))
}

/// The path of a collection.
pub(crate) fn collection_path(api: &ApiResource, namespace: &str) -> String {
    let root = if api.group.is_empty() {
        format!("/api/{}", api.version)
    } else {
        format!("/apis/{}/{}", api.group, api.version)
    };
    if api.namespaced {
        format!("{root}/namespaces/{}/{}", escape(namespace), api.plural)
    } else {
        format!("{root}/{}", api.plural)
    }
}

/// Reads an object.
pub(crate) fn get(api: &ApiResource, key: &ObjectKey, accept: Accept) -> Call {
    Call {
        verb: Verb::Get,
        uri: object_path(api, &key.namespace, &key.name),
        accept,
        body: None,
        what: format!("get {key}"),
    }
}

/// Applies an object, creating it if it is missing.
pub(crate) fn apply(resource: &Resource, mode: ApplyMode, accept: Accept) -> Call {
    let Resource { key, api, content } = resource;
    let validation = if mode.strict { "Strict" } else { "Ignore" };
    let dry_run = if mode.dry_run { "&dryRun=All" } else { "" };
    Call {
        verb: Verb::Patch,
        uri: format!(
            "{}?fieldManager={FIELD_MANAGER}&force={}&fieldValidation={validation}{dry_run}",
            object_path(api, &key.namespace, &key.name),
            mode.force,
        ),
        accept,
        body: Some((Content::Apply, body(content))),
        what: format!("apply {key}"),
    }
}

/// Creates an object in its collection: one whose name the API server makes.
pub(crate) fn create(resource: &Resource, strict: bool) -> Call {
    let Resource { key, api, content } = resource;
    let validation = if strict { "Strict" } else { "Ignore" };
    Call {
        verb: Verb::Create,
        uri: format!(
            "{}?fieldManager={FIELD_MANAGER}&fieldValidation={validation}",
            collection_path(api, &key.namespace)
        ),
        accept: Accept::Metadata,
        body: Some((Content::Json, body(content))),
        what: format!("create {key}"),
    }
}

/// Deletes an object; in the background, its dependents follow it. With a `uid`, only that very
/// object is deleted.
pub(crate) fn delete(
    api: &ApiResource,
    key: &ObjectKey,
    uid: Option<&str>,
    how: Propagation,
) -> Call {
    let mut options = serde_json::json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": how.as_str(),
    });
    if let (Some(uid), Some(options)) = (uid, options.as_object_mut()) {
        options.insert(
            "preconditions".to_owned(),
            serde_json::json!({ "uid": uid }),
        );
    }
    Call {
        verb: Verb::Delete,
        uri: object_path(api, &key.namespace, &key.name),
        accept: Accept::Metadata,
        body: Some((Content::Json, options.to_string().into_bytes())),
        what: format!("delete {key}"),
    }
}

/// Changes an object by a JSON patch.
pub(crate) fn json_patch(api: &ApiResource, key: &ObjectKey, patch: &Value) -> Call {
    Call {
        verb: Verb::Patch,
        uri: format!(
            "{}?fieldManager={FIELD_MANAGER}",
            object_path(api, &key.namespace, &key.name)
        ),
        accept: Accept::Metadata,
        body: Some((Content::JsonPatch, patch.to_string().into_bytes())),
        what: format!("patch {key}"),
    }
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

fn body(content: &Map<String, Value>) -> Vec<u8> {
    // A JSON value always has a text.
    serde_json::to_vec(content).unwrap_or_default()
}

/// Escapes a name for a path.
pub(crate) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16).unwrap_or('0');
                out.push(digit.to_ascii_uppercase());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(group: &str, plural: &str, namespaced: bool) -> ApiResource {
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "X".to_owned(),
            plural: plural.to_owned(),
            namespaced,
        }
    }

    #[test]
    fn paths_follow_the_api() {
        let table = [
            (api("", "secrets", true), "/api/v1/namespaces/a/secrets/b"),
            (
                api("apps", "deployments", true),
                "/apis/apps/v1/namespaces/a/deployments/b",
            ),
            (api("", "namespaces", false), "/api/v1/namespaces/b"),
            (api("rbac.x", "roles", false), "/apis/rbac.x/v1/roles/b"),
        ];
        for (api, expected) in table {
            assert_eq!(object_path(&api, "a", "b"), expected);
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        assert_eq!(escape("system:x.y-z"), "system:x.y-z");
        assert_eq!(escape("a/../b?c#d ü"), "a%2F..%2Fb%3Fc%23d%20%C3%BC");
    }
}

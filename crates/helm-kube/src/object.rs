//! Objects of a manifest: reading them, naming them, finding them in the API.

use std::collections::HashSet;
use std::fmt;

use helm_engine::split_manifests;
use serde_json::{Map, Value};

use crate::cluster::{ApiResource, Catalog};
use crate::error::{ActionError, Reason};
use crate::yaml;

/// The most objects that one manifest may hold.
pub const MAX_OBJECTS: usize = 20_000;

/// What tells an object from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `apiVersion`: `v1`, `apps/v1`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The namespace; empty for objects without one.
    pub namespace: String,
    /// The name; empty for objects whose name the API server makes (`generateName`).
    pub name: String,
}

impl ObjectKey {
    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The API version without its group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(&self.api_version, |(_, version)| version)
    }

    /// Whether both are the same object, whatever version of the API they are written in.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        identity(self) == identity(other)
    }
}

/// A set of objects, whatever version of the API they are written in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet(HashSet<(String, String, String, String)>);

impl KeySet {
    /// Whether the set has the object.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.0.contains(&identity(key))
    }

    /// Adds an object; tells whether it is new.
    pub(crate) fn insert(&mut self, key: &ObjectKey) -> bool {
        self.0.insert(identity(key))
    }
}

impl FromIterator<ObjectKey> for KeySet {
    fn from_iter<I: IntoIterator<Item = ObjectKey>>(keys: I) -> Self {
        Self(keys.into_iter().map(|key| identity(&key)).collect())
    }
}

fn identity(key: &ObjectKey) -> (String, String, String, String) {
    let group = key.group().to_owned();
    (
        group,
        key.kind.clone(),
        key.namespace.clone(),
        key.name.clone(),
    )
}

impl fmt::Display for ObjectKey {
    /// `Deployment default/web`, `ClusterRole web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// An object as it is written in a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The template that it comes from, where the manifest says so (`# Source: …`).
    pub source: String,
    /// The object.
    pub content: Map<String, Value>,
}

impl Object {
    /// `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        text(&self.content, "apiVersion")
    }

    /// `kind`.
    #[must_use]
    pub fn kind(&self) -> &str {
        text(&self.content, "kind")
    }

    /// A text of the metadata; empty if it is absent.
    #[must_use]
    pub fn metadata(&self, key: &str) -> &str {
        self.content
            .get("metadata")
            .and_then(Value::as_object)
            .map_or("", |metadata| text(metadata, key))
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.content
            .get("metadata")?
            .get("annotations")?
            .get(key)?
            .as_str()
    }

    /// Whether the annotation `helm.sh/resource-policy` says `keep`.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.annotation(RESOURCE_POLICY).is_some_and(is_keep)
    }
}

/// The annotation that keeps an object when its release goes.
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// Whether the value of that annotation keeps the object: only `keep` does.
#[must_use]
pub(crate) fn is_keep(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("keep")
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Reads the objects of a manifest in their order; lists are taken apart, documents without
/// content are skipped.
///
/// # Errors
/// A document is no YAML or no object, or there are more than [`MAX_OBJECTS`].
pub fn parse(manifest: &str) -> Result<Vec<Object>, ActionError> {
    let mut objects = Vec::new();
    for document in split_manifests(manifest) {
        let source = source_of(document);
        let value = yaml::to_json(document).map_err(|cause| invalid(source, &cause))?;
        collect(source, value, &mut objects)?;
        if objects.len() > MAX_OBJECTS {
            return Err(invalid(source, &format!("more than {MAX_OBJECTS} objects")));
        }
    }
    Ok(objects)
}

fn collect(source: &str, value: Value, objects: &mut Vec<Object>) -> Result<(), ActionError> {
    let content = match value {
        Value::Null => return Ok(()),
        Value::Object(content) if content.is_empty() => return Ok(()),
        Value::Object(content) => content,
        _ => return Err(invalid(source, "a document that is no object")),
    };
    if text(&content, "kind").ends_with("List")
        && let Some(Value::Array(items)) = content.get("items")
    {
        return items
            .iter()
            .try_for_each(|item| collect(source, item.clone(), objects));
    }
    for key in ["kind", "apiVersion"] {
        if text(&content, key).is_empty() {
            return Err(invalid(
                source,
                &format!("Object '{}' is missing", title(key)),
            ));
        }
    }
    objects.push(Object {
        source: source.to_owned(),
        content,
    });
    Ok(())
}

fn title(key: &str) -> &str {
    if key == "kind" { "Kind" } else { "apiVersion" }
}

fn source_of(document: &str) -> &str {
    document
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# Source: "))
        .unwrap_or_default()
}

fn invalid(source: &str, cause: &str) -> ActionError {
    let place = if source.is_empty() {
        "the manifest"
    } else {
        source
    };
    ActionError::new(
        Reason::InvalidManifest,
        format!("{cause} in {place}: unable to build kubernetes objects from release manifest"),
    )
}

/// An object that has its place in the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What tells it from others.
    pub key: ObjectKey,
    /// Where its kind is served.
    pub api: ApiResource,
    /// The object; its namespace is filled in.
    pub content: Map<String, Value>,
}

impl Resource {
    /// Finds the place of an object.
    ///
    /// # Errors
    /// The cluster does not serve the kind.
    pub fn locate(object: Object, catalog: &Catalog, namespace: &str) -> Result<Self, ActionError> {
        match catalog.find(object.api_version(), object.kind()) {
            Some(api) => Ok(Self::place(object, api.clone(), namespace)),
            None => Err(no_match(&object)),
        }
    }

    fn place(mut object: Object, api: ApiResource, namespace: &str) -> Self {
        let namespace = match object.metadata("namespace") {
            _ if !api.namespaced => String::new(),
            "" => namespace.to_owned(),
            own => own.to_owned(),
        };
        let key = ObjectKey {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            name: object.metadata("name").to_owned(),
            namespace,
        };
        set_namespace(&mut object.content, &key.namespace);
        Self {
            key,
            api,
            content: object.content,
        }
    }

    /// Whether the API server makes its name.
    #[must_use]
    pub fn has_generated_name(&self) -> bool {
        self.key.name.is_empty()
    }
}

fn set_namespace(content: &mut Map<String, Value>, namespace: &str) {
    edit_map(content, "metadata", |metadata| {
        if namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    });
}

/// Changes the map under a key, which is made if it is missing or no map.
pub(crate) fn edit_map(
    parent: &mut Map<String, Value>,
    key: &str,
    edit: impl FnOnce(&mut Map<String, Value>),
) {
    let mut map = match parent.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    edit(&mut map);
    parent.insert(key.to_owned(), Value::Object(map));
}

fn no_match(object: &Object) -> ActionError {
    let (name, namespace) = (object.metadata("name"), object.metadata("namespace"));
    let version = object.api_version();
    let kind = object.kind();
    ActionError::new(
        Reason::KindNotFound,
        format!(
            "resource mapping not found for name: \"{name}\" namespace: \"{namespace}\" from \"{}\": \
             no matches for kind \"{kind}\" in version \"{version}\": ensure CRDs are installed first",
            object.source
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lists_and_comments_become_objects() {
        let manifest = "---\n# Source: a/templates/x.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n---\n# only a comment\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: two\n";
        let objects = parse(manifest).unwrap();
        let names: Vec<_> = objects
            .iter()
            .map(|object| object.metadata("name"))
            .collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(objects[0].source, "a/templates/x.yaml");
    }

    #[test]
    fn a_document_that_is_no_object_is_refused_with_its_source() {
        let error = parse("# Source: a/templates/x.yaml\n- 1\n").unwrap_err();
        assert_eq!(error.reason, Reason::InvalidManifest);
        assert!(error.message.contains("a/templates/x.yaml"), "{error}");
        assert!(
            parse("a: 1\n")
                .unwrap_err()
                .message
                .contains("Object 'Kind' is missing")
        );
    }

    #[test]
    fn the_version_does_not_tell_objects_apart() {
        let key = |api_version: &str, kind: &str| ObjectKey {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: "a".to_owned(),
            name: "b".to_owned(),
        };
        let old = key("apps/v1beta1", "Deployment");
        let set = KeySet::from_iter([old.clone()]);
        assert!(set.contains(&key("apps/v1", "Deployment")));
        assert!(!set.contains(&key("extensions/v1beta1", "Deployment")));
        assert_eq!(old.group(), "apps");
        assert_eq!(key("v1", "Pod").group(), "");
        assert_eq!(old.to_string(), "Deployment a/b");
    }

    #[test]
    fn only_keep_keeps() {
        let cases = [
            ("keep", true),
            (" Keep ", true),
            ("", false),
            ("delete", false),
        ];
        for (value, expected) in cases {
            assert_eq!(is_keep(value), expected, "{value:?}");
        }
    }
}

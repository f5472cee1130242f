//! Reading `Chart.yaml` and lock files as Go decodes JSON into structs.

use std::collections::BTreeMap;

use gotmpl::Str;
use goyaml::{Error, Node};

use super::{Dependency, Lock, Maintainer, Metadata, finite};

type Entries = BTreeMap<Str, Node>;

/// What is read into, for error texts: the Go struct, and the path of JSON names in it.
#[derive(Clone, Copy)]
struct Place<'a> {
    go_struct: &'static str,
    field: &'a str,
}

/// Only `apiVersion`, before anything else is looked at.
pub(crate) fn read_api_version(text: &[u8]) -> Result<String, Error> {
    let node = goyaml::read_node(text)?;
    finite::CHART_BASE.check(&node)?;
    let mut version = String::new();
    if let Some(entries) = object(&node, "loader.chartBase")? {
        let place = Place {
            go_struct: "chartBase",
            field: "apiVersion",
        };
        string(entries, place, "", &mut version)?;
    }
    Ok(version)
}

/// Reads `Chart.yaml` or `requirements.yaml` onto metadata: fields that are absent or null stay as
/// they are.
pub(crate) fn read_metadata_onto(metadata: &mut Metadata, text: &[u8]) -> Result<(), Error> {
    let node = goyaml::read_node(text)?;
    finite::METADATA.check(&node)?;
    let Some(entries) = object(&node, "v2.Metadata")? else {
        return Ok(());
    };
    let at = |field| Place {
        go_struct: "Metadata",
        field,
    };
    string(entries, at("name"), "", &mut metadata.name)?;
    string(entries, at("home"), "", &mut metadata.home)?;
    strings(entries, at("sources"), "", &mut metadata.sources)?;
    string(entries, at("version"), "", &mut metadata.version)?;
    string(entries, at("description"), "", &mut metadata.description)?;
    strings(entries, at("keywords"), "", &mut metadata.keywords)?;
    if let Some(list) = list(entries, at("maintainers"), "[]*v2.Maintainer")? {
        metadata.maintainers = list.iter().map(maintainer).collect::<Result<_, _>>()?;
    }
    string(entries, at("icon"), "", &mut metadata.icon)?;
    string(entries, at("apiVersion"), "", &mut metadata.api_version)?;
    string(entries, at("condition"), "", &mut metadata.condition)?;
    string(entries, at("tags"), "", &mut metadata.tags)?;
    string(entries, at("appVersion"), "", &mut metadata.app_version)?;
    boolean(entries, at("deprecated"), &mut metadata.deprecated)?;
    if let Some(found) = annotations(entries, at("annotations"))? {
        metadata.annotations.get_or_insert_default().extend(found);
    }
    string(entries, at("kubeVersion"), "", &mut metadata.kube_version)?;
    if let Some(list) = list(entries, at("dependencies"), "[]*v2.Dependency")? {
        let dependencies = list
            .iter()
            .map(|node| dependency(node, "Metadata", "dependencies."))
            .collect::<Result<_, _>>()?;
        metadata.dependencies = Some(dependencies);
    }
    string(entries, at("type"), "", &mut metadata.kind)
}

/// Reads a lock file; `None` for an empty one.
pub(crate) fn read_lock(text: &[u8]) -> Result<Option<Lock>, Error> {
    let node = goyaml::read_node(text)?;
    finite::LOCK.check(&node)?;
    let Some(entries) = object(&node, "v2.Lock")? else {
        return Ok(None);
    };
    let at = |field| Place {
        go_struct: "Lock",
        field,
    };
    let mut lock = Lock::default();
    let mut generated = String::new();
    string(entries, at("generated"), "", &mut generated)?;
    if !generated.is_empty() {
        lock.generated = Some(generated.parse().map_err(|_| time_error(&generated))?);
    }
    string(entries, at("digest"), "", &mut lock.digest)?;
    if let Some(list) = list(entries, at("dependencies"), "[]*v2.Dependency")? {
        let dependencies = list
            .iter()
            .map(|node| dependency(node, "Lock", "dependencies."))
            .collect::<Result<_, _>>()?;
        lock.dependencies = Some(dependencies);
    }
    Ok(Some(lock))
}

fn time_error(text: &str) -> Error {
    let text = crate::text::quote(text);
    Error::new(format!(
        "error unmarshaling JSON: while decoding JSON: parsing time {text} as \
         \"2006-01-02T15:04:05Z07:00\": cannot parse {text} as \"2006\""
    ))
}

fn maintainer(node: &Node) -> Result<Option<Maintainer>, Error> {
    let path = "maintainers.";
    let at = |field| Place {
        go_struct: "Maintainer",
        field,
    };
    let outer = Place {
        go_struct: "Metadata",
        field: "maintainers",
    };
    let Some(entries) = nested(node, outer, "v2.Maintainer")? else {
        return Ok(None);
    };
    let mut maintainer = Maintainer::default();
    string(entries, at("name"), path, &mut maintainer.name)?;
    string(entries, at("email"), path, &mut maintainer.email)?;
    string(entries, at("url"), path, &mut maintainer.url)?;
    Ok(Some(maintainer))
}

fn dependency(
    node: &Node,
    go_struct: &'static str,
    path: &str,
) -> Result<Option<Dependency>, Error> {
    let outer = Place {
        go_struct,
        field: "dependencies",
    };
    let Some(entries) = nested(node, outer, "v2.Dependency")? else {
        return Ok(None);
    };
    let at = |field| Place {
        go_struct: "Dependency",
        field,
    };
    let mut dependency = Dependency::default();
    string(entries, at("name"), path, &mut dependency.name)?;
    string(entries, at("version"), path, &mut dependency.version)?;
    string(entries, at("repository"), path, &mut dependency.repository)?;
    string(entries, at("condition"), path, &mut dependency.condition)?;
    strings(entries, at("tags"), path, &mut dependency.tags)?;
    boolean(entries, at("enabled"), &mut dependency.enabled)?;
    if let Some(list) = list(entries, at("import-values"), "[]interface {}")? {
        dependency.import_values = list.iter().cloned().map(Node::into_tree).collect();
    }
    string(entries, at("alias"), path, &mut dependency.alias)?;
    Ok(Some(dependency))
}

const METADATA_FIELDS: &[&str] = &[
    "name",
    "home",
    "sources",
    "version",
    "description",
    "keywords",
    "maintainers",
    "icon",
    "apiVersion",
    "condition",
    "tags",
    "appVersion",
    "deprecated",
    "annotations",
    "kubeVersion",
    "dependencies",
    "type",
];
const MAINTAINER_FIELDS: &[&str] = &["name", "email", "url"];
const DEPENDENCY_FIELDS: &[&str] = &[
    "name",
    "version",
    "repository",
    "condition",
    "tags",
    "enabled",
    "import-values",
    "alias",
];

/// The fields of a `Chart.yaml` that Helm does not know.
pub(crate) fn unknown_fields(node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    let Node::Map(entries) = node else {
        return unknown;
    };
    for (key, value) in entries {
        let name = key.to_text();
        let known = |list: &[&str]| list.iter().any(|field| field.eq_ignore_ascii_case(&name));
        let inner = match &*name {
            "maintainers" => MAINTAINER_FIELDS,
            "dependencies" => DEPENDENCY_FIELDS,
            _ => &[],
        };
        if !known(METADATA_FIELDS) {
            unknown.push(name.into_owned());
        } else if let (Node::List(items), false) = (value, inner.is_empty()) {
            unknown.extend(items.iter().flat_map(|item| unknown_of(item, inner)));
        }
    }
    unknown
}

fn unknown_of(item: &Node, known: &[&str]) -> Vec<String> {
    let Node::Map(entries) = item else {
        return Vec::new();
    };
    let names = entries.keys().map(|key| key.to_text().into_owned());
    names
        .filter(|name| !known.iter().any(|field| field.eq_ignore_ascii_case(name)))
        .collect()
}

/// The entries of the top level; `None` for null, which changes nothing.
fn object<'a>(node: &'a Node, go_type: &str) -> Result<Option<&'a Entries>, Error> {
    match node {
        Node::Map(entries) => Ok(Some(entries)),
        Node::Null => Ok(None),
        other => Err(Error::mismatch(other.kind(), go_type)),
    }
}

fn nested<'a>(
    node: &'a Node,
    place: Place<'_>,
    go_type: &str,
) -> Result<Option<&'a Entries>, Error> {
    match node {
        Node::Map(entries) => Ok(Some(entries)),
        Node::Null => Ok(None),
        other => Err(mismatch(other, place, "", go_type)),
    }
}

/// A field by its JSON name: exactly, or else in any case, as Go finds it. Null is as absent.
fn field<'a>(entries: &'a Entries, name: &str) -> Option<&'a Node> {
    let exact = entries.get(name.as_bytes());
    let folded = || {
        entries
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, node)| node)
    };
    exact
        .or_else(folded)
        .filter(|node| !matches!(node, Node::Null))
}

fn string(entries: &Entries, place: Place<'_>, path: &str, into: &mut String) -> Result<(), Error> {
    if let Some(node) = field(entries, place.field) {
        *into = scalar(node).ok_or_else(|| mismatch(node, place, path, "string"))?;
    }
    Ok(())
}

fn strings(
    entries: &Entries,
    place: Place<'_>,
    path: &str,
    into: &mut Vec<String>,
) -> Result<(), Error> {
    match field(entries, place.field) {
        None => Ok(()),
        Some(Node::List(items)) => {
            *into = items
                .iter()
                .map(|item| element(item).ok_or_else(|| mismatch(item, place, path, "string")))
                .collect::<Result<_, _>>()?;
            Ok(())
        }
        Some(other) => Err(mismatch(other, place, path, "[]string")),
    }
}

/// An element of a list of strings: null leaves it empty.
fn element(node: &Node) -> Option<String> {
    if matches!(node, Node::Null) {
        return Some(String::new());
    }
    scalar(node)
}

fn boolean(entries: &Entries, place: Place<'_>, into: &mut bool) -> Result<(), Error> {
    match field(entries, place.field) {
        None => Ok(()),
        Some(Node::Bool(value)) => {
            *into = *value;
            Ok(())
        }
        Some(other) => Err(mismatch(other, place, "", "bool")),
    }
}

fn list<'a>(
    entries: &'a Entries,
    place: Place<'_>,
    go_type: &str,
) -> Result<Option<&'a [Node]>, Error> {
    match field(entries, place.field) {
        None => Ok(None),
        Some(Node::List(items)) => Ok(Some(items)),
        Some(other) => Err(mismatch(other, place, "", go_type)),
    }
}

fn annotations(
    entries: &Entries,
    place: Place<'_>,
) -> Result<Option<BTreeMap<String, String>>, Error> {
    match field(entries, place.field) {
        None => Ok(None),
        Some(Node::Map(entries)) => entries
            .iter()
            .map(|(key, node)| {
                let text = element(node).ok_or_else(|| mismatch(node, place, "", "string"))?;
                Ok((key.to_text().into_owned(), text))
            })
            .collect::<Result<_, _>>()
            .map(Some),
        Some(other) => Err(mismatch(other, place, "", "map[string]string")),
    }
}

/// A scalar as the string that Go wants; `None` for null, sequences and mappings.
fn scalar(node: &Node) -> Option<String> {
    node.to_go_string().map(|text| text.to_text().into_owned())
}

fn mismatch(node: &Node, place: Place<'_>, path: &str, go_type: &str) -> Error {
    let path = format!("{}.{path}{}", place.go_struct, place.field);
    Error::field_mismatch(node.kind(), &path, go_type)
}

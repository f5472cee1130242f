//! `.Chart`: the metadata under the names of Go's fields.

use std::collections::BTreeMap;

use gotmpl::{List, Map, Str, Type, Value};
use goyaml::Tree;

use crate::chart::{Dependency, Maintainer};
use crate::node::Node;

pub(super) fn chart(node: &Node<'_>, is_root: bool) -> Value {
    let metadata = &node.chart.metadata;
    let dependencies = node.dependencies();
    let dependencies = dependencies.iter().flat_map(|list| list.iter());
    Value::Map(Map::from_entries([
        ("Name", text(node.name())),
        ("Home", text(&metadata.home)),
        ("Sources", texts(&metadata.sources)),
        ("Version", text(&metadata.version)),
        ("Description", text(&metadata.description)),
        ("Keywords", texts(&metadata.keywords)),
        (
            "Maintainers",
            list(metadata.maintainers.iter().flatten().map(maintainer)),
        ),
        ("Icon", text(&metadata.icon)),
        ("APIVersion", text(&metadata.api_version)),
        ("Condition", text(&metadata.condition)),
        ("Tags", text(&metadata.tags)),
        ("AppVersion", text(&metadata.app_version)),
        ("Deprecated", Value::Bool(metadata.deprecated)),
        ("Annotations", annotations(metadata.annotations.as_ref())),
        ("KubeVersion", text(&metadata.kube_version)),
        ("Dependencies", list(dependencies.map(dependency))),
        ("Type", text(&metadata.kind)),
        ("IsRoot", Value::Bool(is_root)),
    ]))
}

fn text(text: &str) -> Value {
    Value::string(text)
}

fn texts(texts: &[String]) -> Value {
    list(texts.iter().map(|item| text(item)))
}

fn list(items: impl Iterator<Item = Value>) -> Value {
    Value::List(List::new(items.collect()))
}

fn maintainer(maintainer: &Maintainer) -> Value {
    Value::Map(Map::from_entries([
        ("Name", text(&maintainer.name)),
        ("Email", text(&maintainer.email)),
        ("URL", text(&maintainer.url)),
    ]))
}

fn annotations(annotations: Option<&BTreeMap<String, String>>) -> Value {
    let Some(annotations) = annotations else {
        return Value::Map(Map::nil(Type::String));
    };
    string_map(
        annotations
            .iter()
            .map(|(key, value)| (Str::from(key.as_str()), text(value))),
    )
}

fn string_map(entries: impl Iterator<Item = (Str, Value)>) -> Value {
    Value::Map(Map::typed(Type::String, entries.collect()))
}

fn dependency(dependency: &Dependency) -> Value {
    Value::Map(Map::from_entries([
        ("Name", text(&dependency.name)),
        ("Version", text(&dependency.version)),
        ("Repository", text(&dependency.repository)),
        ("Condition", text(&dependency.condition)),
        ("Tags", texts(&dependency.tags)),
        ("Enabled", Value::Bool(dependency.enabled)),
        (
            "ImportValues",
            list(dependency.import_values.iter().map(import)),
        ),
        ("Alias", text(&dependency.alias)),
    ]))
}

/// Processing has turned every entry into a `map[string]string`.
fn import(entry: &Tree) -> Value {
    match entry {
        Tree::Map(entries) => string_map(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), value.to_value())),
        ),
        other => other.to_value(),
    }
}

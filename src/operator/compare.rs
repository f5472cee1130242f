//! Whether a revision that is not by us is what is wanted: 1.4's comparison of a release with a dry run.

use std::sync::Arc;

use goyaml::Tree;
use helm_engine::record::{StoredChart, StoredFile};
use helm_engine::{Chart, Release, coalesce_tables};

/// Compares what 1.4 compared: the user's values; the chart's name, version, application version, default
/// values and own templates. Returns what differs, in words that tell no value.
#[must_use]
pub(crate) fn difference(
    recorded: &Release,
    wanted: &StoredChart,
    config: &Tree,
) -> Option<String> {
    let (old, new) = (&recorded.chart.metadata, &wanted.metadata);
    if old.name != new.name || old.version != new.version || old.app_version != new.app_version {
        return Some("name or version of the chart".to_owned());
    }
    if let Some(path) = differing(recorded.config.as_ref(), Some(config)) {
        return Some(format!("values at '{path}'"));
    }
    if let Some(path) = differing(recorded.chart.values.as_ref(), wanted.values.as_ref()) {
        return Some(format!("default values of the chart at '{path}'"));
    }
    let same = same_files(&recorded.chart.templates, &wanted.templates);
    (!same).then(|| "templates of the chart".to_owned())
}

/// Where two trees of values differ; no values and an empty map are the same.
fn differing(a: Option<&Tree>, b: Option<&Tree>) -> Option<String> {
    let empty = Tree::Map(std::collections::BTreeMap::new());
    let filled = |tree: Option<&Tree>| match tree {
        Some(tree) if !tree.is_null() => as_floats(tree),
        _ => empty.clone(),
    };
    let mut path = String::new();
    first_difference(&filled(a), &filled(b), &mut path).then_some(path)
}

/// Leaves the keys that lead to the first difference in `path`.
fn first_difference(a: &Tree, b: &Tree, path: &mut String) -> bool {
    let (Tree::Map(old), Tree::Map(new)) = (a, b) else {
        return a != b;
    };
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let length = path.len();
        path.push('.');
        path.push_str(&key.to_text());
        let differs = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => first_difference(old, new, path),
            (old, _) => {
                path.push_str(if old.is_none() { " (new)" } else { " (gone)" });
                true
            }
        };
        if differs {
            return true;
        }
        path.truncate(length);
    }
    false
}

/// Numbers compare as floats, whatever they were recorded as.
fn as_floats(tree: &Tree) -> Tree {
    match tree {
        #[expect(clippy::cast_precision_loss, reason = "1.4 compared them so")]
        Tree::Int64(number) => Tree::Float64(*number as f64),
        Tree::List(items) => Tree::List(items.iter().map(as_floats).collect()),
        Tree::Map(entries) => Tree::Map(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), as_floats(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn same_files(a: &[StoredFile], b: &[StoredFile]) -> bool {
    let sorted = |files: &[StoredFile]| {
        let mut files: Vec<_> = files
            .iter()
            .map(|file| (file.name.clone(), file.data.clone().unwrap_or_default()))
            .collect();
        files.sort();
        files
    };
    sorted(a) == sorted(b)
}

/// Whether two manifests hold the same objects, in whatever order and spelling. One that cannot be read is like no other.
#[must_use]
pub(crate) fn same_objects(a: &str, b: &str) -> bool {
    let objects = |manifest: &str| {
        let objects = helm_kube::parse_manifest(manifest).ok()?;
        let mut texts: Vec<String> = objects
            .into_iter()
            .map(|object| serde_json::Value::Object(object.content).to_string())
            .collect();
        texts.sort();
        Some(texts)
    };
    a == b || objects(a).is_some_and(|a| Some(a) == objects(b))
}

/// Values over those of a revision that they are to be added to.
pub(crate) fn with_old_values(values: Tree, last: Option<&Release>) -> Tree {
    match last.and_then(|last| last.config.as_ref()) {
        Some(old) => helm_engine::coalesce_tables(&values, old),
        None => values,
    }
}

/// With `resetValues: false` the defaults of the last revision go on, as with Helm's `--reuse-values`.
pub(crate) fn with_old_defaults(chart: &Arc<Chart>, last: Option<&Release>) -> Arc<Chart> {
    let Some(last) = last else {
        return Arc::clone(chart);
    };
    let empty = Tree::Map(std::collections::BTreeMap::new());
    let config = last.config.as_ref().unwrap_or(&empty);
    let defaults = last.chart.values.as_ref().unwrap_or(&empty);
    let mut chart = Chart::clone(chart);
    chart.values = Some(coalesce_tables(config, defaults));
    Arc::new(chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_engine::values::read_values;

    fn chart(version: &str, values: &str, templates: &[(&str, &str)]) -> StoredChart {
        let mut chart = StoredChart::default();
        chart.metadata.name = "hello".into();
        chart.metadata.version = version.into();
        chart.values = read_values(values.as_bytes()).ok();
        chart.templates = templates
            .iter()
            .map(|(name, data)| StoredFile {
                name: (*name).into(),
                data: Some((*data).into()),
                modified: None,
            })
            .collect();
        chart
    }

    fn release(chart: StoredChart, config: &str) -> Release {
        Release {
            chart,
            config: read_values(config.as_bytes()).ok(),
            ..Release::default()
        }
    }

    #[test]
    fn what_1_4_called_drift_differs_and_nothing_else() {
        let templates = [("templates/a.yaml", "a"), ("templates/b.yaml", "b")];
        let recorded = release(chart("1.0.0", "x: 1", &templates), "y: 2");
        let same = |chart: StoredChart, config: &str| {
            difference(&recorded, &chart, &read_values(config.as_bytes()).unwrap()).is_none()
        };
        assert!(same(chart("1.0.0", "x: 1", &templates), "y: 2"));
        let turned = [templates[1], templates[0]];
        assert!(same(chart("1.0.0", "x: 1.0", &turned), "y: 2.0"));
        let mut other_files = chart("1.0.0", "x: 1", &templates);
        other_files.files.push(StoredFile::default());
        other_files.metadata.description = "new words".into();
        assert!(same(other_files, "y: 2"));
        assert!(!same(chart("1.0.1", "x: 1", &templates), "y: 2"));
        assert!(!same(chart("1.0.0", "x: 2", &templates), "y: 2"));
        assert!(!same(chart("1.0.0", "x: 1", &templates[..1]), "y: 2"));
        assert!(!same(chart("1.0.0", "x: 1", &templates), "y: 3"));
        assert!(!same(chart("1.0.0", "x: 1", &templates), ""));
    }

    #[test]
    fn a_difference_is_named_by_its_place_and_not_by_its_value() {
        let recorded = release(chart("1.0.0", "", &[]), "a: {b: 1, c: canary}");
        let config = read_values(b"a: {b: 1, c: other}").unwrap();
        let said = difference(&recorded, &chart("1.0.0", "", &[]), &config);
        assert_eq!(said.as_deref(), Some("values at '.a.c'"));
    }

    #[test]
    fn manifests_are_the_same_when_their_objects_are() {
        let map =
            |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        let (a, b) = (map("a"), map("b"));
        let spelt = "---\n# Source: x\nkind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n";
        assert!(same_objects(
            &format!("{a}---\n{b}"),
            &format!("---\n{b}---\n{spelt}")
        ));
        assert!(!same_objects(&a, &b));
        assert!(!same_objects(&a, &format!("{a}---\n{b}")));
        assert!(!same_objects("a: [", "b: ["));
    }

    #[test]
    fn no_values_and_an_empty_map_are_the_same() {
        let recorded = release(chart("1.0.0", "", &[]), "");
        let mut none = chart("1.0.0", "", &[]);
        none.values = None;
        let config = Tree::Map(Default::default());
        assert_eq!(difference(&recorded, &none, &config), None);
    }
}

//! Whether a revision that is not by us is what is wanted: 1.4's comparison of a release with a dry run.

use std::sync::Arc;

use goyaml::Tree;
use helm_engine::record::{StoredChart, StoredFile};
use helm_engine::{Chart, Release, coalesce_tables};

/// Compares what 1.4 compared: the user's values; the chart's name, version, application version, default
/// values and own templates.
#[must_use]
pub(crate) fn is_same(recorded: &Release, wanted: &StoredChart, config: &Tree) -> bool {
    let (old, new) = (&recorded.chart.metadata, &wanted.metadata);
    old.name == new.name
        && old.version == new.version
        && old.app_version == new.app_version
        && same_values(recorded.config.as_ref(), Some(config))
        && same_values(recorded.chart.values.as_ref(), wanted.values.as_ref())
        && same_files(&recorded.chart.templates, &wanted.templates)
}

/// No values and an empty map are the same.
fn same_values(a: Option<&Tree>, b: Option<&Tree>) -> bool {
    let filled = |tree: Option<&Tree>| {
        tree.filter(|tree| !tree.is_null() && tree.as_map().is_none_or(|map| !map.is_empty()))
            .map(as_floats)
    };
    filled(a) == filled(b)
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
            is_same(&recorded, &chart, &read_values(config.as_bytes()).unwrap())
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
    fn no_values_and_an_empty_map_are_the_same() {
        let recorded = release(chart("1.0.0", "", &[]), "");
        let mut none = chart("1.0.0", "", &[]);
        none.values = None;
        assert!(is_same(&recorded, &none, &Tree::Map(Default::default())));
    }
}

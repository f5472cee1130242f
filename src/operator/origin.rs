//! Which source set which value.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use goyaml::Tree;

use super::context::Settings;
use super::external::ExternalReader;
use super::identity::Clusters;
use super::preview::fetch;
use super::values::{Layer, ValuesReader};
use crate::api::{HelmRelease, ValuesSource};
use crate::source::{ChartArtifact, Sources};

/// The values of a HelmRelease, and where each of them comes from.
#[derive(Debug)]
pub struct Composed {
    /// All of them, merged.
    pub values: Tree,
    /// The path of each value that is no map, and the source that set it, sorted by path.
    pub origins: Vec<(String, String)>,
}

/// Composes the values of a HelmRelease as a sync would, with the rights that it has. Its chart is fetched
/// only if values come from a file of it.
///
/// # Errors
/// Whatever would fail the sync: a source that is missing, no rights, content that is no map.
pub async fn compose_with_origins(
    clusters: &Clusters,
    sources: &Sources,
    settings: &Settings,
    release: &HelmRelease,
) -> Result<Composed> {
    let account = settings.default_service_account.as_deref();
    let local = clusters
        .local(release, account)
        .map_err(|trouble| anyhow!(trouble.text()))?;
    let reader = ValuesReader {
        client: local.client().clone(),
        external: ExternalReader::new(settings.allow_local)?,
        own_namespace_only: settings.own_namespace_only,
    };
    let chart = chart(sources, settings, release).await?;
    let layers = reader.layers(release, &chart).await;
    compose(layers.map_err(|trouble| anyhow!(trouble.text()))?)
}

async fn chart(
    sources: &Sources,
    settings: &Settings,
    release: &HelmRelease,
) -> Result<ChartArtifact> {
    let entries = release.spec.value_sources();
    if entries
        .iter()
        .any(|entry| matches!(entry.source(), Some(ValuesSource::ChartFile(_))))
    {
        let source = super::chart::source_of(release, settings);
        return fetch(
            sources,
            &source.map_err(|trouble| anyhow!(trouble.text()))?,
            release,
        )
        .await;
    }
    Ok(ChartArtifact {
        digest: String::new(),
        revision: String::new(),
        files: std::sync::Arc::default(),
        chart: None,
        can_move: false,
    })
}

fn compose(layers: Vec<(String, Layer)>) -> Result<Composed> {
    let mut values = Tree::Map(BTreeMap::new());
    let mut setters: BTreeMap<String, String> = BTreeMap::new();
    for (name, layer) in layers {
        // What a layer sets is what it makes of nothing.
        let mut alone = Tree::Map(BTreeMap::new());
        match layer {
            Layer::Whole(map) => alone = map,
            at @ Layer::At(..) => at.lay_over(&mut alone).map_err(|error| anyhow!(error))?,
        }
        for path in leaves(&alone) {
            setters.insert(path, name.clone());
        }
        Layer::Whole(alone)
            .lay_over(&mut values)
            .map_err(|error| anyhow!(error))?;
    }
    let origins = leaves(&values)
        .into_iter()
        .map(|path| {
            let setter = setters.get(&path).cloned().unwrap_or_default();
            (path, setter)
        })
        .collect();
    Ok(Composed { values, origins })
}

/// The paths of all values that are no map, or an empty one.
fn leaves(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    walk(tree, "", &mut found);
    found
}

fn walk(tree: &Tree, path: &str, found: &mut Vec<String>) {
    match tree.as_map().filter(|entries| !entries.is_empty()) {
        Some(entries) => {
            for (key, value) in entries {
                let key = key.to_text();
                let key = if key.contains('.') {
                    format!("{key:?}")
                } else {
                    key.into_owned()
                };
                let dot = if path.is_empty() { "" } else { "." };
                walk(value, &format!("{path}{dot}{key}"), found);
            }
        }
        None if path.is_empty() => {}
        None => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_engine::values::read_values;

    fn whole(name: &str, yaml: &str) -> (String, Layer) {
        (
            name.to_owned(),
            Layer::Whole(read_values(yaml.as_bytes()).unwrap()),
        )
    }

    #[test]
    fn each_value_names_the_last_source_that_set_it() {
        let composed = compose(vec![
            whole(
                "base",
                "image: {tag: '1', pull: Always}\nhosts: [a]\nsame: 1\nempty: {}\n",
            ),
            (
                "secret".to_owned(),
                Layer::At("image.key".into(), "x".into()),
            ),
            whole(
                "spec.values",
                "image: {tag: '2'}\nhosts: [b]\nsame: 1\n'a.b': null\n",
            ),
        ])
        .unwrap();
        let shown: Vec<String> = composed
            .origins
            .iter()
            .map(|(path, origin)| format!("{path} {origin}"))
            .collect();
        assert_eq!(
            shown,
            [
                "\"a.b\" spec.values",
                "empty base",
                "hosts spec.values",
                "image.key secret",
                "image.pull base",
                "image.tag spec.values",
                "same spec.values",
            ]
        );
    }

    #[test]
    fn a_map_that_replaces_a_value_and_a_value_that_replaces_a_map() {
        let composed = compose(vec![
            whole("first", "a: 1\nb: {c: 1, d: 2}\n"),
            whole("second", "a: {x: 1}\nb: 2\n"),
        ])
        .unwrap();
        let second = |path: &str| (path.to_owned(), "second".to_owned());
        assert_eq!(composed.origins, [second("a.x"), second("b")]);
    }
}

//! `helm-operator template -f hr.yaml`: renders HelmReleases from a local checkout, without a
//! cluster.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goyaml::Tree;
use helm_engine::values::merge_values;
use helm_engine::{Chart, split_manifests};

use super::chart::{Located, installable};
use super::template::Arguments;
use super::values::{ValuesFlags, read};
use crate::api::{ChartChoice, GROUP, HelmRelease, KeyRef, ValuesSource};
use crate::operator::{lay_content, values_of_json};

/// Whether the files of `-f` are HelmReleases, not values: no chart is named.
pub(crate) fn is_named_by(arguments: &Arguments) -> bool {
    arguments.positional.is_empty() && !arguments.values.values.is_empty()
}

/// Renders every HelmRelease in the files of `-f` and prints the manifests one after the other.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut input = Input::default();
    for name in &arguments.values.values {
        let text = read(name).map_err(|error| anyhow!(error))?;
        input
            .add_stream(&String::from_utf8_lossy(&text))
            .with_context(|| format!("cannot read {name}"))?;
    }
    if input.releases.is_empty() {
        bail!(
            "no HelmRelease in {}; give the file of one, or a chart: helm-operator template CHART",
            arguments.values.values.join(", ")
        );
    }
    let flags = ValuesFlags {
        values: Vec::new(),
        ..arguments.values.clone()
    };
    let over = flags.merge()?;
    for release in &input.releases {
        let place = release.key();
        input
            .render(release, arguments, &over)
            .with_context(|| format!("HelmRelease {place}"))?;
    }
    Ok(())
}

/// What the files hold: HelmReleases, and the objects that they take values from.
#[derive(Default)]
struct Input {
    releases: Vec<HelmRelease>,
    /// Data by kind, namespace and name.
    objects: BTreeMap<(Kind, String, String), BTreeMap<String, Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

impl Input {
    fn add_stream(&mut self, text: &str) -> anyhow::Result<()> {
        for document in split_manifests(text) {
            self.add(&goyaml::read(document.as_bytes())?)?;
        }
        Ok(())
    }

    fn add(&mut self, object: &Tree) -> anyhow::Result<()> {
        let kind = text(object, &["kind"]).unwrap_or_default();
        match kind.as_str() {
            "List" | "HelmReleaseList" => {
                let items = object.get("items").and_then(Tree::as_list);
                for item in items.unwrap_or_default() {
                    self.add(item)?;
                }
            }
            "HelmRelease" => self.releases.push(helm_release(object)?),
            "ConfigMap" => self.add_data(Kind::ConfigMap, object)?,
            "Secret" => self.add_data(Kind::Secret, object)?,
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, kind: Kind, object: &Tree) -> anyhow::Result<()> {
        let name = text(object, &["metadata", "name"]).unwrap_or_default();
        let namespace = text(object, &["metadata", "namespace"]);
        let mut data = BTreeMap::new();
        for (key, content) in entries(object, "data") {
            let content = match kind {
                Kind::ConfigMap => content,
                Kind::Secret => STANDARD
                    .decode(content.trim_ascii())
                    .with_context(|| format!("key {key} of Secret {name} is not base64"))?,
            };
            data.insert(key, content);
        }
        if kind == Kind::Secret {
            data.extend(entries(object, "stringData"));
        }
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        self.objects.insert((kind, namespace, name), data);
        Ok(())
    }

    fn render(
        &self,
        release: &HelmRelease,
        arguments: &Arguments,
        over: &Tree,
    ) -> anyhow::Result<()> {
        let folder = arguments.chart_dir.as_deref().unwrap_or(Path::new("."));
        let chart = installable(Located::Here(chart_path(release, folder)?).load()?)?;
        let mut values = self.values(release, &chart)?;
        merge_values(&mut values, over.clone());
        let namespace = release.target_namespace().to_owned();
        let arguments = arguments.for_release(release);
        arguments.render(chart, &values, release.release_name(), namespace)
    }

    /// The values of a release, by the rules of the daemon.
    fn values(&self, release: &HelmRelease, chart: &Chart) -> anyhow::Result<Tree> {
        let mut values = Tree::Map(BTreeMap::new());
        for (index, entry) in release.spec.value_sources().iter().enumerate() {
            let Some(source) = entry.source() else {
                continue;
            };
            let laid = self
                .content(release, chart, source)
                .and_then(|content| lay_content(&mut values, entry, &content));
            if let Err(error) = laid
                && !source.optional()
            {
                bail!("{error}: spec.valuesFrom[{index}]");
            }
        }
        if let Some(inline) = &release.spec.values
            && inline.0.is_object()
        {
            merge_values(&mut values, values_of_json(&inline.0));
        }
        Ok(values)
    }

    fn content(
        &self,
        release: &HelmRelease,
        chart: &Chart,
        source: ValuesSource<'_>,
    ) -> Result<Vec<u8>, String> {
        match source {
            ValuesSource::ConfigMap(key) => self.key(release, Kind::ConfigMap, key),
            ValuesSource::Secret(key) => self.key(release, Kind::Secret, key),
            ValuesSource::ChartFile(file) => {
                let path = file.path.trim_start_matches("./");
                match chart.raw_file(path) {
                    Some(file) => Ok(file.data.to_vec()),
                    None => Err(format!("the chart has no file {}", file.path)),
                }
            }
            ValuesSource::External(external) => Err(format!(
                "{} is not read here, as nothing is fetched; mark it optional, or put its content \
                 into a ConfigMap of the same file",
                external.url
            )),
        }
    }

    fn key(&self, release: &HelmRelease, kind: Kind, key: &KeyRef) -> Result<Vec<u8>, String> {
        let namespace = key.namespace(release.own_namespace());
        let place = (kind, namespace.to_owned(), key.name.clone());
        let Some(data) = self.objects.get(&place) else {
            return Err(format!(
                "{kind:?} {namespace}/{} is not in the files; add it with -f",
                key.name
            ));
        };
        data.get(key.key())
            .cloned()
            .ok_or_else(|| format!("{kind:?} {namespace}/{} has no key {}", key.name, key.key()))
    }
}

fn helm_release(object: &Tree) -> anyhow::Result<HelmRelease> {
    let name = text(object, &["metadata", "name"]).unwrap_or_default();
    let version = text(object, &["apiVersion"]).unwrap_or_default();
    if !version.starts_with(&format!("{GROUP}/")) {
        bail!("HelmRelease {name} is of {version:?}; only those of {GROUP} are known");
    }
    let json = goyaml::to_json_tree(object)?;
    serde_json::from_slice(&json).with_context(|| format!("HelmRelease {name}"))
}

fn text(object: &Tree, path: &[&str]) -> Option<String> {
    Some(object.path(path)?.as_str()?.to_text().into_owned())
}

/// The texts of a map.
fn entries(object: &Tree, field: &str) -> Vec<(String, Vec<u8>)> {
    let entries = object.get(field).and_then(Tree::as_map);
    entries
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let content = value.as_str()?.to_vec();
            Some((key.to_text().into_owned(), content))
        })
        .collect()
}

/// Where a release's chart lies in a checkout: at its path in the repository, or, for one of a Helm
/// repository or registry, in a folder or an archive of its name.
fn chart_path(release: &HelmRelease, folder: &Path) -> anyhow::Result<PathBuf> {
    let name = match release.spec.chart.choose()? {
        ChartChoice::Git { path, .. } => {
            if Path::new(path)
                .components()
                .any(|part| matches!(part, Component::ParentDir | Component::RootDir))
            {
                bail!("spec.chart.path {path:?} leads out of the repository");
            }
            return existing(vec![folder.join(path)]);
        }
        ChartChoice::Repository { name, version, .. } => {
            return existing(vec![
                folder.join(name),
                folder.join(format!("{name}-{version}.tgz")),
                folder.join(format!("{name}.tgz")),
            ]);
        }
        ChartChoice::Oci(oci) => oci.url.to_string(),
    };
    let name = name.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    existing(vec![folder.join(name), folder.join(format!("{name}.tgz"))])
}

fn existing(candidates: Vec<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(found) = candidates.iter().find(|path| path.exists()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    bail!(
        "no chart at {}; name the checkout with --chart-dir",
        tried.join(" or ")
    );
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const RELEASE: &str = "
apiVersion: helm.fluxcd.io/v1
kind: HelmRelease
metadata: {name: web, namespace: apps}
spec:
  releaseName: shop
  targetNamespace: prod
  chart: {git: 'https://git.example.com/a/b', path: charts/web}
  valuesFrom:
  - configMapKeyRef: {name: base}
  - secretKeyRef: {name: more, key: extra.yaml}
  - secretKeyRef: {name: token, key: t}
    targetPath: login.token
  - chartFileRef: {path: production.yaml}
  - configMapKeyRef: {name: gone, optional: true}
  values: {inline: 1, level: inline}
";

    const OBJECTS: &str = "
apiVersion: v1
kind: List
items:
- kind: ConfigMap
  metadata: {name: base, namespace: apps}
  data: {values.yaml: \"level: base\\nbase: 1\\n\"}
- kind: Secret
  metadata: {name: more, namespace: apps}
  data: {extra.yaml: bGV2ZWw6IG1vcmUK}
- kind: Secret
  metadata: {name: token, namespace: apps}
  stringData: {t: \"a,b\"}
";

    fn checkout() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let chart = folder.path().join("charts/web");
        fs::create_dir_all(chart.join("templates")).unwrap();
        fs::write(
            chart.join("Chart.yaml"),
            "{apiVersion: v2, name: web, version: 1.0.0}",
        )
        .unwrap();
        fs::write(chart.join("production.yaml"), "production: true\n").unwrap();
        folder
    }

    fn input(text: &str) -> Input {
        let mut input = Input::default();
        input.add_stream(text).unwrap();
        input
    }

    #[test]
    fn values_come_from_objects_of_the_same_files() {
        let folder = checkout();
        let input = input(&format!("{RELEASE}---{OBJECTS}"));
        let release = input.releases.first().unwrap();
        let path = chart_path(release, folder.path()).unwrap();
        let chart = installable(Located::Here(path).load().unwrap()).unwrap();
        let values = input.values(release, &chart).unwrap();
        let expected = goyaml::read(
            b"{base: 1, inline: 1, level: inline, login: {token: 'a,b'}, production: true}",
        );
        assert_eq!(values, expected.unwrap());
    }

    #[test]
    fn a_missing_object_is_named() {
        let folder = checkout();
        let input = input(RELEASE);
        let release = input.releases.first().unwrap();
        let path = chart_path(release, folder.path()).unwrap();
        let chart = installable(Located::Here(path).load().unwrap()).unwrap();
        assert_eq!(
            input.values(release, &chart).unwrap_err().to_string(),
            "ConfigMap apps/base is not in the files; add it with -f: spec.valuesFrom[0]"
        );
    }

    #[test]
    fn a_path_out_of_the_checkout_is_refused() {
        let input = input(&RELEASE.replace("charts/web", "../web"));
        let error = chart_path(input.releases.first().unwrap(), Path::new(".")).unwrap_err();
        assert!(error.to_string().contains("leads out of the repository"));
    }

    #[test]
    fn lists_are_opened() {
        let list = "kind: HelmReleaseList\nitems:\n- {apiVersion: helm.fluxcd.io/v1, \
                    kind: HelmRelease, metadata: {name: a}, spec: {chart: {repository: \
                    'https://c.example.com', name: a, version: 1.0.0}}}\n";
        assert_eq!(input(list).releases.len(), 1);
    }
}

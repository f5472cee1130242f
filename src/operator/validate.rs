//! What is wrong with a HelmRelease, told before it is stored: what the schema and the rules of the CRD
//! cannot say.

use std::time::Duration;

use goyaml::Tree;
use helm_engine::{Limits, load_files};
use reqwest::Url;
use serde_json::Value;
use sprig::semver::Constraints;

use super::chart::source_of;
use super::context::Settings;
use super::values::{Layer, tree};
use crate::api::{
    ChartChoice, HelmRelease, HelmVersion, OciSource, ValuesFrom, ValuesSource, check_release_name,
    is_json_pointer,
};
use crate::source::{Freshness, Sources};

/// How long the chart may take for its schema to be looked at; the API server waits a few seconds at most.
const CHART_TIMEOUT: Duration = Duration::from_secs(2);

/// What can be told from the object alone: each complaint begins with the field.
#[must_use]
pub fn complaints(release: &HelmRelease, settings: &Settings) -> Vec<String> {
    let mut all = Vec::new();
    if release.spec.helm_version == Some(HelmVersion::V2) {
        all.push("spec.helmVersion: v2 is not served any more: write v3".to_owned());
    }
    if let Err(error) = check_release_name(&release.release_key().name) {
        all.push(format!("spec.releaseName: {error}"));
    }
    chart(release, settings, &mut all);
    let own = release.own_namespace();
    for (index, entry) in release.spec.values_from.iter().flatten().enumerate() {
        let field = format!("spec.valuesFrom[{index}]");
        values_from(entry, own, settings, &field, &mut all);
    }
    gates(release, &mut all);
    drift(release, &mut all);
    all
}

fn chart(release: &HelmRelease, settings: &Settings, all: &mut Vec<String>) {
    if let Err(trouble) = source_of(release, settings) {
        all.push(format!("spec.chart: {}", trouble.message));
        return;
    }
    match release.spec.chart.choose() {
        Ok(ChartChoice::Repository { version, .. }) => range("version", version, all),
        Ok(ChartChoice::Oci(source)) => oci(source, all),
        Ok(ChartChoice::Git { path, .. }) if leaves(path) => {
            all.push(format!("spec.chart.path: {path:?} leaves the repository"));
        }
        Ok(ChartChoice::Git { .. }) | Err(_) => {}
    }
}

fn range(field: &str, text: &str, all: &mut Vec<String>) {
    if let Err(error) = Constraints::parse(text) {
        all.push(format!(
            "spec.chart.{field}: {error}: {text:?} is neither a version nor a range of versions"
        ));
    }
}

fn oci(source: &OciSource, all: &mut Vec<String>) {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(version) = given(&source.version) {
        range("oci.version", &version, all);
    }
    if let Some(tag) = given(&source.tag).filter(|tag| !is_tag(tag)) {
        all.push(format!("spec.chart.oci.tag: {tag:?} is no tag"));
    }
    if let Some(digest) = given(&source.digest).filter(|digest| !is_digest(digest)) {
        all.push(format!(
            "spec.chart.oci.digest: {digest:?} is no digest: write it as sha256: and 64 hex digits"
        ));
    }
}

/// As the OCI distribution specification has it.
fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Whether a path below a chart or a repository leads out of it.
fn leaves(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

fn values_from(
    entry: &ValuesFrom,
    own: &str,
    settings: &Settings,
    field: &str,
    all: &mut Vec<String>,
) {
    match entry.source() {
        Some(ValuesSource::ConfigMap(key) | ValuesSource::Secret(key)) => {
            let namespace = key.namespace(own);
            if settings.own_namespace_only && namespace != own {
                all.push(format!(
                    "{field}: {namespace}/{} is in another namespace, which --no-cross-namespace-refs forbids",
                    key.name
                ));
            }
        }
        Some(ValuesSource::External(external)) => match Url::parse(external.url.expose()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {}
            // The parser's text does not quote the URL, which may hold a password.
            Ok(_) => all.push(format!(
                "{field}.externalSourceRef.url: only http and https are read"
            )),
            Err(error) => all.push(format!("{field}.externalSourceRef.url: {error}")),
        },
        Some(ValuesSource::ChartFile(file)) if leaves(&file.path) => {
            all.push(format!(
                "{field}.chartFileRef.path: {:?} leaves the chart",
                file.path
            ));
        }
        Some(ValuesSource::ChartFile(_)) | None => {}
    }
    if let Some(path) = &entry.target_path {
        let mut nothing = Tree::Map(std::collections::BTreeMap::new());
        let layer = Layer::At(path.clone(), Value::Bool(true));
        if let Err(error) = layer.lay_over(&mut nothing) {
            all.push(format!("{field}.targetPath: {error}: {path:?}"));
        }
    }
}

fn gates(release: &HelmRelease, all: &mut Vec<String>) {
    let own = release.key();
    for (index, other) in release.spec.depends_on.iter().flatten().enumerate() {
        let namespace = other.namespace.as_deref().filter(|text| !text.is_empty());
        if *other.name == *own.name && namespace.is_none_or(|other| *other == *own.namespace) {
            all.push(format!(
                "spec.dependsOn[{index}]: a release cannot wait for itself"
            ));
        }
    }
}

fn drift(release: &HelmRelease, all: &mut Vec<String>) {
    for (index, rule) in release.spec.drift_rules().iter().enumerate() {
        if let Err(error) = rule.selector() {
            all.push(format!(
                "spec.driftDetection.ignore[{index}].target.labelSelector: {error}"
            ));
        }
        for path in &rule.paths {
            if !is_json_pointer(path) {
                all.push(format!(
                    "spec.driftDetection.ignore[{index}].paths: {path:?} is no JSON pointer: write it as /spec/replicas"
                ));
            }
        }
    }
}

/// What the chart's schema says about inline values. Only if they are all the values there are, and the
/// chart is at hand: nobody waits here for a clone. `None` if nothing was found wrong, or nothing looked at.
pub async fn schema_complaint(
    release: &HelmRelease,
    settings: &Settings,
    sources: &Sources,
) -> Option<String> {
    let spec = &release.spec;
    if !spec.value_sources().is_empty() || !spec.reset_values() || !spec.checks_schemas() {
        return None;
    }
    let source = source_of(release, settings).ok()?;
    let artifact = tokio::time::timeout(
        CHART_TIMEOUT,
        sources.fetch(&source, Freshness::by_interval()),
    )
    .await;
    let artifact = artifact.ok()?.ok()?;
    let values = release.spec.values.as_ref().map(|values| values.0.clone());
    let values = values.filter(Value::is_object);
    let look = move || {
        let files = artifact.files.iter();
        let files = files.map(|(path, data)| (path.clone(), data.as_slice()));
        let chart = load_files(files, &Limits::default()).ok()?.chart;
        let values = tree(&values.unwrap_or_else(|| serde_json::json!({})));
        helm_engine::validate_values(&chart, &values).err()
    };
    let found = tokio::task::spawn_blocking(look).await.ok()??;
    Some(format!("spec.values: {found}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_settings;
    use super::*;

    fn of(spec: Value) -> Vec<String> {
        let mut release = HelmRelease::new("web", serde_json::from_value(spec).unwrap());
        release.metadata.namespace = Some("demo".into());
        let settings = Settings {
            own_namespace_only: true,
            ..test_settings()
        };
        complaints(&release, &settings)
    }

    fn git() -> Value {
        json!({"git": "https://git.example.com/a", "path": "charts/a"})
    }

    #[test]
    fn what_works_gives_no_complaint() {
        for spec in [
            json!({"chart": git(), "dependsOn": [{"name": "web", "namespace": "other"}, {"name": "db"}],
                "valuesFrom": [{"secretKeyRef": {"name": "s"}, "targetPath": "a.b[0].c"},
                    {"externalSourceRef": {"url": "https://example.com/v.yaml"}},
                    {"chartFileRef": {"path": "./env/a.yaml"}}],
                "driftDetection": {"ignore": [{"paths": ["/spec/replicas", "/a~1b/c~0"]}]}}),
            json!({"chart": {"repository": "https://r.example.com", "name": "a", "version": ">=1.2, <2"}}),
            json!({"chart": {"oci": {"url": "oci://r.example.com/a", "tag": "v1_2.3-x"}}}),
        ] {
            assert_eq!(of(spec.clone()), Vec::<String>::new(), "{spec}");
        }
    }

    #[test]
    fn each_fault_is_told_with_its_field() {
        let oci = |field: &str, value: &str| json!({"chart": {"oci": {"url": "oci://r.example.com/a", field: value}}});
        let entry = |entry: Value| json!({"chart": git(), "valuesFrom": [entry]});
        let long = "x".repeat(54);
        for (spec, start) in [
            (
                json!({"chart": git(), "helmVersion": "v2"}),
                "spec.helmVersion: v2",
            ),
            (
                json!({"chart": git(), "releaseName": long}),
                "spec.releaseName: ",
            ),
            (
                json!({"chart": {"git": "stable/a", "path": "."}}),
                "spec.chart: ",
            ),
            (
                json!({"chart": {"git": "https://git.example.com/a", "path": "../a"}}),
                "spec.chart.path: ",
            ),
            (
                json!({"chart": {"repository": "https://r.example.com", "name": "a", "version": "1.x.y.z"}}),
                "spec.chart.version: ",
            ),
            (
                json!({"chart": {"git": "https://git.example.com/a", "path": ".",
                    "secretRef": {"name": "s", "namespace": "other"}}}),
                "spec.chart: Secret other/s is in another namespace",
            ),
            (oci("version", "one"), "spec.chart.oci.version: "),
            (oci("tag", "a b"), "spec.chart.oci.tag: "),
            (oci("digest", "sha256:00"), "spec.chart.oci.digest: "),
            (
                entry(json!({"secretKeyRef": {"name": "s", "namespace": "other"}})),
                "spec.valuesFrom[0]: other/s is in another namespace",
            ),
            (
                entry(json!({"externalSourceRef": {"url": "ftp://example.com/a"}})),
                "spec.valuesFrom[0].externalSourceRef.url: only http and https",
            ),
            (
                entry(json!({"externalSourceRef": {"url": "https://"}})),
                "spec.valuesFrom[0].externalSourceRef.url: ",
            ),
            (
                entry(json!({"chartFileRef": {"path": "/etc/passwd"}})),
                "spec.valuesFrom[0].chartFileRef.path: ",
            ),
            (
                entry(json!({"secretKeyRef": {"name": "s"}, "targetPath": "a[b]"})),
                "spec.valuesFrom[0].targetPath: ",
            ),
            (
                json!({"chart": git(), "dependsOn": [{"name": "web"}]}),
                "spec.dependsOn[0]: a release cannot wait for itself",
            ),
            (
                json!({"chart": git(), "driftDetection": {"ignore": [{"paths": ["spec.replicas"]}]}}),
                "spec.driftDetection.ignore[0].paths: ",
            ),
            (
                json!({"chart": git(), "driftDetection": {"ignore": [{"paths": ["/a"], "target": {"labelSelector": "a b"}}]}}),
                "spec.driftDetection.ignore[0].target.labelSelector: ",
            ),
            (
                json!({"chart": git(), "driftDetection": {"ignore": [{"paths": ["/a~b"]}]}}),
                "spec.driftDetection.ignore[0].paths: ",
            ),
        ] {
            let found = of(spec.clone());
            assert!(
                found.len() == 1 && found[0].starts_with(start),
                "{spec}: {found:?}"
            );
        }
    }

    #[test]
    fn passwords_in_urls_are_not_told() {
        let found = of(
            json!({"chart": {"git": "htps://u:canary@git.example.com/a", "path": "."},
            "valuesFrom": [{"externalSourceRef": {"url": "ftp://u:canary@example.com/a"}}]}),
        );
        assert_eq!(found.len(), 2);
        assert!(!found.join(" ").contains("canary"), "{found:?}");
    }
}

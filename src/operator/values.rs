//! Composing values: all sources in their order, then the inline ones.

use std::collections::BTreeMap;
use std::time::Duration;

use goyaml::Tree;
use helm_engine::values::{merge_values, read_values, set_json_into};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde_json::Value;

use super::external::ExternalReader;
use super::trouble::{Stage, Trouble};
use crate::api::{HelmRelease, KeyRef, NamespacedName, Reason, ValuesFrom, ValuesSource};
use crate::source::ChartArtifact;
use crate::watch::SourceKind;

/// How long one read of the API server may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads value sources.
#[derive(Clone)]
pub(crate) struct ValuesReader {
    /// The client that ConfigMaps and Secrets are read with.
    pub(crate) client: Client,
    /// What reads URLs.
    pub(crate) external: ExternalReader,
    /// Refuse references into other namespaces.
    pub(crate) own_namespace_only: bool,
}

/// Why one source gave nothing: what was wrong, and whether `optional` forgives it.
struct Missing {
    reason: Reason,
    message: String,
    forgivable: bool,
    transient: bool,
}

impl Missing {
    fn new(reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            forgivable: true,
            transient: false,
        }
    }
}

impl From<Missing> for Trouble {
    fn from(missing: Missing) -> Self {
        let trouble = Self::new(Stage::Values, missing.reason, missing.message);
        if missing.transient {
            trouble.transient()
        } else {
            trouble
        }
    }
}

/// The ConfigMaps and Secrets that a HelmRelease takes values from.
pub(crate) fn references(release: &HelmRelease) -> Vec<(SourceKind, NamespacedName)> {
    let own = release.own_namespace();
    let of = |key: &KeyRef| NamespacedName::new(key.namespace(own), key.name.as_str());
    release
        .spec
        .value_sources()
        .iter()
        .filter_map(|entry| match entry.source()? {
            ValuesSource::ConfigMap(key) => Some((SourceKind::ConfigMap, of(key))),
            ValuesSource::Secret(key) => Some((SourceKind::Secret, of(key))),
            ValuesSource::External(_) | ValuesSource::ChartFile(_) => None,
        })
        .collect()
}

/// Whether values come from a place that cannot be watched.
pub(crate) fn has_external(release: &HelmRelease) -> bool {
    let entries = release.spec.values_from.iter().flatten();
    entries
        .into_iter()
        .any(|entry| matches!(entry.source(), Some(ValuesSource::External(_))))
}

impl ValuesReader {
    /// All values of a HelmRelease, merged by 1.4's rules: list order, later ones win, maps merge, all else
    /// (null too) replaces, `spec.values` last.
    pub(crate) async fn compose(
        &self,
        release: &HelmRelease,
        chart: &ChartArtifact,
    ) -> Result<Tree, Trouble> {
        let mut values = Tree::Map(BTreeMap::new());
        for (name, layer) in self.layers(release, chart).await? {
            layer.lay_over(&mut values).map_err(|error| {
                let message = format!("{error}: targetPath of {name}");
                Trouble::new(Stage::Values, Reason::ValuesInvalid, message)
            })?;
        }
        Ok(values)
    }

    /// What each source adds, with its place, in the order in which they are merged.
    pub(crate) async fn layers(
        &self,
        release: &HelmRelease,
        chart: &ChartArtifact,
    ) -> Result<Vec<(String, Layer)>, Trouble> {
        let mut layers = Vec::new();
        for entry in &release.spec.value_sources() {
            let Some(source) = entry.source() else {
                continue;
            };
            match self.layer(release, chart, entry, source).await {
                Ok(layer) => layers.push(layer),
                Err(missing) if source.optional() && missing.forgivable => {}
                Err(missing) => return Err(missing.into()),
            }
        }
        let inline = release.spec.values.as_ref().map(|values| &values.0);
        if let Some(inline) = inline.filter(|values| values.is_object()) {
            layers.push(("spec.values".to_owned(), Layer::Whole(tree(inline))));
        }
        Ok(layers)
    }

    async fn layer(
        &self,
        release: &HelmRelease,
        chart: &ChartArtifact,
        entry: &ValuesFrom,
        source: ValuesSource<'_>,
    ) -> Result<(String, Layer), Missing> {
        let (content, place) = match source {
            ValuesSource::ConfigMap(key) => self.config_map(release, key).await?,
            ValuesSource::Secret(key) => self.secret(release, key).await?,
            ValuesSource::External(external) => {
                let shown = external.url.to_string();
                let read = self.external.read(external.url.expose()).await;
                let content = read.map_err(|unread| {
                    let message =
                        format!("unable to read value file from URL {shown}: {}", unread.why);
                    Missing {
                        transient: unread.transient,
                        ..Missing::new(Reason::ValuesNotFound, message)
                    }
                })?;
                (content, format!("URL {shown}"))
            }
            ValuesSource::ChartFile(file) => {
                let path = file.path.trim_start_matches("./");
                let content = chart.file(path).map(<[u8]>::to_vec).ok_or_else(|| {
                    let message = format!(
                        "unable to read value file from path {}: the chart has no such file",
                        file.path
                    );
                    Missing::new(Reason::ValuesNotFound, message)
                })?;
                (content, format!("chart file {}", file.path))
            }
        };
        if let Some(path) = &entry.target_path {
            return Ok((place, Layer::At(path.clone(), scalar(&content))));
        }
        // The parser's text may quote the content, which may be secret: only the place is told.
        match read_values(&content) {
            Ok(values) => Ok((place, Layer::Whole(values))),
            Err(error) => {
                let line = error
                    .line()
                    .map(|line| format!(" (line {line})"))
                    .unwrap_or_default();
                let message = format!("values are no YAML map{line}: {place}");
                Err(Missing::new(Reason::ValuesInvalid, message))
            }
        }
    }

    fn namespace<'a>(
        &self,
        release: &'a HelmRelease,
        key: &'a KeyRef,
        kind: &str,
    ) -> Result<&'a str, Missing> {
        let own = release.own_namespace();
        let namespace = key.namespace(own);
        if self.own_namespace_only && namespace != own {
            return Err(Missing {
                forgivable: false,
                ..Missing::new(
                    Reason::CrossNamespaceDenied,
                    format!(
                        "{kind} {namespace}/{} is in another namespace, which --no-cross-namespace-refs forbids",
                        key.name
                    ),
                )
            });
        }
        Ok(namespace)
    }

    async fn config_map(
        &self,
        release: &HelmRelease,
        key: &KeyRef,
    ) -> Result<(Vec<u8>, String), Missing> {
        let namespace = self.namespace(release, key, "ConfigMap")?;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let place = format!("ConfigMap {namespace}/{}", key.name);
        let object = found(api.get_opt(&key.name), &place).await?;
        let mut data = object.data.unwrap_or_default();
        match data.remove(key.key()) {
            Some(text) => Ok((text.into_bytes(), format!("key {} of {place}", key.key()))),
            None => Err(no_key(key.key(), &place)),
        }
    }

    async fn secret(
        &self,
        release: &HelmRelease,
        key: &KeyRef,
    ) -> Result<(Vec<u8>, String), Missing> {
        let namespace = self.namespace(release, key, "Secret")?;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let place = format!("Secret {namespace}/{}", key.name);
        let object = found(api.get_opt(&key.name), &place).await?;
        let mut data = object.data.unwrap_or_default();
        match data.remove(key.key()) {
            Some(bytes) => Ok((bytes.0, format!("key {} of {place}", key.key()))),
            None => Err(no_key(key.key(), &place)),
        }
    }
}

/// Lays the content of a source over values, for those who read it elsewhere. The error tells no
/// content.
pub(crate) fn lay_content(
    values: &mut Tree,
    entry: &ValuesFrom,
    content: &[u8],
) -> Result<(), String> {
    let layer = match &entry.target_path {
        Some(path) => Layer::At(path.clone(), scalar(content)),
        None => match read_values(content) {
            Ok(layer) => Layer::Whole(layer),
            Err(_) => return Err("values are no YAML map".to_owned()),
        },
    };
    layer.lay_over(values)
}

/// What one source adds.
pub(crate) enum Layer {
    /// A map, merged into what there is.
    Whole(Tree),
    /// One value, put at a path.
    At(String, Value),
}

impl Layer {
    pub(crate) fn lay_over(self, values: &mut Tree) -> Result<(), String> {
        match self {
            Self::Whole(layer) => {
                merge_values(values, layer);
                Ok(())
            }
            Self::At(path, value) => {
                check_path(&path)?;
                // The text of this error may quote the value, which may be secret.
                set_json_into(&format!("{path}={value}"), values)
                    .map_err(|_| "the value cannot be put there".to_owned())
            }
        }
    }
}

/// Whether something can be put at a path, told without what shall be put there.
fn check_path(path: &str) -> Result<(), String> {
    let mut probe = Tree::Map(BTreeMap::new());
    set_json_into(&format!("{path}=0"), &mut probe).map_err(|error| error.to_string())?;
    match probe.as_map() {
        Some(entries) if !entries.is_empty() => Ok(()),
        _ => Err("the path leads nowhere".to_owned()),
    }
}

/// The content of a source with a target path, as one value: `true`, `false`, `null` and numbers are what
/// they look like, everything else is a text without the line break that editors add.
fn scalar(content: &[u8]) -> Value {
    let text = String::from_utf8_lossy(content);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        number => match number.parse::<i64>() {
            // What would not be printed the same again, such as 007, is a text.
            Ok(parsed) if parsed.to_string() == number => parsed.into(),
            _ => text.into(),
        },
    }
}

fn no_key(key: &str, place: &str) -> Missing {
    Missing::new(
        Reason::ValuesNotFound,
        format!("could not find key {key} in {place}"),
    )
}

/// Reads an object; `optional` forgives that it does not exist, and nothing else.
async fn found<K>(
    read: impl Future<Output = Result<Option<K>, kube::Error>>,
    place: &str,
) -> Result<K, Missing> {
    let failed = |why: String| Missing {
        forgivable: false,
        transient: true,
        ..Missing::new(Reason::ValuesFailed, format!("{why}: cannot read {place}"))
    };
    match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => Err(Missing::new(
            Reason::ValuesNotFound,
            format!("{place} does not exist"),
        )),
        Ok(Err(kube::Error::Api(status))) => Err(failed(status.message.clone())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {READ_TIMEOUT:?}"))),
    }
}

/// JSON as a values file holds it: every number is a float, as in Helm.
pub(crate) fn tree(json: &Value) -> Tree {
    match json {
        Value::Null => Tree::Null,
        Value::Bool(value) => Tree::Bool(*value),
        Value::Number(number) => Tree::Float64(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Tree::String(text.as_str().into()),
        Value::Array(items) => Tree::List(items.iter().map(tree).collect()),
        Value::Object(entries) => Tree::Map(
            entries
                .iter()
                .map(|(key, value)| (key.as_str().into(), tree(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_what_a_values_file_would() {
        let json = serde_json::json!({"a": 1, "b": [null, true, "x"], "c": {"d": 2.5}});
        let expected = read_values(b"a: 1\nb: [null, true, x]\nc: {d: 2.5}\n");
        assert_eq!(tree(&json), expected.unwrap());
    }

    #[test]
    fn content_at_a_target_path_is_one_value() {
        let cases = [
            ("true", Value::Bool(true)),
            ("42\n", 42.into()),
            ("007", "007".into()),
            ("1.5", "1.5".into()),
            ("null", Value::Null),
            (
                "-----BEGIN\nx: y\n-----END\n",
                "-----BEGIN\nx: y\n-----END".into(),
            ),
            ("a,b={c}", "a,b={c}".into()),
        ];
        for (content, expected) in cases {
            assert_eq!(scalar(content.as_bytes()), expected);
            let mut values = read_values(b"keep: 1\na: {x: 1}\n").unwrap();
            Layer::At("a.b".into(), expected.clone())
                .lay_over(&mut values)
                .unwrap();
            let found = values.path(&["a", "b"]).unwrap();
            assert_eq!(found.as_f64(), tree(&expected).as_f64());
            assert!(expected.is_number() || *found == tree(&expected));
            assert_eq!(values.path(&["a", "x"]), Some(&Tree::Float64(1.0)));
        }
    }

    #[test]
    fn a_target_path_that_is_none_is_refused_without_the_value() {
        for path in ["a[", "a[x]", "a[9999999999]", "a[-1]", "", "[0]", "a.b[0"] {
            let mut values = read_values(b"a: text\n").unwrap();
            let layer = Layer::At(path.into(), "canary".into());
            let error = layer.lay_over(&mut values).expect_err(path);
            assert!(!error.contains("canary"), "{path}: {error}");
        }
        let deep = vec!["a"; 100_000].join(".");
        let layer = Layer::At(deep, "canary".into());
        assert!(layer.lay_over(&mut Tree::Map(BTreeMap::new())).is_err());
    }

    #[test]
    fn references_follow_the_rules_of_1_4() {
        let mut release = HelmRelease::new(
            "web",
            serde_json::from_value(serde_json::json!({"chart": {},
            "valueFileSecrets": [{"name": "old"}],
            "valuesFrom": [
                {"configMapKeyRef": {"name": "c", "namespace": "other"},
                 "secretKeyRef": {"name": "never"}},
                {}, {"externalSourceRef": {"url": "https://x"}}, {"chartFileRef": {"path": "p"}}
            ]}))
            .unwrap(),
        );
        release.metadata.namespace = Some("demo".into());
        assert_eq!(
            references(&release),
            [
                (SourceKind::Secret, NamespacedName::new("demo", "old")),
                (SourceKind::ConfigMap, NamespacedName::new("other", "c")),
            ]
        );
        assert!(has_external(&release));
    }
}

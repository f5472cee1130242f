//! `spec.valuesFrom`: values that live elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::redact::SourceUrl;

/// One more source of values. When several are set the first of `configMapKeyRef`, `secretKeyRef`,
/// `externalSourceRef`, `chartFileRef` is used; an entry without a source adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFrom {
    /// A key of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
    /// A document behind an `http` or `https` URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_source_ref: Option<ExternalRef>,
    /// A file of the chart itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_file_ref: Option<ChartFileRef>,
    /// Put the content, as one value, at this path of the values (`a.b[0].c`) instead of merging it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<String>,
}

/// A key of a ConfigMap or a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRef {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; that of the HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key in its data; `values.yaml` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A missing object or key, or content that is no map, is passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Values behind a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalRef {
    /// `http://…` or `https://…`.
    pub url: SourceUrl,
    /// Any failure to read it is passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Values in a file of the chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartFileRef {
    /// Path from the root of the chart.
    pub path: String,
    /// Any failure to read it is passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// The source of an entry that is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValuesSource<'a> {
    /// A key of a ConfigMap.
    ConfigMap(&'a KeyRef),
    /// A key of a Secret.
    Secret(&'a KeyRef),
    /// A document behind a URL.
    External(&'a ExternalRef),
    /// A file of the chart.
    ChartFile(&'a ChartFileRef),
}

/// The key that is read when none is named.
const DEFAULT_KEY: &str = "values.yaml";

impl KeyRef {
    /// The key that is read.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key
            .as_deref()
            .filter(|key| !key.is_empty())
            .unwrap_or(DEFAULT_KEY)
    }

    /// The namespace that is read, for an object of namespace `own`.
    #[must_use]
    pub fn namespace<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or(own)
    }
}

impl ValuesFrom {
    /// The source that is used, by 1.4's order; `None` when the entry has none.
    #[must_use]
    pub fn source(&self) -> Option<ValuesSource<'_>> {
        (self
            .config_map_key_ref
            .as_ref()
            .map(ValuesSource::ConfigMap))
        .or_else(|| self.secret_key_ref.as_ref().map(ValuesSource::Secret))
        .or_else(|| {
            self.external_source_ref
                .as_ref()
                .map(ValuesSource::External)
        })
        .or_else(|| self.chart_file_ref.as_ref().map(ValuesSource::ChartFile))
    }

    /// How many sources the entry names; more than one is odd.
    #[must_use]
    pub fn source_count(&self) -> usize {
        [
            self.config_map_key_ref.is_some(),
            self.secret_key_ref.is_some(),
            self.external_source_ref.is_some(),
            self.chart_file_ref.is_some(),
        ]
        .into_iter()
        .filter(|set| *set)
        .count()
    }
}

impl ValuesSource<'_> {
    /// Whether the source may be missing.
    #[must_use]
    pub fn optional(self) -> bool {
        match self {
            Self::ConfigMap(key) | Self::Secret(key) => key.optional,
            Self::External(external) => external.optional,
            Self::ChartFile(file) => file.optional,
        }
        .unwrap_or(false)
    }
}

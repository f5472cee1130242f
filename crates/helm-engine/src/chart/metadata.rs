//! `Chart.yaml` and its lock, with the JSON forms that release records hold.

use std::collections::BTreeMap;

use goyaml::Tree;
use serde::{Deserialize, Serialize};

use super::lock::LockTime;
use crate::json;

/// `Chart.yaml`. Empty strings stand for absent fields, as in Helm's records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The chart's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The project's home page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// URLs of source code.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub sources: Vec<String>,
    /// The chart's version, a semantic version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to search for.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub keywords: Vec<String>,
    /// Who maintains it; a null entry is refused by validation.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub maintainers: Vec<Option<Maintainer>>,
    /// The URL of an icon.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// `v1` or `v2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Of no effect on the chart itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Of no effect on the chart itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// The version of what the chart installs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Whether the chart should no longer be used.
    #[serde(skip_serializing_if = "is_false")]
    pub deprecated: bool,
    /// Free for other tools.
    #[serde(
        skip_serializing_if = "absent_or_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub annotations: Option<BTreeMap<String, String>>,
    /// A constraint on the Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// The dependencies; `None` if the field is absent, which is not the same as an empty list
    /// when dependencies are processed. A null entry is refused by validation.
    #[serde(skip_serializing_if = "absent_or_empty_list")]
    pub dependencies: Option<Vec<Option<Dependency>>>,
    /// `application`, `library` or empty.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// A maintainer of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    /// A person or an organisation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// An e-mail address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// A URL.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A dependency as `Chart.yaml` or a lock file names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Dependency {
    /// The name of the chart.
    pub name: String,
    /// A version, or a range of versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where to get it; empty for a chart that lies in `charts/`.
    pub repository: String,
    /// Comma-separated paths into the values; the first boolean found decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Names under `tags` in the values.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub tags: Vec<String>,
    /// Set when dependencies are processed.
    #[serde(skip_serializing_if = "is_false")]
    pub enabled: bool,
    /// What the parent takes from this chart's values: strings, or maps of `child` and `parent`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "json::serialize_trees",
        deserialize_with = "json::deserialize_trees"
    )]
    pub import_values: Vec<Tree>,
    /// The name to use instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

/// `Chart.lock`: what the dependencies were resolved to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lock {
    /// When it was written.
    #[serde(with = "json::go_time")]
    pub generated: Option<LockTime>,
    /// A digest over the dependencies of `Chart.yaml` and of this file.
    pub digest: String,
    /// The dependencies with exact versions.
    pub dependencies: Option<Vec<Option<Dependency>>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn absent_or_empty(map: &Option<BTreeMap<String, String>>) -> bool {
    map.as_ref().is_none_or(BTreeMap::is_empty)
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn absent_or_empty_list(list: &Option<Vec<Option<Dependency>>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}

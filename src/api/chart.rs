//! `spec.chart`: where a chart comes from.

use std::fmt;
use std::sync::Arc;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::redact::SourceUrl;

/// Where the chart comes from. Git and Helm repository fields live side by side, as in 1.4; when both
/// are complete, git wins. A complete source is `git` and `path`; or `repository`, `name` and
/// `version`; or `oci`.
///
/// The API server refuses a chart that names none of them. What is named and not complete is stored, as by
/// 1.4, and fails when it is synced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.git) && self.git != '') || (has(self.repository) && self.repository != '') || \
     (has(self.oci) && self.oci.url != '')"
).message(
    "no complete chart source: give git and path, or repository, name and version, or oci.url"
))]
pub struct ChartSource {
    /// URL of a git repository: `https://…`, `ssh://…` or `git@host:path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<SourceUrl>,
    /// Branch, tag or commit; the default branch of the remote (or `--git-default-ref`) when absent.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Directory of the chart in the git repository; `.` is its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Secret with the credentials of the source: `username` and `password`, and for git also
    /// `bearerToken`, `identity`, `known_hosts`, `caFile`, `tls.crt` and `tls.key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Do not resolve the dependencies of this git chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_dep_update: Option<bool>,
    /// Read submodules below the chart too. A submodule on the host of the repository is read with its Secret, any other
    /// with the credentials of the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submodules: Option<bool>,
    /// Use the chart only if it is signed: the commit of a git repository, the provenance file of a chart in a Helm
    /// repository, the cosign signature or the provenance of a chart in a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verification>,
    /// Absolute URL of a Helm repository or of a folder of a registry (`oci://…`), or `@NAME` for an imported repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<SourceUrl>,
    /// Name of the chart in the Helm repository, without an alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the chart in the Helm repository, or a range of versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Secret with the credentials of the Helm repository: `username` and `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_pull_secret: Option<super::LocalName>,
    /// A chart in an OCI registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
}

/// A Secret that may live in another namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret; that of the HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Who must have signed the commit of a git chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Secret with the public keys. For commits: OpenSSH keys in `*.pub` or `allowed_signers`, OpenPGP keys in `*.asc`.
    /// For charts: PEM keys of cosign in `*.pub`, OpenPGP keys in `*.asc`. One signature by one of them is enough.
    pub secret_ref: SecretRef,
}

/// A chart in an OCI registry; `digest` wins over `tag`, `tag` over `version`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OciSource {
    /// `oci://registry/repository/chart`.
    pub url: SourceUrl,
    /// Version of the chart, or a range of versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Tag of the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Digest of the manifest: `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A namespace and a name: the key of an object. It is in many places at once, so a clone shares the
/// texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The source that is used, chosen by 1.4's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChartChoice<'a> {
    /// A directory of a git repository.
    Git {
        /// URL of the repository.
        url: &'a SourceUrl,
        /// Branch, tag or commit; `None` for the default of the daemon.
        reference: Option<&'a str>,
        /// Directory of the chart.
        path: &'a str,
    },
    /// An archive of a Helm repository.
    Repository {
        /// URL of the repository.
        url: &'a SourceUrl,
        /// Name of the chart.
        name: &'a str,
        /// Version or range of versions.
        version: &'a str,
    },
    /// An artifact of an OCI registry.
    Oci(&'a OciSource),
}

/// No source is complete; the text is 1.4's, and what is missing follows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not find valid chart source configuration for release: {missing}")]
pub struct IncompleteChart {
    missing: &'static str,
}

/// `Some` of a text that is not empty.
fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl ChartSource {
    /// Picks the source: git when complete, else the Helm repository when complete, else OCI.
    ///
    /// # Errors
    /// Fails when none is complete, and names what the nearest one lacks.
    pub fn choose(&self) -> Result<ChartChoice<'_>, IncompleteChart> {
        self.git_choice()
            .or_else(|| self.repository_choice())
            .or_else(|| self.oci_choice())
            .ok_or_else(|| IncompleteChart {
                missing: self.missing(),
            })
    }

    pub(super) fn git_choice(&self) -> Option<ChartChoice<'_>> {
        Some(ChartChoice::Git {
            url: self.git.as_ref().filter(|url| !url.is_empty())?,
            reference: filled(self.reference.as_ref()),
            path: filled(self.path.as_ref())?,
        })
    }

    pub(super) fn repository_choice(&self) -> Option<ChartChoice<'_>> {
        Some(ChartChoice::Repository {
            url: self.repository.as_ref().filter(|url| !url.is_empty())?,
            name: filled(self.name.as_ref())?,
            version: filled(self.version.as_ref())?,
        })
    }

    pub(super) fn oci_choice(&self) -> Option<ChartChoice<'_>> {
        self.oci
            .as_ref()
            .filter(|oci| !oci.url.is_empty())
            .map(ChartChoice::Oci)
    }

    fn missing(&self) -> &'static str {
        let has = |url: Option<&SourceUrl>| url.is_some_and(|url| !url.is_empty());
        if has(self.git.as_ref()) {
            "chart.git needs chart.path (\".\" is the root of the repository)"
        } else if has(self.repository.as_ref()) && filled(self.name.as_ref()).is_none() {
            "chart.repository needs chart.name"
        } else if has(self.repository.as_ref()) {
            "chart.repository needs chart.version"
        } else {
            "give git and path, or repository, name and version, or oci.url"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(json: serde_json::Value) -> ChartSource {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn git_wins_over_a_complete_repository_and_a_stray_ref_does_not_count() {
        let both = chart(serde_json::json!({
            "git": "https://git.example.com/a", "path": "charts/a",
            "repository": "https://charts.example.com", "name": "a", "version": "1.0.0"
        }));
        assert!(matches!(
            both.choose(),
            Ok(ChartChoice::Git {
                path: "charts/a",
                reference: None,
                ..
            })
        ));
        let stray = chart(serde_json::json!({
            "ref": "master", "repository": "https://charts.example.com", "name": "a", "version": "1.0.0"
        }));
        assert!(matches!(
            stray.choose(),
            Ok(ChartChoice::Repository {
                version: "1.0.0",
                ..
            })
        ));
    }

    #[test]
    fn an_incomplete_source_is_refused_in_the_words_of_1_4_and_says_what_is_missing() {
        let cases = [
            (serde_json::json!({}), "give git and path"),
            (
                serde_json::json!({"git": "https://git.example.com/a", "ref": "main"}),
                "needs chart.path",
            ),
            (
                serde_json::json!({"git": "https://git.example.com/a", "path": ""}),
                "needs chart.path",
            ),
            (
                serde_json::json!({"repository": "https://c.example.com", "name": "a"}),
                "needs chart.version",
            ),
            (
                serde_json::json!({"repository": "https://c.example.com", "version": "1"}),
                "needs chart.name",
            ),
            (
                serde_json::json!({"git": null, "path": "x", "oci": {"url": ""}}),
                "give git and path",
            ),
        ];
        for (json, hint) in cases {
            let text = chart(json).choose().unwrap_err().to_string();
            assert!(
                text.starts_with("could not find valid chart source configuration for release")
            );
            assert!(text.contains(hint), "{text}");
        }
    }
}

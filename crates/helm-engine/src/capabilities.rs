//! What a cluster offers, as `.Capabilities` shows it to templates.

use thiserror::Error;

/// `.Capabilities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Kubernetes.
    pub kube_version: KubeVersion,
    /// Group versions, such as `apps/v1`; those of a live cluster have `apps/v1/Deployment` too.
    pub api_versions: Vec<String>,
    /// The version of Helm that templates see.
    pub helm_version: HelmVersion,
}

/// `.Capabilities.KubeVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// The full version with a leading `v`: `v1.33.4-gke.1245000`.
    pub version: String,
    /// The version without a suffix, for constraints; `None` for that of a live cluster, where
    /// Helm compares the full version.
    pub normalized: Option<String>,
    /// The major version; a cluster may report `1`.
    pub major: String,
    /// The minor version; a cluster may report `27+`.
    pub minor: String,
}

/// `.Capabilities.HelmVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmVersion {
    /// Such as `v4.3`.
    pub version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// The version of Go that it was built with.
    pub go_version: String,
    /// The version of client-go that it was built with.
    pub kube_client_version: String,
}

/// A text that is no Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("could not parse {0:?} as version")]
pub struct KubeVersionError(String);

impl Default for Capabilities {
    /// What Helm 4.3.1 assumes without a cluster.
    fn default() -> Self {
        Self {
            kube_version: KubeVersion {
                version: "v1.37.0".to_owned(),
                normalized: Some("v1.37.0".to_owned()),
                major: "1".to_owned(),
                minor: "37".to_owned(),
            },
            api_versions: DEFAULT_API_VERSIONS
                .iter()
                .map(|&version| version.to_owned())
                .collect(),
            helm_version: HelmVersion::default(),
        }
    }
}

impl Default for HelmVersion {
    fn default() -> Self {
        Self {
            version: "v4.3".to_owned(),
            git_commit: String::new(),
            git_tree_state: String::new(),
            go_version: "go1.26.5".to_owned(),
            kube_client_version: "v1.37".to_owned(),
        }
    }
}

impl KubeVersion {
    /// Reads the argument of `--kube-version`: two or more dot-separated numbers, with or without
    /// `v`, and any suffix, which is kept in `version` and dropped for constraints.
    ///
    /// # Errors
    /// The text is no such version.
    pub fn parse(text: &str) -> Result<Self, KubeVersionError> {
        let fault = || KubeVersionError(text.to_owned());
        let trimmed = text.trim();
        let numbers = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let end = numbers
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(numbers.len());
        let parts = numbers
            .get(..end)
            .unwrap_or_default()
            .split('.')
            .map(|part| component(part).ok_or_else(fault))
            .collect::<Result<Vec<_>, _>>()?;
        let [major, minor, ..] = parts.as_slice() else {
            return Err(fault());
        };
        Ok(Self {
            version: if text.starts_with('v') {
                text.to_owned()
            } else {
                format!("v{text}")
            },
            normalized: Some(format!("v{}", parts.join("."))),
            major: major.clone(),
            minor: minor.clone(),
        })
    }

    /// What it prints as, and what constraints see.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.normalized.as_deref().unwrap_or(&self.version)
    }
}

fn component(part: &str) -> Option<String> {
    if part.len() > 1 && part.starts_with('0') {
        return None;
    }
    part.parse::<u64>().ok().map(|number| number.to_string())
}

/// The group versions that Helm 4.3.1 assumes without a cluster, in its order.
const DEFAULT_API_VERSIONS: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

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
pub enum KubeVersionError {
    /// No numbers at its start.
    #[error("could not parse {0:?} as version")]
    NoVersion(String),
    /// Fewer numbers than two.
    #[error("illegal version string {0:?}")]
    TooShort(String),
    /// A major version with a zero in front.
    #[error("illegal zero-prefixed version component {component:?} in {text:?}")]
    ZeroPrefixed {
        /// The number.
        component: String,
        /// All of the text.
        text: String,
    },
    /// A number that is too large.
    #[error(
        "illegal non-numeric version component {component:?} in {text:?}: strconv.ParseUint: \
         parsing {component:?}: value out of range"
    )]
    TooLarge {
        /// The number.
        component: String,
        /// All of the text.
        text: String,
    },
}

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
        let trimmed = text.trim_ascii_start();
        let numbers = numbers(trimmed.strip_prefix('v').unwrap_or(trimmed));
        if numbers.is_empty() {
            return Err(KubeVersionError::NoVersion(text.to_owned()));
        }
        let numbers: Vec<&str> = numbers.split('.').collect();
        let [first, _, ..] = numbers.as_slice() else {
            return Err(KubeVersionError::TooShort(text.to_owned()));
        };
        if first.len() > 1 && first.starts_with('0') {
            return Err(KubeVersionError::ZeroPrefixed {
                component: (*first).to_owned(),
                text: text.to_owned(),
            });
        }
        let parts = numbers
            .iter()
            .map(|number| component(number, text))
            .collect::<Result<Vec<_>, _>>()?;
        let [major, minor, ..] = parts.as_slice() else {
            return Err(KubeVersionError::TooShort(text.to_owned()));
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

/// The numbers with dots between them that a text begins with.
fn numbers(text: &str) -> &str {
    let mut end = 0;
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            // A dot without a number behind it is not part of the version.
            return text.get(..end).unwrap_or_default().trim_end_matches('.');
        }
        end += digits;
        match rest.get(digits..).and_then(|rest| rest.strip_prefix('.')) {
            Some(after) => rest = after,
            None => return text.get(..end).unwrap_or_default(),
        }
        end += 1;
    }
}

fn component(number: &str, text: &str) -> Result<String, KubeVersionError> {
    let parsed: Result<u64, _> = number.parse();
    parsed
        .map(|number| number.to_string())
        .map_err(|_| KubeVersionError::TooLarge {
            component: number.to_owned(),
            text: text.to_owned(),
        })
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

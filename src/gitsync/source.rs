//! What a release asks of git.

use std::fmt;
use std::sync::Arc;

use super::{RepositoryUrl, SecretRef};

/// A release by its `HelmRelease` object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseKey {
    /// Namespace of the `HelmRelease`.
    pub namespace: Arc<str>,
    /// Name of the `HelmRelease`.
    pub name: Arc<str>,
}

impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A chart in a git repository: `spec.chart.{git,ref,path,secretRef,skipDepUpdate}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitSource {
    /// The remote.
    pub url: RepositoryUrl,
    /// Branch, tag, commit id (full or at least seven digits), or `refs/…`. `None`: the default ref of the options,
    /// else the HEAD of the remote.
    pub reference: Option<String>,
    /// Chart directory below the root of the repository; `.` or empty is the root itself.
    pub path: String,
    /// The Secret with the credentials of the remote.
    pub secret: Option<SecretRef>,
    /// `skipDepUpdate`: leave `charts/` as it is, also for `file://` dependencies.
    pub skip_dep_update: bool,
    /// Read submodules below the chart path too.
    pub submodules: bool,
    /// The Secret with the keys that the commit must be signed by (`*.pub` SSH keys, `*.asc` OpenPGP keys).
    pub verify: Option<SecretRef>,
    /// More paths whose change wakes the release, relative to the chart directory (`chartFileRef`).
    pub watch: Vec<String>,
}

impl GitSource {
    /// The chart at `path` of the default ref of `url`, without credentials.
    #[must_use]
    pub fn new(url: RepositoryUrl, path: impl Into<String>) -> Self {
        Self {
            url,
            reference: None,
            path: path.into(),
            secret: None,
            skip_dep_update: false,
            submodules: false,
            verify: None,
            watch: Vec::new(),
        }
    }

    /// The same at `reference`.
    #[must_use]
    pub fn at(mut self, reference: impl Into<String>) -> Self {
        self.reference = Some(reference.into());
        self
    }
}

//! `SourceRef` → [`ChartArtifact`]: where the chart of a release comes from, whatever the kind of place.

pub use crate::gitsync::{
    ChartArtifact, ChartFile, ChartName, GitSource, Reason, ReleaseKey, RepositoryUrl, SecretRef,
    SourceError, UrlError,
};

use crate::gitsync::Mirrors;

/// Where the chart of a release comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SourceRef {
    /// A directory of a git repository.
    Git(GitSource),
    /// A chart of a Helm repository.
    HelmRepository(HelmRepositorySource),
    /// A chart of an OCI registry.
    Oci(OciSource),
}

/// A chart of a Helm repository: `spec.chart.{repository,name,version,chartPullSecret}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HelmRepositorySource {
    /// The repository, an absolute http(s) URL.
    pub url: RepositoryUrl,
    /// The name of the chart.
    pub name: String,
    /// A version or a range, in the dialect of Helm; `None`: the newest stable one.
    pub version: Option<String>,
    /// The Secret with the credentials of the repository.
    pub secret: Option<SecretRef>,
}

/// A chart of an OCI registry: `spec.chart.repository: oci://…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OciSource {
    /// `oci://host/path/chart`.
    pub url: RepositoryUrl,
    /// A version, a range or a digest; `None`: the newest stable one.
    pub version: Option<String>,
    /// The Secret with the credentials of the registry.
    pub secret: Option<SecretRef>,
}

/// Fetches charts, from wherever they are.
#[derive(Debug, Clone)]
pub struct Sources {
    mirrors: Mirrors,
}

impl Sources {
    /// Sources over the mirrors of this daemon.
    #[must_use]
    pub fn new(mirrors: Mirrors) -> Self {
        Self { mirrors }
    }

    /// The git mirrors.
    #[must_use]
    pub fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Says what `release` uses from now on; see [`Mirrors::declare`].
    pub fn declare(&self, release: &ReleaseKey, source: &SourceRef) {
        match source {
            SourceRef::Git(git) => self.mirrors.declare(release, vec![git.clone()]),
            SourceRef::HelmRepository(_) | SourceRef::Oci(_) => self.mirrors.forget(release),
        }
    }

    /// Says that `release` is gone.
    pub fn forget(&self, release: &ReleaseKey) {
        self.mirrors.forget(release);
    }

    /// The files of the chart at `source`, now.
    ///
    /// # Errors
    /// See [`SourceError`]; a transient one is worth another try, for any other the release is woken when it changes.
    pub async fn fetch(&self, source: &SourceRef) -> Result<ChartArtifact, SourceError> {
        match source {
            SourceRef::Git(git) => self.mirrors.artifact(git).await,
            SourceRef::HelmRepository(_) | SourceRef::Oci(_) => Err(SourceError::new(
                Reason::InvalidSource,
                "charts of Helm repositories and OCI registries are not supported yet: use a git chart",
            )),
        }
    }
}

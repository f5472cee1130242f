//! `SourceRef` → [`ChartArtifact`]: where the chart of a release comes from, whatever the kind of place.

mod access;
mod cache;
mod charts;
mod dependencies;
mod http;
mod imported;
mod index;
mod oci;
mod repository;

use std::sync::Arc;

pub use access::Access;
pub use charts::{ChartPlace, Charts};
pub use imported::{ImportedRepository, import};
pub use oci::Reference;
pub use repository::{Listed, RepositoryOptions};

pub use crate::gitsync::{
    ChartArtifact, ChartFile, ChartName, GitSource, Reason, ReleaseKey, RepositoryUrl, SecretData,
    SecretError, SecretReader, SecretRef, SourceError, UrlError,
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
    /// A tag, which wins over the version and need not be one.
    pub tag: Option<String>,
    /// A version, a range or a digest; `None`: the newest stable one.
    pub version: Option<String>,
    /// The Secret with the credentials of the registry.
    pub secret: Option<SecretRef>,
}

/// Fetches charts, from wherever they are.
#[derive(Debug, Clone)]
pub struct Sources {
    mirrors: Mirrors,
    charts: Option<Arc<Charts>>,
}

impl Sources {
    /// Sources over the mirrors of this daemon; of git only, until charts are added.
    #[must_use]
    pub fn new(mirrors: Mirrors) -> Self {
        Self {
            mirrors,
            charts: None,
        }
    }

    /// Also fetches from Helm repositories and registries.
    #[must_use]
    pub fn with_charts(mut self, charts: Arc<Charts>) -> Self {
        self.charts = Some(charts);
        self
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

    /// Has the place of `source` asked for news before the next [`fetch`](Self::fetch) is answered.
    pub fn refresh(&self, source: &SourceRef) {
        if let SourceRef::Git(git) = source {
            self.mirrors.refresh(git);
        }
    }

    /// The files of the chart at `source`, now.
    ///
    /// # Errors
    /// See [`SourceError`]; a transient one is worth another try, for any other the release is woken when it changes.
    pub async fn fetch(&self, source: &SourceRef) -> Result<ChartArtifact, SourceError> {
        match source {
            SourceRef::Git(git) => self.fetch_git(git).await,
            SourceRef::HelmRepository(source) => self.charts()?.from_repository(source).await,
            SourceRef::Oci(source) => self.charts()?.from_registry(source).await,
        }
    }

    async fn fetch_git(&self, git: &GitSource) -> Result<ChartArtifact, SourceError> {
        let artifact = self.mirrors.artifact(git).await?;
        match &self.charts {
            Some(charts) if !git.skip_dep_update => dependencies::complete(charts, artifact).await,
            _ => Ok(artifact),
        }
    }

    fn charts(&self) -> Result<&Charts, SourceError> {
        self.charts.as_deref().ok_or_else(|| {
            let text =
                "charts of repositories and registries are switched off here: use a git chart";
            SourceError::new(Reason::InvalidSource, text)
        })
    }
}

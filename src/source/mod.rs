//! `SourceRef` → [`ChartArtifact`]: where the chart of a release comes from, whatever the kind of place.

mod access;
mod cache;
mod charts;
mod dependencies;
mod fresh;
mod http;
mod imported;
mod index;
mod oci;
mod pins;
mod repository;
mod signed;
mod verify;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use access::Access;
pub use charts::{ChartPlace, Charts};
pub use fresh::Freshness;
pub use imported::{ImportedRepository, alias_of, import};
pub use oci::Reference;
pub use pins::is_exact;
pub use repository::{Listed, RepositoryOptions};
pub use verify::{Signer, verify_provenance};

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
    /// Another one that goes before it, if it is there: 1.4 had a field for it and never read it.
    pub pull_secret: Option<SecretRef>,
    /// The Secret with the keys that the chart must be signed by.
    pub verify: Option<SecretRef>,
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
    /// The Secret with the keys that the chart must be signed by.
    pub verify: Option<SecretRef>,
}

/// Fetches charts, from wherever they are.
#[derive(Debug, Clone)]
pub struct Sources {
    mirrors: Mirrors,
    charts: Option<Arc<Charts>>,
    /// What each git source was last seen to be, and since when.
    seen: Arc<Mutex<HashMap<GitSource, (String, Instant)>>>,
}

/// Git sources that are remembered; one more, and all are taken for new.
const SEEN: usize = 16_384;

impl Sources {
    /// Sources over the mirrors of this daemon; of git only, until charts are added.
    #[must_use]
    pub fn new(mirrors: Mirrors) -> Self {
        Self {
            mirrors,
            charts: None,
            seen: Arc::default(),
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

    /// Why the place of `source` cannot be asked for news, while what it gave before is still served.
    #[must_use]
    pub fn trouble(&self, source: &SourceRef) -> Option<SourceError> {
        match source {
            SourceRef::Git(git) => self.mirrors.trouble(git),
            SourceRef::HelmRepository(_) | SourceRef::Oci(_) => None,
        }
    }

    /// The files of the chart at `source`, now. What is asked of repositories and registries is as new as `freshness`
    /// wants it; and the dependencies of a git chart as new as its last change besides.
    ///
    /// # Errors
    /// See [`SourceError`]; a transient one is worth another try, for any other the release is woken when it changes.
    pub async fn fetch(
        &self,
        source: &SourceRef,
        freshness: Freshness,
    ) -> Result<ChartArtifact, SourceError> {
        match source {
            SourceRef::Git(git) => self.fetch_git(git, freshness).await,
            SourceRef::HelmRepository(source) => {
                self.charts()?.from_repository(source, freshness).await
            }
            SourceRef::Oci(source) => self.charts()?.from_registry(source, freshness).await,
        }
    }

    async fn fetch_git(
        &self,
        git: &GitSource,
        freshness: Freshness,
    ) -> Result<ChartArtifact, SourceError> {
        let artifact = self.mirrors.artifact(git).await?;
        match &self.charts {
            Some(charts) if !git.skip_dep_update => {
                let freshness = freshness.and(Freshness::since(self.changed(git, &artifact)));
                dependencies::complete(charts, artifact, freshness).await
            }
            _ => Ok(artifact),
        }
    }

    /// When the chart of `git` was first seen to be what it is: one moment for all releases of it.
    fn changed(&self, git: &GitSource, artifact: &ChartArtifact) -> Instant {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((digest, since)) = seen.get(git)
            && *digest == artifact.digest
        {
            return *since;
        }
        if seen.len() >= SEEN {
            seen.clear();
        }
        let now = Instant::now();
        seen.insert(git.clone(), (artifact.digest.clone(), now));
        now
    }

    fn charts(&self) -> Result<&Charts, SourceError> {
        self.charts.as_deref().ok_or_else(|| {
            let text =
                "charts of repositories and registries are switched off here: use a git chart";
            SourceError::new(Reason::InvalidSource, text)
        })
    }
}

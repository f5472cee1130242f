//! Charts of Helm repositories and OCI registries, with the credentials that apply.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use reqwest::Url;
use zeroize::Zeroizing;

use super::access::Access;
use super::cache::{ArtifactCache, digest_of};
use super::fresh::Freshness;
use super::http::Http;
use super::imported::{ImportedRepository, alias_of, by_alias, by_url};
use super::oci::{Reference, Registries};
use super::pins::Pins;
use super::repository::{Listed, Repositories, RepositoryOptions};
use super::signed::Asked;
use super::{
    ChartArtifact, ChartFile, ChartName, HelmRepositorySource, OciSource, Reason, RepositoryUrl,
    SecretReader, SecretRef, SourceError,
};

/// Where charts are got from, besides git.
#[derive(Debug, Clone)]
pub enum ChartPlace {
    /// A Helm repository, by the URL that `index.yaml` is below.
    Repository(Url),
    /// A registry and the path in it.
    Registry(Reference),
}

/// Helm repositories and OCI registries, with one cache of archives below both.
pub struct Charts {
    pub(super) repositories: Repositories,
    pub(super) registries: Registries,
    secrets: Arc<dyn SecretReader>,
    imported: Vec<ImportedRepository>,
    plain_registries: Vec<String>,
    /// Files of archives that somebody holds: two releases of one chart share them.
    unpacked: Mutex<HashMap<String, Weak<Vec<ChartFile>>>>,
    /// What was found to be signed, by the archive and the keys.
    pub(super) signed: Mutex<HashSet<(String, [u8; 32])>>,
}

impl std::fmt::Debug for Charts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Charts")
            .field("imported", &self.imported)
            .finish_non_exhaustive()
    }
}

impl Charts {
    /// Opens the caches below `options.cache_dir`.
    ///
    /// # Errors
    /// `StorageFailed` where the directory cannot be used.
    pub fn new(
        options: RepositoryOptions,
        secrets: Arc<dyn SecretReader>,
    ) -> Result<Self, SourceError> {
        let http = Arc::new(Http::new(options.timeout));
        let directory = options.cache_dir.join("artifacts");
        let artifacts = Arc::new(ArtifactCache::open(directory, options.cache_bytes)?);
        let pins = Pins::open(options.cache_dir.join("pins"), Arc::clone(&artifacts))?;
        let pins = Arc::new(pins);
        let registries = Registries::new(
            Arc::clone(&http),
            Arc::clone(&artifacts),
            Arc::clone(&pins),
            options.archive_bytes,
            options.interval,
        );
        Ok(Self {
            repositories: Repositories::new(http, artifacts, pins, options)?,
            registries,
            secrets,
            imported: Vec::new(),
            plain_registries: Vec::new(),
            unpacked: Mutex::default(),
            signed: Mutex::default(),
        })
    }

    /// Also uses these repositories' credentials, and understands their aliases.
    #[must_use]
    pub fn with_imported(mut self, imported: Vec<ImportedRepository>) -> Self {
        self.imported = imported;
        self
    }

    /// Speaks http with these registries (`host` or `host:port`), for registries on this machine.
    #[must_use]
    pub fn with_plain_registries(mut self, hosts: Vec<String>) -> Self {
        self.plain_registries = hosts;
        self
    }

    /// The chart of a Helm repository.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn from_repository(
        &self,
        source: &HelmRepositorySource,
        freshness: Freshness,
    ) -> Result<ChartArtifact, SourceError> {
        let url = http_url(&source.url)?;
        let access = match self.pull_access(source.pull_secret.as_ref()).await? {
            Some(access) => access,
            None => self.access(source.secret.as_ref(), &url).await?,
        };
        let place = ChartPlace::Repository(url);
        let version = source.version.as_deref();
        let artifact = self
            .fetch(&place, &access, &source.name, version, freshness)
            .await?;
        if let Some(secret) = &source.verify {
            let asked = Asked {
                place: &place,
                access: &access,
                name: &source.name,
                version: Some(&artifact.revision),
            };
            self.check(&asked, &artifact, secret).await?;
        }
        Ok(artifact)
    }

    /// The chart of a registry.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn from_registry(
        &self,
        source: &OciSource,
        freshness: Freshness,
    ) -> Result<ChartArtifact, SourceError> {
        let reference = self.reference(source.url.host(), source.url.port(), source.url.path())?;
        let place = ChartPlace::Registry(reference.clone());
        let access = match (&source.secret, source.url.expose_user()) {
            (Some(secret), _) => Access::from_secret(&self.secret(secret).await?)?,
            (None, Some(_)) => url_login(&source.url),
            (None, None) => self.imported_access(&place),
        };
        let artifact = match &source.tag {
            Some(tag) => {
                let content = self.registries.tagged(&reference, &access, tag, freshness);
                self.unpack(tag.clone(), Arc::new(content.await?)).await?
            }
            None => {
                let version = source.version.as_deref();
                self.fetch(&place, &access, "", version, freshness).await?
            }
        };
        if let Some(secret) = &source.verify {
            let revision = artifact.revision.as_str();
            let is_version = source.tag.is_none() && !revision.starts_with("sha256:");
            let asked = Asked {
                place: &place,
                access: &access,
                name: reference.name(),
                version: is_version.then_some(revision),
            };
            self.check(&asked, &artifact, secret).await?;
        }
        Ok(artifact)
    }

    /// A chart of any place.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn fetch(
        &self,
        place: &ChartPlace,
        access: &Access,
        name: &str,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<ChartArtifact, SourceError> {
        let (revision, content) = self
            .archive(place, access, name, version, freshness)
            .await?;
        self.unpack(revision, content).await
    }

    /// The archive of a chart, and its version.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn archive(
        &self,
        place: &ChartPlace,
        access: &Access,
        name: &str,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<(String, Arc<Vec<u8>>), SourceError> {
        match place {
            ChartPlace::Repository(url) => {
                self.repositories
                    .archive(url, access, name, version, freshness)
                    .await
            }
            ChartPlace::Registry(reference) => {
                let found = self
                    .registries
                    .archive(reference, access, version, freshness)
                    .await?;
                Ok((found.0, Arc::new(found.1)))
            }
        }
    }

    /// The newest version that is meant, without getting its archive.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn resolve(
        &self,
        place: &ChartPlace,
        access: &Access,
        name: &str,
        version: Option<&str>,
    ) -> Result<String, SourceError> {
        let freshness = Freshness::by_interval();
        match place {
            ChartPlace::Repository(url) => {
                let found = self
                    .repositories
                    .resolve(url, access, name, version, freshness)
                    .await?;
                Ok(found.version)
            }
            ChartPlace::Registry(reference) => {
                self.registries
                    .resolve(reference, access, version, freshness)
                    .await
            }
        }
    }

    /// The versions of a chart in a repository, newest first.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn list(
        &self,
        place: &ChartPlace,
        access: &Access,
        name: &str,
    ) -> Result<Vec<Listed>, SourceError> {
        match place {
            ChartPlace::Repository(url) => self.repositories.list(url, access, name).await,
            ChartPlace::Registry(reference) => {
                let freshness = Freshness::by_interval();
                let found = self
                    .registries
                    .versions(reference, access, freshness)
                    .await?;
                Ok(found.iter().map(Listed::from_tag).collect())
            }
        }
    }

    /// The names of all charts of a repository.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn names(
        &self,
        repository: &Url,
        access: &Access,
    ) -> Result<Vec<String>, SourceError> {
        self.repositories.names(repository, access).await
    }

    /// The archive at an address.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn download(&self, url: &Url, access: &Access) -> Result<Vec<u8>, SourceError> {
        self.repositories.download_url(url, access).await
    }

    /// What the `repository` of a dependency means: a URL, `oci://…`, or the alias of an imported
    /// repository (`@name`, `alias:name`).
    ///
    /// # Errors
    /// `InvalidSource` for an alias that is not known and for a scheme that is not supported.
    pub fn place(&self, repository: &str, name: &str) -> Result<ChartPlace, SourceError> {
        if let Some(alias) = alias_of(repository) {
            let found = by_alias(&self.imported, alias).ok_or_else(|| {
                let text = format!(
                    "no repository is imported as {alias:?}: write its address, or import it"
                );
                SourceError::new(Reason::InvalidSource, text)
            })?;
            return match found.url().scheme() {
                "http" | "https" => Ok(ChartPlace::Repository(found.url().clone())),
                _ => self.address(found.url().as_str(), name),
            };
        }
        self.address(repository, name)
    }

    /// What an address means.
    fn address(&self, repository: &str, name: &str) -> Result<ChartPlace, SourceError> {
        let url = RepositoryUrl::parse_chart_repository(repository)
            .map_err(|error| SourceError::new(Reason::InvalidSource, error.to_string()))?;
        if url.scheme() == crate::gitsync::Scheme::Oci {
            let path = format!("{}/{name}", url.path().trim_end_matches('/'));
            return Ok(ChartPlace::Registry(self.reference(
                url.host(),
                url.port(),
                &path,
            )?));
        }
        Ok(ChartPlace::Repository(http_url(&url)?))
    }

    /// The credentials for a place: those of the import entry with the longest URL in front of it.
    #[must_use]
    pub fn imported_access(&self, place: &ChartPlace) -> Access {
        let url = match place {
            ChartPlace::Repository(url) => url.clone(),
            ChartPlace::Registry(reference) => reference.url(),
        };
        by_url(&self.imported, &url).map_or_else(Access::default, |entry| entry.access().clone())
    }

    async fn access(&self, secret: Option<&SecretRef>, url: &Url) -> Result<Access, SourceError> {
        match secret {
            Some(secret) => Access::from_secret(&self.secret(secret).await?),
            None => Ok(self.imported_access(&ChartPlace::Repository(url.clone()))),
        }
    }

    /// The login of `chartPullSecret`. Objects from the time when nobody read it may name one that is not there.
    async fn pull_access(&self, secret: Option<&SecretRef>) -> Result<Option<Access>, SourceError> {
        let Some(secret) = secret else {
            return Ok(None);
        };
        match self.secrets.read(secret).await {
            Err(super::SecretError::NotFound(secret)) => {
                tracing::warn!(%secret, "chartPullSecret names a Secret that does not exist: no login is used");
                Ok(None)
            }
            _ => Access::from_secret(&self.secret(secret).await?).map(Some),
        }
    }

    pub(super) async fn secret(
        &self,
        secret: &SecretRef,
    ) -> Result<super::SecretData, SourceError> {
        self.secrets.read(secret).await.map_err(|error| {
            let reason = match &error {
                super::SecretError::Unavailable { .. } => Reason::Unreachable,
                _ => Reason::AuthFailed,
            };
            SourceError::new(reason, error.to_string())
        })
    }

    fn reference(
        &self,
        host: &str,
        port: Option<u16>,
        path: &str,
    ) -> Result<Reference, SourceError> {
        let bracketed = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let name = match port {
            Some(port) => format!("{bracketed}:{port}"),
            None => bracketed,
        };
        Reference::new(&name, path, self.plain_registries.contains(&name))
    }

    async fn unpack(
        &self,
        revision: String,
        content: Arc<Vec<u8>>,
    ) -> Result<ChartArtifact, SourceError> {
        let digest = digest_of(&content);
        let known = self.unpacked().get(&digest).and_then(Weak::upgrade);
        let files = match known {
            Some(files) => files,
            None => {
                let task = tokio::task::spawn_blocking(move || unpacked_files(&content));
                let files = task.await.unwrap_or_else(|error| {
                    Err(SourceError::new(Reason::InvalidData, error.to_string()))
                })?;
                let files = Arc::new(files);
                let mut unpacked = self.unpacked();
                unpacked.retain(|_, files| files.strong_count() > 0);
                unpacked.insert(digest.clone(), Arc::downgrade(&files));
                files
            }
        };
        let mut artifact = ChartArtifact {
            digest,
            revision,
            files,
            chart: None,
            can_move: false,
        };
        artifact.chart = chart_name(&artifact);
        Ok(artifact)
    }

    fn unpacked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Weak<Vec<ChartFile>>>> {
        self.unpacked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of an archive, sorted by path. Of two entries with one path the later counts, as in
/// any unpacking.
fn unpacked_files(content: &[u8]) -> Result<Vec<ChartFile>, SourceError> {
    let limits = helm_engine::Limits::default();
    let files = helm_engine::read_archive(content, &limits).map_err(|error| {
        let text = format!("the chart archive is not usable: {error}");
        SourceError::new(Reason::InvalidData, text)
    })?;
    let by_path: std::collections::BTreeMap<String, Vec<u8>> = files
        .into_iter()
        .map(|file| (file.name, file.data.to_vec()))
        .collect();
    Ok(by_path.into_iter().collect())
}

/// Name and version as `Chart.yaml` says.
pub(super) fn chart_name(artifact: &ChartArtifact) -> Option<ChartName> {
    let tree = goyaml::read(artifact.file("Chart.yaml")?).ok()?;
    let text = |key: &str| Some(tree.get(key)?.as_str()?.to_text().into_owned());
    Some(ChartName {
        name: text("name")?,
        version: text("version").unwrap_or_default(),
    })
}

/// A repository's address as an HTTP client takes it, with the login that stands in it.
fn http_url(url: &RepositoryUrl) -> Result<Url, SourceError> {
    let bad = || {
        let text = format!("{url} is no address of a Helm repository: use https:// or oci://");
        SourceError::new(Reason::InvalidSource, text)
    };
    let mut parsed = Url::parse(&url.without_credentials()).map_err(|_| bad())?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(bad());
    }
    parsed.set_query(url.expose_query());
    if let Some(user) = url.expose_user() {
        parsed.set_username(user).map_err(|()| bad())?;
        parsed
            .set_password(url.expose_password())
            .map_err(|()| bad())?;
    }
    Ok(parsed)
}

fn url_login(url: &RepositoryUrl) -> Access {
    match (url.expose_user(), url.expose_password()) {
        (Some(user), Some(password)) => {
            Access::default().with_login(user, Zeroizing::new(password.to_owned()).as_str())
        }
        _ => Access::default(),
    }
}

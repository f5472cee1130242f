//! Helm repositories: their indexes, the version that is meant, the archive.

mod disk;
mod errors;

use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;
use sha2::{Digest as _, Sha256};

use self::errors::{bad_index, chart_not_found, retry_after, unexpected, version_not_found};
use super::access::Access;
use super::cache::{
    ArtifactCache, digest_of, failed, hex, hex_of, key_of, private_directory, write_whole,
};
use super::fresh::{FAILURE_MEMORY, Freshness, Slots};
use super::http::{Answer, Http, Request, Validators, printable, read_body, read_whole};
use super::index::{self, ChartVersion, IndexError, Layout, Selection};
use super::pins::{PinKey, Pins};
use super::{Reason, SourceError};

pub(super) use self::errors::refused;

/// Bytes of a provenance file.
const PROVENANCE_BYTES: u64 = 1 << 20;

/// Settings of the repositories.
#[derive(Clone, Debug)]
pub struct RepositoryOptions {
    /// Directory of indexes and archives; nothing else may use it.
    pub cache_dir: PathBuf,
    /// How old an index may be before the server is asked again.
    pub interval: Duration,
    /// Longest time without progress.
    pub timeout: Duration,
    /// Bytes of an index, unpacked.
    pub index_bytes: u64,
    /// Bytes of an archive, packed.
    pub archive_bytes: u64,
    /// Bytes of all archives together.
    pub cache_bytes: u64,
}

impl RepositoryOptions {
    /// The defaults, below `cache_dir`.
    #[must_use]
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            interval: Duration::from_secs(180),
            timeout: Duration::from_secs(20),
            index_bytes: 512 << 20,
            archive_bytes: 100 << 20,
            cache_bytes: 2 << 30,
        }
    }
}

/// A version of a chart in a repository, by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The version, as the index writes it.
    pub(super) version: String,
    /// Where the archive is.
    pub(super) url: Url,
    /// `sha256` of the archive in hex, where the index gives it.
    pub(super) digest: Option<String>,
}

/// One version of a chart, for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// The version of the chart.
    pub version: String,
    /// The version of the application in it.
    pub app_version: String,
    /// One line on what it is.
    pub description: String,
    /// Whether it is no longer maintained.
    pub deprecated: bool,
}

impl Listed {
    /// A version of which only the tag is known.
    pub(super) fn from_tag(version: &sprig::semver::Version) -> Self {
        Self {
            version: version.original().to_owned(),
            app_version: String::new(),
            description: String::new(),
            deprecated: false,
        }
    }
}

/// All Helm repositories of the daemon.
#[derive(Debug)]
pub(super) struct Repositories {
    http: Arc<Http>,
    artifacts: Arc<ArtifactCache>,
    pins: Arc<Pins>,
    options: RepositoryOptions,
    indexes: Slots<Index>,
}

/// What is known of one index.
#[derive(Debug, Default)]
struct Index {
    current: Option<Current>,
    failure: Option<(Instant, SourceError)>,
}

/// An index on disk and where its charts lie.
#[derive(Clone, Debug)]
struct Current {
    path: PathBuf,
    layout: Arc<Layout>,
    validators: Validators,
    /// When the server was asked last: the moment at which the request was sent, so that what was published before it
    /// is in the answer. Never for an index of an earlier run.
    checked: Option<Instant>,
}

/// What stands beside an index on disk.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sidecar {
    sha256: String,
    validators: Validators,
}

impl Repositories {
    /// Repositories over these connections and this cache.
    ///
    /// # Errors
    /// `StorageFailed` where the directory cannot be used.
    pub(super) fn new(
        http: Arc<Http>,
        artifacts: Arc<ArtifactCache>,
        pins: Arc<Pins>,
        options: RepositoryOptions,
    ) -> Result<Self, SourceError> {
        let directory = options.cache_dir.join("indexes");
        private_directory(&directory)
            .and_then(|()| disk::sweep(&directory, options.cache_bytes))
            .map_err(failed("open", &directory))?;
        Ok(Self {
            http,
            artifacts,
            pins,
            options,
            indexes: Slots::default(),
        })
    }

    /// The archive of a chart: from the cache if an exact version was fetched before, else by the
    /// index. Returns the version and the bytes.
    ///
    /// # Errors
    /// `ChartNotFound`, `VersionNotFound` with what there is, and everything that a server can do.
    pub(super) async fn archive(
        &self,
        repository: &Url,
        access: &Access,
        name: &str,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<(String, Arc<Vec<u8>>), SourceError> {
        let shown = printable(repository);
        let query = repository.query().unwrap_or_default();
        let parts = [
            shown.as_bytes(),
            query.as_bytes(),
            &access.id(),
            name.as_bytes(),
        ];
        let pin = PinKey::new(&parts, version);
        if let Some((version, content)) = self.pins.get(pin.as_ref()) {
            return Ok((version, Arc::new(content)));
        }
        let resolved = self
            .resolve(repository, access, name, version, freshness)
            .await?;
        let content = self.download(repository, access, &resolved).await?;
        let digest = digest_of(&content);
        self.pins.put(pin.as_ref(), &resolved.version, &digest)?;
        Ok((resolved.version, Arc::new(content)))
    }

    /// Which version is meant, by the index of the repository.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(super) async fn resolve(
        &self,
        repository: &Url,
        access: &Access,
        name: &str,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<Resolved, SourceError> {
        check_name(name)?;
        let index = self.index(repository, access, freshness).await?;
        let found = read_versions(&index, repository, name).await?;
        let Some(found) = found else {
            return Err(chart_not_found(&index.layout, repository, name));
        };
        let versions: Vec<_> = found.iter().map(|entry| &entry.version).collect();
        match index::select(&versions, version) {
            Selection::Found(at) => match found.get(at) {
                Some(entry) => resolved(repository, name, entry),
                None => Err(version_not_found(repository, name, version, &[])),
            },
            Selection::None(near) => {
                let near: Vec<_> = near.iter().filter_map(|at| found.get(*at)).collect();
                Err(version_not_found(repository, name, version, &near))
            }
            Selection::NotARange(why) => Err(SourceError::new(
                Reason::InvalidSource,
                format!(
                    "{:?} is no version and no range of versions ({why}): write one such as 1.2.3 or ~1.2",
                    version.unwrap_or_default()
                ),
            )),
        }
    }

    /// All versions of a chart, newest first.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(super) async fn list(
        &self,
        repository: &Url,
        access: &Access,
        name: &str,
    ) -> Result<Vec<Listed>, SourceError> {
        let freshness = Freshness::by_interval();
        let index = self.index(repository, access, freshness).await?;
        let found = read_versions(&index, repository, name).await?;
        let found = found.ok_or_else(|| chart_not_found(&index.layout, repository, name))?;
        Ok(found.into_iter().map(listed).collect())
    }

    /// The names of all charts.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(super) async fn names(
        &self,
        repository: &Url,
        access: &Access,
    ) -> Result<Vec<String>, SourceError> {
        let freshness = Freshness::by_interval();
        let index = self.index(repository, access, freshness).await?;
        Ok(index.layout.charts.keys().cloned().collect())
    }

    /// The archive of a resolved version, its digest checked.
    ///
    /// # Errors
    /// As [`archive`](Self::archive); `InvalidData` where the digest is another.
    pub(super) async fn download(
        &self,
        repository: &Url,
        access: &Access,
        resolved: &Resolved,
    ) -> Result<Vec<u8>, SourceError> {
        if let Some(found) = resolved
            .digest
            .as_deref()
            .and_then(|it| self.artifacts.get(it))
        {
            return Ok(found);
        }
        let limit = self.options.archive_bytes;
        let content = self
            .get(
                repository,
                access,
                &resolved.url,
                limit,
                "the chart archive",
            )
            .await?;
        check_digest(resolved, &content)?;
        self.artifacts.put(&content)?;
        Ok(content)
    }

    /// The provenance file beside an archive.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(super) async fn provenance(
        &self,
        repository: &Url,
        access: &Access,
        archive: &Url,
    ) -> Result<Vec<u8>, SourceError> {
        let mut url = archive.clone();
        url.set_path(&format!("{}.prov", archive.path()));
        self.get(
            repository,
            access,
            &url,
            PROVENANCE_BYTES,
            "the provenance file",
        )
        .await
    }

    async fn get(
        &self,
        repository: &Url,
        access: &Access,
        url: &Url,
        limit: u64,
        what: &str,
    ) -> Result<Vec<u8>, SourceError> {
        let request = Request {
            url: url.clone(),
            access,
            home: repository,
            authorization: None,
            accept: None,
            validators: None,
        };
        let response = match self.http.get(request).await? {
            Answer::Found(response) => response,
            Answer::NotModified => return Err(unexpected(url)),
            Answer::Refused(response) => return Err(refused(&response, what)),
        };
        read_whole(response, limit, self.http.stall()).await
    }

    /// The archive at an address, whatever its digest.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(super) async fn download_url(
        &self,
        url: &Url,
        access: &Access,
    ) -> Result<Vec<u8>, SourceError> {
        let resolved = Resolved {
            version: String::new(),
            url: url.clone(),
            digest: None,
        };
        self.download(url, access, &resolved).await
    }

    /// The index of a repository, as new as is asked. All who ask at once share one request.
    async fn index(
        &self,
        repository: &Url,
        access: &Access,
        freshness: Freshness,
    ) -> Result<Current, SourceError> {
        let query = repository.query().unwrap_or_default();
        let shown = printable(repository);
        let key = key_of([shown.as_bytes(), query.as_bytes(), &access.id()]);
        let slot = self.indexes.slot(&key);
        let mut index = slot.lock().await;
        let path = self
            .options
            .cache_dir
            .join("indexes")
            .join(format!("{key}.yaml"));
        if index.current.is_none() {
            index.current = restore(path.clone()).await;
        }
        if let Some(current) = &index.current
            && current
                .checked
                .is_some_and(|at| freshness.accepts(at, Instant::now(), self.options.interval))
        {
            return Ok(current.clone());
        }
        if let Some((until, error)) = &index.failure
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        match self
            .refresh(repository, access, index.current.take(), path)
            .await
        {
            Ok(current) => {
                index.failure = None;
                index.current = Some(current.clone());
                Ok(current)
            }
            Err((pause, error, kept)) => {
                index.current = kept;
                index.failure = Some((Instant::now() + pause, error.clone()));
                Err(error)
            }
        }
    }

    async fn refresh(
        &self,
        repository: &Url,
        access: &Access,
        known: Option<Current>,
        path: PathBuf,
    ) -> Result<Current, (Duration, SourceError, Option<Current>)> {
        let url = index_url(repository);
        let request = Request {
            url: url.clone(),
            access,
            home: repository,
            authorization: None,
            accept: None,
            validators: known.as_ref().map(|known| &known.validators),
        };
        let asked = Instant::now();
        let answer = self.http.get(request).await;
        match answer {
            Err(error) => Err((FAILURE_MEMORY, error, known)),
            Ok(Answer::NotModified) => match known {
                Some(known) => Ok(Current {
                    checked: Some(asked),
                    ..known
                }),
                None => Err((FAILURE_MEMORY, unexpected(&url), None)),
            },
            Ok(Answer::Refused(response)) => {
                let error = refused(&response, "the index");
                Err((retry_after(&response), error, known))
            }
            Ok(Answer::Found(response)) => self
                .keep(response, path, asked)
                .await
                .map_err(|error| (FAILURE_MEMORY, error, known)),
        }
    }

    /// Writes an index to disk as it comes, and finds its charts.
    async fn keep(
        &self,
        response: reqwest::Response,
        path: PathBuf,
        asked: Instant,
    ) -> Result<Current, SourceError> {
        let shown = printable(response.url());
        let validators = validators_of(&response);
        let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
        let mut file =
            tempfile::NamedTempFile::new_in(&directory).map_err(failed("write in", &directory))?;
        let mut hash = Sha256::new();
        read_body(
            response,
            self.options.index_bytes,
            self.http.stall(),
            |chunk| {
                hash.update(chunk);
                file.write_all(chunk)
                    .map_err(failed("write in", &directory))
            },
        )
        .await?;
        let sidecar = Sidecar {
            sha256: hex(&hash.finalize()),
            validators: validators.clone(),
        };
        let scanned = tokio::task::spawn_blocking(move || {
            let layout = scan_file(file.path())?;
            file.persist(&path)
                .map_err(|error| IndexError::Io(error.error))?;
            let beside = serde_json::to_vec(&sidecar).map_err(std::io::Error::from)?;
            write_whole(&path.with_extension("json"), &beside)?;
            Ok((layout, path))
        });
        let (layout, path) = joined(scanned)
            .await
            .map_err(|error| bad_index(&shown, &error))?;
        Ok(Current {
            path,
            layout: Arc::new(layout),
            validators,
            checked: Some(asked),
        })
    }
}

fn check_name(name: &str) -> Result<(), SourceError> {
    let Some((alias, rest)) = name.split_once('/') else {
        return Ok(());
    };
    let text = format!(
        "the chart name {name:?} holds a repository alias: write {rest:?}, and the address of {alias:?} in repository"
    );
    Err(SourceError::new(Reason::InvalidSource, text))
}

/// The address of the index: below the path of the repository, its query kept.
fn index_url(repository: &Url) -> Url {
    joined_path(repository, "index.yaml")
}

fn joined_path(repository: &Url, tail: &str) -> Url {
    let mut url = repository.clone();
    let path = format!("{}/{tail}", repository.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// Where an archive is: as the index says, relative addresses below the repository, its query
/// kept.
fn archive_url(repository: &Url, text: &str) -> Option<Url> {
    if let Ok(url) = Url::parse(text) {
        return matches!(url.scheme(), "http" | "https").then_some(url);
    }
    let mut base = repository.clone();
    base.set_path(&format!("{}/", repository.path().trim_end_matches('/')));
    let mut url = base.join(text).ok()?;
    if url.query().is_none() {
        url.set_query(repository.query());
    }
    matches!(url.scheme(), "http" | "https").then_some(url)
}

fn resolved(repository: &Url, name: &str, entry: &ChartVersion) -> Result<Resolved, SourceError> {
    let version = entry.version.original().to_owned();
    let url = entry
        .urls
        .first()
        .and_then(|text| archive_url(repository, text));
    let url = url.ok_or_else(|| {
        let shown = printable(repository);
        let text = format!("the index of {shown} gives no usable URL for {name} {version}");
        SourceError::new(Reason::InvalidData, text)
    })?;
    Ok(Resolved {
        version,
        url,
        digest: entry.digest.clone(),
    })
}

fn listed(entry: ChartVersion) -> Listed {
    Listed {
        version: entry.version.original().to_owned(),
        app_version: entry.app_version,
        description: entry.description,
        deprecated: entry.deprecated,
    }
}

fn check_digest(resolved: &Resolved, content: &[u8]) -> Result<(), SourceError> {
    let Some(wanted) = resolved.digest.as_deref().and_then(hex_of) else {
        return Ok(());
    };
    let found = digest_of(content);
    if found == format!("sha256:{wanted}") {
        return Ok(());
    }
    let url = printable(&resolved.url);
    let text = format!("{url} has the digest {found}, the index says sha256:{wanted}");
    Err(SourceError::new(Reason::InvalidData, text))
}

fn validators_of(response: &reqwest::Response) -> Validators {
    let text = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    Validators {
        etag: text(reqwest::header::ETAG),
        last_modified: text(reqwest::header::LAST_MODIFIED),
    }
}

/// The index of an earlier run, if it is whole. It counts as unchecked, so that the server is
/// asked once, with what is known.
async fn restore(path: PathBuf) -> Option<Current> {
    let task = tokio::task::spawn_blocking(move || {
        let sidecar: Sidecar =
            serde_json::from_slice(&fs::read(path.with_extension("json")).ok()?).ok()?;
        if sha256_of_file(&path).ok()? != sidecar.sha256 {
            return None;
        }
        let layout = Arc::new(scan_file(&path).ok()?);
        Some(Current {
            path,
            layout,
            validators: sidecar.validators,
            checked: None,
        })
    });
    task.await.ok().flatten()
}

fn sha256_of_file(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn scan_file(path: &Path) -> Result<Layout, IndexError> {
    index::scan(BufReader::with_capacity(256 << 10, File::open(path)?))
}

async fn read_versions(
    index: &Current,
    repository: &Url,
    name: &str,
) -> Result<Option<Vec<ChartVersion>>, SourceError> {
    let (index, name) = (index.clone(), name.to_owned());
    let task = tokio::task::spawn_blocking(move || {
        index::versions(File::open(&index.path)?, &index.layout, &name)
    });
    let shown = printable(repository);
    joined(task)
        .await
        .map_err(|error| bad_index(&shown, &error))
}

/// The outcome of a blocking task; one that died is a fault of ours and reported as such.
async fn joined<T>(task: tokio::task::JoinHandle<Result<T, IndexError>>) -> Result<T, IndexError> {
    task.await
        .unwrap_or_else(|error| Err(IndexError::Io(std::io::Error::other(error))))
}

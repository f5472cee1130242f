//! A git server, mirrors of it, and what tests say often.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use helm_operator::gitsync::{
    Change, ChangeReason, Changes, ChartArtifact, GitSource, Mirrors, Options, Reason, ReleaseKey,
    RepositoryUrl, Schedule, SecretData, SecretError, SecretReader, SecretRef, SourceError,
    StaticSecrets,
};
use testkit::{GitOptions, GitRepository, GitServer};

/// Long enough for a busy machine; no test waits for it when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Secrets that a test may change.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Mutex<StaticSecrets>);

impl Secrets {
    pub(crate) fn set(&self, name: &str, entries: &[(&str, &str)]) -> SecretRef {
        let secret = SecretRef {
            namespace: "team".into(),
            name: name.into(),
        };
        let data: SecretData = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), *value))
            .collect();
        self.0.lock().unwrap().0.insert(secret.clone(), data);
        secret
    }
}

impl SecretReader for Secrets {
    fn read<'a>(&'a self, secret: &'a SecretRef) -> BoxFuture<'a, Result<SecretData, SecretError>> {
        let found = self.0.lock().unwrap().0.get(secret).cloned();
        Box::pin(async move { found.ok_or_else(|| SecretError::NotFound(secret.clone())) })
    }
}

/// A git server and mirrors of it.
pub(crate) struct Rig {
    pub(crate) server: GitServer,
    pub(crate) repository: GitRepository,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) mirrors: Mirrors,
    pub(crate) changes: Changes,
    pub(crate) options: Options,
    cache: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(GitOptions::default(), |_| {})
    }

    pub(crate) fn with(git: GitOptions, adjust: impl FnOnce(&mut Options)) -> Self {
        let server = GitServer::start(git).unwrap();
        let repository = server.repository("charts").unwrap();
        let cache = tempfile::tempdir().unwrap();
        let mut options = options(cache.path().join("cache"));
        adjust(&mut options);
        let secrets = Arc::new(Secrets::default());
        let mirrors = Mirrors::new(options.clone(), secrets.clone()).unwrap();
        let changes = mirrors.changes();
        Self {
            server,
            repository,
            secrets,
            mirrors,
            changes,
            options,
            cache,
        }
    }

    /// With the chart `app` in the repository, which greets `one`.
    pub(crate) fn with_chart(git: GitOptions) -> Self {
        let rig = Self::with(git, |_| {});
        rig.write_chart("app", "one");
        rig.repository.commit("first").unwrap();
        rig
    }

    /// The same cache under a new process, as it were.
    pub(crate) async fn restart(&mut self) {
        let other = tempfile::tempdir().unwrap();
        let idle = Mirrors::new(options(other.path().join("idle")), self.secrets.clone()).unwrap();
        drop(std::mem::replace(&mut self.mirrors, idle));
        let opened = eventually(|| Mirrors::new(self.options.clone(), self.secrets.clone()).ok());
        self.mirrors = opened.await;
        self.changes = self.mirrors.changes();
    }

    pub(crate) fn cache_dir(&self) -> std::path::PathBuf {
        self.cache.path().join("cache")
    }

    /// The one directory below the cache that holds a mirror.
    pub(crate) fn mirror_dir(&self) -> std::path::PathBuf {
        let entries = std::fs::read_dir(self.cache_dir().join("mirrors")).unwrap();
        let mut mirrors: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(mirrors.len(), 1, "{mirrors:?}");
        mirrors.remove(0)
    }

    pub(crate) fn source(&self, path: &str) -> GitSource {
        GitSource::new(url(self.repository.url()), path)
    }

    /// Declares `source` for a release and reads its chart.
    pub(crate) async fn use_chart(
        &self,
        name: &str,
        source: &GitSource,
    ) -> Result<ChartArtifact, SourceError> {
        self.mirrors.declare(&release(name), vec![source.clone()]);
        self.mirrors.artifact(source).await
    }

    /// Polls, and gives the changes that come of it.
    pub(crate) async fn poll(&mut self) -> Vec<Change> {
        self.mirrors.sync(None).await;
        self.drain()
    }

    /// The changes so far.
    pub(crate) fn drain(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.changes.try_next()).collect()
    }

    /// Writes a small chart into the work tree.
    pub(crate) fn write_chart(&self, path: &str, greeting: &str) {
        let name = path.rsplit('/').next().unwrap();
        let files = [
            (
                "Chart.yaml",
                format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"),
            ),
            ("values.yaml", format!("greeting: {greeting}\n")),
            ("templates/config.yaml", "kind: ConfigMap\n".to_owned()),
        ];
        for (file, text) in files {
            self.repository
                .write(&format!("{path}/{file}"), text)
                .unwrap();
        }
    }
}

/// Options for tests: polls only when told, short timeouts, loopback allowed.
pub(crate) fn options(cache_dir: std::path::PathBuf) -> Options {
    let mut options = Options::new(cache_dir);
    options.poll = Schedule::every(Duration::from_secs(3600)).unwrap();
    options.fetch_grace = PATIENCE;
    options.policy.allow_http = true;
    options.policy.allow_local = true;
    options
}

pub(crate) fn url(text: &str) -> RepositoryUrl {
    RepositoryUrl::parse(text).unwrap()
}

pub(crate) fn release(name: &str) -> ReleaseKey {
    ReleaseKey {
        namespace: "team".into(),
        name: name.into(),
    }
}

/// The file of an artifact as text.
pub(crate) fn text(artifact: &ChartArtifact, path: &str) -> String {
    let file = artifact.file(path).unwrap_or_else(|| panic!("no {path}"));
    String::from_utf8(file.to_vec()).unwrap()
}

/// The names of the releases that a change moved.
pub(crate) fn moved(changes: &[Change]) -> Vec<&str> {
    let mut names: Vec<_> = changes
        .iter()
        .filter(|change| matches!(change.reason, ChangeReason::Moved { .. }))
        .map(|change| &*change.release.name)
        .collect();
    names.sort_unstable();
    names
}

pub(crate) fn reason(result: Result<ChartArtifact, SourceError>) -> Reason {
    match result {
        Ok(artifact) => panic!("no error but {artifact:?}"),
        Err(error) => error.reason(),
    }
}

/// Waits for what another task does.
pub(crate) async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 88172645463325252_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    })
    .take(length)
    .collect()
}

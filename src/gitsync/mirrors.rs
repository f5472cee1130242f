//! The table of mirrors: who uses which, and who goes when the disk is full.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use tokio::{sync::Semaphore, task::JoinHandle};

use super::{
    Changes, ChartArtifact, GitSource, Options, Reason, ReleaseKey, RepositoryUrl, SecretReader,
    SourceError,
    artifact::ArtifactCache,
    cache::CacheDirectory,
    changes::Queue,
    chart::{self, Read},
    mirror::{Context, Mirror, MirrorKey},
    reference::Reference,
    submodules,
    wire::http::Clients,
};

/// Bytes of charts that are kept in memory.
const ARTIFACT_CACHE: usize = 64 << 20;
/// How often unused mirrors are looked for and the disk is measured.
const MAINTENANCE: Duration = Duration::from_secs(30);
/// How long after the start a mirror on disk that nobody declared is an orphan.
const ORPHAN_AGE: Duration = Duration::from_secs(600);

/// All mirrors of this daemon. Cloning gives another handle to the same table.
#[derive(Clone)]
pub struct Mirrors {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    context: Arc<Context>,
    cache: CacheDirectory,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    mirrors: HashMap<MirrorKey, Entry>,
    /// The mirrors that each release uses, nearly always one.
    releases: HashMap<ReleaseKey, Box<[Arc<Mirror>]>>,
    /// Tasks that still free the directory of a mirror which may come back.
    closing: HashMap<PathBuf, JoinHandle<()>>,
}

struct Entry {
    mirror: Arc<Mirror>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrors").finish_non_exhaustive()
    }
}

impl Drop for Shared {
    /// Ends the tasks; what is on disk stays for the next start.
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.mirrors.values().for_each(|entry| entry.task.abort());
    }
}

/// What a mirror is doing, for `sources`, metrics and conditions.
#[derive(Debug, Clone)]
pub struct MirrorStatus {
    /// The remote, without credentials.
    pub url: RepositoryUrl,
    /// The state.
    pub state: MirrorState,
    /// Each ref in use, sorted by name.
    pub refs: Vec<RefStatus>,
    /// Releases that use it.
    pub releases: usize,
    /// When the remote last answered.
    pub last_success: Option<SystemTime>,
    /// How long the last cycle took.
    pub last_duration: Option<Duration>,
    /// Requests made since the start (HTTP requests, or connections of a program).
    pub requests: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

/// The state of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorState {
    /// The first cycle has not ended yet.
    Cloning,
    /// The last cycle went well.
    Ready,
    /// The last cycle failed; what was fetched before is still served.
    Failed(SourceError),
}

/// One ref of a mirror.
#[derive(Debug, Clone)]
pub struct RefStatus {
    /// As releases write it; `HEAD` when they name none.
    pub name: String,
    /// The commit that it stands at, if known.
    pub commit: Option<String>,
    /// Why it cannot be used, if so.
    pub error: Option<SourceError>,
}

impl Mirrors {
    /// Mirrors with these settings, reading Secrets through `secrets`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StorageFailed`](super::Reason::StorageFailed) when the cache directory cannot be used.
    pub fn new(options: Options, secrets: Arc<dyn SecretReader>) -> Result<Self, SourceError> {
        let cache = CacheDirectory::open(&options.cache_dir)?;
        cache.sweep_leftovers();
        let context = Context {
            clients: Clients::new(&options),
            fetches: Arc::new(Semaphore::new(options.limits.concurrent_fetches.max(1))),
            downloads: Semaphore::new(options.limits.concurrent_fetches.max(1) * 8),
            polls: Semaphore::new(options.limits.concurrent_polls.max(1)),
            changes: Queue::default(),
            artifacts: ArtifactCache::new(ARTIFACT_CACHE),
            options,
            secrets,
        };
        let shared = Arc::new(Shared {
            context: Arc::new(context),
            cache,
            table: Mutex::default(),
        });
        tokio::spawn(maintain(Arc::downgrade(&shared)));
        let credentials = &shared.context.options.daemon_credentials;
        super::watch::spawn(credentials, Arc::downgrade(&shared));
        Ok(Self { shared })
    }

    /// Says what `release` uses from now on, in place of what it used before. Saying the same again costs nothing. A
    /// remote or ref that no mirror has yet is fetched at once; a remote that nobody uses any more is dropped, with
    /// its disk. A source that can never work is left out; [`artifact`](Self::artifact) says why.
    pub fn declare(&self, release: &ReleaseKey, sources: Vec<GitSource>) {
        let mut by_mirror: HashMap<MirrorKey, Vec<(GitSource, Reference)>> = HashMap::new();
        for source in sources {
            let Ok((key, reference)) = self.shared.identify(&source) else {
                continue;
            };
            by_mirror.entry(key).or_default().push((source, reference));
        }
        let mut table = self.shared.lock();
        let before = table.releases.remove(release).unwrap_or_default();
        let mut used = Vec::with_capacity(by_mirror.len());
        for (key, sources) in by_mirror {
            let Some((first, _)) = sources.first() else {
                continue;
            };
            let mirror = self.shared.mirror(&mut table, &key, first);
            mirror.set_uses(release, sources);
            used.push(mirror);
        }
        for mirror in &before {
            if !used.iter().any(|used| used.key == mirror.key) {
                mirror.set_uses(release, Vec::new());
                table.drop_if_unused(&mirror.key, &self.shared.cache);
            }
        }
        if !used.is_empty() {
            table.releases.insert(release.clone(), used.into());
        }
    }

    /// Says that `release` is gone.
    pub fn forget(&self, release: &ReleaseKey) {
        self.declare(release, Vec::new());
        self.shared.context.changes.remove(release);
    }

    /// The chart of `source` at the newest commit that the mirror knows. If the ref is not in the mirror, or was not
    /// looked at since the release declared it, a fetch is started at once, and awaited for at most
    /// [`fetch_grace`](Options::fetch_grace).
    ///
    /// # Errors
    /// See [`SourceError`]. [`Cloning`](super::Reason::Cloning) means: wait, the release is woken.
    pub async fn artifact(&self, source: &GitSource) -> Result<ChartArtifact, SourceError> {
        self.artifact_within(source, submodules::MAX_DEPTH).await
    }

    /// The same, with submodules nested at most `depth` deep.
    fn artifact_within<'a>(
        &'a self,
        source: &'a GitSource,
        depth: usize,
    ) -> BoxFuture<'a, Result<ChartArtifact, SourceError>> {
        Box::pin(async move {
            let (key, reference) = self.shared.identify(source)?;
            let mirror = self.shared.mirror(&mut self.shared.lock(), &key, source);
            let Read {
                mut artifact,
                submodules,
            } = mirror.artifact(source, &reference).await?;
            for submodule in submodules {
                let path = &submodule.path;
                let Some(depth) = depth.checked_sub(1) else {
                    let why = format!("submodule {path} lies too deep in submodules");
                    return Err(SourceError::new(Reason::TooLarge, why));
                };
                let inner = submodule.source(source);
                let inner = self.artifact_within(&inner, depth).await;
                let inner = inner.map_err(|error| error.context(format!("submodule {path}")))?;
                let limits = &self.shared.context.options.limits;
                chart::add_submodule(&mut artifact, path, &inner.files, limits)?;
            }
            Ok(artifact)
        })
    }

    /// Has the remote of `source` asked before the next [`artifact`](Self::artifact) is answered: someone wants the
    /// newest now.
    pub fn refresh(&self, source: &GitSource) {
        let Ok((key, reference)) = self.shared.identify(source) else {
            return;
        };
        let mirror = self.shared.mirror(&mut self.shared.lock(), &key, source);
        mirror.lock().demand(&reference);
        mirror.poke();
    }

    /// Why the remote of `source` cannot be asked for news, while what it gave before is still served.
    #[must_use]
    pub fn trouble(&self, source: &GitSource) -> Option<SourceError> {
        let (key, reference) = self.shared.identify(source).ok()?;
        let mirror = Arc::clone(&self.shared.lock().mirrors.get(&key)?.mirror);
        mirror.lock().trouble(&reference)
    }

    /// As [`refresh`](Self::refresh) of everything that was declared: another daemon has worked until now, and may have
    /// seen what is still news to us.
    pub fn refresh_all(&self) {
        for mirror in self.shared.matching(None) {
            let mut state = mirror.lock();
            for reference in state.wanted() {
                state.demand(&reference);
            }
            drop(state);
            mirror.poke();
        }
    }

    /// The stream of changes. Several receivers share them: each change goes to one.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.shared.context.changes.clone())
    }

    /// Polls now: the mirrors that `url` names in any spelling, or all. Returns how many there are; it does not wait.
    pub fn sync_now(&self, url: Option<&RepositoryUrl>) -> usize {
        let mirrors = self.shared.matching(url);
        mirrors.iter().for_each(|mirror| mirror.poke());
        mirrors.len()
    }

    /// As [`sync_now`](Self::sync_now), and waits until each has been asked; returns their states.
    pub async fn sync(&self, url: Option<&RepositoryUrl>) -> Vec<MirrorStatus> {
        self.sync_mirrors(url, true).await
    }

    /// As [`sync`](Self::sync) of one remote, but not sooner than a hook would: for callers that nobody has checked.
    pub async fn sync_when_due(&self, url: &RepositoryUrl) -> Vec<MirrorStatus> {
        self.sync_mirrors(Some(url), false).await
    }

    async fn sync_mirrors(
        &self,
        url: Option<&RepositoryUrl>,
        is_urgent: bool,
    ) -> Vec<MirrorStatus> {
        let mirrors = self.shared.matching(url);
        futures::future::join_all(mirrors.iter().map(|mirror| mirror.sync(is_urgent))).await;
        mirrors.iter().map(|mirror| mirror.status()).collect()
    }

    /// The state of every mirror, sorted by URL.
    #[must_use]
    pub fn states(&self) -> Vec<MirrorStatus> {
        let mut states: Vec<MirrorStatus> = self
            .shared
            .matching(None)
            .iter()
            .map(|mirror| mirror.status())
            .collect();
        states.sort_by_cached_key(|status| status.url.to_string());
        states
    }

    /// Frees the disk of the least recently used mirrors while all together are above
    /// [`cache_bytes`](super::Limits::cache_bytes). Happens by itself every half minute.
    pub fn keep_within_budget(&self) {
        self.shared.maintain();
    }

    /// Removes the mirrors on disk that no release uses. To be called when every release was declared once after the
    /// start; without it, it happens ten minutes after the start.
    pub fn sweep_orphans(&self) {
        self.shared.sweep_orphans();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identify(&self, source: &GitSource) -> Result<(MirrorKey, Reference), SourceError> {
        let default = self.context.options.default_ref.as_deref();
        let reference = Reference::parse(source.reference.as_deref(), default)?;
        super::wire::check_scheme(&source.url, &self.context.options)?;
        Ok((
            self.cache.key(&source.url, source.secret.as_ref()),
            reference,
        ))
    }

    /// The mirror of `key`, started if there is none.
    fn mirror(&self, table: &mut Table, key: &MirrorKey, source: &GitSource) -> Arc<Mirror> {
        if let Some(entry) = table.mirrors.get(key) {
            return Arc::clone(&entry.mirror);
        }
        let directory = self.cache.directory(key);
        let previous = table.closing.remove(&directory);
        let context = Arc::clone(&self.context);
        let mirror = Arc::new(Mirror::new(key.clone(), source, directory, context));
        let task = tokio::spawn(Arc::clone(&mirror).run(previous));
        table.mirrors.insert(
            key.clone(),
            Entry {
                mirror: Arc::clone(&mirror),
                task,
            },
        );
        mirror
    }

    fn matching(&self, url: Option<&RepositoryUrl>) -> Vec<Arc<Mirror>> {
        let id = url.map(RepositoryUrl::repository_id);
        let table = self.lock();
        let mirrors = table.mirrors.values().map(|entry| &entry.mirror);
        mirrors
            .filter(|mirror| {
                id.as_ref()
                    .is_none_or(|id| mirror.url.repository_id() == *id)
            })
            .cloned()
            .collect()
    }

    /// Asks again where the last answer was a failure.
    pub(super) fn retry_failed(&self) {
        for mirror in self.matching(None) {
            if mirror.lock().error.is_some() {
                mirror.poke();
            }
        }
    }

    fn sweep_orphans(&self) {
        let table = self.lock();
        let mut used: HashSet<PathBuf> = table
            .mirrors
            .keys()
            .map(|key| self.cache.directory(key))
            .collect();
        used.extend(table.closing.keys().cloned());
        // Under the lock: a mirror that is declared meanwhile must not lose its directory.
        self.cache.sweep_orphans(&used);
    }

    /// Drops mirrors that were used without a declaration a while ago, and keeps the cache within its budget.
    fn maintain(&self) {
        let mut table = self.lock();
        let keys: Vec<MirrorKey> = table.mirrors.keys().cloned().collect();
        for key in keys {
            table.drop_if_unused(&key, &self.cache);
        }
        table.closing.retain(|_, task| !task.is_finished());
        let mut mirrors: Vec<_> = table
            .mirrors
            .values()
            .map(|entry| Arc::clone(&entry.mirror))
            .collect();
        drop(table);
        let budget = self.context.options.limits.cache_bytes;
        let mut total: u64 = mirrors.iter().map(|mirror| mirror.disk_bytes()).sum();
        mirrors.sort_by_cached_key(|mirror| mirror.lock().last_used);
        // What is being fetched is in use.
        for mirror in mirrors.into_iter().filter(|mirror| !mirror.is_busy()) {
            if total <= budget {
                break;
            }
            total = total.saturating_sub(mirror.disk_bytes());
            tracing::info!(url = %mirror.url, "the git cache is over its budget: mirror evicted");
            mirror.evict();
        }
    }
}

impl Table {
    fn drop_if_unused(&mut self, key: &MirrorKey, cache: &CacheDirectory) {
        let is_unused = self
            .mirrors
            .get(key)
            .is_some_and(|entry| entry.mirror.lock().is_unused());
        if !is_unused {
            return;
        }
        if let Some(entry) = self.mirrors.remove(key) {
            entry.mirror.close();
            self.closing.insert(cache.directory(key), entry.task);
        }
    }
}

/// Looks after the table until it is gone.
async fn maintain(shared: Weak<Shared>) {
    let mut ticks = 0;
    loop {
        tokio::time::sleep(MAINTENANCE).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        ticks += 1;
        let _ = tokio::task::spawn_blocking(move || {
            shared.maintain();
            if MAINTENANCE * ticks == ORPHAN_AGE {
                shared.sweep_orphans();
            }
        })
        .await;
    }
}

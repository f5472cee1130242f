//! One mirror: a remote with a credential, its copy on disk, and the releases that use it.
//!
//! A mirror lives in one task. It sleeps until a poll is due or someone asks, then runs one cycle: resolve credentials,
//! list the wanted refs, download what is missing, save the refs, wake the releases whose chart moved. Everything that
//! others see is in [`State`], behind a lock that is never held over I/O.

mod cycle;
mod read;
mod state;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, watch},
    task::{AbortHandle, JoinHandle},
    time::Instant,
};

pub(crate) use self::state::State;
use super::{
    GitSource, MirrorState, MirrorStatus, Options, RefStatus, ReleaseKey, RepositoryUrl,
    SecretReader, SecretRef, SourceError,
    artifact::ArtifactCache,
    changes::Queue,
    reference::Reference,
    wire::{RemoteMemory, http::Clients},
};

/// Ends a task when its owner ends.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Least time between the starts of two cycles.
const MIN_GAP: Duration = Duration::from_millis(250);
/// The same for cycles that hooks ask for and that find nothing new: it doubles up to this.
const MAX_GAP: Duration = Duration::from_secs(16);

/// What all mirrors share.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) secrets: Arc<dyn SecretReader>,
    pub(crate) clients: Clients,
    /// Downloads that just began; one that takes long gives its place to another.
    pub(crate) fetches: Arc<Semaphore>,
    /// All downloads.
    pub(crate) downloads: Semaphore,
    pub(crate) polls: Semaphore,
    pub(crate) changes: Queue,
    pub(crate) artifacts: ArtifactCache,
}

/// What makes two sources share a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MirrorKey {
    /// The remote, normalised.
    pub(crate) url: String,
    /// Who asks.
    pub(crate) credential: CredentialKey,
}

/// Who asks. Two sources with different credentials never share a mirror, or one could read through it what only the
/// other may see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CredentialKey {
    /// The daemon, or nobody.
    Daemon,
    /// The holder of a Secret.
    Secret(SecretRef),
    /// The holder of the user info in the URL: its keyed hash.
    Url([u8; 32]),
}

/// One mirror.
pub(crate) struct Mirror {
    pub(crate) key: MirrorKey,
    /// As one of its releases writes it; spelling does not matter.
    pub(crate) url: RepositoryUrl,
    secret: Option<SecretRef>,
    directory: PathBuf,
    context: Arc<Context>,
    state: Mutex<State>,
    memory: RemoteMemory,
    wake: Notify,
    closing: Notify,
    finished: watch::Sender<u64>,
}

impl Mirror {
    /// A mirror that knows what is on disk; its task is not started.
    pub(crate) fn new(
        key: MirrorKey,
        source: &GitSource,
        directory: PathBuf,
        context: Arc<Context>,
    ) -> Self {
        Self {
            key,
            url: source.url.clone(),
            secret: source.secret.clone(),
            directory,
            context,
            state: Mutex::default(),
            memory: RemoteMemory::default(),
            wake: Notify::new(),
            closing: Notify::new(),
            finished: watch::Sender::new(0),
        }
    }

    /// Runs until the mirror is [closed](Self::close); then its disk is freed. Waits for `previous`, the task of an
    /// older mirror in the same directory.
    pub(crate) async fn run(self: Arc<Self>, previous: Option<JoinHandle<()>>) {
        if let Some(previous) = previous {
            let _ = previous.await;
        }
        loop {
            self.sleep().await;
            if self.lock().closed {
                break;
            }
            self.guarded_cycle().await;
        }
        let directory = self.directory.clone();
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
        tracing::debug!(url = %self.url, removed = removed.is_ok_and(|r| r.is_ok()), "mirror dropped");
    }

    /// Waits until the next cycle is due.
    async fn sleep(&self) {
        let (due, last_start) = {
            let state = self.lock();
            (state.next_due, state.last_start)
        };
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = self.wake.notified() => {
                if let Some(last_start) = last_start {
                    self.hold_back(last_start).await;
                }
            }
        }
    }

    /// Waits until enough time has passed since the last cycle, so that a flood of hooks costs little; a release that
    /// waits for an answer shortens it.
    async fn hold_back(&self, last_start: Instant) {
        loop {
            let gap = self.lock().gap(MIN_GAP, MAX_GAP);
            tokio::select! {
                () = tokio::time::sleep_until(last_start + gap) => return,
                () = self.wake.notified() => {}
            }
        }
    }

    /// One cycle in a task of its own, so that a panic in it is an error of this mirror alone.
    async fn guarded_cycle(self: &Arc<Self>) {
        let started = Instant::now();
        let number = self.lock().start(started);
        let cycle = tokio::spawn({
            let mirror = Arc::clone(self);
            async move { mirror.cycle(number).await }
        });
        let stop = AbortOnDrop(cycle.abort_handle());
        let result = tokio::select! {
            result = cycle => result.unwrap_or_else(|_| Err(cycle::panicked())),
            () = self.closing.notified() => return,
        };
        drop(stop);
        let changes = self
            .lock()
            .finish(result, started.elapsed(), &self.context.options.poll);
        for (release, reason) in changes {
            self.context.changes.push(&release, reason);
        }
        self.finished.send_replace(number);
    }

    /// Asks for a cycle now. Many askers get one.
    pub(crate) fn poke(&self) {
        self.wake.notify_one();
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.closing.notify_one();
        self.poke();
    }

    /// True while a cycle runs.
    pub(crate) fn is_busy(&self) -> bool {
        *self.finished.borrow() < self.lock().cycles
    }

    /// Frees the disk for others; what is asked for is fetched again.
    pub(crate) fn evict(&self) {
        let mut state = self.lock();
        state.store = None;
        state.evicted = true;
        drop(state);
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// The state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that `release` uses `sources` of this mirror, and no other of it.
    pub(crate) fn set_uses(&self, release: &ReleaseKey, sources: Vec<(GitSource, Reference)>) {
        if self.lock().set_uses(release, sources) {
            self.poke();
        }
    }

    /// Asks for a cycle now and waits for one that began after the call.
    pub(crate) async fn sync(&self, is_urgent: bool) {
        let mut finished = self.finished.subscribe();
        let wanted = {
            let mut state = self.lock();
            state.urgent |= is_urgent;
            state.cycles + 1
        };
        self.poke();
        let _ = finished.wait_for(|last| *last >= wanted).await;
    }

    /// The status for people and metrics.
    pub(crate) fn status(&self) -> MirrorStatus {
        let state = self.lock();
        let counters = &self.memory.counters;
        MirrorStatus {
            url: self.url.clone(),
            state: match (&state.error, state.last_success) {
                (Some(error), _) => MirrorState::Failed(error.clone()),
                (None, Some(_)) => MirrorState::Ready,
                (None, None) => MirrorState::Cloning,
            },
            refs: state.ref_statuses(),
            releases: state.release_count(),
            last_success: state.last_success,
            last_duration: state.last_duration,
            requests: counters.requests.load(Ordering::Relaxed),
            received_bytes: counters.received.load(Ordering::Relaxed),
            disk_bytes: state.store.as_ref().map_or(0, |store| store.bytes()),
        }
    }

    /// Bytes on disk, as last measured.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.lock().store.as_ref().map_or(0, |store| store.bytes())
    }
}

impl State {
    fn ref_statuses(&self) -> Vec<RefStatus> {
        let mut statuses: Vec<RefStatus> = self
            .refs
            .iter()
            .map(|(reference, known)| RefStatus {
                name: reference.to_string(),
                commit: known.commit.map(|commit| commit.to_string()),
                error: known.error.clone(),
            })
            .collect();
        statuses.sort_by(|left, right| left.name.cmp(&right.name));
        statuses
    }
}

/// The error of a mirror that cannot be read for now, because it is fetched.
pub(crate) fn cloning(url: &RepositoryUrl) -> SourceError {
    SourceError::new(
        super::Reason::Cloning,
        format!("fetching {url}; the release goes on when it is here"),
    )
}

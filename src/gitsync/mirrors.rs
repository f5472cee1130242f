//! The table of mirrors: who uses which, and what happened.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tokio::sync::mpsc;

use super::{
    ChartArtifact, GitSource, Options, Reason, ReleaseKey, RepositoryUrl, SecretReader, SourceError,
};

/// All mirrors of this daemon. Cloning gives another handle to the same table.
#[derive(Clone)]
pub struct Mirrors {
    shared: Arc<Shared>,
}

struct Shared {
    #[expect(dead_code, reason = "read by the mirror tasks, which land next")]
    options: Options,
    #[expect(dead_code, reason = "read by the mirror tasks, which land next")]
    secrets: Arc<dyn SecretReader>,
    releases: Mutex<HashMap<ReleaseKey, Vec<GitSource>>>,
}

impl std::fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrors").finish_non_exhaustive()
    }
}

/// A release that has something new to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The release.
    pub release: ReleaseKey,
    /// Why.
    pub reason: ChangeReason,
}

/// Why a release is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeReason {
    /// A path that the release uses has another content at this commit.
    Moved {
        /// The full commit id.
        revision: String,
    },
    /// The first fetch ended well: the chart can be read.
    Ready {
        /// The full commit id.
        revision: String,
    },
    /// The source failed in a new way, or can no longer be used.
    Failed(SourceError),
    /// The source works again after a failure, at the same content.
    Recovered,
}

/// The stream of changes; each is delivered once, to one receiver.
#[derive(Debug)]
pub struct Changes {
    receiver: mpsc::UnboundedReceiver<Change>,
}

impl Changes {
    /// The next change; `None` when the mirrors are gone.
    pub async fn next(&mut self) -> Option<Change> {
        self.receiver.recv().await
    }
}

/// What a mirror is doing, for `sources`, metrics and conditions.
#[derive(Debug, Clone)]
pub struct MirrorStatus {
    /// The remote, without credentials.
    pub url: RepositoryUrl,
    /// The state.
    pub state: MirrorState,
    /// Each ref in use.
    pub refs: Vec<RefStatus>,
    /// Releases that use it.
    pub releases: usize,
    /// When the remote last answered.
    pub last_success: Option<SystemTime>,
    /// How long the last exchange took.
    pub last_duration: Option<Duration>,
    /// Requests made since the start (HTTP requests, or ssh connections).
    pub requests: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

/// The state of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorState {
    /// The first fetch has not ended yet.
    Cloning,
    /// The last exchange went well.
    Ready,
    /// The last exchange failed; what was fetched before is still served.
    Failed(SourceError),
}

/// One ref of a mirror.
#[derive(Debug, Clone)]
pub struct RefStatus {
    /// As releases write it; `HEAD` when they name none.
    pub name: String,
    /// The commit that it stands at, if known.
    pub commit: Option<String>,
}

impl Mirrors {
    /// Mirrors with these settings, reading Secrets through `secrets`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Reason::StorageFailed`] when the cache directory cannot be made or is not safe to use.
    pub fn new(options: Options, secrets: Arc<dyn SecretReader>) -> Result<Self, SourceError> {
        let shared = Shared {
            options,
            secrets,
            releases: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Says what `release` uses from now on, in place of what it used before. A remote or ref that no mirror has yet
    /// is fetched at once; a remote that nobody uses any more is dropped, with its disk.
    pub fn declare(&self, release: &ReleaseKey, sources: Vec<GitSource>) {
        if let Ok(mut releases) = self.shared.releases.lock() {
            releases.insert(release.clone(), sources);
        }
    }

    /// Says that `release` is gone.
    pub fn forget(&self, release: &ReleaseKey) {
        if let Ok(mut releases) = self.shared.releases.lock() {
            releases.remove(release);
        }
    }

    /// The chart of `source` at the newest commit that the mirror knows. If the ref is not in the mirror, a fetch is
    /// started at once, and awaited for at most [`fetch_grace`](Options::fetch_grace).
    ///
    /// # Errors
    /// See [`SourceError`]. [`Reason::Cloning`] means: wait, the release is woken.
    pub async fn artifact(&self, source: &GitSource) -> Result<ChartArtifact, SourceError> {
        Err(SourceError::new(
            Reason::Cloning,
            format!("fetching {} for the first time", source.url),
        ))
    }

    /// The stream of changes. Each call takes the place of the one before it.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let (_, receiver) = mpsc::unbounded_channel();
        Changes { receiver }
    }

    /// Polls now: the mirrors that `url` names in any spelling, or all. Returns how many there are; it does not wait.
    pub fn sync_now(&self, url: Option<&RepositoryUrl>) -> usize {
        let _ = url;
        0
    }

    /// The state of every mirror, sorted by URL.
    #[must_use]
    pub fn states(&self) -> Vec<MirrorStatus> {
        Vec::new()
    }
}

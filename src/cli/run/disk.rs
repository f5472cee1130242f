//! What the daemon keeps on disk: locks and caches. A disk that cannot be used at the start is waited for: a process that
//! ends instead would be started again and again, and would tell nobody why.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::net::TcpListener;

use super::{Background, Flags, Stop, directory, host, sources};
use crate::lock::{Identity, LockError, ReleaseLocks};
use crate::server::{Health, ServerState, routes, serve};
use crate::source::{ImportedRepository, Reason, SourceError, Sources};
use crate::telemetry::Metrics;

/// The first pause, and the longest, between two looks at a disk that cannot be used.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// Everything that lies in the directories of the daemon.
pub(super) struct Disk {
    pub(super) locks: ReleaseLocks,
    pub(super) identity: Identity,
    pub(super) sources: Sources,
}

/// Opens the directories, and waits for them as long as it takes; none when the daemon is told to stop meanwhile.
///
/// # Errors
/// What waiting does not mend: a directory that is not safe, and anything else than a disk.
pub(super) async fn open(
    flags: &Flags,
    client: &Client,
    repositories: &[ImportedRepository],
    stop: &mut Stop,
) -> Result<Option<Disk>> {
    let (mut pause, longest) = PAUSES;
    let mut page = None;
    let found = loop {
        let error = match try_open(flags, client, repositories) {
            Err(error) if heals(&error) => error,
            result => break Some(result?),
        };
        tracing::error!("{error:#}: nothing is synced until it can be; looking again in {pause:?}");
        if page.is_none() {
            page = Some(health_page(flags).await?);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.asked() => break None,
        }
        pause = longest.min(pause * 2);
    };
    if let Some(page) = page {
        page.end().await;
    }
    Ok(found)
}

fn try_open(flags: &Flags, client: &Client, repositories: &[ImportedRepository]) -> Result<Disk> {
    let locks = ReleaseLocks::open(directory(flags.lock_dir.as_ref(), "locks"))?;
    let identity = locks.identity(&host()).context("finding out who we are")?;
    let sources = sources(flags, client.clone(), repositories)?;
    Ok(Disk {
        locks,
        identity,
        sources,
    })
}

/// Whether it may be well again without a restart.
fn heals(error: &anyhow::Error) -> bool {
    let of_locks = error.downcast_ref::<LockError>();
    let of_cache = error.downcast_ref::<SourceError>();
    of_locks.is_some_and(|error| matches!(error, LockError::Io { .. }))
        || of_cache.is_some_and(|error| error.reason() == Reason::StorageFailed)
}

/// Answers the probes: alive, not ready.
async fn health_page(flags: &Flags) -> Result<Background> {
    let state = ServerState {
        metrics: Metrics::new(),
        health: Arc::<Health>::default(),
        before_scrape: Arc::new(|| {}),
        sync_git: Arc::new(|| {}),
    };
    let listener = TcpListener::bind(flags.listen).await;
    let listener = listener.with_context(|| format!("listening on {}", flags.listen))?;
    Ok(Background::start(|stopped| {
        serve(listener, routes(state), stopped)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_waited_for_and_a_directory_of_others_is_not() {
        let io = LockError::Io {
            path: "/locks".into(),
            cause: std::io::ErrorKind::ReadOnlyFilesystem.into(),
        };
        assert!(heals(&anyhow::Error::from(io).context("finding out")));
        let full = SourceError::new(Reason::StorageFailed, "no space left");
        assert!(heals(&full.into()));
        let planted = LockError::Unsafe {
            path: "/locks".into(),
            why: "others may write to it".into(),
        };
        assert!(!heals(&planted.into()));
        assert!(!heals(&anyhow::anyhow!("listening on :3030")));
    }
}

//! Files with credentials of the daemon: when one changes, the mirrors that it may help are asked again.
//!
//! The files are read on every fetch anyway; this only saves the wait for the next one.

use std::{
    path::{Path, PathBuf},
    sync::Weak,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::{DaemonCredentials, mirrors::Shared};

/// A mounted Secret is swapped in several steps; one look at the end of them is enough.
const SETTLE: Duration = Duration::from_millis(200);

/// Watches the directories of all files of `credentials`, as long as `shared` lives.
pub(super) fn spawn(credentials: &DaemonCredentials, shared: Weak<Shared>) {
    let directories = directories(credentials);
    if directories.is_empty() {
        return;
    }
    let (sender, receiver) = mpsc::channel(1);
    let handler = move |event: notify::Result<notify::Event>| {
        // The files are read on every fetch: if that counted as a change, a remote that fails would be asked for ever.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        // A full channel means that someone is about to look anyway.
        let _ = sender.try_send(());
    };
    let watcher = notify::recommended_watcher(handler).and_then(|mut watcher| {
        for directory in &directories {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => {
            tokio::spawn(follow(watcher, receiver, shared));
        }
        Err(error) => tracing::warn!(
            %error,
            "files with git credentials cannot be watched; a change is taken at the next poll"
        ),
    }
}

async fn follow(
    watcher: RecommendedWatcher,
    mut changed: mpsc::Receiver<()>,
    shared: Weak<Shared>,
) {
    while changed.recv().await.is_some() {
        tokio::time::sleep(SETTLE).await;
        while changed.try_recv().is_ok() {}
        let Some(shared) = shared.upgrade() else {
            break;
        };
        shared.retry_failed();
    }
    drop(watcher);
}

/// The directories to watch: a file is replaced by a rename, which only its directory sees.
fn directories(credentials: &DaemonCredentials) -> Vec<PathBuf> {
    let DaemonCredentials {
        ssh_identities,
        known_hosts,
        ssh_config,
        netrc,
        ca_file,
    } = credentials;
    let mut directories: Vec<PathBuf> = ssh_identities
        .iter()
        .chain(known_hosts)
        .chain(ssh_config)
        .chain(netrc)
        .chain(ca_file)
        .filter_map(|path| {
            if path.is_dir() {
                Some(path.as_path())
            } else {
                path.parent()
            }
        })
        .filter(|directory| directory.is_dir())
        .map(Path::to_owned)
        .collect();
    directories.sort();
    directories.dedup();
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_each_file_is_watched_once() {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys");
        std::fs::create_dir(&keys).unwrap();
        let credentials = DaemonCredentials {
            ssh_identities: vec![keys.clone()],
            known_hosts: vec![directory.path().join("known_hosts")],
            netrc: Some(directory.path().join("netrc")),
            ca_file: Some("/no/such/directory/ca".into()),
            ssh_config: None,
        };
        assert_eq!(
            directories(&credentials),
            [directory.path().to_owned(), keys]
        );
    }
}

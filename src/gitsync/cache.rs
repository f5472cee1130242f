//! The directory that mirrors live in.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{
    Reason, RepositoryUrl, SecretRef, SourceError,
    mirror::{CredentialKey, MirrorKey},
    store::{private_directory, write_atomically},
};

/// The directory, held by this process alone.
#[derive(Debug)]
pub(crate) struct CacheDirectory {
    root: PathBuf,
    salt: Vec<u8>,
    _lock: File,
}

impl CacheDirectory {
    /// Opens or makes the directory, for this user only.
    ///
    /// # Errors
    /// `StorageFailed` when it cannot be made, is a link, belongs to someone else, or is used by another process.
    pub(crate) fn open(root: &Path) -> Result<Self, SourceError> {
        Self::try_open(root).map_err(|error| {
            SourceError::new(
                Reason::StorageFailed,
                format!(
                    "the cache directory {} cannot be used: {error}",
                    root.display()
                ),
            )
        })
    }

    fn try_open(root: &Path) -> io::Result<Self> {
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent)?;
        }
        private_directory(root)?;
        let metadata = fs::symlink_metadata(root)?;
        if !metadata.is_dir() {
            return Err(io::Error::other(
                "it is a symbolic link: name the directory itself",
            ));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            // Fails for the directory of another user.
            fs::set_permissions(root, fs::Permissions::from_mode(0o700))?;
        }
        private_directory(&root.join("mirrors"))?;
        let lock = lock(&root.join("lock"))?;
        let salt = read_salt(&root.join("salt"))?;
        Ok(Self {
            root: root.to_owned(),
            salt,
            _lock: lock,
        })
    }

    /// What makes sources at `url` with `secret` share a mirror.
    pub(crate) fn key(&self, url: &RepositoryUrl, secret: Option<&SecretRef>) -> MirrorKey {
        let credential = match secret {
            Some(secret) => CredentialKey::Secret(secret.clone()),
            None if url.has_credentials() => {
                let mut hash = Sha256::new_with_prefix(&self.salt);
                for part in [url.expose_user(), url.expose_password()] {
                    hash.update(part.unwrap_or_default());
                    hash.update([0]);
                }
                CredentialKey::Url(hash.finalize().into())
            }
            None => CredentialKey::Daemon,
        };
        MirrorKey {
            url: url.normalised(),
            credential,
        }
    }

    /// Where the mirror of `key` lives.
    pub(crate) fn directory(&self, key: &MirrorKey) -> PathBuf {
        let mut hash = Sha256::new();
        hash.update(&key.url);
        match &key.credential {
            CredentialKey::Daemon => {}
            CredentialKey::Secret(secret) => {
                hash.update(format!("\0secret\0{}\0{}", secret.namespace, secret.name));
            }
            CredentialKey::Url(credentials) => {
                hash.update("\0url\0");
                hash.update(credentials);
            }
        }
        let name: String = hash
            .finalize()
            .iter()
            .take(20)
            .map(|b| format!("{b:02x}"))
            .collect();
        self.root.join("mirrors").join(name)
    }

    /// Removes what a kill left: half-made and half-removed mirrors, and the keys of ssh connections.
    pub(crate) fn sweep_leftovers(&self) {
        self.sweep(|path| path.extension().is_some());
        let _ = fs::remove_dir_all(self.root.join("run"));
    }

    /// Removes the mirrors that are not in `used`.
    pub(crate) fn sweep_orphans(&self, used: &HashSet<PathBuf>) {
        self.sweep(|path| !used.contains(&path.with_extension("")));
    }

    fn sweep(&self, is_garbage: impl Fn(&Path) -> bool) {
        let entries = fs::read_dir(self.root.join("mirrors"))
            .into_iter()
            .flatten()
            .flatten();
        for path in entries
            .map(|entry| entry.path())
            .filter(|path| is_garbage(path))
        {
            let removed = match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
                _ => fs::remove_file(&path),
            };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "an orphan of the git cache stays");
            }
        }
    }
}

fn lock(path: &Path) -> io::Result<File> {
    const NO_FOLLOW: i32 = 0o400_000;
    let mut create = File::options();
    create.write(true).create_new(true).mode(0o600);
    match create.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Open for reading only, so that the file system can be made read-only under the daemon.
    let file = File::options()
        .read(true)
        .custom_flags(NO_FOLLOW)
        .open(path)?;
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::other("another process uses it"),
        fs::TryLockError::Error(error) => error,
    })?;
    Ok(file)
}

/// A random number that is written once, so that a directory's name does not give a password away to guessing.
fn read_salt(path: &Path) -> io::Result<Vec<u8>> {
    let mut salt = Vec::new();
    if let Ok(file) = File::open(path) {
        file.take(64).read_to_end(&mut salt)?;
    }
    if salt.len() != 32 {
        salt = vec![0; 32];
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| io::Error::other("no random numbers"))?;
        write_atomically(path, &salt)?;
    }
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RepositoryUrl {
        RepositoryUrl::parse(text).unwrap()
    }

    #[test]
    fn spellings_share_a_mirror_and_credentials_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::open(&directory.path().join("c")).unwrap();
        let secret = |name: &str| SecretRef {
            namespace: "team".into(),
            name: name.into(),
        };
        let plain = cache.key(&url("https://h/a"), None);
        assert_eq!(plain, cache.key(&url("https://H:443/a.git/"), None));
        let keys = [
            plain,
            cache.key(&url("https://u:p@h/a"), None),
            cache.key(&url("https://u:q@h/a"), None),
            cache.key(&url("https://h/a"), Some(&secret("x"))),
            cache.key(&url("https://h/a"), Some(&secret("y"))),
            cache.key(&url("https://h/A"), None),
        ];
        let directories: HashSet<_> = keys.iter().map(|key| cache.directory(key)).collect();
        assert_eq!(directories.len(), keys.len());
    }

    #[test]
    fn directories_are_the_same_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("c");
        let name = || {
            let cache = CacheDirectory::open(&root).unwrap();
            cache.directory(&cache.key(&url("https://u:p@h/a"), None))
        };
        assert_eq!(name(), name());
    }

    #[test]
    fn two_processes_cannot_use_one_directory() {
        let directory = tempfile::tempdir().unwrap();
        let _first = CacheDirectory::open(directory.path()).unwrap();
        let error = CacheDirectory::open(directory.path()).unwrap_err();
        assert!(
            error.to_string().contains("another process uses it"),
            "{error}"
        );
    }

    #[test]
    fn s36_the_directory_is_made_private_and_a_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("c");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        drop(CacheDirectory::open(&root).unwrap());
        assert_eq!(
            fs::metadata(&root).unwrap().permissions().mode() & 0o777,
            0o700
        );
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        assert!(CacheDirectory::open(&link).is_err());
    }

    #[test]
    fn s36_a_planted_lock_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "canary").unwrap();
        let root = directory.path().join("c");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&target, root.join("lock")).unwrap();
        assert!(CacheDirectory::open(&root).is_err());
    }

    #[test]
    fn s38_keys_that_look_alike_when_joined_have_directories_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::open(directory.path()).unwrap();
        let key = |namespace: &str, name: &str| {
            let secret = SecretRef {
                namespace: namespace.into(),
                name: name.into(),
            };
            cache.directory(&cache.key(&url("https://h/a"), Some(&secret)))
        };
        assert_ne!(key("a-b", "c"), key("a", "b-c"));
        assert_ne!(key("a", "b"), key("ab", ""));
    }

    #[test]
    fn orphans_and_leftovers_are_swept_and_mirrors_in_use_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::open(directory.path()).unwrap();
        let used = cache.directory(&cache.key(&url("https://h/a"), None));
        let orphan = cache.directory(&cache.key(&url("https://h/b"), None));
        for path in [
            &used,
            &orphan,
            &used.with_extension("new"),
            &used.with_extension("old"),
        ] {
            fs::create_dir_all(path.join("objects")).unwrap();
        }
        cache.sweep_leftovers();
        assert!(used.exists() && orphan.exists() && !used.with_extension("new").exists());
        cache.sweep_orphans(&HashSet::from([used.clone()]));
        assert!(used.exists() && !orphan.exists());
    }
}

//! One lock file per release, held with `flock` while the release is read and changed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs4::{FileExt, TryLockError};
use sha2::{Digest, Sha256};

use crate::api::NamespacedName;

/// The lock files of all releases, below one directory of mode 0700.
#[derive(Clone, Debug)]
pub struct ReleaseLocks {
    directory: PathBuf,
}

/// A held lock; dropping it, or the end of the process, gives it back.
#[derive(Debug)]
pub struct ReleaseLock {
    file: File,
    path: PathBuf,
}

/// Who this process is, for as long as it is held.
#[derive(Debug)]
pub struct Identity {
    name: String,
    _file: Option<File>,
}

impl Identity {
    /// The name: the host's, and what makes it unique.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A name that no other process has.
fn fresh_name(host: &str) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since.unwrap_or_default().as_nanos();
    format!("{host}_{}_{nanoseconds:x}", std::process::id())
}

/// The name in a file; none where a crash or a full disk has left something else there.
fn read_name(path: &Path) -> io::Result<Option<String>> {
    let mut known = Vec::new();
    let limit = LONGEST_IDENTITY + 1;
    File::open(path)?.take(limit).read_to_end(&mut known)?;
    let name = String::from_utf8(known).ok();
    Ok(name.filter(|name| name.len() as u64 <= LONGEST_IDENTITY))
}

/// The most bytes of an identity: the name of a host has at most 253.
const LONGEST_IDENTITY: u64 = 511;

/// Why a lock could not be taken or its directory not be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("another process works on this release: {0} is locked")]
    Held(PathBuf),
    /// The directory belongs to someone else, or others may write to it.
    #[error(
        "{path} is not safe for lock files: {why}; give a directory of our own with --lock-dir"
    )]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file system failed.
    #[error("{cause}: cannot use lock file {path}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// The most bytes of a file name; longer encoded names are replaced by their hash.
const LONGEST_NAME: usize = 255;

impl ReleaseLocks {
    /// Lock files below `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// Fails when the directory cannot be made, is a link, belongs to another user, or may be written
    /// to by others: whoever can plant files there could hold our locks.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, LockError> {
        let directory = directory.into();
        make_directory(&directory)?;
        check_directory(&directory)?;
        Ok(Self { directory })
    }

    /// Takes the lock of a release without waiting.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it: look again later.
    pub fn try_lock(&self, release: &NamespacedName) -> Result<ReleaseLock, LockError> {
        let path = self.path(release);
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        // A file that its last holder removed is no lock any more: whoever opened it before that
        // starts again with the file that has its name now.
        for _ in 0..8 {
            let file = open_file(&path)?;
            match FileExt::try_lock(&file) {
                Ok(()) if is_current(&file, &path) => return Ok(ReleaseLock { file, path }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LockError::Held(path)),
                Err(TryLockError::Error(cause)) => return Err(LockError::Io { path, cause }),
            }
        }
        Err(LockError::Held(path))
    }

    /// Who this process is in elections: the same as the last process that used this directory, if that one
    /// is gone. A process that was killed then takes its Lease up at once, and nobody waits for its end.
    ///
    /// # Errors
    /// Fails when the file that says so cannot be read or written.
    pub fn identity(&self, host: &str) -> Result<Identity, LockError> {
        // No release has a file of this name: encoded names do not begin with a dot.
        let path = self.directory.join(".identity");
        let io = |cause| LockError::Io {
            path: path.clone(),
            cause,
        };
        let file = open_file(&path)?;
        if FileExt::try_lock(&file).is_err() || !is_current(&file, &path) {
            // Another process of this machine has it.
            return Ok(Identity {
                name: fresh_name(host),
                _file: None,
            });
        }
        let name = match read_name(&path).map_err(io)? {
            Some(known) if known.starts_with(&format!("{host}_")) => known,
            _ => fresh_name(host),
        };
        std::fs::write(&path, &name).map_err(io)?;
        Ok(Identity {
            name,
            _file: Some(file),
        })
    }

    /// `<directory>/<namespace>/<name>`: each part is encoded so that no two releases share a file.
    fn path(&self, release: &NamespacedName) -> PathBuf {
        self.directory
            .join(encode(&release.namespace))
            .join(encode(&release.name))
    }
}

impl ReleaseLock {
    /// Gives the lock back and removes its file: for releases that are gone.
    ///
    /// # Errors
    /// Fails when the file cannot be removed; the lock is given back all the same.
    pub fn remove(self) -> Result<(), LockError> {
        // Still locked while it is removed, so that nobody else can have it by now.
        std::fs::remove_file(&self.path).map_err(|cause| LockError::Io {
            path: self.path.clone(),
            cause,
        })
    }

    /// The path of the lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ReleaseLock {
    fn drop(&mut self) {
        // Closing the file does it too; this says so.
        FileExt::unlock(&self.file).ok();
    }
}

/// Whether the open file is the one that has this name: not removed, not replaced, not a link.
fn is_current(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    named.is_file() && open.ino() == named.ino() && open.dev() == named.dev()
}

fn open_file(path: &Path) -> Result<File, LockError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|cause| LockError::Io {
            path: path.to_owned(),
            cause,
        })
}

fn make_directory(path: &Path) -> Result<(), LockError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| LockError::Io {
            path: path.to_owned(),
            cause,
        })
}

fn check_directory(path: &Path) -> Result<(), LockError> {
    let io = |cause| LockError::Io {
        path: path.to_owned(),
        cause,
    };
    let refuse = |why: &str| LockError::Unsafe {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let found = std::fs::symlink_metadata(path).map_err(io)?;
    if !found.is_dir() {
        return Err(refuse("it is a link or no directory"));
    }
    // The probe belongs to whoever we are, and tells so without asking for our user id.
    let probe = tempfile::Builder::new()
        .prefix(".probe")
        .tempfile_in(path)
        .map_err(io)?;
    if probe.as_file().metadata().map_err(io)?.uid() != found.uid() {
        return Err(refuse("it belongs to another user"));
    }
    if found.permissions().mode() & 0o022 != 0 {
        return Err(refuse("others may write to it"));
    }
    Ok(())
}

/// Letters, digits, `-` and inner dots stay; every other byte becomes `%` and two digits. What would
/// be too long for a file name becomes `%` and a hash, which no encoded name can be.
fn encode(part: &str) -> String {
    let bytes = part.bytes().enumerate();
    let encoded: String = bytes
        .map(|(index, byte)| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
            b'.' if index > 0 => ".".to_owned(),
            _ => format!("%{byte:02x}"),
        })
        .collect();
    match encoded.len() {
        // An empty name would be the directory itself.
        0 => "%".to_owned(),
        1..=LONGEST_NAME => encoded,
        _ => format!("%%{}", hex(&Sha256::digest(part.as_bytes()))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn locks() -> (tempfile::TempDir, ReleaseLocks) {
        let root = tempfile::tempdir().unwrap();
        let locks = ReleaseLocks::open(root.path().join("locks")).unwrap();
        (root, locks)
    }

    #[test]
    fn a_held_lock_is_refused_until_it_is_given_back() {
        let (_root, locks) = locks();
        let key = NamespacedName::new("demo", "web");
        let held = locks.try_lock(&key).unwrap();
        assert!(matches!(locks.try_lock(&key), Err(LockError::Held(_))));
        assert!(locks.try_lock(&NamespacedName::new("demo", "api")).is_ok());
        drop(held);
        assert!(locks.try_lock(&key).is_ok());
    }

    #[test]
    fn s38_names_that_the_predecessor_mixed_up_have_locks_of_their_own() {
        let (_root, locks) = locks();
        let _first = locks.try_lock(&NamespacedName::new("a-b", "c")).unwrap();
        assert!(locks.try_lock(&NamespacedName::new("a", "b-c")).is_ok());
    }

    #[test]
    fn a_lock_file_that_was_removed_locks_nobody_out() {
        let (_root, locks) = locks();
        let key = NamespacedName::new("demo", "web");
        let first = locks.try_lock(&key).unwrap();
        let path = first.path().to_owned();
        first.remove().unwrap();
        assert!(!path.exists());
        let second = locks.try_lock(&key).unwrap();
        assert!(path.exists());
        // Removed by hand while it is held: the next one gets a new file.
        std::fs::remove_file(&path).unwrap();
        assert!(locks.try_lock(&key).is_ok());
        drop(second);
    }

    #[test]
    fn files_and_directories_are_ours_alone() {
        let (root, locks) = locks();
        let lock = locks.try_lock(&NamespacedName::new("demo", "web")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(lock.path()), 0o600);
        assert_eq!(mode(lock.path().parent().unwrap()), 0o700);
        assert_eq!(mode(&root.path().join("locks")), 0o700);
    }

    #[test]
    fn a_process_takes_over_the_name_of_one_that_is_gone_and_of_no_other() {
        let (_root, locks) = locks();
        let first = locks.identity("host").unwrap();
        let second = locks.identity("host").unwrap();
        assert_ne!(first.name(), second.name());
        let name = first.name().to_owned();
        drop(first);
        assert_eq!(locks.identity("host").unwrap().name(), name);
        assert_ne!(locks.identity("elsewhere").unwrap().name(), name);
    }

    #[test]
    fn what_is_no_name_in_the_file_of_the_identity_is_replaced() {
        let (directory, locks) = locks();
        let long = format!("host_{}", "x".repeat(600));
        for left in [&b"host_\xff\xfe"[..], long.as_bytes(), b"", b"\0\0\0\0"] {
            std::fs::write(directory.path().join("locks/.identity"), left).unwrap();
            let name = locks.identity("host").unwrap().name().to_owned();
            assert!(name.len() < 100 && name.starts_with("host_"), "{name:?}");
            assert_eq!(locks.identity("host").unwrap().name(), name);
        }
    }

    #[test]
    fn a_directory_that_others_can_plant_files_in_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let open = root.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            ReleaseLocks::open(&open),
            Err(LockError::Unsafe { .. })
        ));
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(matches!(
            ReleaseLocks::open(&link),
            Err(LockError::Unsafe { .. })
        ));
    }

    #[test]
    fn s36_a_planted_link_is_not_followed_into_a_lock() {
        let (root, locks) = locks();
        let directory = root.path().join("locks/demo");
        std::fs::create_dir(&directory).unwrap();
        let target = root.path().join("target");
        std::fs::write(&target, "x").unwrap();
        std::os::unix::fs::symlink(&target, directory.join("web")).unwrap();
        assert!(locks.try_lock(&NamespacedName::new("demo", "web")).is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "x");
    }

    #[test]
    fn encoded_names_stay_inside_the_directory() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            ".hidden",
            "%2e",
            &"x".repeat(300),
        ] {
            let encoded = encode(name);
            assert!(!encoded.is_empty() && !encoded.starts_with('.') && !encoded.contains('/'));
            assert!(encoded.len() <= LONGEST_NAME);
        }
    }

    proptest! {
        #[test]
        fn different_names_have_different_files(a in ".{0,300}", b in ".{0,300}") {
            prop_assume!(a != b);
            prop_assert_ne!(encode(&a), encode(&b));
        }
    }
}

//! Chart archives on disk, by the digest of their content.
//!
//! An entry is written beside its place and renamed, and its digest is checked on every read:
//! what a crash or a bad disk leaves is never used.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use super::{Reason, SourceError};

/// A bounded directory of archives. All calls block on the disk.
#[derive(Debug)]
pub(super) struct ArtifactCache {
    directory: PathBuf,
    budget: u64,
    entries: Mutex<HashMap<String, Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u64,
    used: SystemTime,
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The digest of a content, as registries and indexes write it: `sha256:` and 64 hex digits.
pub(super) fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}

/// A name for these parts, in hex, that no others have.
pub(super) fn key_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// The 64 hex digits of a digest that is written with or without its `sha256:`.
pub(super) fn hex_of(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (hex.len() == 64 && hex.bytes().all(is_hex)).then_some(hex)
}

impl ArtifactCache {
    /// Opens the cache in `directory` (made with mode 0700 if absent), removes what is no entry,
    /// and keeps it below `budget` bytes.
    ///
    /// # Errors
    /// `StorageFailed` where the directory cannot be used.
    pub(super) fn open(directory: PathBuf, budget: u64) -> Result<Self, SourceError> {
        let cache = Self {
            entries: Mutex::new(sweep(&directory).map_err(failed("open", &directory))?),
            directory,
            budget,
        };
        cache.evict("");
        Ok(cache)
    }

    /// Whether the content of this digest is here, whole or not.
    pub(super) fn has(&self, digest: &str) -> bool {
        hex_of(digest).is_some_and(|hex| self.entries().contains_key(hex))
    }

    /// The content of this digest, if it is here and whole.
    pub(super) fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let hex = hex_of(digest)?;
        let path = self.directory.join(hex);
        let content = self
            .entries()
            .contains_key(hex)
            .then(|| fs::read(&path).ok())??;
        if digest_of(&content) != format!("sha256:{hex}") {
            // A damaged entry is as good as none: it is fetched again.
            self.entries().remove(hex);
            let _ = fs::remove_file(&path);
            return None;
        }
        if let Some(entry) = self.entries().get_mut(hex) {
            entry.used = SystemTime::now();
        }
        Some(content)
    }

    /// Keeps a content and returns its digest.
    ///
    /// # Errors
    /// `StorageFailed` where the disk refuses it.
    pub(super) fn put(&self, content: &[u8]) -> Result<String, SourceError> {
        let digest = digest_of(content);
        let hex = hex_of(&digest).unwrap_or_default();
        let path = self.directory.join(hex);
        write_whole(&path, content).map_err(failed("write", &path))?;
        let entry = Entry {
            bytes: content.len() as u64,
            used: SystemTime::now(),
        };
        self.entries().insert(hex.to_owned(), entry);
        self.evict(hex);
        Ok(digest)
    }

    /// Removes the least recently used entries until the budget holds; `kept` stays.
    fn evict(&self, kept: &str) {
        let mut entries = self.entries();
        let mut total: u64 = entries.values().map(|entry| entry.bytes).sum();
        while total > self.budget {
            let oldest = entries.iter().filter(|(hex, _)| *hex != kept);
            let Some(hex) = oldest
                .min_by_key(|(_, entry)| entry.used)
                .map(|(hex, _)| hex.clone())
            else {
                return;
            };
            total -= entries.remove(&hex).map_or(0, |entry| entry.bytes);
            let _ = fs::remove_file(self.directory.join(hex));
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the directory, drops what is no entry, and returns the entries.
fn sweep(directory: &Path) -> io::Result<HashMap<String, Entry>> {
    private_directory(directory)?;
    let mut entries = HashMap::new();
    for found in fs::read_dir(directory)? {
        let found = found?;
        let name = found.file_name().to_string_lossy().into_owned();
        let metadata = found.metadata()?;
        if metadata.is_file() && hex_of(&name) == Some(name.as_str()) {
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let bytes = metadata.len();
            entries.insert(name, Entry { bytes, used });
        } else if metadata.is_file() {
            fs::remove_file(found.path())?;
        }
    }
    Ok(entries)
}

/// Makes a directory that only its owner may enter.
pub(super) fn private_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

/// Writes a file whole or not at all, with mode 0600.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

/// An error of the disk, with what was done to which path.
pub(super) fn failed<'a>(verb: &'a str, path: &'a Path) -> impl Fn(io::Error) -> SourceError + 'a {
    move |error| {
        let text = format!("cannot {verb} {}: {error}", path.display());
        SourceError::new(Reason::StorageFailed, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path, budget: u64) -> ArtifactCache {
        ArtifactCache::open(directory.join("artifacts"), budget).unwrap()
    }

    #[test]
    fn what_was_put_is_found_after_a_restart() {
        let scratch = tempfile::tempdir().unwrap();
        let digest = open(scratch.path(), 1000).put(b"chart").unwrap();
        let cache = open(scratch.path(), 1000);
        assert_eq!(cache.get(&digest).as_deref(), Some(&b"chart"[..]));
    }

    #[test]
    fn a_damaged_entry_is_never_used() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = open(scratch.path(), 1000);
        let digest = cache.put(b"chart").unwrap();
        let path = scratch
            .path()
            .join("artifacts")
            .join(hex_of(&digest).unwrap());
        fs::write(&path, b"chars").unwrap();
        assert_eq!(cache.get(&digest), None);
        assert!(!path.exists());
    }

    #[test]
    fn the_least_recently_used_entry_makes_room() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = open(scratch.path(), 10);
        let (old, used) = (cache.put(b"aaaa").unwrap(), cache.put(b"bbbb").unwrap());
        assert!(cache.get(&old).is_some() && cache.get(&used).is_some());
        let new = cache.put(b"cccc").unwrap();
        let there = [&old, &used, &new].map(|digest| cache.get(digest).is_some());
        assert_eq!(there, [false, true, true]);
    }

    #[test]
    fn leftovers_of_a_crash_are_swept_at_start() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("artifacts");
        open(scratch.path(), 10);
        fs::write(directory.join(".tmpX1"), b"half").unwrap();
        open(scratch.path(), 10);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn the_directory_belongs_to_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let scratch = tempfile::tempdir().unwrap();
        let digest = open(scratch.path(), 10).put(b"x").unwrap();
        let directory = scratch.path().join("artifacts");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join(hex_of(&digest).unwrap())), 0o600);
    }

    #[test]
    fn only_sha256_names_a_content() {
        let hex = "a".repeat(64);
        for (digest, expected) in [
            (hex.clone(), true),
            (format!("sha256:{hex}"), true),
            (format!("sha512:{hex}"), false),
            (hex.to_uppercase(), false),
            (format!("../{hex}"), false),
            (String::new(), false),
        ] {
            assert_eq!(hex_of(&digest).is_some(), expected, "{digest}");
        }
    }
}

//! Which archive an exact version was found to be: kept on disk, so that a version that was fetched once causes no
//! request again, not even after a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SourceError;
use super::cache::{ArtifactCache, failed, hex_of, key_of, private_directory, write_whole};

/// Most bytes of a pin: a digest and a version.
const PIN_BYTES: u64 = 1024;

/// The pins, below one directory.
#[derive(Debug)]
pub(super) struct Pins {
    directory: PathBuf,
    artifacts: Arc<ArtifactCache>,
}

/// The name of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PinKey(String);

impl PinKey {
    /// For what is asked for, if it means one version and will mean that one tomorrow: three numbers and no operator,
    /// or a digest. `parts` say where, by whose leave and of which chart.
    pub(super) fn new(parts: &[&[u8]], version: Option<&str>) -> Option<Self> {
        let version = version.filter(|text| is_exact(text))?;
        let parts = parts.iter().copied().chain([version.as_bytes()]);
        Some(Self(key_of(parts)))
    }
}

/// Whether a text names one version, or a content.
#[must_use]
pub fn is_exact(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    text.starts_with("sha256:") || sprig::semver::Version::parse_strict(text).is_ok()
}

impl Pins {
    /// Opens the pins in `directory`, and removes those whose archive is gone: they cannot be used any more.
    ///
    /// # Errors
    /// `StorageFailed` where the directory cannot be used.
    pub(super) fn open(
        directory: PathBuf,
        artifacts: Arc<ArtifactCache>,
    ) -> Result<Self, SourceError> {
        private_directory(&directory).map_err(failed("open", &directory))?;
        let pins = Self {
            directory,
            artifacts,
        };
        let entries = fs::read_dir(&pins.directory).map_err(failed("open", &pins.directory))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let is_used = read(&path).is_some_and(|(digest, _)| pins.artifacts.has(&digest));
            if !is_used && path.is_file() {
                fs::remove_file(&path).map_err(failed("sweep", &path))?;
            }
        }
        Ok(pins)
    }

    /// The version and the archive of this pin, if both are here and whole.
    pub(super) fn get(&self, key: Option<&PinKey>) -> Option<(String, Vec<u8>)> {
        let (digest, version) = read(&self.directory.join(&key?.0))?;
        Some((version, self.artifacts.get(&digest)?))
    }

    /// Notes what was found. Without a key nothing is noted.
    ///
    /// # Errors
    /// `StorageFailed` where the disk refuses it.
    pub(super) fn put(
        &self,
        key: Option<&PinKey>,
        version: &str,
        digest: &str,
    ) -> Result<(), SourceError> {
        let Some(PinKey(name)) = key else {
            return Ok(());
        };
        let path = self.directory.join(name);
        write_whole(&path, format!("{digest} {version}").as_bytes()).map_err(failed("write", &path))
    }
}

/// Digest and version.
fn read(path: &Path) -> Option<(String, String)> {
    if fs::metadata(path).ok()?.len() > PIN_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let (digest, version) = text.split_once(' ')?;
    hex_of(digest)?;
    Some((digest.to_owned(), version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_means_one_version_is_pinned() {
        for (version, expected) in [
            (Some("1.2.3"), true),
            (Some("v1.2.3-rc.1+b"), true),
            (Some("sha256:00"), true),
            (Some("1.2"), false),
            (Some("^1.2.3"), false),
            (Some("=1.2.3"), false),
            (Some("*"), false),
            (None, false),
        ] {
            assert_eq!(
                PinKey::new(&[b"x"], version).is_some(),
                expected,
                "{version:?}"
            );
        }
        assert_ne!(
            PinKey::new(&[b"ab", b"c"], Some("1.0.0")),
            PinKey::new(&[b"a", b"bc"], Some("1.0.0"))
        );
    }

    #[test]
    fn pins_last_as_long_as_their_archive() {
        let scratch = tempfile::tempdir().unwrap();
        let artifacts = || {
            let directory = scratch.path().join("artifacts");
            Arc::new(ArtifactCache::open(directory, 1000).unwrap())
        };
        let open = || Pins::open(scratch.path().join("pins"), artifacts()).unwrap();
        let key = PinKey::new(&[b"repository"], Some("1.0.0"));
        let pins = open();
        let digest = pins.artifacts.put(b"chart").unwrap();
        pins.put(key.as_ref(), "v1.0.0", &digest).unwrap();
        let found = Some(("v1.0.0".to_owned(), b"chart".to_vec()));
        assert_eq!(pins.get(key.as_ref()), found);
        assert_eq!(open().get(key.as_ref()), found, "after a restart too");
        let hex = hex_of(&digest).unwrap();
        fs::remove_file(scratch.path().join("artifacts").join(hex)).unwrap();
        assert_eq!(open().get(key.as_ref()), None);
        assert_eq!(
            fs::read_dir(scratch.path().join("pins")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_damaged_pin_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let artifacts = ArtifactCache::open(scratch.path().join("artifacts"), 1000).unwrap();
        let pins = Pins::open(scratch.path().join("pins"), Arc::new(artifacts)).unwrap();
        let key = PinKey::new(&[], Some("1.0.0")).unwrap();
        let path = scratch.path().join("pins").join(&key.0);
        for content in [
            "",
            "sha256:1 1.0.0",
            "../../etc/passwd 1.0.0",
            &"x".repeat(5000),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(pins.get(Some(&key)), None, "{content:?}");
        }
    }
}

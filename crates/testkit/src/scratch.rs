//! A directory that never outlives the test process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

const SWEEP: &str = include_str!("sweep.sh");

/// A temporary directory, removed when this is dropped, and also when the test process dies in any way.
///
/// It is for directories of servers, which live in statics that Rust never drops.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    sweeper: Child,
}

impl ScratchDir {
    /// Makes a directory that only this user can enter.
    ///
    /// # Errors
    /// When the temporary directory cannot be written, or there is no shell.
    pub fn new(label: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("testkit-{label}-"))
            .tempdir()
            .context("making a temporary directory")?
            .keep();
        let sweeper = Command::new("sh")
            .arg("-c")
            .arg(SWEEP)
            .arg("sweep")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting the sweeper of a temporary directory")?;
        Ok(Self { path, sweeper })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside the directory.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_gone_when_dropped() {
        let scratch = ScratchDir::new("scratch").unwrap();
        std::fs::write(scratch.join("file"), "x").unwrap();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}

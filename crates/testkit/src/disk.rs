//! Small file systems that fill up and can be made read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::run;

/// A tmpfs on a directory; it is unmounted with this value.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one on `path`, which is made, with these options besides its mode (`size=1m`, `nr_inodes=120`). `None`, said
    /// on standard error, where this user may not mount anything.
    ///
    /// # Errors
    /// When the directory cannot be made.
    #[expect(clippy::print_stderr, reason = "where tests say what they skip")]
    pub fn mount(path: &Path, options: &str) -> Result<Option<Self>> {
        std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let mut mount = Command::new("mount");
        mount.args([
            "-t",
            "tmpfs",
            "-o",
            &format!("{options},mode=0700"),
            "tmpfs",
        ]);
        match run(mount.arg(path)) {
            Ok(_) => Ok(Some(Self(path.to_owned()))),
            Err(error) => {
                eprintln!("skipped: this user may not mount a tmpfs: {error:#}");
                Ok(None)
            }
        }
    }

    /// Changes an option, such as `ro` and `rw`.
    ///
    /// # Errors
    /// When it is refused.
    pub fn remount(&self, option: &str) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{option}")]);
        run(mount.arg(&self.0)).map(drop)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

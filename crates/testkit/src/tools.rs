//! Where the programs of the test cluster are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result, bail};

/// Which programs are needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolSet {
    /// `etcd`, `kube-apiserver`, `kubectl` and the stock `helm` (v4).
    Base,
    /// Also `kube-controller-manager`, `kube-scheduler`, `kwok` and `helm3`.
    Full,
}

impl ToolSet {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Full => "full",
        }
    }
}

/// The directories that hold the programs, first match wins.
#[derive(Clone, Debug)]
pub struct Tools {
    directories: Vec<PathBuf>,
}

impl Tools {
    /// Finds the programs: in `KUBEBUILDER_ASSETS`, else in the cache, else builds them with Go, which is slow the
    /// first time and says so on stderr. One build at a time on a machine.
    ///
    /// # Errors
    /// One line that names what is missing.
    pub fn locate(set: ToolSet) -> Result<Self> {
        // Two control planes of one process start the script one after the other, to keep its output readable.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let script = repository().join("hack/controlplane/ensure.sh");
        let output = Command::new("bash")
            .arg(&script)
            .arg(set.name())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("running {}", script.display()))?;
        if !output.status.success() {
            bail!(
                "the programs of the test cluster are missing, see the line `controlplane:` above"
            );
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok(Self {
            directories: std::env::split_paths(printed.trim()).collect(),
        })
    }

    /// The path of a program.
    ///
    /// # Errors
    /// When none of the directories has it.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.directories
            .iter()
            .map(|directory| directory.join(name))
            .find(|path| path.is_file())
            .with_context(|| format!("{name} is not in {:?}", self.directories))
    }

    /// A command for a program.
    ///
    /// # Errors
    /// When none of the directories has it.
    pub fn command(&self, name: &str) -> Result<Command> {
        Ok(Command::new(self.path(name)?))
    }
}

/// The root of the repository that is worked in: the nearest folder with a `Cargo.lock`, from the package that cargo
/// runs (`CARGO_MANIFEST_DIR`) or the current folder upwards.
///
/// Asked while it runs and not when it is compiled: clones share one folder of compiled code, and cargo takes this crate
/// for fresh in all of them.
#[must_use]
pub fn repository() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let start = std::env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_default();
        let root = start
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file());
        root.unwrap_or(&start).to_owned()
    })
}

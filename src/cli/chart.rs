//! The chart that a command line names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use helm_engine::{
    Chart, Limits, LoadError, Loaded, LogLine, load, load_archive, load_of_any_version,
};

use super::charts::{ChartFlags, archive_url, block_on};
use super::fetch::{Fetched, Signature, fetch};
use super::files;
use super::output::log;

/// Flags by which a chart is found: on this machine, in a repository or in a registry.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceFlags {
    #[command(flatten)]
    pub(crate) chart: ChartFlags,

    /// verify the package before using it
    #[arg(long)]
    verify: bool,

    /// location of public keys used for verification [default: ~/.gnupg/pubring.gpg]
    #[arg(long)]
    keyring: Option<PathBuf>,
}

/// A chart that was found.
#[derive(Debug)]
pub(crate) enum Located {
    /// A directory or an archive on this machine.
    Here(PathBuf),
    /// An archive that was fetched.
    Fetched(Arc<Vec<u8>>),
}

impl SourceFlags {
    /// Finds the chart of this name: what there is on this machine goes first, unless `--repo` is given.
    pub(crate) fn locate(&self, name: &str) -> anyhow::Result<Located> {
        let name = name.trim();
        let is_in_repository = self
            .chart
            .repo
            .as_deref()
            .is_some_and(|url| !url.is_empty());
        if is_in_repository || name.starts_with("oci://") || archive_url(name).is_some() {
            return self.fetch(name);
        }
        if Path::new(name).exists() {
            let path = std::path::absolute(name).context("cannot find the working directory")?;
            if self.verify {
                self.verify_file(&path)?;
            }
            return Ok(Located::Here(path));
        }
        if Path::new(name).is_absolute() || name.starts_with('.') {
            bail!("path {name:?} not found");
        }
        match name.split_once('/') {
            Some((alias, _)) if self.chart.login.knows(alias)? => self.fetch(name),
            Some((alias, _)) => bail!("repo {alias} not found"),
            None => {
                bail!("non-absolute URLs should be in form of repo_name/path_to_chart, got: {name}")
            }
        }
    }

    fn fetch(&self, name: &str) -> anyhow::Result<Located> {
        let signature = match self.verify {
            true => Signature::Needed,
            false => Signature::Unasked,
        };
        let fetched = block_on(fetch(&self.chart, name, signature))?;
        if self.verify {
            fetched.verify(self.keyring.as_deref())?;
        }
        Ok(Located::Fetched(fetched.content))
    }

    /// Checks an archive on this machine by the `.prov` file beside it.
    fn verify_file(&self, path: &Path) -> anyhow::Result<()> {
        if path.is_dir() {
            bail!("unpacked charts cannot be verified");
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(".prov");
        let limits = Limits::default();
        let provenance = files::read(Path::new(&beside), limits.file_bytes)
            .with_context(|| format!("could not load provenance file {}", beside.display()))?;
        let content = files::read(path, limits.total_bytes)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default();
        let fetched = Fetched {
            name: name.to_string_lossy().into_owned(),
            content: Arc::new(content),
            provenance: Some(provenance),
        };
        fetched.verify(self.keyring.as_deref()).map(drop)
    }
}

impl Located {
    /// Loads it.
    pub(crate) fn load(&self) -> Result<Loaded, LoadError> {
        match self {
            Self::Here(path) => load(path, &Limits::default()),
            Self::Fetched(archive) => load_archive(archive.as_slice(), &Limits::default()),
        }
    }

    /// Loads it, whatever version of charts it is.
    pub(crate) fn load_of_any_version(&self) -> Result<Loaded, LoadError> {
        match self {
            Self::Here(path) => load_of_any_version(path, &Limits::default()),
            Self::Fetched(_) => self.load(),
        }
    }
}

/// A chart that is to be installed or rendered: no library, and with all of its dependencies.
pub(crate) fn installable(loaded: Loaded) -> anyhow::Result<Chart> {
    log(&loaded.warnings);
    let chart = loaded.chart;
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        bail!("{} charts are not installable", chart.metadata.kind);
    }
    if chart.metadata.deprecated {
        log(&[LogLine::warn("this chart is deprecated")]);
    }
    let missing = chart.missing_dependencies();
    if !missing.is_empty() {
        bail!(
            "an error occurred while checking for chart dependencies. You may need to run 'helm \
             dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in \
             charts/ directory: {}",
            missing.join(", ")
        );
    }
    Ok(chart)
}

/// Refuses names that Helm refuses.
pub(crate) fn check_release_name(name: &str) -> anyhow::Result<()> {
    if name.is_empty() {
        bail!("release name check failed: release name \"\": no name provided");
    }
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 53 && name.split('.').all(label) {
        return Ok(());
    }
    bail!(
        "release name check failed: release name {name:?}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must \
         not be longer than 53"
    );
}

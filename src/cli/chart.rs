//! The chart that a command line names.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use helm_engine::{Chart, Limits, load};

use super::output::warn;

/// The chart at a path. Charts in repositories and registries are for `run`, which fetches them.
pub(crate) fn locate(name: &str) -> anyhow::Result<PathBuf> {
    let name = name.trim();
    if Path::new(name).exists() {
        return std::path::absolute(name).context("cannot find the working directory");
    }
    if Path::new(name).is_absolute() || name.starts_with('.') {
        bail!("path {name:?} not found");
    }
    match name.split_once('/') {
        Some((repository, _)) => bail!("repo {repository} not found"),
        None => {
            bail!("non-absolute URLs should be in form of repo_name/path_to_chart, got: {name}")
        }
    }
}

/// Loads a chart that is to be installed or rendered: no library, and with all of its dependencies.
pub(crate) fn load_installable(path: &Path) -> anyhow::Result<Chart> {
    let loaded = load(path, &Limits::default())?;
    warn("INFO", &loaded.warnings);
    let chart = loaded.chart;
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        bail!("{} charts are not installable", chart.metadata.kind);
    }
    if chart.metadata.deprecated {
        warn("WARN", ["this chart is deprecated"]);
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

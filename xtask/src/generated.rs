//! The files that are made from the code: each has a test that compares it, and that writes it when asked.

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;

/// `crds/helmreleases.yaml`, its copy in the chart, and `deploy/*.yaml`, which are rendered from the chart.
pub(crate) fn crd() -> Result<()> {
    // The second copies what the first has written.
    update(&["--lib", "api::crd"])?;
    update(&["--test", "golden_chart"])?;
    println!("crds/helmreleases.yaml and deploy/install.yaml are up to date");
    Ok(())
}

/// `docs/cli.md`.
pub(crate) fn docs() -> Result<()> {
    update(&["--test", "cli_reference"])?;
    println!("docs/cli.md is up to date");
    Ok(())
}

/// Runs tests in the mode that writes what they compare with.
fn update(tests: &[&str]) -> Result<()> {
    let status = cargo()
        .args(["test", "--quiet", "--package=helm-operator"])
        .args(tests)
        .env("UPDATE_GOLDEN", "1")
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "writing the files failed, see above");
    Ok(())
}

//! The files that are made from the Rust types and from the chart: `crds/helmreleases.yaml`, its copy in the chart, and
//! `deploy/install.yaml`.

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;

/// Runs the tests that compare the files, in the mode that writes them.
pub(crate) fn run() -> Result<()> {
    // The second copies what the first has written.
    for arguments in [["--lib", "api::crd"], ["--test", "golden_chart"]] {
        let status = cargo()
            .args(["test", "--quiet", "--package=helm-operator"])
            .args(arguments)
            .env("UPDATE_GOLDEN", "1")
            .status()
            .context("starting cargo")?;
        ensure!(status.success(), "writing the files failed, see above");
    }
    println!("crds/helmreleases.yaml and deploy/install.yaml are up to date");
    Ok(())
}

//! The CRD as a file, as the binary prints it.

use std::fs;

use anyhow::{Context, Result};

use crate::cargo::{cargo, root};

pub(crate) fn run() -> Result<()> {
    let arguments = ["run", "--quiet", "--package=helm-operator", "--", "crd"];
    let text = testkit::run(cargo().args(arguments))?;
    let path = root().join("crds/helmreleases.yaml");
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

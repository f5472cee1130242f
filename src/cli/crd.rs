//! `helm-operator crd`: the CustomResourceDefinition, for `kubectl apply --server-side -f -`.

use std::io::Write;

/// Prints the CRD as YAML.
pub(super) fn run() -> anyhow::Result<()> {
    std::io::stdout()
        .lock()
        .write_all(crate::api::crd_yaml()?.as_bytes())?;
    Ok(())
}

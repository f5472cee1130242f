//! `helm-operator version`.

use std::io::Write;

/// The version of this build.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version.
pub(super) fn run() -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{VERSION}")?;
    Ok(())
}

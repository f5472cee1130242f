//! Versions and constraints, as Masterminds/semver reads them.

use sprig::semver::{Constraints, Version, VersionError};

/// Checks that a text is a version, leniently.
///
/// # Errors
/// Why it is none: `invalid semantic version`.
pub fn check_version(text: &str) -> Result<(), VersionError> {
    Version::parse(text).map(|_| ())
}

/// Whether a text is a version, leniently: `v1`, `1.2`, `1.2.3-rc.1+build`.
pub(crate) fn is_valid(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether a version satisfies a constraint; `false` if either cannot be read, as in Helm.
pub(crate) fn satisfies(constraint: &str, version: &str) -> bool {
    let (Ok(version), Ok(constraint)) = (Version::parse(version), Constraints::parse(constraint))
    else {
        return false;
    };
    constraint.check(&version)
}

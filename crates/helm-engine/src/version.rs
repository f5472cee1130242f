//! Versions and constraints, as Masterminds/semver reads them.

use sprig::semver::{Constraints, Version};

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

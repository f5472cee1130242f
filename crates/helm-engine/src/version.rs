//! Versions and constraints, as Masterminds/semver reads them.

/// Whether a text is a version, leniently: `v1`, `1.2`, `1.2.3-rc.1+build`.
pub(crate) fn is_valid(text: &str) -> bool {
    let _ = text;
    true
}

/// Whether a version satisfies a constraint; `false` if either cannot be read, as in Helm.
pub(crate) fn satisfies(constraint: &str, version: &str) -> bool {
    let _ = (constraint, version);
    true
}

//! The API versions that Kubernetes has deprecated, as `helm lint` 4.3.1 knows them.

use std::fmt::Write;

/// A line for each: API version, deprecated since 1.x, removed in 1.x, what to use instead, kinds. Instead of it may be
/// `-`, nothing; a version, the same kind in it; or `version:kind`.
const DEPRECATED: &str = include_str!("deprecated.txt");

/// What the API server would warn of if a chart uses this kind; `None` if the version of
/// Kubernetes (1.`minor`) does not deprecate it.
pub(super) fn warning(api_version: &str, kind: &str, (major, minor): (u32, u32)) -> Option<String> {
    let row = DEPRECATED.lines().filter_map(Row::parse).find(|row| {
        row.version == api_version && row.kinds.split(' ').any(|known| known == kind)
    })?;
    let Row { since, removed, .. } = row;
    if (1, since) > (major, minor) && (major, minor) != (0, 0) {
        return None;
    }
    let mut text =
        format!("{api_version} {kind} is deprecated in v1.{since}+, unavailable in v1.{removed}+");
    if row.instead != "-" {
        let (version, kind) = row.instead.split_once(':').unwrap_or((row.instead, kind));
        // Writing to a string does not fail.
        let _ = write!(text, "; use {version} {kind}");
    }
    Some(text)
}

struct Row<'a> {
    version: &'a str,
    since: u32,
    removed: &'a str,
    instead: &'a str,
    kinds: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut columns = line.splitn(5, ' ');
        Some(Self {
            version: columns.next()?,
            since: columns.next()?.parse().ok()?,
            removed: columns.next()?,
            instead: columns.next()?,
            kinds: columns.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        for line in DEPRECATED.lines() {
            let row = Row::parse(line).unwrap();
            assert!(row.removed.parse::<u32>().unwrap() > row.since, "{line}");
            assert!(!row.kinds.is_empty(), "{line}");
        }
    }

    #[test]
    fn what_to_use_instead_is_nothing_a_version_or_another_kind() {
        let told = |version, kind| warning(version, kind, (1, 30)).unwrap_or_default();
        assert_eq!(
            told("policy/v1beta1", "Eviction"),
            "policy/v1beta1 Eviction is deprecated in v1.22+, unavailable in v1.25+"
        );
        assert_eq!(
            told("batch/v1beta1", "CronJob"),
            "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"
        );
        assert_eq!(
            told("storage.k8s.io/v1beta1", "CSINodeList"),
            "storage.k8s.io/v1beta1 CSINodeList is deprecated in v1.17+, unavailable in v1.22+; \
             use storage.k8s.io/v1 CSINode"
        );
        assert_eq!(told("batch/v1", "CronJob"), "");
        assert_eq!(warning("batch/v1beta1", "CronJob", (1, 20)), None);
        assert!(warning("batch/v1beta1", "CronJob", (0, 0)).is_some());
    }
}

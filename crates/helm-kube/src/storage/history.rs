//! The history of a release, as the labels of its records tell it.

use std::collections::BTreeMap;

use helm_engine::Status;
use jiff::Timestamp;
use serde_json::Value;

use super::{DIGEST, ObjectVersion, SYSTEM_LABELS, Stored};

/// The revisions of one release, oldest first.
///
/// It is made of metadata only: Helm keeps `status` and `version` as labels of each record, so
/// that nothing needs to be unpacked to know the state of a release. It can be read
/// ([`history`](crate::history)) or fed from a watch ([`History::from_objects`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    revisions: Vec<Revision>,
}

/// One revision, without its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revision {
    /// The number, from 1.
    pub revision: i64,
    /// The state.
    pub status: Status,
    /// Labels beside Helm's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations: gone once the stock helm has rewritten the record.
    pub annotations: BTreeMap<String, String>,
    /// When the record was created or last written, whichever is later.
    pub touched_at: Timestamp,
    /// The version of the record's object.
    pub version: ObjectVersion,
}

impl History {
    /// Makes a history of objects with metadata, in any order: those of a watch of all records,
    /// already sorted out by release. Objects that are no records are skipped.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        Self::new(
            objects
                .into_iter()
                .filter_map(Revision::from_object)
                .collect(),
        )
    }

    /// Makes a history of revisions in any order.
    #[must_use]
    pub fn new(mut revisions: Vec<Revision>) -> Self {
        revisions.sort_by_key(|revision| revision.revision);
        Self { revisions }
    }

    /// The revisions, oldest first.
    #[must_use]
    pub fn revisions(&self) -> &[Revision] {
        &self.revisions
    }

    /// Whether there is no record at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.revisions.is_empty()
    }

    /// The newest revision, whatever its state.
    #[must_use]
    pub fn newest(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    /// The revision with that number.
    #[must_use]
    pub fn get(&self, revision: i64) -> Option<&Revision> {
        self.revisions
            .iter()
            .find(|found| found.revision == revision)
    }

    /// The newest deployed revision.
    #[must_use]
    pub fn deployed(&self) -> Option<&Revision> {
        self.newest_with(&[Status::Deployed])
    }

    /// The newest revision in one of the states.
    #[must_use]
    pub fn newest_with(&self, states: &[Status]) -> Option<&Revision> {
        self.revisions
            .iter()
            .rev()
            .find(|revision| states.contains(&revision.status))
    }

    /// The newest revision before `revision` that was deployed once: what to roll back to.
    #[must_use]
    pub fn last_good_before(&self, revision: i64) -> Option<&Revision> {
        self.revisions.iter().rev().find(|found| {
            found.revision < revision
                && matches!(found.status, Status::Deployed | Status::Superseded)
        })
    }

    /// The number that the next revision gets.
    #[must_use]
    pub fn next_revision(&self) -> i64 {
        self.newest()
            .map_or(1, |newest| newest.revision.saturating_add(1))
    }

    /// The revisions to delete so that one more fits into `limit`; 0 means no limit. The oldest
    /// go first, and never the newest deployed one, nor one of those to `keep`. Of those that have
    /// failed since, the repetitions go first: what else has failed may have left objects that
    /// only its record tells of.
    #[must_use]
    pub fn surplus(&self, limit: usize, keep: &[i64]) -> Vec<i64> {
        if limit == 0 {
            return Vec::new();
        }
        let deployed = self.deployed().map(|revision| revision.revision);
        let surplus = (self.revisions.len() + 1).saturating_sub(limit);
        let mut candidates: Vec<_> = self
            .revisions
            .iter()
            .filter(|found| Some(found.revision) != deployed && !keep.contains(&found.revision))
            .collect();
        let floor = self.last_settled(i64::MAX);
        candidates.sort_by_key(|found| found.revision > floor && !self.is_repeated(found));
        let oldest = candidates.into_iter().map(|found| found.revision);
        oldest.take(surplus).collect()
    }

    /// The newest revision up to `revision` whose objects were all there, or all gone; 0 if there
    /// is none. What came after it has failed or is under way.
    pub(crate) fn last_settled(&self, revision: i64) -> i64 {
        let settled = |found: &&Revision| {
            found.revision <= revision
                && matches!(
                    found.status,
                    Status::Deployed | Status::Superseded | Status::Uninstalled
                )
        };
        let found = self.revisions.iter().rev().find(settled);
        found.map_or(0, |found| found.revision)
    }

    /// Whether a revision failed, and a later one of the same inputs failed as well: its objects
    /// are very likely those of the later one.
    pub(crate) fn is_repeated(&self, revision: &Revision) -> bool {
        let digest = revision.annotations.get(DIGEST);
        digest.is_some()
            && revision.status == Status::Failed
            && self.revisions.iter().any(|other| {
                other.revision > revision.revision
                    && other.status == Status::Failed
                    && other.annotations.get(DIGEST) == digest
            })
    }

    /// Whether a record has changed since this history was read: what follows from the history may
    /// be over long ago.
    pub(crate) fn is_behind(&self, stored: &Stored) -> bool {
        self.get(stored.release.revision)
            .is_some_and(|found| found.version != stored.version)
    }

    pub(crate) fn set_status(&mut self, revision: i64, status: Status) {
        for found in &mut self.revisions {
            if found.revision == revision {
                found.status = status;
            }
        }
    }

    pub(crate) fn remove(&mut self, revision: i64) {
        self.revisions.retain(|found| found.revision != revision);
    }
}

impl Revision {
    /// Reads the metadata of a record; `None` if the object is no record.
    #[must_use]
    pub fn from_object(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let mut labels = texts(metadata, "labels");
        let revision = labels
            .get("version")?
            .parse()
            .ok()
            .filter(|number| *number > 0)?;
        let status = status_of(labels.get("status")?);
        if labels.get("owner").map(String::as_str) != Some("helm") {
            return None;
        }
        let modified = labels.get("modifiedAt").and_then(|text| text.parse().ok());
        let modified = modified.and_then(|second| Timestamp::from_second(second).ok());
        let created = metadata.get("creationTimestamp").and_then(Value::as_str);
        let created = created.and_then(|text| text.parse::<Timestamp>().ok());
        labels.retain(|label, _| !SYSTEM_LABELS.contains(&label.as_str()));
        Some(Self {
            revision,
            status,
            labels,
            annotations: texts(metadata, "annotations"),
            touched_at: created.max(modified).unwrap_or_default(),
            version: ObjectVersion::of(object),
        })
    }
}

fn status_of(text: &str) -> Status {
    let known = Status::ALL
        .into_iter()
        .find(|status| status.as_str() == text);
    known.unwrap_or(Status::Unknown)
}

fn texts(metadata: &Value, key: &str) -> BTreeMap<String, String> {
    let entries = metadata.get(key).and_then(Value::as_object);
    entries
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history(states: &[(i64, Status)]) -> History {
        History::new(
            states
                .iter()
                .map(|&(revision, status)| Revision {
                    revision,
                    status,
                    ..Revision::default()
                })
                .collect(),
        )
    }

    #[test]
    fn a_record_is_read_from_its_labels() {
        let object = json!({"metadata": {
            "name": "sh.helm.release.v1.web.v12",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": "7",
            "uid": "u",
            "labels": {"name": "web", "owner": "helm", "status": "pending-upgrade", "version": "12",
                "createdAt": "1", "modifiedAt": "1767225601", "team": "a"},
            "annotations": {"x": "y"},
        }});
        let revision = Revision::from_object(&object).unwrap();
        assert_eq!(revision.revision, 12);
        assert_eq!(revision.status, Status::PendingUpgrade);
        assert_eq!(
            revision.labels,
            BTreeMap::from([("team".to_owned(), "a".to_owned())])
        );
        assert_eq!(revision.touched_at.to_string(), "2026-01-01T00:00:01Z");
        assert_eq!(revision.version.resource_version, "7");
    }

    #[test]
    fn other_objects_are_no_records() {
        for object in [
            json!({}),
            json!({"metadata": {"labels": {"owner": "helm", "status": "deployed", "version": "x"}}}),
            json!({"metadata": {"labels": {"owner": "helm", "status": "deployed", "version": "0"}}}),
            json!({"metadata": {"labels": {"owner": "me", "status": "deployed", "version": "1"}}}),
        ] {
            assert_eq!(Revision::from_object(&object), None, "{object}");
        }
    }

    #[test]
    fn revisions_are_sorted_as_numbers() {
        let sorted = history(&[(10, Status::Deployed), (9, Status::Superseded)]);
        assert_eq!(sorted.newest().unwrap().revision, 10);
        assert_eq!(sorted.next_revision(), 11);
        assert_eq!(sorted.last_good_before(10).unwrap().revision, 9);
    }

    #[test]
    fn surplus_never_names_the_last_deployed_revision() {
        use Status::{Deployed, Failed, Superseded};
        let all = history(&[(1, Superseded), (2, Deployed), (3, Failed), (4, Failed)]);
        let table: [(usize, &[i64], &[i64]); 7] = [
            (0, &[], &[]),
            (10, &[], &[]),
            (5, &[], &[]),
            (4, &[], &[1]),
            (3, &[], &[1, 3]),
            (1, &[], &[1, 3, 4]),
            (3, &[3], &[1, 4]),
        ];
        for (limit, keep, expected) in table {
            assert_eq!(
                all.surplus(limit, keep),
                expected,
                "limit {limit} keep {keep:?}"
            );
        }
    }
    #[test]
    fn of_failed_attempts_the_repetitions_are_pruned_first() {
        let failed = |revision, digest: &str| Revision {
            revision,
            status: Status::Failed,
            annotations: BTreeMap::from([(DIGEST.to_owned(), digest.to_owned())]),
            ..Revision::default()
        };
        let first = [
            failed(1, "a"),
            failed(2, "b"),
            failed(3, "b"),
            failed(4, "b"),
        ];
        assert_eq!(History::new(first.to_vec()).surplus(4, &[]), [2]);
        assert_eq!(History::new(first.to_vec()).surplus(3, &[]), [2, 3]);
        assert_eq!(History::new(first.to_vec()).surplus(2, &[]), [2, 3, 1]);
    }
}

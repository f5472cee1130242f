//! The status loop's part: what the records of a release say about its status.

use helm_engine::Status;
use helm_kube::History;
use jiff::Timestamp;

use super::edit::StatusEdit;
use crate::api::{HelmRelease, HelmReleaseStatus, NamespacedName};

/// The status with what the records say now: name and status of the Helm release, and whether one serves.
/// Without records nothing is said, as in 1.4, but that nothing serves and nothing is under way.
#[must_use]
pub fn refreshed(
    release: &HelmRelease,
    key: &NamespacedName,
    history: &History,
    now: Timestamp,
) -> HelmReleaseStatus {
    let before = release.status.clone().unwrap_or_default();
    // A status that no sync has written yet is left to the first one.
    let Some(generation) = before.observed_generation else {
        return before;
    };
    let mut edit = StatusEdit::new(before, key.clone(), generation, now);
    edit.record(&key.name, history.newest().map(|newest| newest.status));
    let serves = history.newest_with(&[Status::Deployed]).is_some();
    let said = edit
        .status()
        .condition("Available")
        .map(|condition| condition.status);
    if said.is_some_and(|said| said != serves.into()) {
        let message = if serves {
            "a revision of the release is deployed"
        } else {
            "no revision of the release is deployed"
        };
        edit.available(serves, message);
    }
    edit.into_status()
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_kube::Revision;

    fn release(status: serde_json::Value) -> HelmRelease {
        let mut release = HelmRelease::new(
            "web",
            serde_json::from_value(serde_json::json!({"chart": {}})).unwrap(),
        );
        release.status = serde_json::from_value(status).unwrap();
        release
    }

    fn history(status: Status) -> History {
        History::new(vec![Revision {
            revision: 1,
            status,
            ..Default::default()
        }])
    }

    fn refresh(release: &HelmRelease, history: &History) -> HelmReleaseStatus {
        let key = NamespacedName::new("apps", "web");
        refreshed(release, &key, history, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_newest_record_tells_name_and_status() {
        let release = release(serde_json::json!({"observedGeneration": 1}));
        let status = refresh(&release, &history(Status::PendingUpgrade));
        assert_eq!(status.release_name.as_deref(), Some("web"));
        assert_eq!(status.release_status.as_deref(), Some("pending-upgrade"));
        assert_eq!(status.observed_generation, Some(1));
    }

    #[test]
    fn a_release_that_vanished_is_not_available_and_nothing_else_changes() {
        let before = release(serde_json::json!({
            "observedGeneration": 1, "releaseStatus": "deployed",
            "conditions": [{"type": "Available", "status": "True"}]
        }));
        let status = refresh(&before, &History::default());
        assert_eq!(status.release_status.as_deref(), Some("deployed"));
        assert!(!status.is_true(crate::api::ConditionType::Available));
        assert_eq!(
            refresh(&before, &history(Status::Deployed)).conditions,
            before.status.unwrap().conditions
        );
    }

    #[test]
    fn nothing_is_pending_once_its_record_is_gone() {
        let before = release(serde_json::json!({
            "observedGeneration": 1, "releaseStatus": "pending-install"
        }));
        assert_eq!(refresh(&before, &History::default()).release_status, None);
    }

    #[test]
    fn a_status_that_no_sync_has_written_is_left_alone() {
        let release = release(serde_json::json!({"phase": "Installing"}));
        assert_eq!(
            Some(refresh(&release, &history(Status::Failed))),
            release.status
        );
    }
}

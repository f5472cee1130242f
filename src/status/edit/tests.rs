//! What becomes of a status.

use super::*;
use ConditionType as Type;

fn edit(status: HelmReleaseStatus, second: i64) -> StatusEdit {
    let now = Timestamp::from_second(second).unwrap();
    StatusEdit::new(status, NamespacedName::new("apps", "web"), 2, now)
}

/// Type, status and reason of each condition, in order.
fn shown(status: &HelmReleaseStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .flatten()
        .map(|c| {
            let reason = c.reason.as_deref().unwrap_or("");
            format!("{}={:?} {reason}", c.condition_type, c.status)
        })
        .collect()
}

fn message(status: &HelmReleaseStatus, of: Type) -> String {
    status
        .condition(&of.to_string())
        .and_then(|c| c.message.clone())
        .unwrap_or_default()
}

type Step = fn(&mut StatusEdit);

/// Each row: what happened, the phase, and 1.4's condition with its sentence.
#[test]
fn phases_conditions_and_sentences_are_those_of_1_4() {
    let timeout = std::time::Duration::from_secs(300);
    let _ = timeout;
    let rows: [(Step, Option<Phase>, Type, ConditionStatus, &str); 11] = [
        (
            |e| e.chart_fetched(),
            None,
            Type::ChartFetched,
            ConditionStatus::True,
            "Chart fetch was successful for Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.chart_fetch_failed(&Failure::stalled(Reason::ChartInvalid, "no branch x")),
            Some(Phase::ChartFetchFailed),
            Type::Released,
            ConditionStatus::False,
            "Chart fetch failed for Helm release 'web' in 'apps': no branch x",
        ),
        (
            |e| e.begin(Progress::Installing, std::time::Duration::from_secs(300)),
            Some(Phase::Installing),
            Type::Deployed,
            ConditionStatus::Unknown,
            "Running installation for Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.begin(Progress::Upgrading, std::time::Duration::from_secs(300)),
            Some(Phase::Upgrading),
            Type::Deployed,
            ConditionStatus::Unknown,
            "Running upgrade for Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.deployed(),
            Some(Phase::Deployed),
            Type::Deployed,
            ConditionStatus::True,
            "Installation or upgrade succeeded for Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.deploy_failed(&Failure::stalled(Reason::UpgradeFailed, "no")),
            Some(Phase::DeployFailed),
            Type::Deployed,
            ConditionStatus::False,
            "Installation or upgrade failed for Helm release 'web' in 'apps': no",
        ),
        (
            |e| e.begin(Progress::Testing, std::time::Duration::from_secs(300)),
            Some(Phase::Testing),
            Type::Tested,
            ConditionStatus::Unknown,
            "Testing Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.tested(),
            Some(Phase::Tested),
            Type::Tested,
            ConditionStatus::True,
            "Tested Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.succeeded(Reason::UpgradeSucceeded, "m"),
            Some(Phase::Succeeded),
            Type::Released,
            ConditionStatus::True,
            "Release was successful for Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.begin(Progress::RollingBack, std::time::Duration::from_secs(300)),
            Some(Phase::RollingBack),
            Type::RolledBack,
            ConditionStatus::Unknown,
            "Rolling back Helm release 'web' in 'apps'.",
        ),
        (
            |e| e.rolled_back(&Failure::stalled(Reason::UpgradeFailed, "no")),
            Some(Phase::RolledBack),
            Type::RolledBack,
            ConditionStatus::True,
            "Rolled back Helm release 'web' in 'apps'.",
        ),
    ];
    for (step, phase, condition, expected, sentence) in rows {
        let mut edit = edit(HelmReleaseStatus::default(), 1);
        step(&mut edit);
        let status = edit.finish();
        assert_eq!(status.phase, phase);
        let found = status.condition(&condition.to_string()).unwrap();
        assert_eq!(
            (found.status, message(&status, condition).as_str()),
            (expected, sentence)
        );
        let written = status.conditions.iter().flatten();
        assert!(
            written
                .into_iter()
                .all(|c| c.observed_generation == Some(2))
        );
    }
}

#[test]
fn a_failed_upgrade_that_is_rolled_back_and_then_put_right() {
    let failure = Failure::stalled(Reason::UpgradeFailed, "pods are not ready");
    let mut failing = edit(HelmReleaseStatus::default(), 1);
    failing.deploy_failed(&failure);
    failing.rolled_back(&failure);
    let failing = failing.finish();
    assert_eq!(failing.rollback_count, Some(1));
    assert_eq!(
        shown(&failing),
        [
            "Ready=False UpgradeFailed",
            "Stalled=True UpgradeFailed",
            "Deployed=False DeployFailed",
            "Released=False DeployFailed",
            "RolledBack=True RolledBack",
            "Progressing=False UpgradeFailed",
            "Degraded=True UpgradeFailed",
        ]
    );
    let mut good = edit(failing, 2);
    good.succeeded(Reason::UpgradeSucceeded, "deployed");
    let good = good.finish();
    assert_eq!(good.rollback_count, None);
    assert_eq!(
        shown(&good),
        [
            "Ready=True UpgradeSucceeded",
            "Deployed=True Deployed",
            "Released=True Succeeded",
            "Available=True Deployed",
            "Progressing=False UpgradeSucceeded",
            "Degraded=False UpgradeSucceeded",
        ]
    );
}

#[test]
fn a_failure_that_is_retried_is_in_progress_and_not_stalled() {
    let mut edit = edit(HelmReleaseStatus::default(), 1);
    edit.failed(&Failure::retried(
        Reason::ServerUnavailable,
        "connection refused",
    ));
    let status = edit.finish();
    assert_eq!(
        shown(&status)[..2],
        [
            "Ready=False ServerUnavailable",
            "Reconciling=True ProgressingWithRetry"
        ]
    );
    assert!(status.condition("Stalled").is_none());
}

#[test]
fn an_ignored_test_failure_does_not_fail_the_release() {
    let failure = Failure::stalled(Reason::TestFailed, "no");
    let mut ignored = edit(HelmReleaseStatus::default(), 1);
    ignored.test_failed(&failure, true);
    assert_eq!(shown(&ignored.finish()), ["Tested=False TestFailed"]);
    let mut counted = edit(HelmReleaseStatus::default(), 1);
    counted.test_failed(&failure, false);
    assert!(shown(&counted.finish()).contains(&"Released=False TestFailed".to_owned()));
}

#[test]
fn saying_the_same_again_changes_nothing_and_times_follow_content() {
    let say = |status, second, message: &str| {
        let mut edit = edit(status, second);
        edit.succeeded(Reason::UpToDate, message);
        edit.finish()
    };
    let first = say(HelmReleaseStatus::default(), 1, "a");
    assert_eq!(say(first.clone(), 100, "a"), first);
    let later = say(first.clone(), 100, "b");
    let (before, after) = (
        first.condition("Ready").unwrap(),
        later.condition("Ready").unwrap(),
    );
    assert_eq!(after.last_transition_time, before.last_transition_time);
    assert_eq!(
        after.last_update_time.as_deref(),
        Some("1970-01-01T00:01:40Z")
    );
}

/// `Released` is what `kubectl get` shows.
#[test]
fn what_a_release_waits_for_is_told_until_it_waits_no_more() {
    let mut status = HelmReleaseStatus::default();
    let mut step = |step: &dyn Fn(&mut StatusEdit), expected: &str| {
        let mut edit = edit(std::mem::take(&mut status), 1);
        step(&mut edit);
        status = edit.finish();
        assert_eq!(message(&status, Type::Released), expected);
    };
    let timeout = std::time::Duration::from_secs(300);
    let done = "Release was successful for Helm release 'web' in 'apps'.";
    step(
        &|edit| edit.suspended(),
        "spec.suspend is true: nothing is synced",
    );
    step(&|edit| edit.succeeded(Reason::UpToDate, "m"), done);
    step(&|edit| edit.begin(Progress::Upgrading, timeout), done);
    step(
        &|edit| edit.pending("GateNotPassed", "gate 'a': no"),
        "Helm release 'web' in 'apps' waits: gate 'a': no",
    );
    let suspended = "spec.suspend is true: nothing is synced";
    step(&|edit| edit.suspended(), suspended);
    step(
        &|edit| edit.begin(Progress::Upgrading, timeout),
        "Running upgrade for Helm release 'web' in 'apps'.",
    );
    step(&|edit| edit.succeeded(Reason::UpgradeSucceeded, "m"), done);
    step(&|edit| edit.suspended(), done);
}

#[test]
fn an_older_sync_never_takes_the_observed_generation_back() {
    let newer = HelmReleaseStatus {
        observed_generation: Some(7),
        ..Default::default()
    };
    assert_eq!(edit(newer, 1).finish().observed_generation, Some(7));
    assert_eq!(
        edit(HelmReleaseStatus::default(), 1)
            .finish()
            .observed_generation,
        Some(2)
    );
}

#[test]
fn a_first_fetch_is_no_failure() {
    let mut edit = edit(HelmReleaseStatus::default(), 1);
    edit.source_pending("Cloning", "fetching for the first time");
    let status = edit.finish();
    assert_eq!(
        shown(&status),
        ["Ready=Unknown Cloning", "Reconciling=True Cloning"]
    );
    assert_eq!(status.phase, None);
}

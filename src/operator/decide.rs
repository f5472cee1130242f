//! The decision: what to do with a release, from what is wanted, what is recorded and what was tried.
//!
//! A pure function: everything that it depends on is in its arguments, and every row of it is in the table
//! of its test.

use helm_engine::Status;
use helm_kube::{DIGEST, History, Interrupted, NextAction, Revision};
use jiff::Timestamp;

use crate::api::ANTECEDENT_ANNOTATION;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// Digest of the inputs.
    pub digest: &'a str,
    /// Who the release has to belong to: `<namespace>:helmrelease/<name>`.
    pub owner: &'a str,
    /// Roll back after a failed upgrade.
    pub rollback: bool,
    /// Run tests after an install or an upgrade.
    pub test: bool,
}

/// What was tried before, as the status tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempt<'a> {
    /// Digest of the inputs that were last tried.
    pub digest: Option<&'a str>,
    /// Digest of the inputs that were last brought to a good end, tests included.
    pub succeeded: Option<&'a str>,
    /// How often these inputs have failed in a row.
    pub failures: u32,
    /// The failure needs a change from outside.
    pub stalled: bool,
    /// Something has changed since: the spec, or a person asks for another try.
    pub renewed: bool,
    /// The status is that of 1.4: it tells nothing of digests.
    pub inherited: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: what is wanted is deployed.
    Nothing,
    /// Install.
    Install,
    /// Upgrade.
    Upgrade,
    /// Go on with what was interrupted.
    Resume(Interrupted),
    /// Roll back a failed upgrade.
    RollBack,
    /// Run the tests of what is deployed.
    Test,
    /// Go on with taking back an install whose tests have failed.
    TakeBack,
    /// Find out whether the newest revision, which is not by us, is what is wanted.
    Compare,
    /// Nothing: these inputs failed, and nothing has changed since.
    Hold,
    /// Nothing yet: another client may be at work until then.
    WaitUntil(Timestamp),
    /// Nothing ever: the release belongs to someone else.
    Refuse,
}

/// The digest of the inputs that a revision was made of, if we made it.
#[must_use]
pub(crate) fn digest_of(revision: &Revision) -> Option<&str> {
    revision.annotations.get(DIGEST).map(String::as_str)
}

/// Who a revision belongs to, if we made it.
#[must_use]
pub(crate) fn owner_of(revision: &Revision) -> Option<&str> {
    revision
        .annotations
        .get(ANTECEDENT_ANNOTATION)
        .map(String::as_str)
}

/// Decides. `next` is what [`helm_kube::recover`] says about the history; `adopted` is a digest that the
/// newest revision was found to be equal to, although it does not say so.
#[must_use]
pub fn decide(
    desired: Desired<'_>,
    history: &History,
    attempt: Attempt<'_>,
    next: NextAction,
    adopted: Option<&str>,
) -> Action {
    let newest = history.newest();
    if newest
        .and_then(owner_of)
        .is_some_and(|owner| owner != desired.owner)
    {
        return Action::Refuse;
    }
    match (next, newest) {
        (NextAction::Wait { until, .. }, _) => Action::WaitUntil(until),
        (NextAction::Resume { action, .. }, _) => Action::Resume(action),
        (NextAction::Install { .. }, _) | (_, None) => {
            unless_held(Action::Install, desired, attempt)
        }
        (NextAction::Upgrade { .. }, Some(newest)) => match newest.status {
            Status::Deployed => deployed(desired, digest_of(newest).or(adopted), attempt),
            Status::Failed => failed(desired, history, newest, attempt),
            // It is not left half way, although these inputs are not tried again.
            Status::Uninstalling if is_held(desired, attempt) => Action::TakeBack,
            _ => unless_held(Action::Upgrade, desired, attempt),
        },
    }
}

/// The newest revision is deployed.
fn deployed(desired: Desired<'_>, digest: Option<&str>, attempt: Attempt<'_>) -> Action {
    match digest {
        Some(digest) if digest == desired.digest => {
            if desired.test && attempt.succeeded != Some(digest) {
                unless_held(Action::Test, desired, attempt)
            } else {
                Action::Nothing
            }
        }
        Some(_) => unless_held(Action::Upgrade, desired, attempt),
        None => Action::Compare,
    }
}

/// The newest revision failed.
fn failed(
    desired: Desired<'_>,
    history: &History,
    newest: &Revision,
    attempt: Attempt<'_>,
) -> Action {
    if attempt.inherited && digest_of(newest).is_none() {
        // 1.4 left it to a person; whether the cause is still there, the inputs tell.
        return Action::Compare;
    }
    let last_good = history
        .last_good_before(newest.revision)
        .map_or(0, |good| good.revision);
    let is_tried = attempt.digest == Some(desired.digest)
        && attempt.failures > 0
        && history.revisions().iter().any(|found| {
            found.revision > last_good
                && found.status == Status::Failed
                && digest_of(found) == Some(desired.digest)
        });
    let has_good = history.last_good_before(newest.revision).is_some();
    if is_tried && desired.rollback && has_good && !attempt.renewed {
        return Action::RollBack;
    }
    unless_held(Action::Upgrade, desired, attempt)
}

/// What is to be done when a comparison has found that the newest revision is something else.
#[must_use]
pub(crate) fn after_difference(desired: Desired<'_>, attempt: Attempt<'_>) -> Action {
    unless_held(Action::Upgrade, desired, attempt)
}

/// Inputs that failed for good are not tried again until something changes.
fn unless_held(action: Action, desired: Desired<'_>, attempt: Attempt<'_>) -> Action {
    if is_held(desired, attempt) {
        Action::Hold
    } else {
        action
    }
}

fn is_held(desired: Desired<'_>, attempt: Attempt<'_>) -> bool {
    let is_known = attempt.digest == Some(desired.digest);
    is_known && attempt.stalled && !attempt.renewed
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_kube::{RecoverContext, recover};
    use std::collections::BTreeMap;

    const OURS: &str = "demo:helmrelease/web";

    /// A revision with a status, and the digest and owner that it says.
    fn revision(number: i64, status: Status, digest: Option<&str>) -> Revision {
        let mut annotations = BTreeMap::new();
        if let Some(digest) = digest {
            annotations.insert(DIGEST.to_owned(), digest.to_owned());
            annotations.insert(ANTECEDENT_ANNOTATION.to_owned(), OURS.to_owned());
        }
        Revision {
            revision: number,
            status,
            annotations,
            ..Revision::default()
        }
    }

    fn pending(number: i64, status: Status, holder: &str, digest: &str, touched: i64) -> Revision {
        let mut revision = revision(number, status, Some(digest));
        revision
            .annotations
            .insert(helm_kube::HOLDER.to_owned(), holder.to_owned());
        revision.touched_at = Timestamp::from_second(touched).unwrap();
        revision
    }

    fn desired() -> Desired<'static> {
        Desired {
            digest: "new",
            owner: OURS,
            rollback: false,
            test: false,
        }
    }

    fn decided(desired: Desired<'_>, revisions: Vec<Revision>, attempt: Attempt<'_>) -> Action {
        let history = History::new(revisions);
        let plan = recover(
            &history,
            &RecoverContext {
                now: Timestamp::from_second(1000).unwrap(),
                holder: "me",
                digest: Some(desired.digest),
                patience: std::time::Duration::from_secs(600),
            },
        );
        decide(desired, &history, attempt, plan.next, None)
    }

    type Row = (
        &'static str,
        Desired<'static>,
        Vec<Revision>,
        Attempt<'static>,
        Action,
    );

    /// Rows about what is recorded; nothing was tried before.
    fn rows_of_records() -> Vec<Row> {
        use Status::*;
        let none = Attempt::default();
        let rollback = Desired {
            rollback: true,
            ..desired()
        };
        let test = Desired {
            test: true,
            ..desired()
        };
        let foreign = || {
            let mut revision = revision(1, Deployed, Some("new"));
            revision
                .annotations
                .insert(ANTECEDENT_ANNOTATION.into(), "demo:helmrelease/x".into());
            revision
        };
        let until = Timestamp::from_second(1500).unwrap();
        vec![
            ("no record", desired(), vec![], none, Action::Install),
            (
                "kept history",
                desired(),
                vec![revision(3, Uninstalled, Some("new"))],
                none,
                Action::Install,
            ),
            (
                "same inputs",
                desired(),
                vec![revision(1, Deployed, Some("new"))],
                none,
                Action::Nothing,
            ),
            (
                "other inputs",
                desired(),
                vec![revision(1, Deployed, Some("old"))],
                none,
                Action::Upgrade,
            ),
            (
                "by another client",
                desired(),
                vec![revision(1, Deployed, None)],
                none,
                Action::Compare,
            ),
            (
                "another client upgraded ours",
                desired(),
                vec![
                    revision(1, Superseded, Some("new")),
                    revision(2, Deployed, None),
                ],
                none,
                Action::Compare,
            ),
            (
                "of another object",
                desired(),
                vec![foreign()],
                none,
                Action::Refuse,
            ),
            (
                "failed install",
                desired(),
                vec![revision(1, Failed, Some("old"))],
                none,
                Action::Upgrade,
            ),
            (
                "failed by hand",
                desired(),
                vec![
                    revision(1, Deployed, Some("new")),
                    revision(2, Failed, None),
                ],
                none,
                Action::Upgrade,
            ),
            (
                "failed and not reported: it is tried again",
                rollback,
                vec![
                    revision(1, Deployed, Some("old")),
                    revision(2, Failed, Some("new")),
                ],
                none,
                Action::Upgrade,
            ),
            (
                "half uninstalled",
                desired(),
                vec![revision(1, Uninstalling, Some("old"))],
                none,
                Action::Upgrade,
            ),
            (
                "nothing deployed",
                desired(),
                vec![revision(1, Superseded, Some("new"))],
                none,
                Action::Upgrade,
            ),
            (
                "unknown state",
                desired(),
                vec![revision(1, Unknown, None)],
                none,
                Action::Upgrade,
            ),
            (
                "our install was interrupted",
                desired(),
                vec![pending(1, PendingInstall, "me", "new", 1)],
                none,
                Action::Resume(Interrupted::Install),
            ),
            (
                "our upgrade was interrupted",
                desired(),
                vec![
                    revision(1, Deployed, Some("old")),
                    pending(2, PendingUpgrade, "me", "new", 1),
                ],
                none,
                Action::Resume(Interrupted::Upgrade),
            ),
            (
                "our rollback was interrupted",
                desired(),
                vec![
                    revision(1, Deployed, Some("old")),
                    pending(2, PendingRollback, "me", "old", 1),
                ],
                none,
                Action::Resume(Interrupted::Rollback),
            ),
            (
                "our upgrade was interrupted and the inputs changed",
                desired(),
                vec![
                    revision(1, Deployed, Some("old")),
                    pending(2, PendingUpgrade, "me", "older", 1),
                ],
                none,
                Action::Upgrade,
            ),
            (
                "another client is at work",
                desired(),
                vec![pending(1, PendingInstall, "someone", "x", 900)],
                none,
                Action::WaitUntil(until),
            ),
            (
                "another client died long ago",
                desired(),
                vec![pending(1, PendingInstall, "someone", "x", 100)],
                none,
                Action::Upgrade,
            ),
            (
                "deployed, tests were never run",
                test,
                vec![revision(1, Deployed, Some("new"))],
                none,
                Action::Test,
            ),
            (
                "deployed, tests went well",
                test,
                vec![revision(1, Deployed, Some("new"))],
                Attempt {
                    succeeded: Some("new"),
                    ..none
                },
                Action::Nothing,
            ),
        ]
    }

    /// Rows about what was tried.
    fn rows_of_attempts() -> Vec<Row> {
        use Status::*;
        let failing = Attempt {
            digest: Some("new"),
            failures: 1,
            ..Attempt::default()
        };
        let stalled = Attempt {
            stalled: true,
            ..failing
        };
        let renewed = Attempt {
            renewed: true,
            ..stalled
        };
        let rollback = Desired {
            rollback: true,
            ..desired()
        };
        let test = Desired {
            test: true,
            ..desired()
        };
        let old = || revision(1, Deployed, Some("old"));
        let failed = || vec![old(), revision(2, Failed, Some("new"))];
        let rolled_back = || {
            vec![
                revision(1, Superseded, Some("old")),
                revision(2, Failed, Some("new")),
                revision(3, Deployed, Some("old")),
            ]
        };
        vec![
            (
                "a failed upgrade is retried",
                desired(),
                failed(),
                failing,
                Action::Upgrade,
            ),
            (
                "a failed upgrade stalls",
                desired(),
                failed(),
                stalled,
                Action::Hold,
            ),
            (
                "a stalled upgrade is renewed",
                desired(),
                failed(),
                renewed,
                Action::Upgrade,
            ),
            (
                "a failed upgrade is rolled back",
                rollback,
                failed(),
                failing,
                Action::RollBack,
            ),
            (
                "a rollback that failed is repeated",
                rollback,
                failed(),
                stalled,
                Action::RollBack,
            ),
            (
                "a renewed spec goes before the rollback",
                rollback,
                failed(),
                renewed,
                Action::Upgrade,
            ),
            (
                "a failed first install has nothing to roll back to",
                rollback,
                vec![revision(1, Failed, Some("new"))],
                failing,
                Action::Upgrade,
            ),
            (
                "rolled back, no retry",
                rollback,
                rolled_back(),
                stalled,
                Action::Hold,
            ),
            (
                "rolled back, retry",
                rollback,
                rolled_back(),
                failing,
                Action::Upgrade,
            ),
            (
                "rolled back, renewed",
                rollback,
                rolled_back(),
                renewed,
                Action::Upgrade,
            ),
            (
                "rolled back, and the good spec is back",
                Desired {
                    digest: "old",
                    ..rollback
                },
                rolled_back(),
                stalled,
                Action::Nothing,
            ),
            (
                "rolled back, and a third spec comes",
                Desired {
                    digest: "newer",
                    ..rollback
                },
                rolled_back(),
                stalled,
                Action::Upgrade,
            ),
            (
                "the spec is back at what is deployed below a failed revision",
                Desired {
                    digest: "old",
                    ..desired()
                },
                failed(),
                stalled,
                Action::Upgrade,
            ),
            (
                "rendering failed for good",
                desired(),
                vec![old()],
                stalled,
                Action::Hold,
            ),
            (
                "rendering failed for now",
                desired(),
                vec![old()],
                failing,
                Action::Upgrade,
            ),
            (
                "an install whose tests failed is half taken back",
                test,
                vec![revision(1, Uninstalling, Some("new"))],
                stalled,
                Action::TakeBack,
            ),
            (
                "failed under 1.4",
                desired(),
                vec![revision(1, Superseded, None), revision(2, Failed, None)],
                Attempt {
                    inherited: true,
                    ..Attempt::default()
                },
                Action::Compare,
            ),
            (
                "an install failed for good",
                desired(),
                vec![],
                stalled,
                Action::Hold,
            ),
            (
                "an install failed for now",
                desired(),
                vec![],
                failing,
                Action::Install,
            ),
            (
                "an install that stalled is renewed",
                desired(),
                vec![],
                renewed,
                Action::Install,
            ),
            (
                "tests failed for good",
                test,
                vec![revision(1, Deployed, Some("new"))],
                stalled,
                Action::Hold,
            ),
            (
                "tests failed for now",
                test,
                vec![revision(1, Deployed, Some("new"))],
                failing,
                Action::Test,
            ),
            (
                "tests failed and are not asked for any more",
                desired(),
                vec![revision(1, Deployed, Some("new"))],
                stalled,
                Action::Nothing,
            ),
        ]
    }

    #[test]
    fn every_row_of_the_decision() {
        for (name, desired, revisions, attempt, expected) in
            rows_of_records().into_iter().chain(rows_of_attempts())
        {
            assert_eq!(decided(desired, revisions, attempt), expected, "{name}");
        }
    }

    #[test]
    fn a_revision_that_was_compared_counts_as_made_of_that_digest() {
        let history = History::new(vec![revision(1, Status::Deployed, None)]);
        let next = NextAction::Upgrade {
            revision: 2,
            base: 1,
        };
        let with = |adopted| decide(desired(), &history, Attempt::default(), next, adopted);
        assert_eq!(with(Some("new")), Action::Nothing);
        assert_eq!(with(Some("old")), Action::Upgrade);
        assert_eq!(with(None), Action::Compare);
    }

    #[test]
    fn a_difference_that_failed_before_is_held() {
        let stalled = Attempt {
            digest: Some("new"),
            stalled: true,
            ..Attempt::default()
        };
        assert_eq!(after_difference(desired(), stalled), Action::Hold);
        assert_eq!(
            after_difference(desired(), Attempt::default()),
            Action::Upgrade
        );
    }

    /// Whatever the history and the attempt: no state is a dead end once something changes.
    #[test]
    fn no_state_needs_a_person() {
        for first in Status::ALL {
            for second in Status::ALL {
                let revisions = vec![
                    revision(1, first, Some("old")),
                    revision(2, second, Some("old")),
                ];
                let attempt = Attempt {
                    digest: Some("new"),
                    stalled: true,
                    failures: 9,
                    renewed: true,
                    succeeded: None,
                    inherited: false,
                };
                let action = decided(desired(), revisions, attempt);
                assert!(
                    matches!(
                        action,
                        Action::Install
                            | Action::Upgrade
                            | Action::Resume(_)
                            | Action::WaitUntil(_)
                    ),
                    "{first:?} {second:?}: {action:?}"
                );
            }
        }
    }
}

//! What to do with a release as it was found: a pure function of its history.

use std::time::Duration;

use helm_engine::Status;
use jiff::Timestamp;

use crate::storage::{DIGEST, HOLDER, History, Revision};

/// What [`recover`] needs to know besides the history.
#[derive(Clone, Copy, Debug)]
pub struct RecoverContext<'a> {
    /// The time.
    pub now: Timestamp,
    /// Who we are: the [`HOLDER`] that we write. A pending record of ours was left by a crash,
    /// as only one of us acts on a release at a time.
    pub holder: &'a str,
    /// The digest of the inputs to deploy: an interrupted install or upgrade of the same inputs is
    /// gone on with. `None` if no inputs are to be deployed.
    pub digest: Option<&'a str>,
    /// How long a pending record of another client (the stock helm) is left alone after it was
    /// last written: that client may still be at work.
    pub patience: Duration,
}

/// What to do next with a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Pending revisions that nobody works on any more: they are marked as failed first.
    pub abandon: Vec<i64>,
    /// Revisions that say `deployed` beside a newer one: they are marked as superseded first.
    pub supersede: Vec<i64>,
    /// The way on.
    pub next: NextAction,
}

impl RecoveryPlan {
    /// Whether a crash has left something behind that is mended whatever comes next.
    #[must_use]
    pub fn has_mending(&self) -> bool {
        !self.abandon.is_empty() || !self.supersede.is_empty()
    }
}

/// The way on with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// There is nothing, or only the kept history of an uninstalled release.
    Install {
        /// The number of the new revision.
        revision: i64,
        /// The uninstalled revision that is superseded.
        replaces: Option<i64>,
    },
    /// There is something to upgrade, be it deployed, failed or half uninstalled.
    Upgrade {
        /// The number of the new revision.
        revision: i64,
        /// The revision whose objects are in the cluster: the newest deployed one, or else the
        /// newest.
        base: i64,
    },
    /// A revision of ours was interrupted and is gone on with.
    Resume {
        /// The pending revision.
        revision: i64,
        /// What it is in the middle of.
        action: Interrupted,
        /// The revision that it started from, if there was one.
        base: Option<i64>,
    },
    /// Another client's action may still be in progress.
    Wait {
        /// The pending revision.
        revision: i64,
        /// When to stop waiting for that client.
        until: Timestamp,
    },
}

/// What a pending revision was in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupted {
    /// An install.
    Install,
    /// An upgrade.
    Upgrade,
    /// A rollback.
    Rollback,
}

/// Decides how to go on with a release, whatever state it is in. No state is a dead end, and none
/// needs a person.
#[must_use]
pub fn recover(history: &History, context: &RecoverContext<'_>) -> RecoveryPlan {
    let next = next_action(history, context);
    let kept = match next {
        NextAction::Resume { revision, .. } | NextAction::Wait { revision, .. } => Some(revision),
        NextAction::Install { .. } | NextAction::Upgrade { .. } => None,
    };
    RecoveryPlan {
        abandon: history
            .revisions()
            .iter()
            .filter(|found| found.status.is_pending() && Some(found.revision) != kept)
            .map(|found| found.revision)
            .collect(),
        supersede: doubly_deployed(history),
        next,
    }
}

fn doubly_deployed(history: &History) -> Vec<i64> {
    let newest = history.deployed().map(|revision| revision.revision);
    history
        .revisions()
        .iter()
        .filter(|found| found.status == Status::Deployed && Some(found.revision) != newest)
        .map(|found| found.revision)
        .collect()
}

fn next_action(history: &History, context: &RecoverContext<'_>) -> NextAction {
    let Some(newest) = history.newest() else {
        return NextAction::Install {
            revision: 1,
            replaces: None,
        };
    };
    match newest.status {
        Status::Uninstalled => NextAction::Install {
            revision: history.next_revision(),
            replaces: Some(newest.revision),
        },
        status if status.is_pending() => pending(history, newest, context),
        // Another client is taking the objects away: what is applied now would go with them.
        Status::Uninstalling if !is_held_by(newest, context.holder) => {
            foreign(history, newest, context)
        }
        _ => upgrade(history, newest),
    }
}

fn upgrade(history: &History, newest: &Revision) -> NextAction {
    NextAction::Upgrade {
        revision: history.next_revision(),
        base: history.deployed().unwrap_or(newest).revision,
    }
}

fn pending(history: &History, newest: &Revision, context: &RecoverContext<'_>) -> NextAction {
    if !is_held_by(newest, context.holder) {
        return foreign(history, newest, context);
    }
    let digest = newest.annotations.get(DIGEST).map(String::as_str);
    let has_same_inputs = context.digest.is_some() && digest == context.digest;
    let action = match newest.status {
        Status::PendingRollback => Interrupted::Rollback,
        Status::PendingInstall if has_same_inputs => Interrupted::Install,
        Status::PendingUpgrade if has_same_inputs => Interrupted::Upgrade,
        _ => return upgrade(history, newest),
    };
    NextAction::Resume {
        revision: newest.revision,
        action,
        base: base_before(history, newest.revision),
    }
}

fn is_held_by(revision: &Revision, holder: &str) -> bool {
    revision.annotations.get(HOLDER).map(String::as_str) == Some(holder)
}

fn foreign(history: &History, newest: &Revision, context: &RecoverContext<'_>) -> NextAction {
    let until = newest
        .touched_at
        .checked_add(context.patience)
        .unwrap_or(Timestamp::MAX);
    if context.now < until {
        return NextAction::Wait {
            revision: newest.revision,
            until,
        };
    }
    upgrade(history, newest)
}

/// What an interrupted revision started from: the newest deployed one, or else the one before it.
fn base_before(history: &History, revision: i64) -> Option<i64> {
    let deployed = history.deployed().map(|found| found.revision);
    let previous = history
        .revisions()
        .iter()
        .rev()
        .find(|found| found.revision < revision);
    deployed.or(previous.map(|found| found.revision))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn context() -> RecoverContext<'static> {
        RecoverContext {
            now: second(1000),
            holder: "me",
            digest: Some("d1"),
            patience: Duration::from_secs(600),
        }
    }

    /// A record that nobody has signed, written long ago.
    fn old(revision: i64, status: Status) -> Revision {
        Revision {
            revision,
            status,
            touched_at: second(100),
            ..Revision::default()
        }
    }

    fn ours(revision: i64, status: Status, digest: &str) -> Revision {
        Revision {
            annotations: BTreeMap::from([
                (HOLDER.to_owned(), "me".to_owned()),
                (DIGEST.to_owned(), digest.to_owned()),
            ]),
            ..old(revision, status)
        }
    }

    fn fresh(revision: i64, status: Status) -> Revision {
        Revision {
            touched_at: second(900),
            ..old(revision, status)
        }
    }

    fn install(revision: i64, replaces: Option<i64>) -> NextAction {
        NextAction::Install { revision, replaces }
    }

    fn up(revision: i64, base: i64) -> NextAction {
        NextAction::Upgrade { revision, base }
    }

    fn resume(revision: i64, action: Interrupted, base: Option<i64>) -> NextAction {
        NextAction::Resume {
            revision,
            action,
            base,
        }
    }

    fn wait(revision: i64) -> NextAction {
        NextAction::Wait {
            revision,
            until: second(1500),
        }
    }

    type Row = (&'static str, Vec<Revision>, NextAction, Vec<i64>, Vec<i64>);

    fn table() -> Vec<Row> {
        use Status::{
            Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded,
            Uninstalled, Uninstalling, Unknown,
        };
        vec![
            ("no history", vec![], install(1, None), vec![], vec![]),
            ("deployed", vec![old(1, Deployed)], up(2, 1), vec![], vec![]),
            (
                "uninstalled, history kept",
                vec![old(3, Uninstalled)],
                install(4, Some(3)),
                vec![],
                vec![],
            ),
            (
                "half uninstalled",
                vec![old(1, Superseded), old(2, Uninstalling)],
                up(3, 2),
                vec![],
                vec![],
            ),
            (
                "failed first install",
                vec![old(1, Failed)],
                up(2, 1),
                vec![],
                vec![],
            ),
            (
                "failed upgrade",
                vec![old(1, Deployed), old(2, Failed)],
                up(3, 1),
                vec![],
                vec![],
            ),
            (
                "unknown state",
                vec![old(1, Unknown)],
                up(2, 1),
                vec![],
                vec![],
            ),
            (
                "nothing deployed, one superseded",
                vec![old(1, Superseded)],
                up(2, 1),
                vec![],
                vec![],
            ),
            (
                "superseded and failed",
                vec![old(1, Superseded), old(2, Failed)],
                up(3, 2),
                vec![],
                vec![],
            ),
            (
                "our install, interrupted",
                vec![ours(1, PendingInstall, "d1")],
                resume(1, Interrupted::Install, None),
                vec![],
                vec![],
            ),
            (
                "our install over a kept history, interrupted",
                vec![old(1, Uninstalled), ours(2, PendingInstall, "d1")],
                resume(2, Interrupted::Install, Some(1)),
                vec![],
                vec![],
            ),
            (
                "our install, interrupted, other inputs now",
                vec![ours(1, PendingInstall, "d0")],
                up(2, 1),
                vec![1],
                vec![],
            ),
            (
                "our upgrade, interrupted",
                vec![old(1, Deployed), ours(2, PendingUpgrade, "d1")],
                resume(2, Interrupted::Upgrade, Some(1)),
                vec![],
                vec![],
            ),
            (
                "our upgrade over a failed revision, interrupted",
                vec![old(1, Failed), ours(2, PendingUpgrade, "d1")],
                resume(2, Interrupted::Upgrade, Some(1)),
                vec![],
                vec![],
            ),
            (
                "our upgrade, interrupted, other inputs now",
                vec![old(1, Deployed), ours(2, PendingUpgrade, "d0")],
                up(3, 1),
                vec![2],
                vec![],
            ),
            (
                "our upgrade, interrupted between its last two writes",
                vec![old(1, Deployed), ours(2, Deployed, "d1")],
                up(3, 2),
                vec![],
                vec![1],
            ),
            (
                "an upgrade of Helm's order, interrupted between its last two writes",
                vec![old(1, Superseded), ours(2, PendingUpgrade, "d1")],
                resume(2, Interrupted::Upgrade, Some(1)),
                vec![],
                vec![],
            ),
            (
                "our rollback, interrupted",
                vec![
                    old(1, Superseded),
                    old(2, Deployed),
                    ours(3, PendingRollback, "d0"),
                ],
                resume(3, Interrupted::Rollback, Some(2)),
                vec![],
                vec![],
            ),
            (
                "another client's install in progress",
                vec![fresh(1, PendingInstall)],
                wait(1),
                vec![],
                vec![],
            ),
            (
                "another client's upgrade in progress",
                vec![old(1, Deployed), fresh(2, PendingUpgrade)],
                wait(2),
                vec![],
                vec![],
            ),
            (
                "another client's install, given up",
                vec![old(1, PendingInstall)],
                up(2, 1),
                vec![1],
                vec![],
            ),
            (
                "another client's upgrade, given up",
                vec![old(1, Deployed), old(2, PendingUpgrade)],
                up(3, 1),
                vec![2],
                vec![],
            ),
            (
                "another client's rollback, given up",
                vec![
                    old(1, Superseded),
                    old(2, Deployed),
                    old(3, PendingRollback),
                ],
                up(4, 2),
                vec![3],
                vec![],
            ),
            (
                "a pending revision under a deployed one",
                vec![old(1, PendingUpgrade), old(2, Deployed)],
                up(3, 2),
                vec![1],
                vec![],
            ),
            (
                "two pending revisions, the newer ours",
                vec![
                    old(1, Deployed),
                    old(2, PendingUpgrade),
                    ours(3, PendingUpgrade, "d1"),
                ],
                resume(3, Interrupted::Upgrade, Some(1)),
                vec![2],
                vec![],
            ),
            (
                "another client's uninstall, perhaps under way",
                vec![Revision {
                    touched_at: second(999),
                    ..old(1, Uninstalling)
                }],
                NextAction::Wait {
                    revision: 1,
                    until: second(1599),
                },
                vec![],
                vec![],
            ),
            (
                "three deployed revisions",
                vec![old(1, Deployed), old(2, Deployed), old(3, Deployed)],
                up(4, 3),
                vec![],
                vec![1, 2],
            ),
        ]
    }

    #[test]
    fn every_state_of_a_release_has_a_way_on() {
        for (name, revisions, next, abandon, supersede) in table() {
            let plan = recover(&History::new(revisions), &context());
            let expected = RecoveryPlan {
                abandon,
                supersede,
                next,
            };
            assert_eq!(plan, expected, "{name}");
        }
    }

    #[test]
    fn without_inputs_an_interrupted_upgrade_is_not_gone_on_with() {
        let history = History::new(vec![ours(1, Status::PendingInstall, "d1")]);
        let context = RecoverContext {
            digest: None,
            ..context()
        };
        assert_eq!(recover(&history, &context).next, up(2, 1));
    }

    fn any_revision() -> impl Strategy<Value = (Status, bool, bool, bool)> {
        (
            prop::sample::select(Status::ALL.to_vec()),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        )
    }

    proptest! {
        #[test]
        fn a_carried_out_plan_leaves_one_deployed_and_nothing_pending(
            states in prop::collection::vec(any_revision(), 0..8)
        ) {
            let revisions = states.iter().zip(1..).map(|(&(status, signed, same, recent), number)| {
                let digest = if same { "d1" } else { "d0" };
                let base = if signed { ours(number, status, digest) } else { old(number, status) };
                if recent { Revision { touched_at: second(999), ..base } } else { base }
            });
            let mut history = History::new(revisions.collect());
            let plan = recover(&history, &context());
            for revision in &plan.abandon {
                history.set_status(*revision, Status::Failed);
            }
            for revision in &plan.supersede {
                history.set_status(*revision, Status::Superseded);
            }
            let deployed = history.revisions().iter().filter(|found| found.status == Status::Deployed);
            prop_assert!(deployed.count() <= 1);
            let newest = history.newest().map(|found| found.revision);
            let pending: Vec<_> = history.revisions().iter()
                .filter(|found| {
                    let is_going = found.status == Status::Uninstalling
                        && matches!(plan.next, NextAction::Wait { .. })
                        && Some(found.revision) == newest;
                    found.status.is_pending() || is_going
                })
                .map(|found| found.revision)
                .collect();
            match plan.next {
                NextAction::Resume { revision, .. } | NextAction::Wait { revision, .. } => {
                    prop_assert_eq!(pending, [revision]);
                }
                NextAction::Install { revision, .. } | NextAction::Upgrade { revision, .. } => {
                    prop_assert!(pending.is_empty());
                    prop_assert_eq!(revision, history.next_revision());
                }
            }
            // What was mended needs no mending.
            let again = recover(&history, &context());
            prop_assert!(again.abandon.is_empty() && again.supersede.is_empty());
        }
    }
}

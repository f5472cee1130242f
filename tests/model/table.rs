//! The decision tables of `recover` and `decide`: every combination of facts is covered by a row, every row by a
//! combination, and what the functions say is what the row says.
//!
//! The rows are tried in their order; the first whose condition holds counts.

use std::collections::BTreeMap;
use std::time::Duration;

use helm_engine::Status;
use helm_kube::{
    DIGEST, HOLDER, History, Interrupted, NextAction, RecoverContext, RecoveryPlan, Revision,
    recover,
};
use helm_operator::api::ANTECEDENT_ANNOTATION;
use helm_operator::operator::{Action, Attempt, Desired, decide};
use jiff::Timestamp;

use crate::charts::OWNER;

/// Who or what something is: what is wanted, something else, or nobody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Wanted,
    Other,
    Unsaid,
}

impl Is {
    const ALL: [Self; 3] = [Self::Wanted, Self::Other, Self::Unsaid];

    fn digest(self) -> Option<&'static str> {
        match self {
            Self::Wanted => Some("wanted"),
            Self::Other => Some("other"),
            Self::Unsaid => None,
        }
    }
}

/// Every status; a new one does not compile until it is added here.
fn statuses() -> Vec<Status> {
    let mut all = vec![Status::Unknown];
    while let Some(next) = after(*all.last().unwrap()) {
        all.push(next);
    }
    all
}

fn after(status: Status) -> Option<Status> {
    Some(match status {
        Status::Unknown => Status::Deployed,
        Status::Deployed => Status::Uninstalled,
        Status::Uninstalled => Status::Superseded,
        Status::Superseded => Status::Failed,
        Status::Failed => Status::Uninstalling,
        Status::Uninstalling => Status::PendingInstall,
        Status::PendingInstall => Status::PendingUpgrade,
        Status::PendingUpgrade => Status::PendingRollback,
        Status::PendingRollback => return None,
    })
}

/// What the newest record is like, and the one below it.
#[derive(Clone, Copy, Debug)]
struct Records {
    newest: Option<Status>,
    below: Option<Status>,
    owner: Is,
    holder: Is,
    digest: Is,
    /// It was written a moment ago.
    is_fresh: bool,
}

const BOTH: [bool; 2] = [false, true];

impl Records {
    fn all() -> Vec<Self> {
        let options = || std::iter::once(None).chain(statuses().into_iter().map(Some));
        let mut all = Vec::new();
        for newest in options() {
            for below in options() {
                // Below nothing there is nothing.
                if newest.is_none() && below.is_some() {
                    continue;
                }
                for owner in Is::ALL {
                    for holder in Is::ALL {
                        for digest in Is::ALL {
                            all.extend(BOTH.map(|is_fresh| Self {
                                newest,
                                below,
                                owner,
                                holder,
                                digest,
                                is_fresh,
                            }));
                        }
                    }
                }
            }
        }
        all
    }

    fn history(&self) -> History {
        let mut revisions = Vec::new();
        if let Some(status) = self.below {
            revisions.push(Revision {
                revision: 1,
                status,
                ..Revision::default()
            });
        }
        if let Some(status) = self.newest {
            let mut annotations = BTreeMap::new();
            let mut note = |key: &str, is: Is, wanted: &str| {
                let text = match is {
                    Is::Wanted => wanted,
                    Is::Other => "other",
                    Is::Unsaid => return,
                };
                annotations.insert(key.to_owned(), text.to_owned());
            };
            note(ANTECEDENT_ANNOTATION, self.owner, OWNER);
            note(HOLDER, self.holder, "me");
            note(DIGEST, self.digest, "wanted");
            revisions.push(Revision {
                revision: 2,
                status,
                annotations,
                touched_at: second(if self.is_fresh { 900 } else { 100 }),
                ..Revision::default()
            });
        }
        History::new(revisions)
    }

    fn plan(&self, history: &History) -> RecoveryPlan {
        recover(
            history,
            &RecoverContext {
                now: second(1000),
                holder: "me",
                digest: Some("wanted"),
                patience: Duration::from_secs(600),
            },
        )
    }

    fn is(&self, status: Status) -> bool {
        self.newest == Some(status)
    }

    fn is_pending(&self) -> bool {
        self.newest.is_some_and(Status::is_pending)
    }

    /// A pending record of ours that is made of what is wanted now.
    fn is_ours_of(&self, status: Status) -> bool {
        self.is(status) && self.holder == Is::Wanted && self.digest == Is::Wanted
    }

    /// Whether there is something to roll back to.
    fn has_good(&self) -> bool {
        matches!(self.below, Some(Status::Deployed | Status::Superseded))
    }

    /// The revision whose objects are in the cluster.
    fn base(&self) -> i64 {
        let is_below = self.below == Some(Status::Deployed) && !self.is(Status::Deployed);
        if is_below { 1 } else { 2 }
    }
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A row: its name, its condition, and what is expected.
type Row<F, T> = (&'static str, fn(&F) -> bool, fn(&F) -> T);

/// The row for a combination of facts; that it was used is noted.
fn row<'a, F: std::fmt::Debug, T>(
    rows: &'a [Row<F, T>],
    used: &mut [bool],
    facts: &F,
) -> &'a Row<F, T> {
    let at = rows.iter().position(|(_, holds, _)| holds(facts));
    let at = at.unwrap_or_else(|| panic!("no row for {facts:?}"));
    used[at] = true;
    &rows[at]
}

fn check_used<F, T>(rows: &[Row<F, T>], used: &[bool]) {
    for ((name, ..), used) in rows.iter().zip(used) {
        assert!(used, "nothing comes to the row {name:?}");
    }
}

const RECOVERY: [Row<Records, NextAction>; 9] = [
    (
        "nothing is there",
        |it| it.newest.is_none(),
        |_| NextAction::Install {
            revision: 1,
            replaces: None,
        },
    ),
    (
        "uninstalled, the history kept",
        |it| it.is(Status::Uninstalled),
        |_| NextAction::Install {
            revision: 3,
            replaces: Some(2),
        },
    ),
    (
        "another client may be uninstalling",
        |it| it.is(Status::Uninstalling) && it.holder != Is::Wanted && it.is_fresh,
        |_| NextAction::Wait {
            revision: 2,
            until: second(1500),
        },
    ),
    (
        "at rest, in whatever state",
        |it| !it.is_pending(),
        |it| NextAction::Upgrade {
            revision: 3,
            base: it.base(),
        },
    ),
    (
        "our rollback was interrupted",
        |it| it.is(Status::PendingRollback) && it.holder == Is::Wanted,
        |it| resumed(it, Interrupted::Rollback),
    ),
    (
        "our install was interrupted",
        |it| it.is_ours_of(Status::PendingInstall),
        |it| resumed(it, Interrupted::Install),
    ),
    (
        "our upgrade was interrupted",
        |it| it.is_ours_of(Status::PendingUpgrade),
        |it| resumed(it, Interrupted::Upgrade),
    ),
    (
        "another client may be at work",
        |it| it.holder != Is::Wanted && it.is_fresh,
        |_| NextAction::Wait {
            revision: 2,
            until: second(1500),
        },
    ),
    (
        "ours for other inputs, or another client's and given up",
        |it| it.is_pending(),
        |it| NextAction::Upgrade {
            revision: 3,
            base: it.base(),
        },
    ),
];

fn resumed(records: &Records, action: Interrupted) -> NextAction {
    NextAction::Resume {
        revision: 2,
        action,
        base: records.below.map(|_| 1),
    }
}

#[test]
fn recover_says_what_its_table_says_in_every_state() {
    let mut used = [false; RECOVERY.len()];
    let all = Records::all();
    for records in &all {
        let (name, _, expected) = row(&RECOVERY, &mut used, records);
        let plan = records.plan(&records.history());
        assert_eq!(plan.next, expected(records), "{name}: {records:?}");
        check_mending(records, &plan);
    }
    check_used(&RECOVERY, &used);
    println!("{} states, {} rows", all.len(), RECOVERY.len());
}

/// What is pending and not gone on with is given up; of two that are deployed the older one is superseded.
fn check_mending(records: &Records, plan: &RecoveryPlan) {
    let mut abandon = Vec::new();
    if records.below.is_some_and(Status::is_pending) {
        abandon.push(1);
    }
    if records.is_pending() && matches!(plan.next, NextAction::Upgrade { .. }) {
        abandon.push(2);
    }
    assert_eq!(plan.abandon, abandon, "{records:?}");
    let is_double = records.is(Status::Deployed) && records.below == Some(Status::Deployed);
    let supersede = if is_double { vec![1] } else { Vec::new() };
    assert_eq!(plan.supersede, supersede, "{records:?}");
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
struct Facts {
    records: Records,
    next: NextAction,
    rollback: bool,
    test: bool,
    /// What was tried last.
    tried: Is,
    has_failed: bool,
    stalled: bool,
    renewed: bool,
    succeeded: Is,
    /// What a comparison has found the newest record to be.
    adopted: Is,
}

impl Facts {
    /// These inputs failed for good, and nothing has changed since.
    fn is_held(&self) -> bool {
        self.tried == Is::Wanted && self.stalled && !self.renewed
    }

    /// The digest of the newest record, its own or found out.
    fn found(&self) -> Is {
        match self.records.digest {
            Is::Unsaid => self.adopted,
            said => said,
        }
    }

    fn is_install(&self) -> bool {
        matches!(self.next, NextAction::Install { .. })
    }

    fn is_deployed(&self, digest: Is) -> bool {
        self.records.is(Status::Deployed) && self.found() == digest
    }

    /// The tests are asked for, and have not gone well.
    fn is_untested(&self) -> bool {
        self.test && self.succeeded != Is::Wanted
    }

    /// An attempt at these inputs has failed, its record says so, and there is something to go back to.
    fn is_to_roll_back(&self) -> bool {
        self.rollback
            && !self.renewed
            && self.tried == Is::Wanted
            && self.has_failed
            && self.records.is(Status::Failed)
            && self.records.digest == Is::Wanted
            && self.records.has_good()
    }

    fn decide(&self, history: &History) -> Action {
        let desired = Desired {
            digest: "wanted",
            owner: OWNER,
            rollback: self.rollback,
            test: self.test,
        };
        let attempt = Attempt {
            digest: self.tried.digest(),
            succeeded: self.succeeded.digest(),
            failures: u32::from(self.has_failed),
            stalled: self.stalled,
            renewed: self.renewed,
            inherited: false,
        };
        decide(desired, history, attempt, self.next, self.adopted.digest())
    }
}

const DECISION: [Row<Facts, Action>; 15] = [
    (
        "the release is another object's",
        |it| it.records.newest.is_some() && it.records.owner == Is::Other,
        |_| Action::Refuse,
    ),
    (
        "another client may be at work",
        |it| matches!(it.next, NextAction::Wait { .. }),
        |_| Action::WaitUntil(second(1500)),
    ),
    (
        "an action of ours was interrupted",
        |it| matches!(it.next, NextAction::Resume { .. }),
        |it| match it.next {
            NextAction::Resume { action, .. } => Action::Resume(action),
            _ => unreachable!("the row is for nothing else"),
        },
    ),
    (
        "an install that failed for good",
        |it| it.is_install() && it.is_held(),
        |_| Action::Hold,
    ),
    ("an install", Facts::is_install, |_| Action::Install),
    (
        "deployed by another client, not yet compared",
        |it| it.is_deployed(Is::Unsaid),
        |_| Action::Compare,
    ),
    (
        "deployed, its tests failed for good",
        |it| it.is_deployed(Is::Wanted) && it.is_untested() && it.is_held(),
        |_| Action::Hold,
    ),
    (
        "deployed and not tested",
        |it| it.is_deployed(Is::Wanted) && it.is_untested(),
        |_| Action::Test,
    ),
    (
        "deployed",
        |it| it.is_deployed(Is::Wanted),
        |_| Action::Nothing,
    ),
    ("failed, to be rolled back", Facts::is_to_roll_back, |_| {
        Action::RollBack
    }),
    (
        "an install whose tests failed, half taken back",
        |it| it.records.is(Status::Uninstalling) && it.is_held(),
        |_| Action::TakeBack,
    ),
    ("an upgrade that failed for good", Facts::is_held, |_| {
        Action::Hold
    }),
    (
        "something else is deployed",
        |it| it.is_deployed(Is::Other),
        |_| Action::Upgrade,
    ),
    (
        "failed",
        |it| it.records.is(Status::Failed),
        |_| Action::Upgrade,
    ),
    (
        "neither deployed nor failed",
        |it| matches!(it.next, NextAction::Upgrade { .. }),
        |_| Action::Upgrade,
    ),
];

fn all_facts(records: Records, next: NextAction) -> impl Iterator<Item = Facts> {
    let flags = (0_u8..32).map(|bits| move |bit: u8| bits >> bit & 1 == 1);
    flags.flat_map(move |flag| {
        let ways = Is::ALL.into_iter().flat_map(|tried| {
            Is::ALL
                .into_iter()
                .flat_map(move |succeeded| Is::ALL.map(move |adopted| (tried, succeeded, adopted)))
        });
        ways.map(move |(tried, succeeded, adopted)| Facts {
            records,
            next,
            rollback: flag(0),
            test: flag(1),
            tried,
            has_failed: flag(2),
            stalled: flag(3),
            renewed: flag(4),
            succeeded,
            adopted,
        })
    })
}

#[test]
fn decide_says_what_its_table_says_in_every_state() {
    let mut used = [false; DECISION.len()];
    let mut count = 0;
    for records in Records::all() {
        let history = records.history();
        let next = records.plan(&history).next;
        for facts in all_facts(records, next) {
            let (name, _, expected) = row(&DECISION, &mut used, &facts);
            assert_eq!(
                facts.decide(&history),
                expected(&facts),
                "{name}: {facts:?}"
            );
            count += 1;
        }
    }
    check_used(&DECISION, &used);
    println!("{count} states, {} rows", DECISION.len());
}

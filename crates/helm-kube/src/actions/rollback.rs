//! Rollback: an earlier revision's manifest becomes that of a new one.

use std::collections::BTreeMap;

use helm_engine::record::ApplyMethod;
use helm_engine::{Release, Status};

use super::ActionResult;
use super::finish::{Work, WorkKind};
use super::uninstall::in_progress;
use crate::error::{ActionError, Reason};
use crate::hooks::reset_runs;
use crate::machine::Machine;
use crate::object;
use crate::options::Options;
use crate::recover::{NextAction, RecoveryPlan};
use crate::release::ReleaseKey;
use crate::request::Failure;
use crate::session::Session;
use crate::storage::{HOLDER, History, ObjectVersion, Stored};

/// A rollback.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// The release.
    pub release: ReleaseKey,
    /// Its history.
    pub history: History,
    /// What [`recover`](crate::recover) says about that history: what is to be mended is mended
    /// first; the way on does not matter.
    pub plan: RecoveryPlan,
    /// The revision to go back to; `None` means the newest one before the current that was
    /// deployed once.
    pub to: Option<i64>,
    /// A sentence for the record, instead of `Rollback to N`.
    pub description: Option<String>,
    /// More annotations of the record.
    pub annotations: BTreeMap<String, String>,
    /// How.
    pub options: Options,
}

/// Rolls a release back. Nothing is rendered: the objects, hooks, values and notes are those of
/// the earlier revision.
#[must_use]
pub fn rollback(rollback: Rollback) -> Machine<ActionResult> {
    Machine::new(|port| async move {
        let mut history = rollback.history.clone();
        let target = rollback_target(&rollback)?;
        let plan = without_pending(&rollback)?;
        let newest = history.newest().map_or(0, |newest| newest.revision);
        let mut session =
            Session::open(port, rollback.release.clone(), rollback.options.clone()).await?;
        session.mend(&mut history, &plan).await?;
        let earlier = session.storage.get(&session.port, target).await?;
        let base = history
            .deployed()
            .map_or(newest, |deployed| deployed.revision);
        let base = match base == target {
            true => None,
            false => session.readable(base).await?,
        };
        let base = base.unwrap_or_else(|| earlier.clone());
        let record = draft(&session, &rollback, earlier, &base, newest + 1);
        let objects = object::parse(&record.release.manifest)?;
        let targets = session.place(objects).await?;
        let present = session.leftovers(&history, Some(&base)).await?;
        let keep = [target, base.release.revision];
        session.prune(&mut history, &keep).await?;
        let mut work = Work::new(
            WorkKind::Rollback,
            record,
            Some(base),
            history,
            present,
            targets,
        );
        let created = session
            .storage
            .create(&session.port, &mut work.record)
            .await;
        created.map_err(|failure| match &failure {
            Failure::Status(status) if status.is_already_exists() => {
                session.storage.changed(newest + 1)
            }
            _ => ActionError::from_failure("create the release record", &failure),
        })?;
        work.run(session).await
    })
}

/// The plan, with what was interrupted given up: something else is wanted now. Another client's
/// work is not interfered with.
fn without_pending(rollback: &Rollback) -> Result<RecoveryPlan, ActionError> {
    let mut plan = rollback.plan.clone();
    match plan.next {
        NextAction::Resume { revision, .. } => plan.abandon.push(revision),
        NextAction::Wait { revision, until } => {
            return Err(in_progress(&rollback.release, revision, until));
        }
        NextAction::Install { .. } | NextAction::Upgrade { .. } => {}
    }
    Ok(plan)
}

/// The revision that a rollback would go back to.
///
/// # Errors
/// There is no such revision.
pub fn rollback_target(rollback: &Rollback) -> Result<i64, ActionError> {
    let missing = |text: String| ActionError::new(Reason::ReleaseNotFound, text);
    let Some(newest) = rollback.history.newest() else {
        return Err(missing(format!("release: not found: {}", rollback.release)));
    };
    match rollback.to {
        Some(to) if rollback.history.get(to).is_some() => Ok(to),
        Some(to) => Err(missing(format!("release has no {to} version"))),
        None => rollback
            .history
            .last_good_before(newest.revision)
            .map(|found| found.revision)
            .ok_or_else(|| {
                missing(format!(
                    "release {} has no earlier deployed revision",
                    rollback.release
                ))
            }),
    }
}

fn draft(
    session: &Session,
    rollback: &Rollback,
    earlier: Stored,
    base: &Stored,
    revision: i64,
) -> Stored {
    let now = session.port.now();
    let target = earlier.release.revision;
    let mut release = Release {
        revision,
        apply_method: Some(ApplyMethod::ServerSide),
        ..earlier.release
    };
    reset_runs(&mut release.hooks);
    let info = &mut release.info;
    info.first_deployed = base.release.info.first_deployed.or(info.first_deployed);
    info.last_deployed = Some(now);
    info.deleted = None;
    info.status = Status::PendingRollback;
    info.rollback_revision = target;
    info.description = match &rollback.description {
        Some(description) => description.clone(),
        None => format!("Rollback to {target}"),
    };
    let mut annotations = rollback.annotations.clone();
    annotations.insert(HOLDER.to_owned(), session.options.holder.clone());
    Stored {
        release,
        annotations,
        version: ObjectVersion::default(),
    }
}

//! Uninstall: objects go first, records last, and every step may be taken twice.

use helm_engine::{HookEvent, Status};
use jiff::Timestamp;

use crate::error::{ActionError, Reason};
use crate::hooks::HookFilter;
use crate::machine::Machine;
use crate::object::{self, KeySet, Object};
use crate::options::{Options, WaitFor};
use crate::outcome::Report;
use crate::recover::{NextAction, RecoveryPlan};
use crate::release::ReleaseKey;
use crate::session::Session;
use crate::storage::{HOLDER, History, Stored};
use crate::wait;

/// An uninstall.
#[derive(Clone, Debug)]
pub struct Uninstall {
    /// The release.
    pub release: ReleaseKey,
    /// Its history.
    pub history: History,
    /// What [`recover`](crate::recover) says about that history. It may say to wait for another
    /// client.
    pub plan: RecoveryPlan,
    /// Keep the records.
    pub keep_history: bool,
    /// A sentence for the kept record, instead of `Uninstallation complete`.
    pub description: Option<String>,
    /// How. With [`WaitFor::Nothing`] it is not waited until the objects are gone.
    pub options: Options,
}

/// What an uninstall has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Uninstalled {
    /// The record as it was last; `None` if there was none.
    pub release: Option<helm_engine::Release>,
    /// What was done: deleted objects, and those that were kept or are not the release's.
    pub report: Report,
}

/// Uninstalls a release. It can be repeated until it succeeds: it goes on from `uninstalling`,
/// and a release that is gone is uninstalled already.
#[must_use]
pub fn uninstall(uninstall: Uninstall) -> Machine<Result<Uninstalled, ActionError>> {
    Machine::new(|port| async move {
        let session = Session::open(port, uninstall.release.clone(), uninstall.options.clone());
        run(session.await?, uninstall).await
    })
}

async fn run(mut session: Session, uninstall: Uninstall) -> Result<Uninstalled, ActionError> {
    let mut history = uninstall.history.clone();
    let Some(newest) = history.newest().cloned() else {
        return Ok(Uninstalled {
            release: None,
            report: session.report,
        });
    };
    if let NextAction::Wait { revision, until } = uninstall.plan.next {
        return Err(in_progress(&session.release, revision, until));
    }
    let mut record = newest_readable(&mut session, &history).await?;
    if newest.status == Status::Uninstalled {
        return end(session, uninstall, history, record).await;
    }
    session.mend(&mut history, &uninstall.plan).await?;
    if newest.status != Status::Uninstalling {
        if record.release.info.status.is_pending() {
            // Mending has written it.
            record = session
                .storage
                .get(&session.port, record.release.revision)
                .await?;
        }
        begin(&mut session, &mut record).await?;
    }
    let since = record.release.info.deleted.unwrap_or_default();
    run_hooks(&mut session, &mut record, HookEvent::PreDelete, since).await?;
    let objects = all_objects(&mut session, &history, &record).await?;
    let gone = session.remove(objects, true).await?;
    if session.options.wait != WaitFor::Nothing {
        let deadline = session.deadline();
        wait::until_gone(&session.port, gone, deadline).await?;
    }
    run_hooks(&mut session, &mut record, HookEvent::PostDelete, since).await?;
    end(session, uninstall, history, record).await
}

/// The newest record that can be read: it says what there is to delete.
async fn newest_readable(session: &mut Session, history: &History) -> Result<Stored, ActionError> {
    for found in history.revisions().iter().rev() {
        if let Some(stored) = session.readable(found.revision).await? {
            return Ok(stored);
        }
    }
    Err(ActionError::new(
        Reason::InvalidRecord,
        format!(
            "no record of release {} can be read: delete its objects and its records by hand",
            session.release
        ),
    ))
}

/// The failure of an action that another client's stands in the way of.
pub(super) fn in_progress(release: &ReleaseKey, revision: i64, until: Timestamp) -> ActionError {
    ActionError::new(
        Reason::OperationInProgress,
        format!(
            "another operation (install/upgrade/rollback) is in progress: revision {revision} of \
             {release} is left alone until {until}"
        ),
    )
}

/// Notes that the uninstall has begun, and by whom: another client may have made the record, and after a crash we have
/// to know that it is ours to go on with. Forgets former runs of its hooks.
async fn begin(session: &mut Session, record: &mut Stored) -> Result<(), ActionError> {
    let holder = session.options.holder.clone();
    record.annotations.insert(HOLDER.to_owned(), holder);
    record.release.info.deleted = Some(session.port.now());
    let description = "Deletion in progress (or silently failed)";
    session
        .storage
        .settle(
            &session.port,
            record,
            Status::Uninstalling,
            Some(description),
        )
        .await
}

async fn run_hooks(
    session: &mut Session,
    record: &mut Stored,
    event: HookEvent,
    since: Timestamp,
) -> Result<(), ActionError> {
    if !session.options.hooks {
        return Ok(());
    }
    session
        .run_hooks(record, event, since, &HookFilter::default())
        .await
}

/// The objects of the newest revision, those of the deployed one, and those of failed ones.
async fn all_objects(
    session: &mut Session,
    history: &History,
    record: &Stored,
) -> Result<Vec<Object>, ActionError> {
    let deployed = history.deployed().map(|deployed| deployed.revision);
    let base = match deployed.filter(|deployed| *deployed != record.release.revision) {
        Some(deployed) => session.readable(deployed).await?,
        None => None,
    };
    let base = base.as_ref().unwrap_or(record);
    let mut objects = session.leftovers(history, Some(base)).await?;
    let own = object::parse(&record.release.manifest);
    objects.extend(own.map_err(|error| {
        error.context("corrupted release record, delete its objects and the record by hand")
    })?);
    let mut seen = KeySet::default();
    objects.retain(|object| seen.insert(&session.key_of(object)));
    Ok(objects)
}

/// The end: the records are deleted, the newest last, so that a crash leaves one to go on from;
/// or they are kept.
async fn end(
    session: Session,
    uninstall: Uninstall,
    history: History,
    mut record: Stored,
) -> Result<Uninstalled, ActionError> {
    if uninstall.keep_history {
        if record.release.info.status != Status::Uninstalled {
            let text = uninstall
                .description
                .as_deref()
                .unwrap_or("Uninstallation complete");
            let storage = &session.storage;
            storage
                .settle(&session.port, &mut record, Status::Uninstalled, Some(text))
                .await?;
        }
        let newest = record.release.revision;
        for found in history.revisions() {
            if found.status == Status::Deployed && found.revision != newest {
                let storage = &session.storage;
                storage
                    .set_status(&session.port, found.revision, Status::Superseded, None)
                    .await?;
            }
        }
    } else {
        for found in history.revisions() {
            session
                .storage
                .delete(&session.port, found.revision)
                .await?;
        }
    }
    Ok(Uninstalled {
        release: Some(record.release),
        report: session.report,
    })
}

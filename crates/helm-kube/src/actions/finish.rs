//! What install, upgrade and rollback have in common once their record is there: hooks, objects,
//! waiting, hooks, and the last writes. It begins the same way for a new record and for one that
//! a crash has left behind.

use helm_engine::record::ApplyMethod;
use helm_engine::{HookEvent, Status};

use super::ActionResult;
use super::deploy::{DESCRIPTION, began};
use crate::apply::{Created, Expect, Interruption, Target, subject};
use crate::error::{ActionError, Reason};
use crate::hooks::HookFilter;
use crate::object::{self, KeySet, Object, ObjectKey, Resource};
use crate::options::WaitFor;
use crate::outcome::Outcome;
use crate::recover::Interrupted;
use crate::session::Session;
use crate::storage::{History, Stored};
use crate::wait::{self, Goal};

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// An install.
    Install {
        /// The uninstalled revision that it supersedes.
        replaces: Option<i64>,
    },
    /// An upgrade.
    Upgrade,
    /// A rollback.
    Rollback,
}

impl WorkKind {
    pub(super) fn is_install(self) -> bool {
        matches!(self, Self::Install { .. })
    }

    pub(super) fn pending(self) -> Status {
        match self {
            Self::Install { .. } => Status::PendingInstall,
            Self::Upgrade => Status::PendingUpgrade,
            Self::Rollback => Status::PendingRollback,
        }
    }

    pub(super) fn underway(self) -> &'static str {
        match self {
            Self::Install { .. } => "Initial install underway",
            Self::Upgrade => "Preparing upgrade",
            Self::Rollback => "Rollback underway",
        }
    }

    fn complete(self) -> &'static str {
        match self {
            Self::Install { .. } => "Install complete",
            Self::Upgrade => "Upgrade complete",
            Self::Rollback => "Rollback complete",
        }
    }

    pub(super) fn unable(self) -> &'static str {
        match self {
            Self::Install { .. } => "unable to continue with install",
            Self::Upgrade | Self::Rollback => "unable to continue with update",
        }
    }

    fn before(self) -> HookEvent {
        match self {
            Self::Install { .. } => HookEvent::PreInstall,
            Self::Upgrade => HookEvent::PreUpgrade,
            Self::Rollback => HookEvent::PreRollback,
        }
    }

    fn after(self) -> HookEvent {
        match self {
            Self::Install { .. } => HookEvent::PostInstall,
            Self::Upgrade => HookEvent::PostUpgrade,
            Self::Rollback => HookEvent::PostRollback,
        }
    }

    fn failed(self, name: &str, error: &ActionError) -> String {
        match self {
            Self::Install { .. } => format!("Release \"{name}\" failed: {error}"),
            Self::Upgrade => format!("Upgrade \"{name}\" failed: {error}"),
            Self::Rollback => format!("Rollback \"{name}\" failed: {error}"),
        }
    }
}

/// A revision under way.
pub(super) struct Work {
    kind: WorkKind,
    /// The pending record.
    pub(super) record: Stored,
    /// The revision that it started from.
    pub(super) base: Option<Stored>,
    /// The history, without the pending record.
    pub(super) history: History,
    /// Objects that are in the cluster for this release.
    present: Vec<Object>,
    /// Objects to bring about.
    targets: Vec<Target>,
    /// The record was created by this very run.
    is_new: bool,
}

impl Work {
    pub(super) fn new(
        kind: WorkKind,
        record: Stored,
        base: Option<Stored>,
        history: History,
        present: Vec<Object>,
        targets: Vec<Target>,
    ) -> Self {
        Self {
            kind,
            record,
            base,
            history,
            present,
            targets,
            is_new: true,
        }
    }

    /// Takes up a record that was left pending.
    pub(super) async fn resume(
        session: &mut Session,
        record: Stored,
        history: History,
        action: Interrupted,
        base: Option<i64>,
    ) -> Result<Self, ActionError> {
        let mut kind = WorkKind::from(action);
        let mut stored = None;
        if let Some(base) = base
            && let Some(found) = session.readable(base).await?
        {
            if found.release.info.status == Status::Uninstalled {
                kind = WorkKind::Install {
                    replaces: Some(base),
                };
            } else {
                stored = Some(found);
            }
        }
        let present = session.leftovers(&history, stored.as_ref()).await?;
        let objects = object::parse(&record.release.manifest)?;
        let targets = session.place(objects).await?;
        Ok(Self {
            is_new: false,
            ..Self::new(kind, record, stored, history, present, targets)
        })
    }

    /// Does what is left to do.
    pub(super) async fn run(mut self, mut session: Session) -> ActionResult {
        let mut created = Vec::new();
        match self.bring_about(&mut session, &mut created).await {
            Ok(()) => self.succeed(session).await,
            Err(error) => Err(self.fail(session, error, created).await),
        }
    }

    async fn bring_about(
        &mut self,
        session: &mut Session,
        created: &mut Vec<Created>,
    ) -> Result<(), ActionError> {
        self.run_hooks(session, self.kind.before()).await?;
        let targets = std::mem::take(&mut self.targets);
        let applied = self.apply(session, targets).await.map_err(|interruption| {
            created.extend(interruption.created);
            interruption.error
        })?;
        let gone = self.remove_dropped(session, &applied).await?;
        if session.options.wait != WaitFor::Nothing {
            let goal = match session.options.wait {
                WaitFor::ReadyAndJobs => Goal::ReadyAndJobsDone,
                WaitFor::Ready | WaitFor::Nothing => Goal::Ready,
            };
            let deadline = session.deadline();
            let subjects = applied
                .iter()
                .filter(|resource| !is_paused(resource))
                .map(subject);
            wait::until_reached(&session.port, subjects.collect(), goal, deadline).await?;
            wait::until_gone(&session.port, gone, deadline).await?;
        }
        self.run_hooks(session, self.kind.after()).await
    }

    async fn run_hooks(
        &mut self,
        session: &mut Session,
        event: HookEvent,
    ) -> Result<(), ActionError> {
        if !session.options.hooks {
            return Ok(());
        }
        let since = began(&self.record);
        session
            .run_hooks(&mut self.record, event, since, &HookFilter::default())
            .await
    }

    async fn apply(
        &self,
        session: &mut Session,
        targets: Vec<Target>,
    ) -> Result<Vec<Resource>, Interruption> {
        let present = session.keys(&self.present);
        let was_client_side = self
            .base
            .as_ref()
            .is_some_and(|base| base.release.apply_method != Some(ApplyMethod::ServerSide));
        let expect = |key: &ObjectKey| {
            if present.contains(key) {
                Expect::Ours {
                    migrate: was_client_side,
                }
            } else {
                Expect::Absent
            }
        };
        session
            .apply_all(targets, expect, !self.kind.is_install())
            .await
    }

    /// Deletes what the chart no longer has.
    async fn remove_dropped(
        &mut self,
        session: &mut Session,
        applied: &[Resource],
    ) -> Result<Vec<(wait::Subject, Option<String>)>, ActionError> {
        let present = std::mem::take(&mut self.present);
        let applied: KeySet = applied
            .iter()
            .map(|resource| resource.key.clone())
            .collect();
        let is_dropped = |object: &Object| !applied.contains(&session.key_of(object));
        let dropped = present.into_iter().filter(is_dropped).collect();
        session.remove(dropped, false).await
    }

    /// The last writes: this revision is deployed, and then the earlier ones are superseded. In
    /// this order there is a deployed revision at every moment.
    async fn succeed(mut self, mut session: Session) -> ActionResult {
        let wish = self.record.annotations.remove(DESCRIPTION);
        let description = match (&wish, self.kind) {
            (Some(wish), _) => wish.clone(),
            (None, WorkKind::Rollback) => self.record.release.info.description.clone(),
            (None, kind) => kind.complete().to_owned(),
        };
        let settled = session
            .storage
            .settle(
                &session.port,
                &mut self.record,
                Status::Deployed,
                Some(&description),
            )
            .await;
        settled.map_err(|error| self.resumable(error))?;
        if let Err(error) = self.supersede(&mut session).await {
            session.warn(format!("{error}: earlier revisions are marked later"));
        }
        Ok(Outcome {
            release: self.record.release,
            report: session.report,
        })
    }

    async fn supersede(&mut self, session: &mut Session) -> Result<(), ActionError> {
        let current = self.record.release.revision;
        let mut at_hand = None;
        if let Some(base) = &mut self.base
            && was_good(base.release.info.status)
        {
            let storage = &session.storage;
            let settled = storage
                .settle(&session.port, base, Status::Superseded, None)
                .await;
            match settled {
                // It has changed since it was read: it is read again below.
                Err(error) if error.reason == Reason::ConcurrentChange => {}
                settled => {
                    settled?;
                    at_hand = Some(base.release.revision);
                }
            }
        }
        let replaced = match self.kind {
            WorkKind::Install { replaces } => replaces,
            _ => None,
        };
        let others: Vec<_> = self
            .history
            .revisions()
            .iter()
            .filter(|found| found.status == Status::Deployed || Some(found.revision) == replaced)
            .map(|found| found.revision)
            .filter(|revision| *revision != current && Some(*revision) != at_hand)
            .collect();
        for revision in others {
            let storage = &session.storage;
            storage
                .set_status(&session.port, revision, Status::Superseded, None)
                .await?;
        }
        Ok(())
    }

    /// Records the failure. If the API server is the trouble, the record stays pending, and the
    /// action is taken up again later.
    async fn fail(
        mut self,
        mut session: Session,
        error: ActionError,
        created: Vec<Created>,
    ) -> ActionError {
        if error.is_outage() || error.reason == Reason::Canceled {
            return self.resumable(error);
        }
        if self.is_untouched_install(&error) || self.is_untouched_upgrade(&session, &error) {
            return self.withdraw(session, error, created).await;
        }
        if session.options.cleanup_on_fail
            && let Err(fault) = session.undo(created).await
        {
            session.warn(fault.message);
        }
        let description = self.kind.failed(&session.release.name, &error);
        self.record.annotations.remove(DESCRIPTION);
        let description = crate::request::short(&description, 4096);
        let settled = session
            .storage
            .settle(
                &session.port,
                &mut self.record,
                Status::Failed,
                Some(&description),
            )
            .await;
        match settled {
            Ok(()) => ActionError {
                revision: Some(self.record.release.revision),
                ..error
            },
            Err(_) => self.resumable(error),
        }
    }

    /// An install that met somebody else's object, before any hook has run.
    fn is_untouched_install(&self, error: &ActionError) -> bool {
        self.kind.is_install()
            && self.is_new
            && error.reason == Reason::OwnershipConflict
            && self.has_run_no_hook()
    }

    /// An upgrade with an object that the API server finds invalid, before anything has changed: no hook
    /// has run, and what was applied is what the last revision had applied.
    fn is_untouched_upgrade(&self, session: &Session, error: &ActionError) -> bool {
        if self.kind != WorkKind::Upgrade
            || !self.is_new
            || error.reason != Reason::InvalidObject
            || !self.has_run_no_hook()
        {
            return false;
        }
        let Some(base) = &self.base else { return false };
        let parsed = |manifest| object::parse(manifest).unwrap_or_default();
        let (old, new) = (
            parsed(&base.release.manifest),
            parsed(&self.record.release.manifest),
        );
        let content = |objects: &[Object], key: &ObjectKey| {
            let found = objects
                .iter()
                .find(|object| session.key_of(object).is_same(key));
            found.map(|object| object.content.clone())
        };
        session.report.changes.iter().all(|change| {
            let before = content(&old, &change.object);
            before.is_some() && before == content(&new, &change.object)
        })
    }

    fn has_run_no_hook(&self) -> bool {
        let hooks = &self.record.release.hooks;
        hooks.iter().all(|hook| hook.last_run.started_at.is_none())
    }

    /// Takes an action back that has changed nothing, or nothing but what can be taken back: what it
    /// created, and its record.
    async fn withdraw(
        self,
        mut session: Session,
        error: ActionError,
        created: Vec<Created>,
    ) -> ActionError {
        let error = error.context(self.kind.unable());
        let revision = self.record.release.revision;
        let result = match session.undo(created).await {
            Ok(()) => session.storage.delete(&session.port, revision).await,
            Err(fault) => Err(fault),
        };
        match result {
            Ok(()) => error,
            Err(_) => self.resumable(error),
        }
    }

    fn resumable(&self, error: ActionError) -> ActionError {
        ActionError {
            revision: Some(self.record.release.revision),
            resumable: true,
            ..error
        }
    }
}

/// Whether a revision may be superseded: that makes it one to roll back to.
fn was_good(status: Status) -> bool {
    matches!(
        status,
        Status::Deployed | Status::Superseded | Status::Unknown
    )
}

/// A Deployment that is paused does not move, and is not waited for.
fn is_paused(resource: &Resource) -> bool {
    let spec = resource.content.get("spec");
    resource.key.kind == "Deployment"
        && spec.and_then(|spec| spec.get("paused")) == Some(&serde_json::Value::Bool(true))
}

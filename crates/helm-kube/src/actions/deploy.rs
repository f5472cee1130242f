//! Install and upgrade: the way from a rendered chart to a deployed release.

use std::collections::BTreeMap;

use helm_engine::record::ApplyMethod;
use helm_engine::{HookEvent, Release, Status};
use jiff::Timestamp;

use super::ActionResult;
use super::finish::{Work, WorkKind};
use crate::apply::Target;
use crate::error::{ActionError, Reason};
use crate::hooks::reset_runs;
use crate::machine::{Machine, Port};
use crate::object::{self, Object};
use crate::options::Options;
use crate::recover::{Interrupted, NextAction, RecoveryPlan};
use crate::release::{Desired, ReleaseKey};
use crate::request::{Call, Content, Failure, Verb};
use crate::session::Session;
use crate::storage::{HOLDER, History, ObjectVersion, SYSTEM_LABELS, Stored, fit};

/// An install or an upgrade.
#[derive(Clone, Debug)]
pub struct Deploy {
    /// The release.
    pub release: ReleaseKey,
    /// Its history, as it was when the chart was rendered for the next revision.
    pub history: History,
    /// What [`recover`](crate::recover) says about that history.
    pub plan: RecoveryPlan,
    /// What to deploy.
    pub desired: Desired,
    /// How.
    pub options: Options,
}

/// The continuation of an interrupted install, upgrade or rollback.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The release.
    pub release: ReleaseKey,
    /// Its history.
    pub history: History,
    /// What [`recover`](crate::recover) says about that history.
    pub plan: RecoveryPlan,
    /// How. They should be those of the interrupted action.
    pub options: Options,
}

/// Installs a release: [`recover`](crate::recover) said [`NextAction::Install`].
///
/// The objects are created by applies that refuse to touch existing ones, so that no object needs
/// to be looked at first. If one exists and is not the release's, what was created is deleted
/// again, and nothing is recorded.
#[must_use]
pub fn install(deploy: Deploy) -> Machine<ActionResult> {
    Machine::new(|port| async move {
        let NextAction::Install { revision, replaces } = deploy.plan.next else {
            return Err(wrong_state("install", &deploy.release));
        };
        let kind = WorkKind::Install { replaces };
        start(port, deploy, kind, revision, None).await
    })
}

/// Upgrades a release: [`recover`](crate::recover) said [`NextAction::Upgrade`]. What state the
/// release is in (failed, interrupted, half uninstalled) does not matter.
#[must_use]
pub fn upgrade(deploy: Deploy) -> Machine<ActionResult> {
    Machine::new(|port| async move {
        let NextAction::Upgrade { revision, base } = deploy.plan.next else {
            return Err(wrong_state("upgrade", &deploy.release));
        };
        start(port, deploy, WorkKind::Upgrade, revision, Some(base)).await
    })
}

/// Goes on with an interrupted action: [`recover`](crate::recover) said [`NextAction::Resume`].
/// The record says what it was about; nothing is rendered again.
#[must_use]
pub fn resume(resume: Resume) -> Machine<ActionResult> {
    Machine::new(|port| async move {
        let NextAction::Resume {
            revision,
            action,
            base,
        } = resume.plan.next
        else {
            return Err(wrong_state("resume", &resume.release));
        };
        let Resume {
            release,
            mut history,
            plan,
            options,
        } = resume;
        let mut session = Session::open(port, release, options).await?;
        session.mend(&mut history, &plan).await?;
        let record = session.storage.get(&session.port, revision).await?;
        if history.is_behind(&record) {
            return Err(session.storage.changed(revision));
        }
        let work = Work::resume(&mut session, record, history, action, base).await?;
        work.run(session).await
    })
}

/// Carries out the mending of a plan, and nothing else: for a release that is as it should be but
/// for what a crash has left behind.
#[must_use]
pub fn mend(mend: Resume) -> Machine<Result<(), ActionError>> {
    Machine::new(|port| async move {
        let Resume {
            release,
            mut history,
            plan,
            options,
        } = mend;
        let mut session = Session::open(port, release, options).await?;
        session.mend(&mut history, &plan).await
    })
}

fn wrong_state(action: &str, release: &ReleaseKey) -> ActionError {
    ActionError::new(
        Reason::InvalidState,
        format!("the plan for release {release} is no {action}: read its history again"),
    )
}

async fn start(
    port: Port,
    deploy: Deploy,
    kind: WorkKind,
    revision: i64,
    base: Option<i64>,
) -> ActionResult {
    let Deploy {
        release,
        mut history,
        plan,
        desired,
        options,
    } = deploy;
    let mut session = Session::open(port, release, options).await?;
    check_labels(&desired.labels)?;
    let objects = object::parse(&desired.manifest)?;
    session.mend(&mut history, &plan).await?;
    let base = match base {
        Some(base) => session.readable(base).await?,
        None => None,
    };
    let mut leftovers = session.leftovers(&history, base.as_ref()).await?;
    check_empty(&session, &objects, &leftovers)?;
    let crds = desired.crds.clone();
    let record = draft(&mut session, desired, kind, revision, base.as_ref())?;
    session.apply_crds(&crds).await?;
    let targets = session.place(objects).await?;
    let preflight = session
        .preflight(&targets, &leftovers, kind, &record)
        .await?;
    leftovers.extend(preflight);
    let mut work = Work::new(kind, record, base, history, leftovers, targets);
    session.store(&mut work).await?;
    work.run(session).await
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), ActionError> {
    if labels
        .keys()
        .any(|label| SYSTEM_LABELS.contains(&label.as_str()))
    {
        return Err(ActionError::new(
            Reason::InvalidManifest,
            format!(
                "user supplied labels contains system reserved label name. System labels: [{}]",
                SYSTEM_LABELS.join(" ")
            ),
        ));
    }
    Ok(())
}

fn check_empty(
    session: &Session,
    objects: &[Object],
    leftovers: &[Object],
) -> Result<(), ActionError> {
    if objects.is_empty() && !leftovers.is_empty() && !session.options.allow_empty {
        return Err(ActionError::new(
            Reason::EmptyRender,
            format!(
                "the rendered chart has no objects, and release {} has {}: nothing was changed: \
                 look at the values, or allow it",
                session.release,
                leftovers.len()
            ),
        ));
    }
    Ok(())
}

/// The record as it is created, cut to size.
fn draft(
    session: &mut Session,
    desired: Desired,
    kind: WorkKind,
    revision: i64,
    base: Option<&Stored>,
) -> Result<Stored, ActionError> {
    let now = session.port.now();
    let mut annotations = desired.annotations;
    annotations.insert(HOLDER.to_owned(), session.options.holder.clone());
    let mut release = Release {
        name: session.release.name.clone(),
        namespace: session.release.namespace.clone(),
        chart: desired.chart,
        config: desired.config,
        manifest: desired.manifest,
        hooks: desired.hooks,
        revision,
        apply_method: Some(ApplyMethod::ServerSide),
        labels: desired.labels,
        ..Release::default()
    };
    reset_runs(&mut release.hooks);
    let first = base.and_then(|base| base.release.info.first_deployed);
    release.info.first_deployed = first.or(Some(now));
    release.info.last_deployed = Some(now);
    release.info.notes = desired.notes;
    release.info.status = kind.pending();
    kind.underway().clone_into(&mut release.info.description);
    let dropped = fit(&mut release)?;
    if !dropped.is_empty() {
        session.warn(format!(
            "the release record would be too large: left out of the stored chart: {}",
            dropped.join(", ")
        ));
    }
    Ok(Stored {
        release,
        annotations,
        version: ObjectVersion::default(),
    })
    .map(|stored| with_description(stored, desired.description))
}

/// The wish for a description is kept with the record, so that it is known after a restart.
fn with_description(mut stored: Stored, description: Option<String>) -> Stored {
    if let Some(description) = description {
        stored
            .annotations
            .insert(DESCRIPTION.to_owned(), description);
    }
    stored
}

/// The annotation with the description that a revision gets when it is deployed.
pub(super) const DESCRIPTION: &str = "helm.fluxcd.io/description";

impl Session {
    /// The objects that may be in the cluster for this release: those of the base, and those of
    /// the revisions that failed since the last good one, before the base or after it.
    pub(super) async fn leftovers(
        &mut self,
        history: &History,
        base: Option<&Stored>,
    ) -> Result<Vec<Object>, ActionError> {
        let Some(base) = base else {
            return Ok(Vec::new());
        };
        let mut objects = tolerant(self, &base.release.manifest);
        let others = uncertain(history, base.release.revision);
        for revision in others.into_iter().take(MAX_FAILED) {
            match self.storage.get(&self.port, revision).await {
                Ok(stored) => objects.extend(tolerant(self, &stored.release.manifest)),
                // Nobody can tell any more.
                Err(error)
                    if matches!(
                        error.reason,
                        Reason::InvalidRecord | Reason::ReleaseNotFound
                    ) =>
                {
                    self.warn(error.message);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(objects)
    }

    /// Looks at the objects that should not be there yet, where a refusal must come before
    /// anything is done: on upgrades, and on installs with hooks that run first. Returns those
    /// that are there and are taken over.
    async fn preflight(
        &mut self,
        targets: &[Target],
        leftovers: &[Object],
        kind: WorkKind,
        record: &Stored,
    ) -> Result<Vec<Object>, ActionError> {
        let runs_first = |event| {
            self.options.hooks
                && record
                    .release
                    .hooks
                    .iter()
                    .any(|hook| hook.events.contains(&event))
        };
        if kind.is_install() && !runs_first(HookEvent::PreInstall) {
            return Ok(Vec::new());
        }
        let known = self.keys(leftovers);
        let mut adopted = Vec::new();
        for target in targets {
            let Target::Placed(resource) = target else {
                continue;
            };
            if resource.has_generated_name() || known.contains(&resource.key) {
                continue;
            }
            if self
                .adopt(resource)
                .await
                .map_err(|error| error.context(kind.unable()))?
            {
                adopted.push(Object {
                    source: String::new(),
                    content: resource.content.clone(),
                });
            }
        }
        Ok(adopted)
    }

    /// Creates the record, in a namespace that may have to be created first.
    async fn store(&mut self, work: &mut Work) -> Result<(), ActionError> {
        let revision = work.record.release.revision;
        let keep: Vec<_> = work.base.iter().map(|base| base.release.revision).collect();
        self.prune(&mut work.history, &keep).await?;
        let mut result = self.storage.create(&self.port, &mut work.record).await;
        if is_missing_namespace(&result) && self.options.create_namespace {
            self.create_namespace().await?;
            result = self.storage.create(&self.port, &mut work.record).await;
        }
        result.map_err(|failure| match &failure {
            Failure::Status(status) if status.is_already_exists() => self.storage.changed(revision),
            _ => ActionError::from_failure("create the release record", &failure),
        })
    }

    async fn create_namespace(&mut self) -> Result<(), ActionError> {
        let name = &self.release.namespace;
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"name": name}},
        });
        let call = Call {
            verb: Verb::Create,
            uri: format!(
                "/api/v1/namespaces?fieldManager={}",
                crate::calls::FIELD_MANAGER
            ),
            accept: crate::request::Accept::Metadata,
            body: Some((Content::Json, body.to_string().into_bytes())),
            what: format!("create namespace {name}"),
        };
        let what = call.what.clone();
        match self.port.try_call(call).await {
            Ok(_) => Ok(()),
            Err(Failure::Status(status)) if status.is_already_exists() => Ok(()),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }
}

/// The revisions beside the base whose objects may be there, in the order in which they are looked
/// at: the newest first, and repetitions last.
fn uncertain(history: &History, base: i64) -> Vec<i64> {
    let floor = history.last_settled(base);
    let mut since: Vec<_> = history
        .revisions()
        .iter()
        .rev()
        .filter(|found| {
            found.revision >= floor
                && found.revision != base
                && !found.status.is_pending()
                && found.status != Status::Uninstalled
        })
        .collect();
    since.sort_by_key(|found| history.is_repeated(found));
    since.into_iter().map(|found| found.revision).collect()
}

/// The most failed revisions whose objects are looked for.
const MAX_FAILED: usize = 5;

fn tolerant(session: &mut Session, manifest: &str) -> Vec<Object> {
    match object::parse(manifest) {
        Ok(objects) => objects,
        Err(error) => {
            session.warn(error.message);
            Vec::new()
        }
    }
}

fn is_missing_namespace(result: &Result<(), Failure>) -> bool {
    matches!(result, Err(Failure::Status(status)) if status.code == 404)
}

/// When the action of a record began: hooks noted before that belong to an earlier one.
pub(super) fn began(record: &Stored) -> Timestamp {
    record.release.info.last_deployed.unwrap_or_default()
}

impl From<Interrupted> for WorkKind {
    fn from(action: Interrupted) -> Self {
        match action {
            Interrupted::Install => Self::Install { replaces: None },
            Interrupted::Upgrade => Self::Upgrade,
            Interrupted::Rollback => Self::Rollback,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Revision;

    #[test]
    fn objects_of_all_revisions_since_the_last_good_one_are_looked_for() {
        use Status::{Deployed, Failed, PendingUpgrade, Superseded, Uninstalled};
        let table = [
            (&[Deployed, Failed, Failed][..], 1, &[3, 2][..]),
            (&[Superseded, Deployed, Failed], 2, &[3]),
            (&[Failed, Failed], 2, &[1]),
            (&[Superseded, Failed, Failed], 3, &[2, 1]),
            (&[Uninstalled, Failed, Failed], 3, &[2]),
            (&[Failed, PendingUpgrade], 1, &[]),
            (&[Superseded, Superseded], 2, &[]),
        ];
        for (states, base, expected) in table {
            let revisions = (1..).zip(states).map(|(revision, status)| Revision {
                revision,
                status: *status,
                ..Revision::default()
            });
            let history = History::new(revisions.collect());
            assert_eq!(uncertain(&history, base), expected, "{states:?}");
        }
    }
}

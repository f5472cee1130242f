//! One reconciliation: observe, decide, act, report.

use std::sync::Arc;
use std::time::Duration;

use goyaml::Tree;
use helm_engine::{Chart, RenderOptions, Rendered};
use helm_kube::{
    ActionError, Cluster, Deploy, Desired as Wanted, Driver, History, NextAction, Outcome,
    RecoverContext, RecoveryPlan, ReleaseKey, recover,
};
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::Instant;

use super::act::{Abandoned, Slot, carry_out};
use super::backoff::{Backoff, jitter};
use super::compare::is_same;
use super::context::{Attempted, Context, Settled};
use super::decide::{Action, Attempt, Desired, after_difference, decide};
use super::digest::{input_digest, values_digest};
use super::queue::Priority;
use super::trouble::{Stage, Trouble, is_retried, render_failure};
use crate::api::{
    ConditionStatus, ConditionType, HelmRelease, HelmReleaseStatus, HelmVersion, NamespacedName,
    RECONCILE_ANNOTATION, Reason, check_release_name, gate_condition, resource_id,
};
use crate::source::ChartArtifact;
use crate::status::{EventNote, Failure, Progress, StatusEdit, Written};
use crate::telemetry::Action as Timed;

/// When the key is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// After the interval: nothing is left to do.
    Settled,
    /// After a while.
    After(Duration),
    /// When something changes, or after the interval.
    OnChange,
    /// Never: the object is gone.
    Never,
}

/// How a sync ended.
#[derive(Debug)]
pub(super) enum End {
    /// The release is as wanted.
    Settled,
    /// These inputs failed before: nothing was done.
    Held,
    /// Something has to happen first; look again after a while if no event tells.
    Waiting(Duration),
    /// It failed; `Failure::retried` says whether it is tried again, and the API server may have said when.
    Failed(Failure, Option<Duration>),
    /// The daemon stops.
    Abandoned,
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Failed(trouble.failure(), None)
    }
}

impl From<Abandoned> for End {
    fn from(_: Abandoned) -> Self {
        Self::Abandoned
    }
}

/// What a sync is made of.
pub(super) struct Inputs {
    pub(super) artifact: ChartArtifact,
    pub(super) values: Tree,
    pub(super) digest: String,
}

impl Inputs {
    /// `hello-1.2.3`, as far as it is known.
    pub(super) fn chart(&self) -> String {
        let chart = self.artifact.chart.as_ref();
        chart
            .map(|chart| format!("{}-{}", chart.name, chart.version))
            .unwrap_or_default()
    }
}

/// A sync under way.
pub(super) struct Sync<'a> {
    pub(super) context: &'a Arc<Context>,
    pub(super) release: Arc<HelmRelease>,
    pub(super) key: NamespacedName,
    pub(super) target: NamespacedName,
    pub(super) before: HelmReleaseStatus,
    pub(super) edit: StatusEdit,
    pub(super) slot: &'a mut Slot,
    pub(super) cluster: Cluster,
    /// Chart, revision and digest, for Events; known once the chart is.
    pub(super) about: String,
    /// Something was installed, upgraded or rolled back.
    pub(super) acted: bool,
    pub(super) events: Vec<EventNote>,
}

/// Reconciles a HelmRelease that can be read and is not being deleted.
pub(super) async fn sync(
    context: &Arc<Context>,
    release: &Arc<HelmRelease>,
    slot: &mut Slot,
) -> Next {
    let key = release.key();
    if let Some(next) = nothing_to_do(context, release, &key) {
        return next;
    }
    let target = release.release_key();
    let timer = context.metrics.time(Timed::Sync, target.clone());
    let mut sync = Sync::new(context, release, slot);
    let end = sync.run().await;
    timer.ended(!matches!(end, End::Failed(..)));
    sync.conclude(end).await
}

/// What can be told without looking at anything but memory: that nothing has changed since nothing was left
/// to do, or that a pause is not over.
fn nothing_to_do(context: &Context, release: &HelmRelease, key: &NamespacedName) -> Option<Next> {
    let changes = context.changes(key);
    let history = context.caches.records.history(&release.release_key());
    let newest = history.newest().map(|newest| newest.version.clone());
    let reconcile_at = release.annotations().get(RECONCILE_ANNOTATION).cloned();
    let now = Settled {
        generation: release.metadata.generation,
        uid: release.metadata.uid.clone(),
        newest,
        reconcile_at: reconcile_at.clone(),
        changes,
    };
    let attempted = Attempted {
        generation: release.metadata.generation,
        reconcile_at,
        changes,
    };
    context.remember(key, |memory| {
        if memory.settled.as_ref() == Some(&now) && !super::values::has_external(release) {
            return Some(Next::Settled);
        }
        match &memory.retry {
            Some((at, what)) if *what == attempted => {
                let left = at.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Next::After(left))
            }
            _ => None,
        }
    })
}

impl<'a> Sync<'a> {
    fn new(context: &'a Arc<Context>, release: &Arc<HelmRelease>, slot: &'a mut Slot) -> Self {
        let before = context.status.current(release);
        let target = release.release_key();
        let generation = release.metadata.generation.unwrap_or(0);
        let edit = StatusEdit::new(before.clone(), target.clone(), generation, Timestamp::now());
        Self {
            context,
            release: Arc::clone(release),
            key: release.key(),
            target,
            before,
            edit,
            slot,
            cluster: context.cluster.clone(),
            about: String::new(),
            acted: false,
            events: Vec::new(),
        }
    }

    /// The whole sync; the status is edited on the way.
    async fn run(&mut self) -> End {
        match self.steps().await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn steps(&mut self) -> Result<End, End> {
        self.warn_of_odd_input();
        if self.release.spec.suspended() {
            self.edit.suspended();
            return Ok(End::Held);
        }
        self.check_spec()?;
        self.ensure_finalizer().await?;
        let inputs = self.inputs().await?;
        let history = self.history().await?;
        let (action, plan) = self.decide(&inputs, &history);
        tracing::debug!(release = %self.key, ?action, digest = inputs.digest, "decided");
        self.act(action, plan, history, inputs).await
    }

    /// One Warning Event for a new generation whose spec is odd.
    fn warn_of_odd_input(&mut self) {
        if self.before.observed_generation >= self.release.metadata.generation
            && self.before.observed_generation.is_some()
        {
            return;
        }
        let warnings = crate::api::odd_input(&self.release);
        if !warnings.is_empty() {
            self.events
                .push(EventNote::warning("OddInput", warnings.join("; ")));
        }
    }

    fn check_spec(&mut self) -> Result<(), End> {
        if self.release.spec.helm_version == Some(HelmVersion::V2) {
            return Err(self.fail(Trouble::new(
                Stage::Spec,
                Reason::HelmV2Unsupported,
                "no client found for Helm 'v2': only v3 is served; migrate the release to Helm 3 and set spec.helmVersion to v3",
            )));
        }
        check_release_name(&self.target.name).map_err(|error| {
            let message = format!("failed to retrieve Helm release: releaseContent: {error}");
            self.fail(Trouble::new(
                Stage::Decision,
                Reason::InvalidReleaseName,
                message,
            ))
        })
    }

    /// Writes a failure that came before an action into the status.
    pub(super) fn fail(&mut self, trouble: Trouble) -> End {
        let failure = trouble.failure();
        match trouble.stage {
            Stage::Chart => self.edit.chart_fetch_failed(&failure),
            Stage::Spec | Stage::Values | Stage::Decision => self.edit.failed(&failure),
        }
        End::Failed(failure, None)
    }

    /// Chart and values, and their digest.
    async fn inputs(&mut self) -> Result<Inputs, End> {
        let source = super::chart::source_of(&self.release, &self.context.settings);
        let source = source.map_err(|trouble| self.fail(trouble))?;
        let requested = self.release.annotations().get(RECONCILE_ANNOTATION);
        if requested.is_some() && requested != self.before.last_handled_reconcile_at.as_ref() {
            // Someone wants the newest now, and not what the last poll saw.
            self.context.sources.refresh(&source);
        }
        let artifact = match self.context.sources.fetch(&source).await {
            Ok(artifact) => artifact,
            Err(error) if error.reason() == crate::source::Reason::Cloning => {
                self.edit
                    .source_pending(error.reason().as_str(), &error.to_string());
                // The mirror tells when it is ready; this is for the case that it cannot.
                return Err(End::Waiting(Duration::from_secs(30)));
            }
            Err(error) => return Err(self.fail(Trouble::of_source(&error))),
        };
        if self.before.last_attempted_revision.as_deref() != Some(&artifact.revision) {
            self.edit.chart_fetched();
        }
        let values = self.context.values.compose(&self.release, &artifact).await;
        let values = values.map_err(|trouble| self.fail(trouble))?;
        let digest = input_digest(&self.release, &artifact.digest, &values_digest(&values));
        let inputs = Inputs {
            artifact,
            values,
            digest,
        };
        let revision = &inputs.artifact.revision;
        self.about = format!(
            "chart {}, revision {revision}, digest {}",
            inputs.chart(),
            inputs.digest
        );
        Ok(inputs)
    }

    /// The records of the release: from the watch where it sees them, else by asking.
    pub(super) async fn history(&mut self) -> Result<History, End> {
        let is_local = self.release.spec.kube_config.is_none();
        if is_local && self.context.settings.scope.covers(&self.target.namespace) {
            return Ok(self.context.caches.records.history(&self.target));
        }
        let machine = helm_kube::history(self.release_key(), Driver::Secret);
        let history = self.cluster.run(machine).await;
        history.map_err(|error| self.fail(Trouble::of_cluster(Stage::Decision, &error)))
    }

    pub(super) fn release_key(&self) -> ReleaseKey {
        ReleaseKey::new(self.target.name.as_str(), self.target.namespace.as_str())
    }

    /// How the machine room sees the history.
    pub(super) fn plan(&self, history: &History, digest: Option<&str>) -> RecoveryPlan {
        let options = super::options::deploy(&self.release, &self.context.settings);
        recover(
            history,
            &RecoverContext {
                now: Timestamp::now(),
                holder: &self.context.settings.holder,
                digest,
                patience: options.patience,
            },
        )
    }

    fn attempt(&self) -> Attempt<'_> {
        let requested = self.release.annotations().get(RECONCILE_ANNOTATION);
        let renewed = self.before.observed_generation < self.release.metadata.generation
            || requested.is_some() && requested != self.before.last_handled_reconcile_at.as_ref();
        Attempt {
            digest: self.before.last_attempted_digest.as_deref(),
            succeeded: self.before.digest.as_deref(),
            failures: u32::try_from(self.before.failures.unwrap_or(0)).unwrap_or(u32::MAX),
            stalled: self.before.is_true(ConditionType::Stalled),
            renewed,
        }
    }

    fn decide(&self, inputs: &Inputs, history: &History) -> (Action, RecoveryPlan) {
        let plan = self.plan(history, Some(&inputs.digest));
        let owner = resource_id(&self.key);
        let desired = self.desired(&inputs.digest, &owner);
        let newest = history.newest().map(|newest| newest.version.clone());
        let adopted = self
            .context
            .remember(&self.key, |memory| memory.adopted.clone());
        let adopted = adopted.filter(|(version, _)| Some(version) == newest.as_ref());
        let adopted = adopted.as_ref().map(|(_, digest)| digest.as_str());
        (
            decide(desired, history, self.attempt(), plan.next, adopted),
            plan,
        )
    }

    fn desired<'b>(&self, digest: &'b str, owner: &'b str) -> Desired<'b> {
        Desired {
            digest,
            owner,
            rollback: self.release.spec.rollback().enable(),
            test: self.release.spec.test().enable(),
        }
    }

    async fn act(
        &mut self,
        action: Action,
        plan: RecoveryPlan,
        history: History,
        inputs: Inputs,
    ) -> Result<End, End> {
        if plan.has_mending() && matches!(action, Action::Nothing | Action::Hold | Action::Test) {
            self.mend(&history, &plan).await?;
        }
        match action {
            Action::Nothing => Ok(self.settle(&inputs, Reason::UpToDate)),
            Action::Hold => Ok(End::Held),
            Action::Compare => self.compare(plan, history, inputs).await,
            Action::Install | Action::Upgrade => self.deploy(plan, history, inputs).await,
            Action::Resume(interrupted) => self.resume(interrupted, plan, history, inputs).await,
            Action::RollBack => self.roll_back_again(history, inputs).await,
            Action::Test => self.test(history, &inputs).await,
            Action::WaitUntil(until) => {
                let left = until.duration_since(Timestamp::now()).unsigned_abs();
                let message = "another client is at work on the release, or died lately";
                self.edit.source_pending("OperationInProgress", message);
                Ok(End::Waiting(left.min(Duration::from_secs(60))))
            }
            Action::Refuse => Err(self.fail(Trouble::new(
                Stage::Decision,
                Reason::OwnedByOther,
                format!(
                    "release appears to be managed by '{}'",
                    history
                        .newest()
                        .and_then(super::decide::owner_of)
                        .unwrap_or_default()
                ),
            ))),
        }
    }

    /// Marks what a crash has left in the records of a release that needs nothing else.
    async fn mend(&mut self, history: &History, plan: &RecoveryPlan) -> Result<(), End> {
        let machine = helm_kube::mend(helm_kube::Resume {
            release: self.release_key(),
            history: history.clone(),
            plan: plan.clone(),
            options: super::options::deploy(&self.release, &self.context.settings),
        });
        let mended = self.cluster.run(machine).await;
        mended.map_err(|error| self.fail(Trouble::of_cluster(Stage::Decision, &error)))
    }

    /// Leaves nothing pending behind when the daemon stops: what is not done is marked as failed, and
    /// taken up after the restart.
    async fn give_up(&mut self) {
        let Ok(history) = self.fresh_history().await else {
            return;
        };
        let Some(newest) = history.newest().filter(|newest| newest.status.is_pending()) else {
            return;
        };
        let plan = RecoveryPlan {
            abandon: vec![newest.revision],
            supersede: Vec::new(),
            next: NextAction::Upgrade {
                revision: newest.revision + 1,
                base: newest.revision,
            },
        };
        tracing::info!(release = %self.key, revision = newest.revision, "marking what is not done as failed");
        if self.mend(&history, &plan).await.is_err() {
            tracing::warn!(release = %self.key, "not marked: the next start goes on with it");
        }
    }

    /// The release is as wanted.
    pub(super) fn settle(&mut self, inputs: &Inputs, reason: Reason) -> End {
        let unchanged = self.before.is_true(ConditionType::Ready)
            && self.before.digest.as_deref() == Some(&inputs.digest)
            && self.before.observed_generation >= self.release.metadata.generation;
        if unchanged && !self.acted {
            // Said already, in words that fit better than "up to date".
            return End::Settled;
        }
        let message = format!("release is deployed: {}", self.about);
        self.edit.succeeded(reason, &message);
        // A crash may have come between the end of the action and the status.
        let completes = self.before.digest.as_deref() != Some(&inputs.digest)
            && self.before.last_attempted_digest.as_deref() == Some(&inputs.digest);
        self.acted |= completes;
        let acted = self.acted;
        let fields = self.edit.fields();
        fields.digest = Some(inputs.digest.clone());
        fields.last_attempted_digest = Some(inputs.digest.clone());
        fields.chart = Some(inputs.chart()).filter(|chart| !chart.is_empty());
        if fields.revision.is_none() || acted {
            fields.revision = Some(inputs.artifact.revision.clone());
        }
        End::Settled
    }

    /// Finds out whether a revision that is not by us is what is wanted, and takes it over if so.
    async fn compare(
        &mut self,
        plan: RecoveryPlan,
        history: History,
        inputs: Inputs,
    ) -> Result<End, End> {
        let Some(newest) = history.newest().cloned() else {
            return Ok(End::Held);
        };
        let timer = self
            .context
            .metrics
            .time(Timed::DryRunCompare, self.target.clone());
        tracing::info!(release = %self.key, "running dry-run upgrade to compare with release version '{}'", newest.revision);
        let machine = helm_kube::get(self.release_key(), Driver::Secret, Some(newest.revision));
        let stored = self
            .cluster
            .run(machine)
            .await
            .map_err(|error| self.fail(Trouble::of_cluster(Stage::Decision, &error)))?;
        if let Some(owner) = self.foreign_owner(&stored.release.manifest).await? {
            return Err(self.fail(Trouble::new(
                Stage::Decision,
                Reason::OwnedByOther,
                format!("release appears to be managed by '{owner}'"),
            )));
        }
        let chart = self.chart(&inputs).await?;
        let rendered = self.render(&chart, &inputs, &plan, &history).await?;
        let wanted = rendered.chart.unwrap_or_default();
        let config = self.config(&inputs, Some(&stored.release));
        let same = is_same(&stored.release, &wanted, &config);
        timer.succeeded();
        if same {
            tracing::info!(release = %self.key, "no changes");
            self.context.remember(&self.key, |memory| {
                memory.adopted = Some((newest.version.clone(), inputs.digest.clone()));
            });
            return Ok(self.settle(&inputs, Reason::UpToDate));
        }
        tracing::info!(release = %self.key, "difference detected during release comparison");
        let owner = resource_id(&self.key);
        match after_difference(self.desired(&inputs.digest, &owner), self.attempt()) {
            Action::Hold => Ok(End::Held),
            _ => self.deploy(plan, history, inputs).await,
        }
    }

    pub(super) async fn chart(&mut self, inputs: &Inputs) -> Result<Arc<Chart>, End> {
        let chart = self.context.chart(&inputs.artifact).await;
        chart.map_err(|trouble| self.fail(trouble))
    }

    /// The values that are recorded: with `resetValues: false`, those of the last revision below ours.
    pub(super) fn config(&self, inputs: &Inputs, last: Option<&helm_engine::Release>) -> Tree {
        let old = last.and_then(|last| last.config.as_ref());
        match old.filter(|_| !self.release.spec.reset_values()) {
            Some(old) => helm_engine::coalesce_tables(&inputs.values, old),
            None => inputs.values.clone(),
        }
    }

    /// Renders the chart for the revision that the plan names.
    pub(super) async fn render(
        &mut self,
        chart: &Arc<Chart>,
        inputs: &Inputs,
        plan: &RecoveryPlan,
        history: &History,
    ) -> Result<Rendered, End> {
        let (revision, is_install) = match plan.next {
            NextAction::Install { revision, .. } => (revision, true),
            NextAction::Upgrade { revision, .. } => (revision, false),
            NextAction::Resume { revision, .. } | NextAction::Wait { revision, .. } => {
                (revision, false)
            }
        };
        let capabilities = self
            .cluster
            .capabilities()
            .await
            .map_err(|error| self.fail(Trouble::of_cluster(Stage::Decision, &error)))?;
        let options = RenderOptions {
            release_name: self.target.name.clone(),
            namespace: self.target.namespace.clone(),
            revision,
            is_install,
            is_upgrade: !is_install,
            capabilities,
            lookup: Some(Arc::new(
                self.cluster.lookup(tokio::runtime::Handle::current()),
            )),
            keep_chart: true,
            ..RenderOptions::default()
        };
        let last = self.last_release(history).await?;
        let config = self.config(inputs, last.as_ref());
        let chart = super::compare::with_old_defaults(chart, last.as_ref());
        let render = move || helm_engine::render(&chart, &config, &options);
        let rendered = match tokio::task::spawn_blocking(render).await {
            Ok(rendered) => rendered,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        match rendered {
            Ok(rendered) => {
                for warning in &rendered.warnings {
                    tracing::warn!(release = %self.key, "{warning}");
                }
                Ok(rendered)
            }
            Err(error) => {
                let mut failure = render_failure(&error);
                self.note_attempt(inputs);
                let failures = self.count_failure(inputs);
                let limit = self
                    .release
                    .spec
                    .retry
                    .as_ref()
                    .and_then(|retry| retry.limit);
                failure.retried = failures <= limit.unwrap_or(0);
                let verb = if is_install {
                    "installation"
                } else {
                    "upgrade"
                };
                failure.message = format!("{verb} failed: {}", failure.message);
                self.edit.deploy_failed(&failure);
                Err(End::Failed(failure, None))
            }
        }
    }

    /// The last revision, if values of it are to be used again.
    async fn last_release(
        &mut self,
        history: &History,
    ) -> Result<Option<helm_engine::Release>, End> {
        let newest = history.deployed().or_else(|| history.newest());
        let Some(newest) = newest.filter(|_| !self.release.spec.reset_values()) else {
            return Ok(None);
        };
        let machine = helm_kube::get(self.release_key(), Driver::Secret, Some(newest.revision));
        match self.cluster.run(machine).await {
            Ok(stored) => Ok(Some(stored.release)),
            Err(error) => Err(self.fail(Trouble::of_cluster(Stage::Decision, &error))),
        }
    }

    /// Says in the status what is about to be tried.
    pub(super) fn note_attempt(&mut self, inputs: &Inputs) {
        let fields = self.edit.fields();
        fields.last_attempted_revision = Some(inputs.artifact.revision.clone());
        if fields.last_attempted_digest.as_deref() != Some(&inputs.digest) {
            fields.failures = None;
        }
        fields.last_attempted_digest = Some(inputs.digest.clone());
    }

    /// Counts a failed attempt at these inputs; a renewed spec starts again from one.
    pub(super) fn count_failure(&mut self, inputs: &Inputs) -> i64 {
        let same = self.before.last_attempted_digest.as_deref() == Some(&inputs.digest);
        let earlier = self
            .before
            .failures
            .filter(|_| same && !self.attempt().renewed);
        let failures = earlier.unwrap_or(0).saturating_add(1);
        self.edit.fields().failures = Some(failures);
        failures
    }

    /// Installs or upgrades, once the gates are open.
    async fn deploy(
        &mut self,
        plan: RecoveryPlan,
        history: History,
        inputs: Inputs,
    ) -> Result<End, End> {
        self.pass_gates(&inputs).await?;
        let chart = self.chart(&inputs).await?;
        let is_install = matches!(plan.next, NextAction::Install { .. });
        let rendered = self.render(&chart, &inputs, &plan, &history).await?;
        let last = self.last_release(&history).await?;
        let config = self.config(&inputs, last.as_ref());
        let deploy = Deploy {
            release: self.release_key(),
            history,
            plan,
            desired: self.wanted(rendered, config, &inputs),
            options: super::options::deploy(&self.release, &self.context.settings),
        };
        let progress = if is_install {
            Progress::Installing
        } else {
            Progress::Upgrading
        };
        self.begin(progress, &inputs).await;
        let (machine, timed) = if is_install {
            (helm_kube::install(deploy), Timed::Install)
        } else {
            (helm_kube::upgrade(deploy), Timed::Upgrade)
        };
        let timer = self.context.metrics.time(timed, self.target.clone());
        let result = carry_out(&self.cluster, machine, self.slot, &self.context.shutdown).await?;
        timer.ended(result.is_ok());
        self.after_deploy(result, is_install, inputs).await
    }

    fn wanted(&self, rendered: Rendered, config: Tree, inputs: &Inputs) -> Wanted {
        let annotations = [
            (helm_kube::DIGEST.to_owned(), inputs.digest.clone()),
            (
                crate::api::ANTECEDENT_ANNOTATION.to_owned(),
                resource_id(&self.key),
            ),
        ];
        Wanted {
            manifest: rendered.manifest,
            hooks: rendered.hooks,
            notes: rendered.notes,
            crds: rendered.crds,
            chart: rendered.chart.unwrap_or_default(),
            config: Some(config),
            annotations: annotations.into(),
            ..Wanted::default()
        }
    }

    /// Says in the status that a long action begins, before its first request.
    pub(super) async fn begin(&mut self, progress: Progress, inputs: &Inputs) {
        self.note_attempt(inputs);
        let spec = &self.release.spec;
        let timeout = match progress {
            Progress::Testing => spec.test().timeout(),
            Progress::RollingBack => spec.rollback().timeout(),
            _ => spec.timeout(),
        };
        self.edit.begin(progress, timeout);
        let verb = match progress {
            Progress::Installing => "running installation",
            Progress::Upgrading => "running upgrade",
            Progress::Testing => "running test",
            Progress::RollingBack => "running rollback",
            Progress::Uninstalling => "running uninstall",
        };
        tracing::info!(release = %self.key, revision = inputs.artifact.revision, "{verb}");
        self.publish().await;
    }

    /// Takes over what the records say, as the status loop does.
    fn observe_records(&mut self) {
        let history = self.context.caches.records.history(&self.target);
        if let Some(newest) = history.newest() {
            self.edit.fields().release_name = Some(self.target.name.clone());
            self.edit.fields().release_status = Some(newest.status.to_string());
        }
    }

    /// Writes the status as it is now. A failure to do so does not stop the action.
    pub(super) async fn publish(&mut self) {
        self.observe_records();
        let status = self.edit.clone().into_status();
        if let Err(error) = self.context.status.write(&self.release, status).await {
            tracing::warn!(release = %self.key, %error, "status not written");
        }
    }

    /// What follows an install or upgrade that came to its end.
    pub(super) async fn after_deploy(
        &mut self,
        result: Result<Outcome, ActionError>,
        is_install: bool,
        inputs: Inputs,
    ) -> Result<End, End> {
        let what = if is_install {
            "installation"
        } else {
            "upgrade"
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return self.deploy_failed(error, what, is_install, inputs).await,
        };
        self.acted = true;
        tracing::info!(release = %self.key, revision = inputs.artifact.revision, "{what} succeeded");
        for warning in &outcome.report.warnings {
            tracing::warn!(release = %self.key, "{warning}");
        }
        self.edit.deployed();
        if self.release.spec.test().enable() {
            let history = self.fresh_history().await?;
            return self.test_after(history, &inputs, is_install).await;
        }
        let reason = if is_install {
            Reason::InstallSucceeded
        } else {
            Reason::UpgradeSucceeded
        };
        Ok(self.settle(&inputs, reason))
    }

    /// The history as the cluster has it now: the watch may lag behind our own writes.
    pub(super) async fn fresh_history(&mut self) -> Result<History, End> {
        let machine = helm_kube::history(self.release_key(), Driver::Secret);
        let history = self.cluster.run(machine).await;
        history.map_err(|error| self.fail(Trouble::of_cluster(Stage::Decision, &error)))
    }

    async fn deploy_failed(
        &mut self,
        error: ActionError,
        what: &str,
        is_install: bool,
        inputs: Inputs,
    ) -> Result<End, End> {
        tracing::warn!(release = %self.key, "{what} failed: {error}");
        let message = format!("{what} failed: {}", error.message);
        if error.resumable {
            // It is taken up where it stopped: nothing about the inputs is known yet.
            let failure = Failure {
                reason: error.reason.to_string(),
                message,
                retried: true,
            };
            self.edit.deploy_failed(&failure);
            return Ok(End::Failed(failure, error.retry_after));
        }
        let failures = self.count_failure(&inputs);
        let limit = self
            .release
            .spec
            .retry
            .as_ref()
            .and_then(|retry| retry.limit);
        let retried = is_retried(&error, failures, limit);
        let failure = Failure {
            reason: error.reason.to_string(),
            message,
            retried,
        };
        self.edit.deploy_failed(&failure);
        let may_roll_back = !is_install && self.release.spec.rollback().enable();
        if may_roll_back && error.revision.is_some() {
            self.publish().await;
            return self.roll_back(failure, &inputs).await;
        }
        Ok(End::Failed(failure, error.retry_after))
    }

    /// Looks at the gates; an error means that the release waits.
    async fn pass_gates(&mut self, inputs: &Inputs) -> Result<(), End> {
        let releases = &self.context.caches.releases;
        let results = self
            .context
            .gates
            .look(&self.release, &inputs.digest, releases)
            .await;
        let names: Vec<String> = results
            .iter()
            .map(|result| gate_condition(&result.name))
            .collect();
        self.edit.retain(|name| {
            !name.starts_with("Gate-") && name != "AllGatesPassed"
                || names.iter().any(|n| n == name)
        });
        if results.is_empty() {
            return Ok(());
        }
        for (result, name) in results.iter().zip(&names) {
            let (status, reason, message) = result.verdict.condition();
            let reason = reason.to_string();
            let old = self.before.condition(name);
            if old.is_none_or(|old| old.reason.as_deref() != Some(&reason)) {
                let text = format!("gate '{}': {message}", result.name);
                self.events.push(match status {
                    ConditionStatus::True => EventNote::normal(reason.as_str(), text),
                    _ => EventNote::warning(reason.as_str(), text),
                });
            }
            self.edit.set_named(name, status, &reason, message);
        }
        let closed: Vec<_> = results
            .iter()
            .filter(|result| result.mandatory && !result.verdict.passes())
            .collect();
        let all = ConditionType::AllGatesPassed.to_string();
        let Some(first) = closed.first() else {
            let reason = Reason::GatePassed.to_string();
            self.edit.set_named(
                &all,
                ConditionStatus::True,
                &reason,
                "every mandatory gate passes",
            );
            self.edit.fields().waiting_digest = None;
            return Ok(());
        };
        let (_, reason, text) = first.verdict.condition();
        let reason = reason.to_string();
        let message = format!("gate '{}': {text}", first.name);
        self.edit
            .set_named(&all, ConditionStatus::False, &reason, &message);
        self.edit.pending(&reason, &message);
        self.edit.fields().waiting_digest = Some(inputs.digest.clone());
        let again = closed.iter().map(|result| result.again).min();
        Err(End::Waiting(again.unwrap_or(Duration::from_secs(30))))
    }

    /// Writes the final status and Events, and says when to look again.
    async fn conclude(mut self, end: End) -> Next {
        if matches!(end, End::Abandoned) {
            let limit = Duration::from_secs(5);
            if tokio::time::timeout(limit, self.give_up()).await.is_err() {
                tracing::warn!(release = %self.key, "not marked in time: the next start goes on with it");
            }
        }
        let requested = self
            .release
            .annotations()
            .get(RECONCILE_ANNOTATION)
            .cloned();
        if requested.is_some() && !matches!(end, End::Abandoned) {
            self.edit.fields().last_handled_reconcile_at = requested;
        }
        self.observe_records();
        let final_status = match end {
            End::Abandoned => self.edit.clone().into_status(),
            _ => self.edit.clone().finish(),
        };
        self.note_events(&end, &final_status);
        let written = self
            .context
            .status
            .write(&self.release, final_status.clone())
            .await;
        let events = std::mem::take(&mut self.events);
        match written {
            Ok(Written::Gone) => return Next::OnChange,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(release = %self.key, %error, "status not written");
                self.forget_settled();
                return Next::After(Duration::from_secs(5));
            }
        }
        for event in &events {
            self.context.events.record(&self.release, event).await;
        }
        self.show(&final_status);
        self.next(end)
    }

    fn note_events(&mut self, end: &End, after: &HelmReleaseStatus) {
        let NamespacedName { namespace, name } = &self.target;
        let about = if self.about.is_empty() {
            String::new()
        } else {
            format!(": {}", self.about)
        };
        match end {
            End::Settled => {
                let released = |status: &HelmReleaseStatus| status.is_true(ConditionType::Released);
                if self.acted || released(after) && !released(&self.before) {
                    self.events.push(EventNote::normal(
                        "ReleaseSynced",
                        format!("managed release '{name}' in namespace '{namespace}' synchronized{about}"),
                    ));
                }
            }
            End::Failed(failure, _) => {
                let story = |status: &HelmReleaseStatus| {
                    let ready = status.condition("Ready");
                    (
                        ready.and_then(|ready| ready.reason.clone()),
                        ready.map(|ready| ready.status),
                        status.last_attempted_digest.clone(),
                        status.observed_generation,
                    )
                };
                if story(after) != story(&self.before) {
                    let about = if self.about.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", self.about)
                    };
                    self.events.push(EventNote::warning(
                        "FailedReleaseSync",
                        format!(
                            "synchronization of release '{name}' in namespace '{namespace}' failed: {}{about}",
                            failure.message
                        ),
                    ));
                    tracing::error!(release = %self.key, reason = failure.reason, "{}", failure.message);
                }
            }
            End::Held | End::Waiting(_) | End::Abandoned => {}
        }
    }

    /// Shows the status in the metrics.
    fn show(&self, status: &HelmReleaseStatus) {
        super::show::show(self.context, &self.key, &self.target, status);
    }

    fn forget_settled(&self) {
        self.context
            .remember(&self.key, |memory| memory.settled = None);
    }

    fn next(&self, end: End) -> Next {
        let changes = self.context.changes(&self.key);
        let reconcile_at = self
            .release
            .annotations()
            .get(RECONCILE_ANNOTATION)
            .cloned();
        let generation = self.release.metadata.generation;
        let attempted = Attempted {
            generation,
            reconcile_at: reconcile_at.clone(),
            changes,
        };
        match end {
            End::Settled | End::Held => {
                let history = self.context.caches.records.history(&self.target);
                let settled = Settled {
                    generation,
                    uid: self.release.metadata.uid.clone(),
                    newest: history.newest().map(|newest| newest.version.clone()),
                    reconcile_at,
                    changes,
                };
                self.context.remember(&self.key, |memory| {
                    memory.failures = 0;
                    memory.retry = None;
                    // After an action the watch is still to tell of its last writes.
                    memory.settled = (!self.acted).then_some(settled);
                });
                Next::Settled
            }
            End::Waiting(after) => Next::After(after),
            End::Failed(failure, asked) => {
                let failures = self.context.remember(&self.key, |memory| {
                    memory.settled = None;
                    let same = memory
                        .retry
                        .as_ref()
                        .is_some_and(|(_, what)| *what == attempted);
                    memory.failures = if same {
                        memory.failures.saturating_add(1)
                    } else {
                        1
                    };
                    memory.failures
                });
                if !failure.retried {
                    return Next::OnChange;
                }
                let pause = Backoff::of(&self.release.spec)
                    .jittered(failures, &self.key.to_string())
                    .max(asked.unwrap_or_default());
                self.context.remember(&self.key, |memory| {
                    memory.retry = Some((Instant::now() + pause, attempted));
                });
                self.context.metrics.count_retry();
                Next::After(pause)
            }
            End::Abandoned => Next::OnChange,
        }
    }
}

/// When a settled release is verified again.
pub(super) fn interval(release: &HelmRelease, settings: &super::context::Settings) -> Duration {
    let least = Duration::from_secs(1);
    let interval = release
        .spec
        .interval
        .map_or(settings.sync_interval, crate::api::Duration::get);
    let interval = interval.max(least);
    jitter(interval, &release.key().to_string(), 0)
}

/// Plans the next look at a key.
pub(super) fn plan_next(context: &Context, key: &NamespacedName, next: Next) {
    let Some(crate::watch::Cached::Good(release)) = context.caches.releases.get(key) else {
        return;
    };
    let delay = match next {
        Next::Never => return,
        Next::After(delay) => delay,
        Next::Settled | Next::OnChange => interval(&release, &context.settings),
    };
    context
        .queue
        .add_after(key.clone(), delay, Priority::Periodic);
}

//! One reconciliation: observe, decide, act, report.

use std::sync::Arc;
use std::time::Duration;

use goyaml::Tree;
use helm_engine::Status;
use helm_kube::{
    ActionError, Cluster, History, Machine, Outcome, RecoverContext, RecoveryPlan, ReleaseKey,
    recover,
};
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::act::{Abandoned, NoAnswer, Slot, carry_out};
use super::context::{Attempted, Context, Settled, Wrote};
use super::decide::{Action, Attempt, Desired, decide};
use super::digest::{input_digest, values_digest};
use super::trouble::{Stage, Trouble};
use super::values::ValuesReader;
use crate::api::{
    ConditionType, DriftMode, HelmRelease, HelmReleaseStatus, HelmVersion, NamespacedName, Phase,
    RECONCILE_ANNOTATION, Reason, check_release_name, gate_condition, resource_id,
};
use crate::source::{ChartArtifact, Freshness, SourceError};
use crate::status::{EventNote, Failure, StatusEdit, stale_source};
use crate::telemetry::{Action as Timed, TRACE};

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

impl End {
    /// Notes it in the span of the reconciliation.
    fn note(&self, span: &Span) {
        let outcome = match self {
            Self::Settled => "settled",
            Self::Held => "held",
            Self::Waiting(_) => "waiting",
            Self::Failed(failure, _) => {
                span.record("otel.status_code", "ERROR");
                &failure.reason
            }
            Self::Abandoned => "abandoned",
        };
        span.record("outcome", outcome);
    }
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Failed(trouble.failure(), None)
    }
}

/// When to look again after too many others waited for answers of their servers.
const CROWDED_PAUSE: Duration = Duration::from_secs(10);

impl From<NoAnswer> for End {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Crowded => Self::Waiting(CROWDED_PAUSE),
            NoAnswer::Stopping => Self::Abandoned,
        }
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

/// Chart, revision and digest, for Events; without the chart where `Chart.yaml` names none.
fn about(chart: &str, revision: &str, digest: &str) -> String {
    let told = format!("revision {revision}, digest {digest}");
    if chart.is_empty() {
        return told;
    }
    format!("chart {chart}, {told}")
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
    /// Where the release is deployed, asked as it says.
    pub(super) cluster: Cluster,
    /// The daemon's own cluster, asked as the release says.
    pub(super) local: Cluster,
    /// Chart, revision and digest, for Events; known once the chart is.
    pub(super) about: String,
    /// Whether the source could be asked, once the chart is here: why not, if so.
    pub(super) asked: Option<Result<(), SourceError>>,
    /// Something was installed, upgraded or rolled back.
    pub(super) acted: bool,
    /// When to look again, although the release is as wanted: drift could not be mended.
    pub(super) again: Option<Duration>,
    pub(super) events: Vec<EventNote>,
}

/// Reconciles a HelmRelease that can be read and is not being deleted.
pub(super) async fn sync(
    context: &Arc<Context>,
    key: &NamespacedName,
    release: &Arc<HelmRelease>,
    slot: &mut Slot,
) -> Next {
    if let Some(next) = nothing_to_do(context, release, key) {
        return next;
    }
    let target = release.release_key();
    let timer = context.metrics.time(Timed::Sync, target.clone());
    let mut sync = Sync::new(context, key, release, slot);
    let span = tracing::info_span!(
        target: TRACE, "reconcile", release = %key, chart = Empty, revision = Empty,
        outcome = Empty, otel.status_code = Empty,
    );
    let end = sync.run().instrument(span.clone()).await;
    timer.ended(!matches!(end, End::Failed(..)));
    end.note(&span);
    sync.conclude(end).await
}

/// What can be told without looking at anything but memory: that nothing has changed since nothing was left
/// to do, or that a pause is not over.
fn nothing_to_do(context: &Context, release: &HelmRelease, key: &NamespacedName) -> Option<Next> {
    let changes = context.changes(key);
    let newest = context.caches.records.newest(&release.release_key());
    let reconcile_at = release.annotations().get(RECONCILE_ANNOTATION).cloned();
    let now = Settled::new(release, newest.as_ref(), reconcile_at.as_ref(), changes);
    let attempted = Attempted {
        generation: release.metadata.generation,
        reconcile_at,
        changes,
    };
    // What no watch tells of has to be looked at.
    let must_look = super::values::has_external(release)
        || super::chart::can_move(release)
        || !context.is_watched(release);
    let is_compared = release.spec.drift_mode() != DriftMode::Disabled;
    context.remember(key, |memory| {
        let drift = memory
            .drift_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        let drift = is_compared.then(|| drift.unwrap_or_default());
        if memory.settled == Some(now)
            && !must_look
            && !memory.chart_can_move
            && drift.is_none_or(|left| !left.is_zero())
        {
            return Some(drift.map_or(Next::Settled, Next::After));
        }
        match memory.retry.as_deref() {
            Some((at, what)) if *what == attempted => {
                let left = at.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Next::After(left))
            }
            _ => None,
        }
    })
}

impl<'a> Sync<'a> {
    fn new(
        context: &'a Arc<Context>,
        key: &NamespacedName,
        release: &Arc<HelmRelease>,
        slot: &'a mut Slot,
    ) -> Self {
        let before = context.status.current(release);
        let target = release.release_key();
        let generation = release.metadata.generation.unwrap_or(0);
        let edit = StatusEdit::new(before.clone(), target.clone(), generation, Timestamp::now());
        Self {
            context,
            release: Arc::clone(release),
            key: key.clone(),
            target,
            before,
            edit,
            slot,
            cluster: context.clusters.own().clone(),
            local: context.clusters.own().clone(),
            about: String::new(),
            asked: None,
            acted: false,
            again: None,
            events: Vec::new(),
        }
    }

    /// The whole sync; the status is edited on the way.
    async fn run(&mut self) -> End {
        let end = match self.steps().await {
            Ok(end) | Err(end) => end,
        };
        self.tell_of_source();
        end
    }

    /// A source that cannot be asked for news holds nothing up, and is told all the same: in `ChartFetched`, and
    /// in an Event when that begins, changes and ends.
    fn tell_of_source(&mut self) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let told = stale_source(&self.before).map(str::to_owned);
        match asked {
            Ok(()) => {
                self.edit.source_fresh();
                if told.is_some() {
                    self.events.push(EventNote::normal(
                        "SourceRecovered",
                        "the source of the chart answers again",
                    ));
                }
            }
            Err(error) => {
                let reason = error.reason().as_str();
                self.edit.source_stale(reason, &error.to_string());
                if stale_source(self.edit.status()) != told.as_deref() {
                    self.events
                        .push(EventNote::warning(reason, error.to_string()));
                }
            }
        }
    }

    async fn steps(&mut self) -> Result<End, End> {
        self.warn_of_odd_input();
        if self.release.spec.suspended() {
            self.edit.suspended();
            return Ok(End::Held);
        }
        self.check_spec()?;
        self.drop_old_gates();
        self.ensure_finalizer().await?;
        self.connect().await?;
        let inputs = self.inputs().await?;
        let history = self.history().await?;
        let (action, plan) = self.decide(&inputs, &history);
        tracing::debug!(release = %self.key, ?action, digest = inputs.digest, "decided");
        self.act(action, plan, history, inputs).await
    }

    /// One Warning Event for a new generation whose spec is odd, or for an odd object that is new to us: 1.4 may have
    /// left it.
    fn warn_of_odd_input(&mut self) {
        // Whatever we end with says whether something is under way.
        let is_new = self.before.condition("Progressing").is_none();
        let is_seen = self.before.observed_generation >= self.release.metadata.generation;
        if is_seen && !is_new {
            return;
        }
        let warnings = crate::api::odd_input(&self.release, is_new);
        if !warnings.is_empty() {
            self.events
                .push(EventNote::warning("OddInput", warnings.join("; ")));
        }
    }

    /// Conditions of gates that the spec no longer has.
    fn drop_old_gates(&mut self) {
        let gates = super::gates::all_gates(&self.release);
        let names: Vec<String> = gates
            .iter()
            .map(|gate| gate_condition(&gate.name))
            .collect();
        self.edit.retain(|name| match name {
            "AllGatesPassed" => !names.is_empty(),
            name if name.starts_with("Gate-") => names.iter().any(|known| known == name),
            _ => true,
        });
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
            Stage::Chart => {
                // That its source answers does not heal this.
                self.asked = None;
                self.edit.chart_fetch_failed(&failure);
            }
            Stage::Spec | Stage::Values | Stage::Decision => self.edit.failed(&failure),
        }
        End::Failed(failure, None)
    }

    /// The cluster does not say what a decision needs.
    pub(super) fn fail_to_ask(&mut self, error: &ActionError) -> End {
        self.fail(Trouble::of_cluster(Stage::Decision, error))
    }

    /// The release belongs to another object.
    pub(super) fn refuse(&mut self, owner: &str) -> End {
        let message = format!("release appears to be managed by '{owner}'");
        self.fail(Trouble::new(Stage::Decision, Reason::OwnedByOther, message))
    }

    /// As [`fail`](Self::fail), and notes that this revision was attempted. What 1.4 has noted stays as long as
    /// nothing of ours was deployed: whether to adopt its release is read from there.
    pub(super) fn fail_at(&mut self, revision: &str, trouble: Trouble) -> End {
        let before = &self.before;
        if before.last_attempted_digest.is_some() || before.last_attempted_revision.is_none() {
            self.edit.fields().last_attempted_revision = Some(revision.to_owned());
        }
        self.fail(trouble)
    }

    /// From here on every request of this release is made as it says, where it says.
    async fn connect(&mut self) -> Result<(), End> {
        let account = self.context.settings.default_service_account.as_deref();
        let local = self.context.clusters.local(&self.release, account);
        self.local = local.map_err(|trouble| self.fail(trouble))?;
        let target = self.context.clusters.target(&self.release, account).await;
        self.cluster = target.map_err(|trouble| self.fail(trouble))?;
        Ok(())
    }

    /// Chart and values, and their digest.
    async fn inputs(&mut self) -> Result<Inputs, End> {
        let source = super::chart::source_of(&self.release, &self.context.settings);
        let source = source.map_err(|trouble| self.fail(trouble))?;
        let mut freshness = self.context.freshness(&self.key);
        let requested = self.release.annotations().get(RECONCILE_ANNOTATION);
        if requested.is_some() && requested != self.before.last_handled_reconcile_at.as_ref() {
            // Someone wants the newest now, and not what the last poll saw.
            self.context.sources.refresh(&source);
            freshness = freshness.and(Freshness::since(std::time::Instant::now()));
        }
        let span = tracing::info_span!(target: TRACE, "fetch");
        let fetch = self.context.sources.fetch(&source, freshness);
        let (aside, shutdown) = (&self.context.aside, &self.context.shutdown);
        let fetch = fetch.instrument(span);
        let artifact = match self.slot.wait_for(fetch, aside, shutdown).await? {
            Ok(artifact) => artifact,
            Err(error) if error.reason() == crate::source::Reason::Cloning => {
                self.edit
                    .source_pending(error.reason().as_str(), &error.to_string());
                // The mirror tells when it is ready; this is for the case that it cannot.
                return Err(End::Waiting(Duration::from_secs(30)));
            }
            Err(error) => return Err(self.fail(Trouble::of_source(&error))),
        };
        let trouble = self.context.sources.trouble(&source);
        let is_asked = trouble.is_none();
        self.asked = Some(trouble.map_or(Ok(()), Err));
        let is_news = self.before.last_attempted_revision.as_deref() != Some(&artifact.revision);
        // Else the condition would turn back and forth, with a write for it.
        if is_asked && is_news {
            self.edit.chart_fetched();
        }
        self.context.remember(&self.key, |memory| {
            memory.chart_can_move = artifact.can_move;
        });
        let reader = ValuesReader {
            client: self.local.client().clone(),
            external: self.context.external.clone(),
            own_namespace_only: self.context.settings.own_namespace_only,
        };
        let composed = reader.compose(&self.release, &artifact);
        let values = self.slot.wait_for(composed, aside, shutdown).await?;
        let values = values.map_err(|trouble| self.fail_at(&artifact.revision, trouble))?;
        let digest = input_digest(&self.release, &artifact.digest, &values_digest(&values));
        let inputs = Inputs {
            artifact,
            values,
            digest,
        };
        let revision = &inputs.artifact.revision;
        Span::current()
            .record("chart", inputs.chart())
            .record("revision", &**revision);
        self.about = about(&inputs.chart(), revision, &inputs.digest);
        Ok(inputs)
    }

    /// The records of the release: from the watch where it sees them and is not behind what we wrote, else by asking.
    pub(super) async fn history(&mut self) -> Result<History, End> {
        if self.context.is_watched(&self.release) {
            let history = self.context.caches.records.history(&self.target);
            if self.context.unseen(&self.key, &history).is_none() {
                return Ok(history);
            }
        }
        self.fresh_history().await
    }

    pub(super) fn release_key(&self) -> ReleaseKey {
        ReleaseKey::new(&*self.target.name, &*self.target.namespace)
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

    pub(super) fn attempt(&self) -> Attempt<'_> {
        let requested = self.release.annotations().get(RECONCILE_ANNOTATION);
        let renewed = self.before.observed_generation < self.release.metadata.generation
            || requested.is_some() && requested != self.before.last_handled_reconcile_at.as_ref();
        Attempt {
            digest: self.before.last_attempted_digest.as_deref(),
            succeeded: self.before.digest.as_deref(),
            failures: u32::try_from(self.before.failures.unwrap_or(0)).unwrap_or(u32::MAX),
            stalled: self.before.is_true(ConditionType::Stalled),
            renewed,
            inherited: !renewed
                && self.before.observed_generation.is_some()
                && self.before.last_attempted_digest.is_none(),
        }
    }

    pub(super) fn decide(&self, inputs: &Inputs, history: &History) -> (Action, RecoveryPlan) {
        let plan = self.plan(history, Some(&inputs.digest));
        let owner = resource_id(&self.key);
        let desired = self.desired(&inputs.digest, &owner);
        let newest = history.newest().map(|newest| newest.version.clone());
        let adopted = self
            .context
            .remember(&self.key, |memory| memory.adopted.clone());
        let adopted = adopted.filter(|adopted| Some(&adopted.0) == newest.as_ref());
        let adopted = adopted.as_ref().map(|adopted| adopted.1.as_str());
        (
            decide(desired, history, self.attempt(), plan.next, adopted),
            plan,
        )
    }

    pub(super) fn desired<'b>(&self, digest: &'b str, owner: &'b str) -> Desired<'b> {
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
            Action::Nothing => {
                let end = self.settle(&inputs, Reason::UpToDate);
                self.look_for_drift(history).await?;
                Ok(end)
            }
            Action::Hold => Ok(self.hold(&inputs)),
            Action::Compare => self.compare(plan, history, inputs).await,
            Action::Install | Action::Upgrade => self.deploy(plan, history, inputs).await,
            Action::Resume(interrupted) => self.resume(interrupted, plan, history, inputs).await,
            Action::RollBack => self.roll_back_again(&inputs).await,
            Action::Test => self.test(history, &inputs).await,
            Action::TakeBack => self.take_back().await,
            Action::WaitUntil(until) => {
                let left = until.duration_since(Timestamp::now()).unsigned_abs();
                let message = "another client is at work on the release, or died lately";
                self.edit.source_pending("OperationInProgress", message);
                Ok(End::Waiting(left.min(Duration::from_secs(60))))
            }
            Action::Refuse => {
                let owner = history.newest().and_then(super::decide::owner_of);
                Err(self.refuse(owner.unwrap_or_default()))
            }
        }
    }

    /// These inputs failed before, and are not tried again. What failed since, before it came to an action, and was
    /// taken back is told no longer.
    fn hold(&mut self, inputs: &Inputs) -> End {
        let phase = self.before.phase;
        let ready = self.before.condition(&ConditionType::Ready.to_string());
        let reason = ready.and_then(|ready| ready.reason.as_deref());
        let told = Reason::UpgradeFailed.to_string();
        let is_of_others = matches!(phase, Some(Phase::ChartFetchFailed | Phase::Failed));
        if is_of_others && reason != Some(&told) {
            let message = format!(
                "this chart and these values failed before and are not tried again: change them, or set the \
                 annotation {RECONCILE_ANNOTATION}"
            );
            let failure = Failure::stalled(Reason::UpgradeFailed, message);
            self.edit.deploy_failed(&failure);
            self.edit.fields().last_attempted_revision = Some(inputs.artifact.revision.clone());
        }
        End::Held
    }

    /// Runs an action on the release to its end, and keeps in mind what it recorded.
    pub(super) async fn carry_out(
        &mut self,
        timed: Timed,
        machine: Machine<Result<Outcome, ActionError>>,
    ) -> Result<Result<Outcome, ActionError>, Abandoned> {
        self.note_written(None);
        let result = self.time(timed, machine).await?;
        self.note_written(match &result {
            Ok(outcome) => Some((outcome.release.revision, outcome.release.info.status)),
            Err(error) => error.revision.map(|failed| (failed, Status::Failed)),
        });
        Ok(result)
    }

    pub(super) fn note_written(&self, newest: Option<(i64, Status)>) {
        let wrote = newest.map(|(revision, status)| Wrote::new(revision, status));
        self.context
            .remember(&self.key, |memory| memory.wrote = wrote);
    }

    /// Runs a machine that works on the release to its end, and times it.
    pub(super) async fn time<T>(
        &mut self,
        timed: Timed,
        machine: Machine<Result<T, ActionError>>,
    ) -> Result<Result<T, ActionError>, Abandoned> {
        let timer = self.context.metrics.time(timed, self.target.clone());
        let result = carry_out(&self.cluster, machine, self.slot, &self.context.shutdown).await?;
        timer.ended(result.is_ok());
        Ok(result)
    }

    /// Marks what a crash has left in the records of a release that needs nothing else.
    pub(super) async fn mend(&mut self, history: &History, plan: &RecoveryPlan) -> Result<(), End> {
        let machine = helm_kube::mend(helm_kube::Resume {
            release: self.release_key(),
            history: history.clone(),
            plan: plan.clone(),
            options: super::options::deploy(&self.release, &self.context.settings),
        });
        let mended = self.cluster.run(machine).await;
        mended.map_err(|error| self.fail_to_ask(&error))
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
        let is_news = self.before.digest.as_deref() != Some(&inputs.digest);
        self.acted |=
            is_news && self.before.last_attempted_digest.as_deref() == Some(&inputs.digest);
        let is_news = is_news || self.acted;
        let fields = self.edit.fields();
        fields.digest = Some(inputs.digest.clone());
        fields.last_attempted_digest = Some(inputs.digest.clone());
        fields.chart = Some(inputs.chart()).filter(|chart| !chart.is_empty());
        if fields.revision.is_none() || is_news {
            fields.revision = Some(inputs.artifact.revision.clone());
        }
        // Nothing later is attempted: what failed since was taken back, or its status was lost in a crash.
        fields.last_attempted_revision.clone_from(&fields.revision);
        End::Settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_a_chart_only_if_it_has_a_name() {
        assert_eq!(
            about("app-1.0.0", "abc", "d"),
            "chart app-1.0.0, revision abc, digest d"
        );
        assert_eq!(about("", "abc", "d"), "revision abc, digest d");
    }
}

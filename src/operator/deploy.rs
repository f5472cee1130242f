//! Install and upgrade: render, act, and what follows.

use std::sync::Arc;
use std::time::Duration;

use goyaml::Tree;
use helm_engine::{Chart, Release, RenderError, RenderOptions, Rendered};
use helm_kube::{
    ActionError, Deploy, Desired as Wanted, Driver, History, NextAction, Outcome, RecoveryPlan,
};

use super::reconcile::{End, Inputs, Sync};
use super::trouble::{is_retried, render_failure};
use crate::api::{Reason, resource_id};
use crate::status::{Failure, Progress, Written};
use crate::telemetry::{Action as Timed, TRACE};

/// How long a watch may take to show a change that is known of.
const LAG: Duration = Duration::from_secs(2);
/// The pause after another client wrote first.
const OVERTAKEN: Duration = Duration::from_secs(1);
/// How often in a row that is no failure.
const MOST_OVERTAKEN: u32 = 5;

/// How long the templates of one release may take: a worker that renders does nothing else, and there are few. Real
/// charts take milliseconds, and seconds where keys are made on a small share of a core.
const RENDER_TIME: Duration = Duration::from_secs(60);

impl Sync<'_> {
    pub(super) async fn chart(&mut self, inputs: &Inputs) -> Result<Arc<Chart>, End> {
        let chart = self.context.chart(&inputs.artifact).await;
        chart.map_err(|trouble| self.fail_at(&inputs.artifact.revision, trouble))
    }

    /// The values that are recorded: with `resetValues: false`, those of the last revision below ours.
    pub(super) fn config(&self, inputs: &Inputs, last: Option<&Release>) -> Tree {
        let last = last.filter(|_| !self.release.spec.reset_values());
        super::compare::with_old_values(inputs.values.clone(), last)
    }

    /// Renders the chart for the revision that the plan names.
    pub(super) async fn render(
        &mut self,
        chart: &Arc<Chart>,
        inputs: &Inputs,
        plan: &RecoveryPlan,
        last: Option<&Release>,
    ) -> Result<Rendered, End> {
        let (revision, is_install) = match plan.next {
            NextAction::Install { revision, .. } => (revision, true),
            NextAction::Upgrade { revision, .. } => (revision, false),
            NextAction::Resume { revision, .. } | NextAction::Wait { revision, .. } => {
                (revision, false)
            }
        };
        let capabilities = self.cluster.capabilities().await;
        let capabilities = capabilities.map_err(|error| self.fail_to_ask(&error))?;
        let mut options = RenderOptions {
            release_name: self.target.name.to_string(),
            namespace: self.target.namespace.to_string(),
            revision,
            is_install,
            is_upgrade: !is_install,
            capabilities,
            lookup: Some(Arc::new(
                self.cluster.lookup(tokio::runtime::Handle::current()),
            )),
            keep_chart: true,
            skip_schema: !self.release.spec.checks_schemas(),
            ..RenderOptions::default()
        };
        options.limits.time = Some(RENDER_TIME);
        let config = self.config(inputs, last);
        let chart = super::compare::with_old_defaults(chart, last);
        let span = tracing::info_span!(target: TRACE, "render");
        let render = move || span.in_scope(|| helm_engine::render(&chart, &config, &options));
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
                self.note_attempt(inputs);
                Err(self.render_failed(&error, is_install, inputs))
            }
        }
    }

    fn render_failed(&mut self, error: &RenderError, is_install: bool, inputs: &Inputs) -> End {
        let mut failure = render_failure(error);
        let failures = self.count_failure(inputs);
        failure.retried = failures <= self.release.spec.retry_limit().unwrap_or(0);
        failure.message = format!("{} failed: {}", verb(is_install), failure.message);
        self.edit.deploy_failed(&failure);
        End::Failed(failure, None)
    }

    /// The last revision, if values of it are to be used again.
    pub(super) async fn last_release(&mut self, history: &History) -> Result<Option<Release>, End> {
        let newest = history.deployed().or_else(|| history.newest());
        let Some(newest) = newest.filter(|_| !self.release.spec.reset_values()) else {
            return Ok(None);
        };
        self.record(newest.revision).await.map(Some)
    }

    /// What is recorded of a revision.
    pub(super) async fn record(&mut self, revision: i64) -> Result<Release, End> {
        let machine = helm_kube::get(self.release_key(), Driver::Secret, Some(revision));
        match self.cluster.run(machine).await {
            Ok(stored) => Ok(stored.release),
            Err(error) => Err(self.fail_to_ask(&error)),
        }
    }

    /// Says in the status what is about to be tried.
    pub(super) fn note_attempt(&mut self, inputs: &Inputs) {
        let renewed = self.attempt().renewed;
        let fields = self.edit.fields();
        fields.last_attempted_revision = Some(inputs.artifact.revision.clone());
        if fields.last_attempted_digest.as_deref() != Some(&inputs.digest) {
            fields.failures = None;
            fields.rollback_count = None;
        }
        if renewed {
            fields.rollback_count = None;
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
    pub(super) async fn deploy(
        &mut self,
        plan: RecoveryPlan,
        history: History,
        inputs: Inputs,
    ) -> Result<End, End> {
        self.pass_gates(&inputs, &history).await?;
        let chart = self.chart(&inputs).await?;
        let is_install = matches!(plan.next, NextAction::Install { .. });
        let last = self.last_release(&history).await?;
        let rendered = self.render(&chart, &inputs, &plan, last.as_ref()).await?;
        let config = self.config(&inputs, last.as_ref());
        if self.context.settings.log_diffs && !is_install {
            self.log_difference(&history, &rendered, &config).await;
        }
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
        self.begin(progress, &inputs).await?;
        let (machine, timed) = if is_install {
            (helm_kube::install(deploy), Timed::Install)
        } else {
            (helm_kube::upgrade(deploy), Timed::Upgrade)
        };
        let result = self.carry_out(timed, machine).await?;
        self.after_deploy(result, is_install, inputs).await
    }

    pub(super) fn wanted(&self, rendered: Rendered, config: Tree, inputs: &Inputs) -> Wanted {
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

    /// Says in the status that a long action begins, before its first request. The answer tells whether
    /// the spec that is acted on is still the newest: a watch that lags behind, as that of a replica that
    /// has just taken over may do, deploys nothing old.
    pub(super) async fn begin(&mut self, progress: Progress, inputs: &Inputs) -> Result<(), End> {
        let unedited = self.edit.clone();
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
        let is_current = match self.publish().await {
            Some(Written::Overtaken | Written::Gone) => false,
            // It was said before a crash: nothing was sent, so nothing was answered.
            Some(Written::Unchanged) => {
                let asked = self.context.status.is_current(&self.release).await;
                asked.unwrap_or(true)
            }
            Some(Written::Changed) | None => true,
        };
        if !is_current {
            tracing::info!(release = %self.key, "the object has changed meanwhile: nothing is done");
            self.edit = unedited;
            return Err(End::Waiting(LAG));
        }
        Ok(())
    }

    /// What follows an install or upgrade that came to its end.
    pub(super) async fn after_deploy(
        &mut self,
        result: Result<Outcome, ActionError>,
        is_install: bool,
        inputs: Inputs,
    ) -> Result<End, End> {
        let what = verb(is_install);
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
        history.map_err(|error| self.fail_to_ask(&error))
    }

    /// Another client wrote first: what it did is looked at anew. That is no news, unless it goes on and on.
    fn is_overtaken(&self) -> bool {
        self.context.remember(&self.key, |memory| {
            memory.overtaken = memory.overtaken.saturating_add(1);
            memory.overtaken <= MOST_OVERTAKEN
        })
    }

    async fn deploy_failed(
        &mut self,
        error: ActionError,
        what: &str,
        is_install: bool,
        inputs: Inputs,
    ) -> Result<End, End> {
        if error.reason == helm_kube::Reason::ConcurrentChange && self.is_overtaken() {
            tracing::info!(release = %self.key, "{what} is begun again: {error}");
            return Ok(End::Waiting(OVERTAKEN));
        }
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
        let retried = is_retried(&error, failures, self.release.spec.retry_limit());
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
}

/// What is done, as messages call it.
fn verb(is_install: bool) -> &'static str {
    if is_install {
        "installation"
    } else {
        "upgrade"
    }
}

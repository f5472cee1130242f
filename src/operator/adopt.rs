//! Taking over a release that another client has made: 1.4, the stock helm, a person.

use helm_engine::{Release, Status};
use helm_kube::{Driver, History, NextAction, RecoveryPlan};

use super::compare::{difference, same_objects};
use super::decide::{Action, after_difference};
use super::reconcile::{End, Inputs, Sync};
use crate::api::{ConditionType, RECONCILE_ANNOTATION, Reason, resource_id};
use crate::status::Failure;
use crate::telemetry::Action as Timed;

impl Sync<'_> {
    /// Finds out whether a revision that is not by us is what is wanted, and takes it over if so.
    pub(super) async fn compare(
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
        let recorded = self.record(newest.revision).await?;
        if let Some(owner) = self.foreign_owner(&recorded.manifest).await? {
            return Err(self.refuse(&owner));
        }
        let same = self.is_recorded(&recorded, &history, &inputs).await?;
        timer.succeeded();
        match newest.status {
            Status::Failed if same => return Ok(self.hold_inherited(&inputs, "is failed")),
            _ if same => {
                tracing::info!(release = %self.key, "no changes");
                self.context.remember(&self.key, |memory| {
                    memory.adopted =
                        Some(Box::new((newest.version.clone(), inputs.digest.clone())));
                });
                return Ok(self.settle(&inputs, Reason::UpToDate));
            }
            _ => {}
        }
        if self.was_rolled_back(&history, &inputs).await? {
            return Ok(self.hold_inherited(&inputs, "was rolled back"));
        }
        let owner = resource_id(&self.key);
        match after_difference(self.desired(&inputs.digest, &owner), self.attempt()) {
            Action::Hold => Ok(End::Held),
            _ => self.deploy(plan, history, inputs).await,
        }
    }

    /// `--log-release-diffs`: says what an upgrade will change. What cannot be read is no obstacle to it.
    pub(super) async fn log_difference(
        &self,
        history: &History,
        rendered: &helm_engine::Rendered,
        config: &goyaml::Tree,
    ) {
        let newest = history.deployed().or_else(|| history.newest());
        let (Some(newest), Some(wanted)) = (newest, &rendered.chart) else {
            return;
        };
        let machine = helm_kube::get(self.release_key(), Driver::Secret, Some(newest.revision));
        if let Ok(stored) = self.cluster.run(machine).await {
            let diff = difference(&stored.release, wanted, config);
            let diff = diff.unwrap_or_else(|| "none in values or templates".to_owned());
            tracing::info!(release = %self.key, diff, "difference to release version '{}'", newest.revision);
        }
    }

    /// Whether a revision that is not by us was made of these inputs. 1.4 compared values and templates, and upgraded
    /// whenever a commit had touched the chart; so where the commit is another one, the objects have to be the same.
    async fn is_recorded(
        &mut self,
        recorded: &Release,
        history: &History,
        inputs: &Inputs,
    ) -> Result<bool, End> {
        let chart = self.chart(inputs).await?;
        let plan = as_recorded(recorded.revision);
        let last = self.last_release(history).await?;
        let rendered = self.render(&chart, inputs, &plan, last.as_ref()).await?;
        let config = self.config(inputs, Some(recorded));
        let wanted = rendered.chart.unwrap_or_default();
        if let Some(what) = difference(recorded, &wanted, &config) {
            tracing::info!(
                release = %self.key,
                diff = what,
                "difference detected during release comparison with version '{}'",
                recorded.revision
            );
            return Ok(false);
        }
        let attempted = self.before.last_attempted_revision.as_ref();
        if attempted.is_none_or(|attempted| *attempted == inputs.artifact.revision)
            || same_objects(&recorded.manifest, &rendered.manifest)
        {
            return Ok(true);
        }
        // A chart that never prints the same twice tells nothing.
        let again = self.render(&chart, inputs, &plan, last.as_ref()).await?;
        Ok(!same_objects(&again.manifest, &rendered.manifest))
    }

    /// Whether 1.4 has tried these inputs, rolled back, and was not to try again: then the failed revision is what is
    /// wanted, and not the one that is deployed.
    async fn was_rolled_back(&mut self, history: &History, inputs: &Inputs) -> Result<bool, End> {
        let count = self.before.rollback_count.unwrap_or(0);
        let is_over = self.attempt().inherited
            && self.before.is_true(ConditionType::RolledBack)
            && !self.release.spec.rollback().allows_retry(count)
            && self.before.last_attempted_revision.as_ref() == Some(&inputs.artifact.revision);
        let newest = history.newest().map(|newest| newest.revision);
        let tried = history.revisions().iter().rev().find(|revision| {
            Some(revision.revision) != newest
                && matches!(revision.status, Status::Failed | Status::Superseded)
        });
        let Some(tried) = tried.filter(|_| is_over) else {
            return Ok(false);
        };
        let recorded = self.record(tried.revision).await?;
        self.is_recorded(&recorded, history, inputs).await
    }

    /// The inputs failed under 1.4, which waited for a person: nothing is done until something changes, and the
    /// status says how.
    fn hold_inherited(&mut self, inputs: &Inputs, what: &str) -> End {
        let message = format!(
            "the release {what} since before this daemon came, with these inputs: change them, or set the annotation \
             {RECONCILE_ANNOTATION} to try again"
        );
        tracing::info!(release = %self.key, "no changes: {message}");
        self.edit
            .inherited(&Failure::stalled(Reason::UpgradeFailed, message));
        let failures = self.before.rollback_count.unwrap_or(1).max(1);
        let fields = self.edit.fields();
        fields.last_attempted_digest = Some(inputs.digest.clone());
        fields.failures = Some(failures);
        End::Held
    }

    /// The object that a release made by another client belongs to, if its objects say so: 1.4's
    /// annotation, looked for on the first few of them.
    pub(super) async fn foreign_owner(&mut self, manifest: &str) -> Result<Option<String>, End> {
        const LOOKED_AT: usize = 8;
        let ours = resource_id(&self.key);
        let objects = helm_kube::parse_manifest(manifest).unwrap_or_default();
        let lookup = self.cluster.lookup(tokio::runtime::Handle::current());
        for object in objects.iter().take(LOOKED_AT) {
            let (version, kind, name) =
                (object.api_version(), object.kind(), object.metadata("name"));
            let namespace = match object.metadata("namespace") {
                "" => &*self.target.namespace,
                namespace => namespace,
            };
            let found = lookup.get(version, kind, namespace, name).await;
            let found = found.map_err(|error| self.fail_to_ask(&error))?;
            let pointer = "/metadata/annotations/helm.fluxcd.io~1antecedent";
            let owner = found
                .as_ref()
                .and_then(|live| live.pointer(pointer)?.as_str());
            if let Some(owner) = owner.filter(|owner| *owner != ours) {
                return Ok(Some(owner.to_owned()));
            }
        }
        Ok(None)
    }
}

/// The plan by which a recorded revision was made, to render it again.
fn as_recorded(revision: i64) -> RecoveryPlan {
    let next = if revision <= 1 {
        NextAction::Install {
            revision: 1,
            replaces: None,
        }
    } else {
        NextAction::Upgrade {
            revision,
            base: revision - 1,
        }
    };
    RecoveryPlan {
        next,
        abandon: Vec::new(),
        supersede: Vec::new(),
    }
}

//! Taking over a release that another client has made: 1.4, the stock helm, a person.

use helm_kube::{Driver, History, RecoveryPlan};

use super::compare::is_same;
use super::decide::{Action, after_difference};
use super::reconcile::{End, Inputs, Sync};
use super::trouble::{Stage, Trouble};
use crate::api::{Reason, resource_id};
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

    /// The object that a release made by another client belongs to, if its objects say so: 1.4's
    /// annotation, looked for on the first few of them.
    pub(super) async fn foreign_owner(&mut self, manifest: &str) -> Result<Option<String>, End> {
        const LOOKED_AT: usize = 8;
        let ours = crate::api::resource_id(&self.key);
        let objects = helm_kube::parse_manifest(manifest).unwrap_or_default();
        let lookup = self.cluster.lookup(tokio::runtime::Handle::current());
        for object in objects.iter().take(LOOKED_AT) {
            let (version, kind, name) =
                (object.api_version(), object.kind(), object.metadata("name"));
            let namespace = match object.metadata("namespace") {
                "" => &*self.target.namespace,
                namespace => namespace,
            };
            let found = lookup
                .get(version, kind, namespace, name)
                .await
                .map_err(|error| {
                    self.fail(super::trouble::Trouble::of_cluster(
                        super::trouble::Stage::Decision,
                        &error,
                    ))
                })?;
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

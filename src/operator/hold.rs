//! Holding a release back until its gates are open.

use std::time::Duration;

use helm_engine::Status;
use helm_kube::History;

use super::gates::GateKeeper;
use super::reconcile::{End, Inputs, Sync};
use crate::api::{ConditionStatus, ConditionType, Reason, gate_condition};
use crate::status::EventNote;

impl Sync<'_> {
    /// Looks at the gates; an error means that the release waits.
    pub(super) async fn pass_gates(
        &mut self,
        inputs: &Inputs,
        history: &History,
    ) -> Result<(), End> {
        let keeper = GateKeeper {
            client: self.local.client().clone(),
            own_namespace_only: self.context.settings.own_namespace_only,
        };
        let releases = &self.context.caches.releases;
        let results = keeper.look(&self.release, &inputs.digest, releases).await;
        let names: Vec<String> = results
            .iter()
            .map(|result| gate_condition(&result.name))
            .collect();
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
        let again = again.unwrap_or(Duration::from_secs(30));
        // What is deployed is to stay as it is, for however long a person takes to let the next change through.
        if history
            .newest()
            .is_some_and(|newest| newest.status == Status::Deployed)
        {
            self.look_for_drift(history.clone()).await?;
        }
        Err(End::Waiting(
            self.drift_due_in().map_or(again, |due| again.min(due)),
        ))
    }
}

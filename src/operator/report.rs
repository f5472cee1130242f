//! The end of a sync: status, Events, metrics, and when to look again.

use std::time::Duration;

use helm_kube::{NextAction, RecoveryPlan};
use kube::ResourceExt;
use tokio::time::Instant;

use super::backoff::{Backoff, jitter};
use super::context::{Attempted, Context, Settled};
use super::queue::Priority;
use super::reconcile::{End, Next, Sync};
use crate::api::{
    ConditionType, HelmRelease, HelmReleaseStatus, NamespacedName, RECONCILE_ANNOTATION,
};
use crate::status::{EventNote, Written};
use crate::watch::Cached;

impl Sync<'_> {
    /// Leaves nothing pending behind when the daemon stops: what is not done is marked as failed, and
    /// taken up after the restart.
    pub(super) async fn give_up(&mut self) {
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

    /// Takes over what the records say, as the status loop does, and what an action has written since.
    pub(super) fn observe_records(&mut self) {
        if !self.context.is_watched(&self.release) {
            return;
        }
        let history = self.context.caches.records.history(&self.target);
        let unseen = self.context.unseen(&self.key, &history);
        let newest = unseen.or(history.newest().map(|newest| newest.status));
        self.edit.record(&self.target.name, newest);
    }

    /// Writes the status as it is now. A failure to do so does not stop the action.
    pub(super) async fn publish(&mut self) -> Option<Written> {
        self.observe_records();
        let status = self.edit.clone().into_status();
        let written = self.context.status.write(&self.release, status).await;
        written
            .inspect_err(|error| tracing::warn!(release = %self.key, %error, "status not written"))
            .ok()
    }

    /// Writes the final status and Events, and says when to look again.
    pub(super) async fn conclude(mut self, end: End) -> Next {
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
            Ok(_) => {
                // The watch may have shown the write before we knew of it.
                if let Some(Cached::Good(seen)) = self.context.caches.releases.get(&self.key) {
                    self.context.status.observe(&seen);
                }
            }
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
        self.context.metrics.show(&self.key, &self.target, status);
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
                let newest = self.context.caches.records.newest(&self.target);
                let (newest, reconcile_at) = (newest.as_ref(), reconcile_at.as_ref());
                let settled = Settled::new(&self.release, newest, reconcile_at, changes);
                self.context.remember(&self.key, |memory| {
                    memory.failures = 0;
                    memory.overtaken = 0;
                    memory.retry = None;
                    // After an action the watch is still to tell of its last writes.
                    memory.settled = (!self.acted).then_some(settled);
                });
                self.again.map_or(Next::Settled, Next::After)
            }
            End::Waiting(after) => Next::After(after),
            End::Failed(failure, asked) => {
                let failures = self.context.remember(&self.key, |memory| {
                    memory.settled = None;
                    let same = memory
                        .retry
                        .as_ref()
                        .is_some_and(|retry| retry.1 == attempted);
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
                    memory.retry = Some(Box::new((Instant::now() + pause, attempted)));
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

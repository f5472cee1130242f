//! The loops: dispatch keys to workers, take up changes, refresh statuses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant as StdInstant};

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::act::{Shutdown, Slot};
use super::context::{Charts, Context, Settings};
use super::depwatch::DependencyWatches;
use super::external::ExternalReader;
use super::gates::other_dependencies;
use super::identity::Clusters;
use super::odd::{remove_bad, report_bad};
use super::queue::{Queue, Taken};
use super::reconcile::{Next, sync};
use super::remove::remove;
use super::report::plan_next;
use crate::api::{HelmRelease, NamespacedName, Reason};
use crate::gitsync::Changes;
use crate::lock::{Leadership, LockError, ReleaseLocks};
use crate::source::Sources;
use crate::status::{
    EventNote, EventRecorder, Failure, Newest, StatusEdit, StatusWriter, refreshed,
};
use crate::telemetry::Metrics;
use crate::watch::{CacheEvent, Cached, Caches, Releases};

/// The pause after a lock file could not be used.
const LOCK_PAUSE: Duration = Duration::from_secs(5);

/// What an operator is made of.
#[derive(Debug)]
pub struct Parts {
    /// What the flags set.
    pub settings: Settings,
    /// The clusters, each behind the guard of the leadership.
    pub clusters: Clusters,
    /// The caches.
    pub caches: Caches,
    /// What changes in them.
    pub changes: mpsc::UnboundedReceiver<CacheEvent>,
    /// Where charts come from.
    pub sources: Sources,
    /// The locks.
    pub locks: ReleaseLocks,
    /// The metrics.
    pub metrics: Metrics,
    /// Name of this process in Events.
    pub instance: String,
}

/// Why an operator stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to, and has ended what it was doing.
    Asked,
    /// Another replica leads now, or may do so: nothing may be written any more.
    LeadershipLost,
    /// A loop of the operator has died, in these words: only a new process helps.
    Died(String),
}

/// The operator.
pub struct Operator {
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<CacheEvent>,
    source_changes: Changes,
    stop_waits: watch::Sender<Option<Instant>>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator")
            .field("settings", &self.context.settings)
            .finish_non_exhaustive()
    }
}

impl Operator {
    /// Puts an operator together.
    ///
    /// # Errors
    /// The HTTP client for values cannot be made.
    pub fn new(parts: Parts) -> Result<Self, reqwest::Error> {
        let Parts {
            settings,
            clusters,
            caches,
            changes,
            sources,
            locks,
            metrics,
            instance,
        } = parts;
        let client = clusters.objects().clone();
        let external = ExternalReader::new(settings.allow_local)?;
        let newest = newest_of(Arc::clone(&caches.releases));
        let (stop_waits, shutdown) = Shutdown::new();
        let source_changes = sources.mirrors().changes();
        let context = Context {
            slots: Arc::new(Semaphore::new(settings.workers.max(1))),
            aside: Semaphore::new(super::act::MOST_ASIDE),
            settings,
            clusters,
            caches,
            queue: Queue::default(),
            sources,
            locks,
            status: StatusWriter::new(client.clone(), newest),
            events: EventRecorder::new(client, instance),
            metrics,
            external,
            charts: Charts::default(),
            index: Mutex::default(),
            memory: Mutex::new(HashMap::new()),
            dirty: Mutex::default(),
            shutdown,
            took_over: OnceLock::new(),
        };
        Ok(Self {
            context: Arc::new(context),
            changes,
            source_changes,
            stop_waits,
        })
    }

    /// Runs until `stop` is done or leadership is lost. Changes are taken up from the start; work begins
    /// when the caches are filled and this replica leads.
    pub async fn run(
        self,
        leadership: Leadership,
        stop: impl Future<Output = ()>,
        on_filled: impl FnOnce(),
    ) -> Stopped {
        let Self {
            context,
            changes,
            source_changes,
            stop_waits,
        } = self;
        let mut loops = JoinSet::new();
        loops.spawn(take_up(Arc::clone(&context), changes));
        loops.spawn(wake_by_sources(Arc::clone(&context), source_changes));
        tokio::select! {
            why = lead(&context, leadership, stop, on_filled, stop_waits) => why,
            died = death(&mut loops) => died,
        }
    }
}

/// Waits until there is something to work on and this replica leads, and works then.
async fn lead(
    context: &Arc<Context>,
    mut leadership: Leadership,
    stop: impl Future<Output = ()>,
    on_filled: impl FnOnce(),
    stop_waits: watch::Sender<Option<Instant>>,
) -> Stopped {
    let mut stop = std::pin::pin!(stop);
    tracing::info!("waiting for informer caches to sync");
    tokio::select! {
        () = context.caches.filled() => {}
        () = &mut stop => return Stopped::Asked,
    }
    tracing::info!("informer caches synced");
    on_filled();
    let stood_by = !leadership.is_held();
    tokio::select! {
        () = leadership.acquired() => {}
        () = &mut stop => return Stopped::Asked,
    }
    if stood_by && leadership.succeeds_another() {
        context.take_over();
    }
    context.metrics.set_leader(true);
    tracing::info!(workers = context.settings.workers, "starting workers");
    let why = work_until(context, &mut leadership, stop, stop_waits).await;
    context.metrics.set_leader(false);
    why
}

/// Lets workers work until `stop` is done, and then to the end of what they have begun; or until leadership is lost.
async fn work_until(
    context: &Arc<Context>,
    leadership: &mut Leadership,
    stop: impl Future<Output = ()>,
    stop_waits: watch::Sender<Option<Instant>>,
) -> Stopped {
    let mut refreshing = JoinSet::new();
    refreshing.spawn(refresh_loop(Arc::clone(context)));
    let mut working = JoinSet::new();
    working.spawn(dispatch(Arc::clone(context)));
    let why = tokio::select! {
        () = stop => Stopped::Asked,
        () = leadership.lost() => Stopped::LeadershipLost,
        died = death(&mut working) => died,
        died = death(&mut refreshing) => died,
    };
    context.queue.close();
    if why != Stopped::Asked {
        return why;
    }
    tracing::info!(grace = ?context.settings.grace, "stopping: no new work");
    stop_waits.send_replace(Some(Instant::now() + context.settings.grace));
    tokio::select! {
        _ = working.join_next() => Stopped::Asked,
        () = leadership.lost() => Stopped::LeadershipLost,
    }
}

/// Returns when one of the loops has died; none of them ends in another way. A daemon that is deaf, or does nothing
/// any more, would look well for ever.
async fn death(loops: &mut JoinSet<()>) -> Stopped {
    match loops.join_next().await {
        Some(Err(error)) => Stopped::Died(panic_message(error)),
        Some(Ok(())) | None => Stopped::Died("it has nothing to do any more".to_owned()),
    }
}

/// Takes up what changes in the caches.
async fn take_up(context: Arc<Context>, mut changes: mpsc::UnboundedReceiver<CacheEvent>) {
    let mut watches = DependencyWatches::new(Arc::clone(&context));
    while let Some(event) = changes.recv().await {
        match &event {
            CacheEvent::Applied {
                key,
                object: Cached::Good(release),
                changed: true,
            } => {
                watches.set(key, other_dependencies(release));
            }
            CacheEvent::Deleted { key } => watches.set(key, Vec::new()),
            _ => {}
        }
        context.take_up(event);
    }
}

/// Wakes the releases whose source has changed.
async fn wake_by_sources(context: Arc<Context>, mut changes: Changes) {
    loop {
        let change = changes.next().await;
        let key = NamespacedName::new(change.release.namespace, change.release.name);
        tracing::debug!(release = %key, reason = ?change.reason, "source changed");
        context.wake(&key);
    }
}

/// Gives keys to workers until the queue is closed, then waits for those that still work.
async fn dispatch(context: Arc<Context>) {
    let mut workers = JoinSet::new();
    while let Some(taken) = context.queue.take().await {
        // Ended ones are cleared away.
        while workers.try_join_next().is_some() {}
        context.metrics.set_queue_length(context.queue.len());
        context.metrics.observe_queue_wait(taken.waited);
        tokio::select! {
            () = context.clusters.brake().released() => {}
            () = context.shutdown.called() => break,
        }
        let Some(slot) = Slot::take(&context.slots).await else {
            break;
        };
        workers.spawn(work(Arc::clone(&context), taken, slot));
    }
    while workers.join_next().await.is_some() {}
}

/// Works on one key. A panic is that key's alone.
async fn work(context: Arc<Context>, taken: Taken, slot: Slot) {
    let Taken { key, .. } = taken;
    let started = StdInstant::now();
    let busy = context
        .settings
        .workers
        .saturating_sub(context.slots.available_permits());
    context.metrics.set_active_workers(busy);
    let task = tokio::spawn(process(Arc::clone(&context), key.clone(), slot));
    let (next, result) = match task.await {
        Ok(next) => (next, label(next)),
        Err(error) => {
            let message = panic_message(error);
            tracing::error!(release = %key, "panic: {message}");
            report_panic(&context, &key, &message).await;
            (Next::After(Duration::from_secs(60)), "error")
        }
    };
    context.metrics.observe_reconcile(result, started.elapsed());
    if next == Next::Never {
        context.queue.done(&key);
        return;
    }
    // Planned before it is given back: a change that came meanwhile goes first.
    context.queue.done(&key);
    plan_next(&context, &key, next);
}

fn label(next: Next) -> &'static str {
    match next {
        Next::Settled | Next::Never => "success",
        Next::After(_) => "requeue_after",
        Next::OnChange => "error",
    }
}

async fn process(context: Arc<Context>, key: NamespacedName, mut slot: Slot) -> Next {
    let Some(cached) = context.caches.releases.get(&key) else {
        return Next::Never;
    };
    let release = match cached {
        Cached::Good(release) => release,
        Cached::Bad(bad) if bad.metadata.deletion_timestamp.is_some() => {
            return remove_bad(&context, &key, &bad, &mut slot).await;
        }
        Cached::Bad(bad) => return report_bad(&context, &bad).await,
    };
    let lock = match context.locks.try_lock(&release.release_key()) {
        Ok(lock) => lock,
        Err(LockError::Held(_)) => return Next::After(Duration::from_secs(1)),
        Err(error) => {
            tracing::error!(release = %key, "{error}");
            report_lock(&context, &release, &error).await;
            return Next::After(LOCK_PAUSE);
        }
    };
    if release.metadata.deletion_timestamp.is_none() {
        return sync(&context, &key, &release, &mut slot).await;
    }
    let next = remove(&context, &release, &mut slot).await;
    if next == Next::Never {
        // The next release of that name makes its own.
        lock.remove().ok();
    }
    next
}

/// What the watch has shown last of a HelmRelease, for the writer of its status.
fn newest_of(releases: Arc<Releases>) -> Newest {
    Box::new(move |key| match releases.get(key)? {
        Cached::Good(release) => Some(release),
        Cached::Bad(_) => None,
    })
}

/// Says in the status that the release cannot be locked; the next look at it is a whole one.
async fn report_lock(context: &Context, release: &HelmRelease, error: &LockError) {
    context.remember(&release.key(), |memory| memory.settled = None);
    let failure = Failure {
        reason: crate::source::Reason::StorageFailed.as_str().to_owned(),
        message: error.to_string(),
        retried: true,
    };
    report(context, release, &failure).await;
}

fn panic_message(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "cancelled".to_owned();
    };
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

async fn report_panic(context: &Context, key: &NamespacedName, message: &str) {
    let Some(Cached::Good(release)) = context.caches.releases.get(key) else {
        return;
    };
    let text = format!("a fault of the daemon: {message}: please report it");
    let failure = Failure::retried(Reason::Panicked, text);
    report(context, &release, &failure).await;
}

/// Writes a failure that is not that of a sync.
pub(super) async fn report(context: &Context, release: &HelmRelease, failure: &Failure) {
    let before = context.status.current(release);
    let generation = release.metadata.generation.unwrap_or(0);
    let mut edit = StatusEdit::new(
        before.clone(),
        release.release_key(),
        generation,
        Timestamp::now(),
    );
    edit.failed(failure);
    let after = edit.finish();
    if before == after {
        return;
    }
    if let Err(error) = context.status.write(release, after).await {
        tracing::warn!(release = %release.key(), %error, "status not written");
    }
    let note = EventNote::warning("FailedReleaseSync", failure.message.as_str());
    context.events.record(release, &note).await;
}

/// The status loop: what the records say goes into the status, for those whose records changed.
async fn refresh_loop(context: Arc<Context>) {
    let all = context.caches.releases.keys();
    let ours = all.into_iter().filter(|key| context.is_ours(key));
    context.dirty().extend(ours);
    let mut ticks =
        tokio::time::interval(context.settings.status_interval.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let dirty = std::mem::take(&mut *context.dirty());
        for key in dirty {
            // A status has one writer at a time. What the sync does not write is for the next turn.
            if !context.queue.claim(&key) {
                context.dirty().insert(key);
                continue;
            }
            refresh(&context, &key).await;
            context.queue.done(&key);
        }
        context.caches.releases.rest();
    }
}

async fn refresh(context: &Context, key: &NamespacedName) {
    let Some(Cached::Good(cached)) = context.caches.releases.get(key) else {
        return;
    };
    let target = cached.release_key();
    let history = context.caches.records.history(&target);
    if context.unseen(key, &history).is_some() {
        // A sync has told more than the watch knows yet.
        context.dirty().insert(key.clone());
        return;
    }
    let mut release = HelmRelease::clone(&cached);
    release.status = Some(context.status.current(&cached));
    let wanted = refreshed(&release, &target, &history, Timestamp::now());
    if let Err(error) = context.status.write(&cached, wanted.clone()).await {
        tracing::warn!(release = %key, %error, "status not refreshed");
        context.dirty().insert(key.clone());
        return;
    }
    context.metrics.show(key, &target, &wanted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_dies_is_told_in_its_own_words_and_one_that_lives_is_not() {
        let mut loops = JoinSet::new();
        loops.spawn(std::future::pending());
        let waiting = tokio::time::timeout(Duration::from_millis(1), death(&mut loops)).await;
        assert!(waiting.is_err());
        loops.spawn(async { panic!("out of order") });
        assert_eq!(
            death(&mut loops).await,
            Stopped::Died("out of order".into())
        );
    }
}

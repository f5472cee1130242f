//! Carrying out actions: work takes a slot, waiting takes none.

use std::sync::Arc;
use std::time::Duration;

use helm_kube::{Cluster, Halt, Machine};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::telemetry::TRACE;

/// What an answer may take before its wait leaves the slot to others.
const PATIENCE: Duration = Duration::from_millis(200);
/// What it may take besides while too many others are waited for already.
const CROWDED: Duration = Duration::from_secs(2);
/// Waits for answers at once. Each may hold an answer of some megabytes.
pub(crate) const MOST_ASIDE: usize = 32;

/// The right to do work: at most `--workers` of them are out at a time. A wait gives it back.
#[derive(Debug)]
pub(crate) struct Slot {
    all: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Waits for a free slot; `None` when no more work is to begin.
    pub(crate) async fn take(all: &Arc<Semaphore>) -> Option<Self> {
        let permit = Arc::clone(all).acquire_owned().await.ok()?;
        Some(Self {
            all: Arc::clone(all),
            permit: Some(permit),
        })
    }

    /// Waits for an answer of a server that tenants choose. If it takes long, the slot is left to others meanwhile:
    /// servers that never answer must not take all workers. At most as many waits as `aside` has permits are borne;
    /// one more is given up.
    pub(crate) async fn wait_for<T>(
        &mut self,
        answer: impl Future<Output = T>,
        aside: &Semaphore,
        shutdown: &Shutdown,
    ) -> Result<T, NoAnswer> {
        let mut answer = std::pin::pin!(answer);
        if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
            return Ok(answer);
        }
        let Ok(_place) = aside.try_acquire() else {
            let late = timeout(CROWDED, &mut answer).await;
            return late.map_err(|_| NoAnswer::Crowded);
        };
        self.release();
        let answer = tokio::select! {
            answer = &mut answer => answer,
            () = shutdown.called() => return Err(NoAnswer::Stopping),
        };
        self.regain().await;
        Ok(answer)
    }

    /// Gives the slot to someone else for the time of a wait.
    fn release(&mut self) {
        self.permit = None;
    }

    /// Takes a slot again. What was begun is gone on with even if no new work is to begin.
    async fn regain(&mut self) {
        if self.permit.is_none() {
            self.permit = Arc::clone(&self.all).acquire_owned().await.ok();
        }
    }
}

/// Why an answer was not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Too many are waited for.
    Crowded,
    /// No new work is to begin.
    Stopping,
}

/// Tells everyone that the daemon is to stop, and until when waits may go on.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    at: watch::Receiver<Option<Instant>>,
}

impl Shutdown {
    /// A shutdown that has not been called, and the way to call it: the time at which waits are given up.
    pub(crate) fn new() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, at) = watch::channel(None);
        (sender, Self { at })
    }

    /// Returns when the daemon is to stop: no new work begins.
    pub(crate) async fn called(&self) {
        let mut at = self.at.clone();
        if at.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when waits are to be given up.
    async fn over(&self) {
        let mut at = self.at.clone();
        loop {
            let until = *at.borrow_and_update();
            match until {
                Some(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => return,
                    changed = at.changed() => if changed.is_err() { return },
                },
                None => {
                    if at.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }
}

/// A wait was given up because the daemon stops. What was done is in the cluster, and the record says how
/// to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

/// Runs an action to its end. While it waits, the slot is free for others.
pub(crate) async fn carry_out<T>(
    cluster: &Cluster,
    machine: Machine<T>,
    slot: &mut Slot,
    shutdown: &Shutdown,
) -> Result<T, Abandoned> {
    let span = tracing::info_span!(target: TRACE, "apply");
    let carried = carry(cluster, machine, slot, shutdown);
    carried.instrument(span).await
}

async fn carry<T>(
    cluster: &Cluster,
    machine: Machine<T>,
    slot: &mut Slot,
    shutdown: &Shutdown,
) -> Result<T, Abandoned> {
    let mut halt = cluster.advance(machine).await;
    loop {
        match halt {
            Halt::Done(result) => return Ok(result),
            Halt::Waiting(wait, machine) => {
                slot.release();
                tokio::select! {
                    () = tokio::time::sleep(wait.after.max(Duration::from_millis(10))) => {}
                    () = shutdown.over() => return Err(Abandoned),
                }
                slot.regain().await;
                halt = cluster.resume(machine).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiting_action_leaves_its_slot_to_others() {
        let all = Arc::new(Semaphore::new(1));
        let mut first = Slot::take(&all).await.unwrap();
        let blocked = tokio::time::timeout(Duration::from_secs(1), Slot::take(&all)).await;
        assert!(blocked.is_err());
        first.release();
        let second = Slot::take(&all).await.unwrap();
        let regain = tokio::time::timeout(Duration::from_secs(1), first.regain()).await;
        assert!(regain.is_err());
        drop(second);
        first.regain().await;
        assert_eq!(all.available_permits(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_long_leaves_its_slot_to_others() {
        let (_stop, shutdown) = Shutdown::new();
        let (all, aside) = (Arc::new(Semaphore::new(1)), Semaphore::new(1));
        let mut first = Slot::take(&all).await.unwrap();
        let hangs = first.wait_for(std::future::pending::<()>(), &aside, &shutdown);
        let mut hangs = std::pin::pin!(hangs);
        let wait = timeout(Duration::from_secs(5), &mut hangs).await;
        assert!(wait.is_err(), "it is waited for");
        let mut second = Slot::take(&all).await.unwrap();
        let quick = second.wait_for(async { 7 }, &aside, &shutdown).await;
        assert_eq!(quick, Ok(7));
        let one_too_many = second.wait_for(std::future::pending::<()>(), &aside, &shutdown);
        assert_eq!(one_too_many.await, Err(NoAnswer::Crowded));
        assert_eq!(all.available_permits(), 0, "no wait, no place for others");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_is_gone_on_with_in_a_slot() {
        let (stop, shutdown) = Shutdown::new();
        let (all, aside) = (Arc::new(Semaphore::new(1)), Semaphore::new(1));
        let mut slot = Slot::take(&all).await.unwrap();
        let slow = async { tokio::time::sleep(Duration::from_secs(9)).await };
        assert_eq!(slot.wait_for(slow, &aside, &shutdown).await, Ok(()));
        assert_eq!((all.available_permits(), aside.available_permits()), (0, 1));
        stop.send_replace(Some(Instant::now()));
        let hangs = slot.wait_for(std::future::pending::<()>(), &aside, &shutdown);
        assert_eq!(hangs.await, Err(NoAnswer::Stopping));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_when_the_time_of_grace_is_over() {
        let (stop, shutdown) = Shutdown::new();
        let still = tokio::time::timeout(Duration::from_secs(100), shutdown.over()).await;
        assert!(still.is_err());
        let called = Instant::now();
        stop.send_replace(Some(called + Duration::from_secs(20)));
        shutdown.over().await;
        assert_eq!(called.elapsed(), Duration::from_secs(20));
    }
}

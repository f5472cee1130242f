//! Carrying out actions: work takes a slot, waiting takes none.

use std::sync::Arc;
use std::time::Duration;

use helm_kube::{Cluster, Halt, Machine};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tracing::Instrument;

use crate::telemetry::TRACE;

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

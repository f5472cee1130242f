//! Whether this process leads, by its own clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// The time since this machine was started, with the time that it slept. A process that was stopped, or
/// whose machine was suspended, finds that its lease has ended; nobody sets this clock.
pub(super) fn since_boot() -> Duration {
    // Without the clock nobody can say that a lease still lasts, so none does.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(NEVER, Duration::from)
}

/// Later than any end of a lease.
const NEVER: Duration = Duration::from_secs(u64::MAX - 1);

/// Later than any time.
const FOREVER: Duration = Duration::MAX;

/// Whether this process leads, and until when it may believe so.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// By [`since_boot`].
    until: watch::Receiver<Option<Duration>>,
    margin: Option<Duration>,
    leader: watch::Receiver<Option<String>>,
    succeeds: Arc<AtomicBool>,
}

impl Leadership {
    /// Leadership until what `until` shows. Another process leads no earlier than `margin` after that.
    pub(super) fn new(until: watch::Receiver<Option<Duration>>, margin: Duration) -> Self {
        Self {
            until,
            margin: Some(margin),
            leader: watch::channel(None).1,
            succeeds: Arc::default(),
        }
    }

    /// With what is known of where the leader is.
    pub(super) fn with_leader(mut self, leader: watch::Receiver<Option<String>>) -> Self {
        self.leader = leader;
        self
    }

    /// Where the HTTP server of the leader is, whoever it is, as its Lease says: `http://10.0.0.1:3030`.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.leader.borrow().clone()
    }

    /// Where it is noted that another process led before.
    pub(super) fn succession(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.succeeds)
    }

    /// Whether another process led before this one: it may have seen, and done, what is still to be found out here.
    #[must_use]
    pub fn succeeds_another(&self) -> bool {
        self.succeeds.load(Ordering::Relaxed)
    }

    /// Leadership that never ends: for a daemon that runs without election.
    #[must_use]
    pub fn always() -> Self {
        Self {
            until: watch::channel(Some(FOREVER)).1,
            margin: None,
            leader: watch::channel(None).1,
            succeeds: Arc::default(),
        }
    }

    /// Leadership that never comes.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self::new(watch::channel(None).1, Duration::from_secs(5))
    }

    /// The time between the end of this leadership and the earliest start of another: what was sent before
    /// the end has to have arrived by then, or never. None if there is no election.
    #[must_use]
    pub fn margin(&self) -> Option<Duration> {
        self.margin
    }

    /// Whether a write may be sent now. It is asked before each one: a process that was stopped for
    /// longer than its lease finds here that its time has passed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.left().is_some()
    }

    fn left(&self) -> Option<Duration> {
        let until = (*self.until.borrow())?;
        let left = until.checked_sub(since_boot())?;
        (!left.is_zero()).then_some(left)
    }

    /// Returns when this process leads.
    pub async fn acquired(&mut self) {
        while !self.is_held() {
            if self.until.changed().await.is_err() {
                // The election is gone and will never tell.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when this process does not lead any more.
    pub async fn lost(&mut self) {
        loop {
            self.until.borrow_and_update();
            let Some(left) = self.left() else { return };
            // Timers stand still while the machine sleeps; the guard of the writes does not.
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                changed = self.until.changed() => if changed.is_err() {
                    tokio::time::sleep(left).await;
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const MARGIN: Duration = Duration::from_millis(50);

    fn after(time: Duration) -> Option<Duration> {
        Some(since_boot() + time)
    }

    #[tokio::test]
    async fn leadership_ends_by_itself_when_it_is_not_renewed() {
        let (sender, receiver) = watch::channel(None);
        let mut leadership = Leadership::new(receiver, MARGIN);
        assert!(!leadership.is_held());
        sender.send_replace(after(Duration::from_millis(40)));
        leadership.acquired().await;
        assert!(leadership.is_held());
        leadership.lost().await;
        assert!(!leadership.is_held());
    }

    #[tokio::test]
    async fn a_renewal_moves_the_end() {
        let started = Instant::now();
        let (sender, receiver) = watch::channel(after(Duration::from_secs(600)));
        let mut leadership = Leadership::new(receiver, MARGIN);
        let lost = tokio::spawn(async move { leadership.lost().await });
        sender.send_replace(after(Duration::from_millis(60)));
        lost.await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(60));
    }

    #[tokio::test]
    async fn the_end_of_the_election_is_not_the_end_of_the_lease() {
        let (sender, receiver) = watch::channel(after(Duration::from_millis(60)));
        let mut leadership = Leadership::new(receiver, MARGIN);
        drop(sender);
        assert!(leadership.is_held());
        leadership.lost().await;
        assert!(!leadership.is_held());
    }

    #[test]
    fn a_daemon_without_election_always_leads() {
        assert!(Leadership::always().is_held());
        assert!(!Leadership::never().is_held());
    }

    #[test]
    fn the_clock_is_not_the_wall_clock() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let own = since_boot().as_secs_f64();
        assert!((own - uptime).abs() < 60.0, "{own} {uptime}");
    }
}

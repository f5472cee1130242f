//! Which releases have something new to look at.
//!
//! A release that changes twice before anyone looks is one entry: the queue is never longer than the number of
//! releases.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::{ReleaseKey, SourceError};

/// A release that has something new to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The release.
    pub release: ReleaseKey,
    /// Why.
    pub reason: ChangeReason,
}

/// Why a release is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeReason {
    /// A path that the release uses has another content at this commit.
    Moved {
        /// The full commit id.
        revision: String,
    },
    /// The chart that the release was told to wait for can be read.
    Ready {
        /// The full commit id.
        revision: String,
    },
    /// The source failed in a new way.
    Failed(SourceError),
    /// The source works again after a failure, at the same content.
    Recovered,
}

#[derive(Debug, Default)]
struct Pending {
    order: VecDeque<ReleaseKey>,
    reasons: HashMap<ReleaseKey, ChangeReason>,
}

/// The queue of changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue(Arc<(Mutex<Pending>, Notify)>);

impl Queue {
    /// Adds a change; a newer reason takes the place of an older one that nobody has seen.
    pub(crate) fn push(&self, release: &ReleaseKey, reason: ChangeReason) {
        let mut pending = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pending.reasons.get_mut(release) {
            // What moved or got ready says more than that it works again.
            Some(ChangeReason::Moved { .. } | ChangeReason::Ready { .. })
                if reason == ChangeReason::Recovered => {}
            Some(known) => *known = reason,
            None => {
                pending.reasons.insert(release.clone(), reason);
                pending.order.push_back(release.clone());
            }
        }
        drop(pending);
        self.0.1.notify_one();
    }

    /// Takes back what is queued for a release that is gone.
    pub(crate) fn remove(&self, release: &ReleaseKey) {
        let mut pending = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.reasons.remove(release).is_some() {
            pending.order.retain(|queued| queued != release);
        }
    }

    fn pop(&self) -> Option<Change> {
        let mut pending = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let release = pending.order.pop_front()?;
        let reason = pending.reasons.remove(&release)?;
        Some(Change { release, reason })
    }
}

/// The stream of changes. Each change is delivered once, to one of the receivers.
#[derive(Debug)]
pub struct Changes(pub(crate) Queue);

impl Changes {
    /// The next change. Safe to cancel.
    pub async fn next(&mut self) -> Change {
        loop {
            let notified = self.0.0.1.notified();
            if let Some(change) = self.0.pop() {
                return change;
            }
            notified.await;
        }
    }

    /// A change that is already there.
    pub fn try_next(&mut self) -> Option<Change> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey {
            namespace: "team".into(),
            name: name.into(),
        }
    }

    #[tokio::test]
    async fn a_release_that_changes_twice_is_delivered_once_with_the_newer_reason() {
        let queue = Queue::default();
        queue.push(
            &key("a"),
            ChangeReason::Ready {
                revision: "1".into(),
            },
        );
        queue.push(&key("b"), ChangeReason::Recovered);
        queue.push(
            &key("a"),
            ChangeReason::Moved {
                revision: "2".into(),
            },
        );
        let mut changes = Changes(queue.clone());
        let first = changes.next().await;
        assert_eq!(first.release, key("a"));
        assert_eq!(
            first.reason,
            ChangeReason::Moved {
                revision: "2".into()
            }
        );
        assert_eq!(changes.next().await.release, key("b"));
        assert_eq!(changes.try_next(), None);
    }

    #[tokio::test]
    async fn a_receiver_that_waits_is_woken() {
        let queue = Queue::default();
        let mut changes = Changes(queue.clone());
        let waiting = tokio::spawn(async move { changes.next().await });
        tokio::task::yield_now().await;
        queue.push(&key("a"), ChangeReason::Recovered);
        assert_eq!(waiting.await.unwrap().release, key("a"));
    }

    #[test]
    fn changes_of_a_release_that_is_gone_are_taken_back() {
        let queue = Queue::default();
        queue.push(&key("a"), ChangeReason::Recovered);
        queue.remove(&key("a"));
        assert_eq!(Changes(queue).try_next(), None);
    }
}

//! The queue of keys to reconcile: each key at most once, one at a time, changed ones first.

mod lanes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::lanes::Lanes;
use crate::api::NamespacedName;

/// How soon a key is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Periodic work: nothing is known to have changed.
    Periodic,
    /// Something changed: a spec, a chart, values, a gate.
    Changed,
}

/// A key that was taken from the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The key.
    pub key: NamespacedName,
    /// With what priority it was queued.
    pub priority: Priority,
    /// How long it was ready before it was taken.
    pub waited: Duration,
}

/// Keys to reconcile.
///
/// A key that is added while it is queued stays where it is (or moves to the changed ones); one that is
/// added while it is worked on is queued again when that is done, so that a key is never worked on twice at
/// once and no change is lost. Namespaces take turns, and so do repositories, so that neither a namespace
/// nor a push that concerns a thousand releases keeps the others waiting; and one in [`PERIODIC_SHARE`]
/// turns goes to periodic work, so that a storm of changes does not starve it.
#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

/// Of so many turns one goes to periodic work, if there is any.
const PERIODIC_SHARE: u32 = 8;

#[derive(Debug, Default)]
struct Inner {
    /// Where each queued key is.
    places: HashMap<NamespacedName, Place>,
    ready: HashMap<Priority, Lanes>,
    delayed: BTreeMap<(Instant, u64), NamespacedName>,
    /// Keys that are worked on, with the priority that they were added with meanwhile.
    active: HashMap<NamespacedName, Option<Priority>>,
    /// The repository that each key's chart comes from, as a print of its URL.
    repositories: HashMap<NamespacedName, u64>,
    next_number: u64,
    turn: u32,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Ready {
        priority: Priority,
        since: Instant,
    },
    Delayed {
        at: (Instant, u64),
        priority: Priority,
    },
}

impl Queue {
    /// Says which repository a key's chart comes from, for its turns from now on.
    pub fn assign(&self, key: &NamespacedName, repository: &str) {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        let print = BuildHasherDefault::<DefaultHasher>::default().hash_one(repository);
        self.lock().repositories.insert(key.clone(), print);
    }

    /// Queues a key now.
    pub fn add(&self, key: NamespacedName, priority: Priority) {
        self.lock().add(key, priority);
        self.changed.notify_one();
    }

    /// Queues a key after a while. One that is queued for earlier stays; one that is worked on is left to
    /// whoever works on it.
    pub fn add_after(&self, key: NamespacedName, delay: Duration, priority: Priority) {
        self.lock().add_at(key, Instant::now() + delay, priority);
        self.changed.notify_one();
    }

    /// Takes the next key; `None` when the queue is closed. [`Queue::done`] has to follow.
    pub async fn take(&self) -> Option<Taken> {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut inner = self.lock();
                if inner.closed {
                    // Whoever else waits is to see it too.
                    self.changed.notify_one();
                    return None;
                }
                inner.promote();
                if let Some(taken) = inner.pop() {
                    if !inner.is_idle() {
                        self.changed.notify_one();
                    }
                    return Some(taken);
                }
                inner.delayed.keys().next().map(|(at, _)| *at)
            };
            match wake {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Takes a key that nobody works on or is about to, whether it was added or not; false for others.
    /// [`Queue::done`] has to follow if it is true.
    pub fn claim(&self, key: &NamespacedName) -> bool {
        let mut inner = self.lock();
        let is_ready = matches!(inner.places.get(key), Some(Place::Ready { .. }));
        if is_ready || inner.active.contains_key(key) {
            return false;
        }
        inner.active.insert(key.clone(), None);
        true
    }

    /// Ends the work on a key: if it was added meanwhile, it is queued again.
    pub fn done(&self, key: &NamespacedName) {
        let mut inner = self.lock();
        if let Some(Some(priority)) = inner.active.remove(key) {
            inner.add(key.clone(), priority);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Forgets a queued key.
    pub fn forget(&self, key: &NamespacedName) {
        let mut inner = self.lock();
        inner.unplace(key);
        inner.repositories.remove(key);
    }

    /// How many keys are ready to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().ready.values().map(Lanes::len).sum()
    }

    /// Whether no key is ready to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are worked on.
    #[must_use]
    pub fn active(&self) -> usize {
        self.lock().active.len()
    }

    /// Gives out no more keys.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, key: NamespacedName, priority: Priority) {
        if let Some(again) = self.active.get_mut(&key) {
            *again = (*again).max(Some(priority));
            return;
        }
        let mut since = Instant::now();
        let mut priority = priority;
        if let Some(place) = self.places.get(&key) {
            match *place {
                Place::Ready {
                    priority: queued, ..
                } if queued >= priority => return,
                Place::Ready { since: earlier, .. } => since = earlier,
                Place::Delayed {
                    priority: queued, ..
                } => priority = priority.max(queued),
            }
            self.unplace(&key);
        }
        self.places
            .insert(key.clone(), Place::Ready { priority, since });
        let repository = self.repositories.get(&key).copied();
        self.ready
            .entry(priority)
            .or_default()
            .push(key, repository);
    }

    fn add_at(&mut self, key: NamespacedName, at: Instant, priority: Priority) {
        match self.places.get(&key) {
            Some(Place::Ready { .. }) => return,
            Some(Place::Delayed {
                at: (earlier, _), ..
            }) if *earlier <= at => return,
            _ => self.unplace(&key),
        }
        self.next_number += 1;
        let at = (at, self.next_number);
        self.delayed.insert(at, key.clone());
        self.places.insert(key, Place::Delayed { at, priority });
    }

    fn unplace(&mut self, key: &NamespacedName) {
        match self.places.remove(key) {
            Some(Place::Ready { priority, .. }) => {
                if let Some(lanes) = self.ready.get_mut(&priority) {
                    lanes.remove(key);
                }
            }
            Some(Place::Delayed { at, .. }) => {
                self.delayed.remove(&at);
            }
            None => {}
        }
    }

    /// Makes ready what was delayed until now.
    fn promote(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self
            .delayed
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let key = entry.remove();
            let place = self.places.remove(&key);
            let Some(Place::Delayed { priority, .. }) = place else {
                continue;
            };
            self.add(key, priority);
        }
    }

    fn pop(&mut self) -> Option<Taken> {
        self.turn = self.turn.wrapping_add(1);
        let order = if self.turn.is_multiple_of(PERIODIC_SHARE) {
            [Priority::Periodic, Priority::Changed]
        } else {
            [Priority::Changed, Priority::Periodic]
        };
        let key = order
            .into_iter()
            .find_map(|priority| self.ready.get_mut(&priority)?.pop())?;
        let place = self.places.remove(&key);
        self.active.insert(key.clone(), None);
        let (priority, since) = match place {
            Some(Place::Ready { priority, since }) => (priority, since),
            _ => (Priority::Changed, Instant::now()),
        };
        Some(Taken {
            key,
            priority,
            waited: since.elapsed(),
        })
    }

    fn is_idle(&self) -> bool {
        self.ready.values().all(Lanes::is_empty) && self.delayed.is_empty()
    }
}

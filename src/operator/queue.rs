//! The queue of keys to reconcile: each key at most once, one at a time, changed ones first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

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
/// once and no change is lost. Namespaces take turns, so that a namespace with a thousand changes does not
/// keep the others waiting; and one in [`PERIODIC_SHARE`] turns goes to periodic work, so that a storm of
/// changes does not starve it.
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

/// The keys of each namespace in their order, and the namespaces in the order of their turns.
#[derive(Debug, Default)]
struct Lanes {
    turns: VecDeque<Arc<str>>,
    keys: HashMap<Arc<str>, VecDeque<NamespacedName>>,
}

impl Lanes {
    fn push(&mut self, key: NamespacedName) {
        let lane = self.keys.entry(key.namespace.clone()).or_default();
        if lane.is_empty() {
            self.turns.push_back(key.namespace.clone());
        }
        lane.push_back(key);
    }

    fn pop(&mut self) -> Option<NamespacedName> {
        let namespace = self.turns.pop_front()?;
        let lane = self.keys.get_mut(&namespace)?;
        let key = lane.pop_front();
        if lane.is_empty() {
            self.keys.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        key
    }

    fn remove(&mut self, key: &NamespacedName) {
        if let Some(lane) = self.keys.get_mut(&key.namespace) {
            lane.retain(|queued| queued != key);
            if lane.is_empty() {
                self.keys.remove(&key.namespace);
                self.turns.retain(|namespace| *namespace != key.namespace);
            }
        }
    }
}

impl Queue {
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
        self.lock().unplace(key);
    }

    /// How many keys are ready to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        let inner = self.lock();
        let lanes = inner.ready.values().flat_map(|lanes| lanes.keys.values());
        lanes.map(VecDeque::len).sum()
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

    /// Whether a key is worked on.
    #[must_use]
    pub fn is_active(&self, key: &NamespacedName) -> bool {
        self.lock().active.contains_key(key)
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
        self.ready.entry(priority).or_default().push(key);
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
        self.ready.values().all(|lanes| lanes.turns.is_empty()) && self.delayed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Changed, Periodic};

    fn key(text: &str) -> NamespacedName {
        let (namespace, name) = text.split_once('/').unwrap_or(("demo", text));
        NamespacedName::new(namespace, name)
    }

    async fn take(queue: &Queue) -> String {
        queue.take().await.unwrap().key.to_string()
    }

    async fn nothing(queue: &Queue) -> bool {
        tokio::time::timeout(Duration::from_millis(1), queue.take())
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.add(key("a"), Changed);
            queue.add(key("a"), Periodic);
        }
        assert_eq!(queue.len(), 1);
        assert_eq!(take(&queue).await, "demo/a");
        queue.done(&key("a"));
        assert!(nothing(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_changes_while_it_is_worked_on_is_taken_again_afterwards() {
        let queue = Queue::default();
        queue.add(key("a"), Changed);
        take(&queue).await;
        queue.add(key("a"), Changed);
        queue.add(key("a"), Changed);
        assert!(nothing(&queue).await);
        queue.done(&key("a"));
        assert_eq!(take(&queue).await, "demo/a");
        queue.done(&key("a"));
        assert!(nothing(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_go_before_periodic_work_and_do_not_starve_it() {
        let queue = Queue::default();
        for number in 0..20 {
            queue.add(key(&format!("p/{number}")), Periodic);
            queue.add(key(&format!("c/{number}")), Changed);
        }
        let mut order = String::new();
        for _ in 0..16 {
            order.push_str(&take(&queue).await[..1]);
        }
        assert_eq!(order, "cccccccpcccccccp");
    }

    #[tokio::test(start_paused = true)]
    async fn periodic_work_that_turns_out_changed_moves_ahead() {
        let queue = Queue::default();
        queue.add(key("a"), Periodic);
        queue.add(key("b"), Periodic);
        queue.add(key("b"), Changed);
        let first = queue.take().await.unwrap();
        assert_eq!((first.key, first.priority), (key("b"), Changed));
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_take_turns() {
        let queue = Queue::default();
        for name in ["big/1", "big/2", "big/3", "small/1", "tiny/1"] {
            queue.add(key(name), Changed);
        }
        let mut order = Vec::new();
        for _ in 0..5 {
            order.push(take(&queue).await);
        }
        assert_eq!(order, ["big/1", "small/1", "tiny/1", "big/2", "big/3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_keys_come_in_their_time_and_a_change_does_not_wait() {
        let queue = Queue::default();
        let started = Instant::now();
        queue.add_after(key("late"), Duration::from_secs(60), Periodic);
        queue.add_after(key("soon"), Duration::from_secs(5), Periodic);
        queue.add_after(key("late"), Duration::from_secs(90), Periodic);
        assert!(queue.is_empty());
        assert_eq!(take(&queue).await, "demo/soon");
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        queue.add(key("late"), Changed);
        assert_eq!(take(&queue).await, "demo/late");
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        queue.done(&key("late"));
        queue.add_after(key("late"), Duration::from_secs(90), Periodic);
        queue.add_after(key("late"), Duration::from_secs(10), Periodic);
        assert_eq!(take(&queue).await, "demo/late");
        assert_eq!(started.elapsed(), Duration::from_secs(15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_may_plan_the_next_visit_before_it_is_done() {
        let queue = Queue::default();
        queue.add(key("a"), Changed);
        take(&queue).await;
        queue.add_after(key("a"), Duration::from_secs(180), Periodic);
        queue.done(&key("a"));
        assert!(nothing(&queue).await);
        let started = Instant::now();
        assert_eq!(take(&queue).await, "demo/a");
        assert!(started.elapsed() > Duration::from_secs(170));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_key_that_becomes_due_while_it_is_worked_on_waits_for_that() {
        let queue = Queue::default();
        queue.add(key("a"), Changed);
        take(&queue).await;
        queue.add_after(key("a"), Duration::from_secs(1), Periodic);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(nothing(&queue).await);
        queue.done(&key("a"));
        assert_eq!(take(&queue).await, "demo/a");
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_hears_of_a_key_and_of_the_end() {
        let queue = std::sync::Arc::new(Queue::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = std::sync::Arc::clone(&queue);
                tokio::spawn(async move { queue.take().await.map(|taken| taken.key.to_string()) })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.add(key("a"), Changed);
        queue.add(key("b"), Changed);
        tokio::time::sleep(Duration::from_millis(1)).await;
        queue.close();
        let mut results = Vec::new();
        for worker in workers {
            results.push(worker.await.unwrap());
        }
        results.sort();
        assert_eq!(
            results,
            [None, Some("demo/a".to_owned()), Some("demo/b".to_owned())]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_key_is_not_given_out() {
        let queue = Queue::default();
        queue.add(key("a"), Changed);
        queue.add_after(key("b"), Duration::from_millis(1), Changed);
        queue.forget(&key("a"));
        queue.forget(&key("b"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(nothing(&queue).await);
    }

    /// S-35: eight threads add, take and forget the same keys: no key is worked on twice at once, and a key that was
    /// added last is taken.
    #[test]
    fn s35_a_key_is_never_worked_on_twice_at_once_and_none_is_lost() {
        use std::sync::atomic::{AtomicU32, Ordering};
        const KEYS: usize = 16;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(8)
            .enable_time()
            .build()
            .unwrap();
        let queue = Arc::new(Queue::default());
        let busy: Arc<[AtomicU32; KEYS]> = Arc::default();
        let taken: Arc<[AtomicU32; KEYS]> = Arc::default();
        let keys: Vec<_> = (0..KEYS)
            .map(|number| NamespacedName::new(format!("n{}", number % 3), number.to_string()))
            .collect();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (queue, busy, taken) = (queue.clone(), busy.clone(), taken.clone());
                runtime.spawn(async move {
                    while let Some(Taken { key, .. }) = queue.take().await {
                        let at: usize = key.name.parse().unwrap();
                        assert_eq!(busy[at].fetch_add(1, Ordering::SeqCst), 0, "{key} twice");
                        taken[at].fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        busy[at].fetch_sub(1, Ordering::SeqCst);
                        queue.done(&key);
                    }
                })
            })
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (queue, keys) = (&queue, &keys);
                scope.spawn(move || {
                    for round in 0..5_000_usize {
                        let key = keys[(round * 7 + thread) % KEYS].clone();
                        match round % 11 {
                            0 => queue.forget(&key),
                            1 => queue.add_after(key, Duration::ZERO, Priority::Periodic),
                            _ => queue.add(key, Priority::Changed),
                        }
                    }
                });
            }
        });
        let before: Vec<u32> = taken
            .iter()
            .map(|count| count.load(Ordering::SeqCst))
            .collect();
        keys.iter()
            .for_each(|key| queue.add(key.clone(), Priority::Changed));
        let end = std::time::Instant::now() + Duration::from_secs(30);
        let all_taken = || {
            let counts = taken.iter().map(|count| count.load(Ordering::SeqCst));
            counts.zip(&before).all(|(now, before)| now > *before)
        };
        while !all_taken() || queue.active() > 0 || !queue.is_empty() {
            assert!(std::time::Instant::now() < end, "a key was lost");
            std::thread::yield_now();
        }
        queue.close();
        for worker in workers {
            runtime.block_on(worker).unwrap();
        }
    }
}

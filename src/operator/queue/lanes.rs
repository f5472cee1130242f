//! Whose turn it is: namespaces and repositories share the workers fairly.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::NamespacedName;

/// A place in the order: the turn, and among equal turns the first who came.
type Turn = (u64, u64);

/// Keys in the order of their turns.
///
/// This is start-time fair queueing with equal weights. Time is counted in turns: it is the turn of the key
/// that was taken last. A namespace's next key may not have a turn before the one after that of its last
/// key, nor before the present; the same holds for its repository, by a clock of its own; and the later of
/// the two is the key's turn. So whoever queues many keys at once spreads them over many turns, and whoever
/// comes with one gets the present one. Nobody waits for ever: each key that is queued gets a later turn
/// than the last of the same namespace, and time goes on.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    order: BTreeMap<Turn, NamespacedName>,
    turns: HashMap<NamespacedName, Turn>,
    now: u64,
    next_number: u64,
    namespaces: Clocks<Arc<str>>,
    repositories: Clocks<u64>,
}

impl Lanes {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Queues a key, which is not queued yet, behind the others of its namespace and of its repository.
    pub(super) fn push(&mut self, key: NamespacedName, repository: Option<u64>) {
        let namespace = self.namespaces.next(key.namespace.clone(), self.now);
        let repository = repository.map_or(0, |print| self.repositories.next(print, self.now));
        self.next_number += 1;
        let turn = (namespace.max(repository), self.next_number);
        self.order.insert(turn, key.clone());
        self.turns.insert(key, turn);
    }

    /// Takes the key whose turn it is.
    pub(super) fn pop(&mut self) -> Option<NamespacedName> {
        let (turn, key) = self.order.pop_first()?;
        self.turns.remove(&key);
        self.now = turn.0;
        self.forget_the_past();
        Some(key)
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) {
        if let Some(turn) = self.turns.remove(key) {
            self.order.remove(&turn);
            self.forget_the_past();
        }
    }

    /// With nothing queued nobody has had more than others.
    fn forget_the_past(&mut self) {
        if self.order.is_empty() {
            *self = Self::default();
        }
    }
}

/// The next free turn of each namespace, or of each repository.
#[derive(Debug)]
struct Clocks<K>(HashMap<K, u64>);

impl<K> Default for Clocks<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> Clocks<K> {
    fn next(&mut self, of: K, now: u64) -> u64 {
        let free = self.0.entry(of).or_insert(now);
        let turn = (*free).max(now);
        *free = turn + 1;
        turn
    }
}

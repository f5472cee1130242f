//! What maps hold: a sorted list while small, a tree when large.

use std::collections::{BTreeMap, btree_map};
use std::slice;

use super::Value;
use crate::Str;

/// Up to that many entries are kept in a list: one piece of memory of just the size needed. Nearly
/// all maps of charts are that small.
const MOST_LISTED: usize = 48;

/// Up to that many are looked through one by one: keys of other lengths are passed over at once.
const MOST_SCANNED: usize = 12;

/// The entries of a [`Map`](super::Map), in byte order of the keys. Its methods are those of
/// `BTreeMap`.
#[derive(Clone)]
pub struct Entries(Inner);

#[derive(Clone)]
enum Inner {
    List(Vec<(Str, Value)>),
    Tree(BTreeMap<Str, Value>),
}

impl Default for Entries {
    fn default() -> Self {
        Self::new()
    }
}

impl Entries {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Inner::List(Vec::new()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::List(list) => list.len(),
            Inner::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A key as it is kept, and its value.
    #[must_use]
    #[inline]
    pub fn get_key_value(&self, key: &[u8]) -> Option<(&Str, &Value)> {
        match &self.0 {
            Inner::List(list) if list.len() <= MOST_SCANNED => list
                .iter()
                .find(|(found, _)| found.as_bytes() == key)
                .map(|(key, value)| (key, value)),
            Inner::List(list) => {
                let (key, value) = list.get(find(list, key).ok()?)?;
                Some((key, value))
            }
            Inner::Tree(tree) => tree.get_key_value(key),
        }
    }

    /// The value of a key, to change.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Value> {
        match &mut self.0 {
            Inner::List(list) => {
                let at = find(list, key).ok()?;
                list.get_mut(at).map(|(_, value)| value)
            }
            Inner::Tree(tree) => tree.get_mut(key),
        }
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Sets a key and returns what it was before.
    pub fn insert(&mut self, key: Str, value: Value) -> Option<Value> {
        let list = match &mut self.0 {
            Inner::Tree(tree) => return tree.insert(key, value),
            Inner::List(list) => list,
        };
        // The usual case: keys come in order.
        let at = match list.last() {
            Some((last, _)) if *last < key => Err(list.len()),
            _ => find(list, &key),
        };
        match at {
            Ok(at) => {
                let (_, old) = list.get_mut(at)?;
                return Some(std::mem::replace(old, value));
            }
            Err(at) => list.insert(at, (key, value)),
        }
        if list.len() > MOST_LISTED {
            self.0 = Inner::Tree(std::mem::take(list).into_iter().collect());
        }
        None
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<Value> {
        match &mut self.0 {
            Inner::List(list) => {
                let at = find(list, key).ok()?;
                Some(list.remove(at).1)
            }
            Inner::Tree(tree) => tree.remove(key),
        }
    }

    /// Keeps the entries that the predicate accepts.
    pub fn retain(&mut self, mut keep: impl FnMut(&Str, &mut Value) -> bool) {
        match &mut self.0 {
            Inner::List(list) => list.retain_mut(|(key, value)| keep(key, value)),
            Inner::Tree(tree) => tree.retain(keep),
        }
    }

    /// The entries.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Inner::List(list) => IterInner::List(list.iter()),
            Inner::Tree(tree) => IterInner::Tree(tree.iter()),
        })
    }

    /// The keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Str> + ExactSizeIterator {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.iter().map(|(_, value)| value)
    }
}

/// Where a key is, or where it would be.
#[inline]
fn find(list: &[(Str, Value)], key: &[u8]) -> Result<usize, usize> {
    list.binary_search_by(|(found, _)| found.as_bytes().cmp(key))
}

impl FromIterator<(Str, Value)> for Entries {
    /// Of entries with the same key, the last one is kept.
    fn from_iter<I: IntoIterator<Item = (Str, Value)>>(entries: I) -> Self {
        let mut list: Vec<_> = entries.into_iter().collect();
        if !list.is_sorted_by(|(left, _), (right, _)| left < right) {
            // Stable, so that the last one of a key stays last.
            list.sort_by(|(left, _), (right, _)| left.cmp(right));
            list.reverse();
            list.dedup_by(|(left, _), (right, _)| left == right);
            list.reverse();
        }
        if list.len() > MOST_LISTED {
            return Self(Inner::Tree(list.into_iter().collect()));
        }
        list.shrink_to_fit();
        Self(Inner::List(list))
    }
}

impl Extend<(Str, Value)> for Entries {
    fn extend<I: IntoIterator<Item = (Str, Value)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl From<BTreeMap<Str, Value>> for Entries {
    fn from(entries: BTreeMap<Str, Value>) -> Self {
        entries.into_iter().collect()
    }
}

/// Borrowed entries.
#[derive(Clone)]
pub struct Iter<'a>(IterInner<'a>);

#[derive(Clone)]
enum IterInner<'a> {
    List(slice::Iter<'a, (Str, Value)>),
    Tree(btree_map::Iter<'a, Str, Value>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Str, &'a Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterInner::List(list) => list.next().map(|(key, value)| (key, value)),
            IterInner::Tree(tree) => tree.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            IterInner::List(list) => list.size_hint(),
            IterInner::Tree(tree) => tree.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterInner::List(list) => list.next_back().map(|(key, value)| (key, value)),
            IterInner::Tree(tree) => tree.next_back(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Entries {
    type Item = (&'a Str, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Owned entries.
pub struct IntoIter(IntoIterInner);

enum IntoIterInner {
    List(std::vec::IntoIter<(Str, Value)>),
    Tree(btree_map::IntoIter<Str, Value>),
}

impl Iterator for IntoIter {
    type Item = (Str, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IntoIterInner::List(list) => list.next(),
            IntoIterInner::Tree(tree) => tree.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            IntoIterInner::List(list) => list.size_hint(),
            IntoIterInner::Tree(tree) => tree.size_hint(),
        }
    }
}

impl ExactSizeIterator for IntoIter {}

impl IntoIterator for Entries {
    type Item = (Str, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(match self.0 {
            Inner::List(list) => IntoIterInner::List(list.into_iter()),
            Inner::Tree(tree) => IntoIterInner::Tree(tree.into_iter()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Str {
        format!("{number}").into()
    }

    fn shown(entries: &Entries) -> Vec<String> {
        entries
            .iter()
            .map(|(key, value)| format!("{key:?}={value:?}"))
            .collect()
    }

    #[test]
    fn a_list_and_a_tree_behave_alike() {
        for size in [0, 1, 5, MOST_LISTED, MOST_LISTED + 1, 500] {
            let mut entries = Entries::new();
            let mut tree = BTreeMap::new();
            for step in 0..size {
                let number = step * 7919 % size;
                let old = entries.insert(key(number), Value::Int(1));
                assert_eq!(
                    old.is_some(),
                    tree.insert(key(number), Value::Int(1)).is_some()
                );
            }
            assert_eq!(shown(&entries), shown(&Entries::from(tree.clone())));
            assert!(entries.keys().eq(tree.keys()), "{size}");
            assert_eq!(entries.len(), tree.len());
            for number in (0..size + 2).step_by(3) {
                assert_eq!(
                    entries.contains_key(&key(number)),
                    tree.contains_key(&key(number))
                );
                assert_eq!(
                    entries.remove(&key(number)).is_some(),
                    tree.remove(&key(number)).is_some()
                );
            }
            entries.retain(|key, _| key.len() != 2);
            tree.retain(|key, _| key.len() != 2);
            assert!(entries.keys().eq(tree.keys()), "{size}");
            assert!(entries.into_iter().map(|(key, _)| key).eq(tree.into_keys()));
        }
    }

    #[test]
    fn of_equal_keys_the_last_one_is_kept() {
        let entries: Entries = [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)]
            .map(|(key, value)| (Str::from(key), Value::Int(value)))
            .into_iter()
            .collect();
        assert_eq!(
            shown(&entries),
            ["\"a\"=int(4)", "\"b\"=int(3)", "\"c\"=int(5)"]
        );
    }
}

//! Maps.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;

use super::release::{Children, release};
use super::{Entries, Value, cycles};
use crate::function::Signature;
use crate::{Str, Type};

/// A Go `map[string]T`: clones refer to the same map.
#[derive(Clone)]
pub struct Map(Rc<MapInner>, Option<&'static NamedMap>);

pub(super) struct MapInner {
    element: Type,
    nil: bool,
    pub(super) entries: RefCell<Entries>,
    /// Some [`CycleGuard`](super::CycleGuard) looks after it.
    pub(super) watched: Cell<bool>,
}

impl Drop for MapInner {
    fn drop(&mut self) {
        release(Children::Entries(std::mem::take(self.entries.get_mut())));
    }
}

/// A Go type that is a map and has methods, as Helm's `common.Values`. Its values go wherever a
/// plain map goes.
pub struct NamedMap {
    /// What `%T` prints.
    pub name: &'static str,
    /// The signature of a method; `None` if the type has none of that name.
    pub signature: fn(&str) -> Option<Signature>,
    /// Calls a method that the type has, with arguments that its signature admits. The error is
    /// Go's error text.
    pub call: fn(&Map, &str, &[Value]) -> Result<Value, String>,
}

impl Map {
    /// An empty `map[string]interface {}`.
    #[must_use]
    pub fn new() -> Self {
        Self::typed(Type::Any, Entries::new())
    }

    /// A `map[string]interface {}` with these entries.
    pub fn from_entries<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect();
        Self::typed(Type::Any, entries)
    }

    /// A `map[string]element`; the caller keeps to that type.
    #[must_use]
    pub fn typed(element: Type, entries: Entries) -> Self {
        Self::build(element, false, None, entries)
    }

    /// A nil map: empty, `null` in JSON, equal to `nil`. What a function gets for a missing
    /// argument of a map type. Go panics with `assignment to entry in nil map` when one is written
    /// to; here the functions that write have to ask first.
    #[must_use]
    pub fn nil(element: Type) -> Self {
        Self::build(element, true, None, Entries::new())
    }

    /// A map of a named type with methods.
    #[must_use]
    pub fn named(name: &'static NamedMap, entries: Entries) -> Self {
        Self::build(Type::Any, false, Some(name), entries)
    }

    /// The very same map under a named type, as Go's conversion gives it: what is written through
    /// one is seen through the other.
    #[must_use]
    pub fn with_name(&self, name: &'static NamedMap) -> Self {
        Self(Rc::clone(&self.0), Some(name))
    }

    /// The very same map under its plain type.
    #[must_use]
    pub fn without_name(&self) -> Self {
        Self(Rc::clone(&self.0), None)
    }

    fn build(element: Type, nil: bool, name: Option<&'static NamedMap>, entries: Entries) -> Self {
        let entries = RefCell::new(entries);
        let inner = MapInner {
            element,
            nil,
            entries,
            watched: Cell::new(false),
        };
        Self(Rc::new(inner), name)
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> Type {
        self.0.element
    }

    /// The name of the type, if it is not the plain `map[string]element`.
    #[must_use]
    pub fn type_name(&self) -> Option<&'static str> {
        self.1.map(|named| named.name)
    }

    /// The named type of the map, if it has one.
    #[must_use]
    pub fn methods(&self) -> Option<&'static NamedMap> {
        self.1
    }

    /// Whether this is a nil map.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// The value of a key.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow().get(key).cloned()
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.entries.borrow().contains_key(key)
    }

    /// Sets a key for every holder of this map.
    pub fn insert(&self, key: Str, value: Value) -> Option<Value> {
        if value.is_container() {
            self.watch();
        }
        self.0.entries.borrow_mut().insert(key, value)
    }

    /// Removes a key for every holder of this map.
    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow_mut().remove(key)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries, in byte order of the keys. Hold the guard no longer than needed: a write to the
    /// same map while it lives is a fault of ours.
    #[must_use]
    pub fn entries(&self) -> Ref<'_, Entries> {
        self.0.entries.borrow()
    }

    /// The entries, to change.
    #[must_use]
    pub fn entries_mut(&self) -> RefMut<'_, Entries> {
        self.watch();
        self.0.entries.borrow_mut()
    }

    /// Only a map that is written to can come to hold itself.
    fn watch(&self) {
        if !self.0.watched.replace(true) && !cycles::watch(&self.0) {
            self.0.watched.set(false);
        }
    }

    /// Whether both names refer to one map.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    #[cfg(test)]
    pub(super) fn downgrade(&self) -> std::rc::Weak<MapInner> {
        Rc::downgrade(&self.0)
    }

    /// Whether nothing else refers to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

//! Maps that hold themselves.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::map::MapInner;

thread_local! {
    static WATCHED: RefCell<Option<Vec<Weak<MapInner>>>> = const { RefCell::new(None) };
}

/// Frees maps that hold themselves.
///
/// `set $map "self" $map` is all that it takes, and charts do so: such a map never runs out of
/// references. Make a guard before the values of a render and let it go after them. Maps that were
/// written to in between and are still there by then are taken for such, and emptied.
///
/// ```
/// use gotmpl::{CycleGuard, Map, Str, Value};
///
/// let guard = CycleGuard::new();
/// let map = Map::new();
/// map.insert(Str::from("self"), Value::Map(map.clone()));
/// drop(map);
/// drop(guard); // the map is freed here
/// ```
#[must_use = "maps are watched as long as the guard lives"]
pub struct CycleGuard {
    outer: Option<Vec<Weak<MapInner>>>,
}

impl CycleGuard {
    /// Begins to watch the maps of this thread that are written to.
    pub fn new() -> Self {
        let outer = WATCHED
            .try_with(|watched| watched.replace(Some(Vec::new())))
            .ok()
            .flatten();
        Self { outer }
    }
}

impl Default for CycleGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for CycleGuard {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let watched = WATCHED.try_with(|watched| watched.replace(outer));
        for map in watched.ok().flatten().unwrap_or_default() {
            if let Some(map) = map.upgrade() {
                map.watched.set(false);
                let entries = std::mem::take(&mut *map.entries.borrow_mut());
                drop(entries);
            }
        }
    }
}

/// Notes a map that is about to be written to; whether some guard watches.
pub(super) fn watch(map: &Rc<MapInner>) -> bool {
    let noted = WATCHED.try_with(|watched| {
        let mut watched = watched.borrow_mut();
        if let Some(watched) = watched.as_mut() {
            watched.push(Rc::downgrade(map));
        }
        watched.is_some()
    });
    noted.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{List, Map, Str, Value};

    /// A value that is alive as long as the weak reference to it.
    fn tracked() -> (Value, Weak<MapInner>) {
        let map = Map::new();
        let weak = map.downgrade();
        (Value::Map(map), weak)
    }

    #[test]
    fn a_map_that_holds_itself_is_freed_with_all_that_it_holds() {
        let (value, weak) = tracked();
        let guard = CycleGuard::new();
        let map = Map::new();
        map.insert(Str::from("held"), value);
        let list = List::new(vec![Value::Map(map.clone())]);
        map.insert(Str::from("around"), Value::List(list));
        drop(map);
        assert!(weak.upgrade().is_some());
        drop(guard);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn a_ring_of_maps_is_freed() {
        let (value, weak) = tracked();
        let guard = CycleGuard::new();
        let (left, right) = (Map::new(), Map::new());
        left.insert(Str::from("right"), Value::Map(right.clone()));
        right
            .entries_mut()
            .insert(Str::from("left"), Value::Map(left.clone()));
        right.insert(Str::from("held"), value);
        drop((left, right));
        drop(guard);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn guards_may_be_nested() {
        let outer = CycleGuard::new();
        let kept = Map::new();
        kept.insert(Str::from("a"), Value::Map(Map::new()));
        let inner = CycleGuard::new();
        drop(inner);
        assert_eq!(kept.len(), 1);
        drop(kept);
        drop(outer);
    }
}

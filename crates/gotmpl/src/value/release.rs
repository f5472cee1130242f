//! Freeing containers without recursion.

use std::cell::{Cell, RefCell};

use super::{Entries, Value};

/// What a container held.
pub(super) enum Children {
    Items(Vec<Value>),
    Entries(Entries),
}

/// How deep containers are freed by recursion before the rest waits for its turn.
const RELEASE_DEPTH: u32 = 64;

thread_local! {
    static RELEASING: Cell<u32> = const { Cell::new(0) };
    static PENDING: RefCell<Vec<Children>> = const { RefCell::new(Vec::new()) };
}

/// Frees what a container held. A list in a list in a list …, a million deep, is easily made by a
/// template; freed by recursion it would overflow the native stack.
pub(super) fn release(children: Children) {
    let depth = RELEASING.try_with(Cell::get).unwrap_or(0);
    if depth >= RELEASE_DEPTH {
        // Without thread-local storage, when the thread ends, they are freed right here.
        let _ = PENDING.try_with(|pending| pending.borrow_mut().push(children));
        return;
    }
    release_at(depth + 1, children);
    while depth == 0
        && let Some(children) = next_pending()
    {
        release_at(1, children);
    }
    let _ = RELEASING.try_with(|releasing| releasing.set(depth));
}

fn release_at(depth: u32, children: Children) {
    let _ = RELEASING.try_with(|releasing| releasing.set(depth));
    match children {
        Children::Items(items) => drop(items),
        Children::Entries(entries) => drop(entries),
    }
}

fn next_pending() -> Option<Children> {
    PENDING
        .try_with(|pending| pending.borrow_mut().pop())
        .ok()
        .flatten()
}

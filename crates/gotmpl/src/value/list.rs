//! Slices.

use std::rc::Rc;

use super::Value;
use super::release::{Children, release};
use crate::{Str, Type};

/// A Go slice: its element type and its elements.
#[derive(Clone)]
pub struct List(Rc<ListInner>);

struct ListInner {
    element: Type,
    nil: bool,
    items: Vec<Value>,
}

impl Drop for ListInner {
    fn drop(&mut self) {
        release(Children::Items(std::mem::take(&mut self.items)));
    }
}

impl List {
    /// `[]interface {}`.
    #[must_use]
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(Type::Any, items)
    }

    /// `[]element`; the caller keeps to that type.
    #[must_use]
    pub fn typed(element: Type, items: Vec<Value>) -> Self {
        Self(Rc::new(ListInner {
            element,
            nil: false,
            items,
        }))
    }

    /// A nil slice: empty, `null` in JSON, equal to `nil`. What a function gets for a missing
    /// argument of a slice type.
    #[must_use]
    pub fn nil(element: Type) -> Self {
        Self(Rc::new(ListInner {
            element,
            nil: true,
            items: Vec::new(),
        }))
    }

    /// `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items
            .into_iter()
            .map(|item| Value::String(item.into()))
            .collect();
        Self::typed(Type::String, items)
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> Type {
        self.0.element
    }

    /// The elements.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    /// Whether this is a nil slice.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// Whether nothing else refers to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

//! The way to a schema: how it was reached, and what its dynamic anchors mean there.

use super::{Checking, Scope};
use crate::schema::compile::Index;

impl Scope<'_> {
    pub(super) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.parent)
    }

    /// The schema that is being applied to this very value already.
    pub(super) fn cycle(&self) -> Option<&Self> {
        self.chain()
            .skip(1)
            .take_while(|scope| scope.value_id == self.value_id)
            .find(|scope| scope.part == self.part)
    }

    /// The outermost resource that is a recursive anchor.
    pub(super) fn recursive_anchor(&self, context: Checking<'_>, fallback: Index) -> Index {
        let is_anchor = |scope: &&Self| {
            let resource = context.part(scope.part).map(|part| part.resource);
            resource
                .and_then(|resource| context.part(resource))
                .is_some_and(|part| part.recursive_anchor)
        };
        self.chain()
            .filter(is_anchor)
            .last()
            .map_or(fallback, |scope| scope.part)
    }

    /// What the outermost resource with this anchor calls by it.
    pub(super) fn dynamic_anchor(
        &self,
        context: Checking<'_>,
        name: &str,
        fallback: Index,
    ) -> Index {
        self.chain()
            .filter_map(|scope| {
                let resource = context.part(scope.part)?.resource;
                context.part(resource)?.dynamic_anchors.get(name).copied()
            })
            .last()
            .unwrap_or(fallback)
    }

    /// The keywords that led here from the start.
    pub(super) fn keywords(&self, context: Checking<'_>) -> String {
        let mut steps = Vec::new();
        for scope in self.chain() {
            let Some(parent) = scope.parent else {
                break;
            };
            let location = |index| {
                context
                    .part(index)
                    .map_or("", |part| part.location.as_str())
            };
            steps.push(if scope.keyword.is_empty() {
                let parent = location(parent.part).len();
                location(scope.part)
                    .get(parent..)
                    .unwrap_or_default()
                    .to_owned()
            } else {
                format!("/{}", scope.keyword)
            });
        }
        steps.reverse();
        steps.concat()
    }
}

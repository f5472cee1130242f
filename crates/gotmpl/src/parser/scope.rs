//! Which variables there are, and where their values are kept.

use crate::Str;
use crate::tree::{Span, Variable};

/// Two lists of variables. Go's parser keeps a list of names of its own, which is more generous
/// than execution: it knows a variable in its own declaration, and in the `else` of the block that
/// declares it. What only the parser knows is `undefined variable` when it executes.
pub(super) struct Scope {
    /// What the parser has seen.
    mentioned: Vec<Str>,
    /// What execution will have, each at the place of its value.
    declared: Vec<Declared>,
    most: usize,
}

struct Declared {
    name: Str,
    /// `and` or `or` may leave it undeclared.
    conditional: bool,
}

/// How far the lists reached.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    mentioned: usize,
    declared: usize,
}

impl Scope {
    pub(super) fn new(dollar: Str) -> Self {
        Self {
            mentioned: vec![dollar.clone()],
            declared: vec![Declared {
                name: dollar,
                conditional: false,
            }],
            most: 1,
        }
    }

    /// How many values there are at most.
    pub(super) fn slots(&self) -> usize {
        self.most
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            mentioned: self.mentioned.len(),
            declared: self.declared.len(),
        }
    }

    /// Drops what a list declared; the parser still knows the names.
    pub(super) fn leave_list(&mut self, mark: Mark) {
        self.declared.truncate(mark.declared);
    }

    pub(super) fn leave_block(&mut self, mark: Mark) {
        self.mentioned.truncate(mark.mentioned);
        self.declared.truncate(mark.declared);
    }

    /// Notes that the text declares or assigns a variable.
    pub(super) fn mention(&mut self, name: Str) {
        self.mentioned.push(name);
    }

    pub(super) fn is_mentioned(&self, name: &[u8]) -> bool {
        self.mentioned.iter().any(|mentioned| &**mentioned == name)
    }

    pub(super) fn declare(&mut self, name: Str) -> Variable {
        let slot = u32::try_from(self.declared.len()).ok();
        self.declared.push(Declared {
            name: name.clone(),
            conditional: false,
        });
        self.most = self.most.max(self.declared.len());
        Variable {
            name,
            slot,
            conditional: false,
            fallbacks: Box::default(),
        }
    }

    /// The variable that a name stands for here.
    pub(super) fn resolve(&self, name: Str) -> Variable {
        let mut candidates = (self.declared.iter().enumerate().rev())
            .filter(|(_, declared)| declared.name == name)
            .filter_map(|(slot, declared)| Some((u32::try_from(slot).ok()?, declared.conditional)));
        let first = candidates.next();
        let conditional = first.is_some_and(|(_, conditional)| conditional);
        let mut fallbacks = Vec::new();
        if conditional {
            for (slot, conditional) in candidates {
                fallbacks.push(slot);
                if !conditional {
                    break;
                }
            }
        }
        Variable {
            slot: first.map(|(slot, _)| slot),
            conditional,
            fallbacks: fallbacks.into(),
            name,
        }
    }

    pub(super) fn declared_since(&self, mark: Mark) -> Span {
        let bound = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Span {
            start: bound(mark.declared),
            end: bound(self.declared.len()),
        }
    }

    pub(super) fn make_conditional(&mut self, slots: Span) {
        for declared in self.declared.get_mut(slots.range()).unwrap_or_default() {
            declared.conditional = true;
        }
    }
}

//! Operands that can be looked at where they lie: no call, no clone.

use super::{Executor, Frame, Held};
use crate::set::MissingKey;
use crate::tree::{Node, OperandKind, Pipe};
use crate::{Map, Str, Type, Value};

impl Executor<'_> {
    /// Shows the value of an operand, and whether it stands in an interface, if finding it out
    /// calls nothing and fails nowhere.
    #[inline]
    pub(super) fn peek<R>(
        &self,
        frame: &Frame<'_>,
        dot: &Held,
        kind: OperandKind,
        show: impl FnOnce(&Value, bool) -> R,
    ) -> Option<R> {
        let (start, names) = match kind {
            OperandKind::Dot => return Some(show(&dot.value, dot.in_interface)),
            OperandKind::Field(names) => (dot, names),
            OperandKind::Variable(at, names) => (self.variable_value(frame, at)?, names),
            _ => return None,
        };
        let zero = self.options.missing_key == MissingKey::Zero;
        follow(
            &start.value,
            start.in_interface,
            frame.tree.names(names),
            zero,
            show,
        )
    }

    /// The value of a variable, if it is declared.
    pub(super) fn variable_value(&self, frame: &Frame<'_>, at: u32) -> Option<&Held> {
        let variable = frame.tree.variables.get(at as usize)?;
        let value = |slot: u32| self.variables.get(frame.base + slot as usize)?.as_ref();
        let first = variable.slot.and_then(value);
        first.or_else(|| variable.fallbacks.iter().find_map(|&slot| value(slot)))
    }

    /// Whether a condition holds, if it is a single operand that can be looked at.
    pub(super) fn peek_truth(&self, frame: &mut Frame<'_>, dot: &Held, pipe: Pipe) -> Option<bool> {
        if pipe.commands.len() != 1 || !pipe.variables.is_empty() {
            return None;
        }
        let command = frame.tree.commands.get(pipe.commands.start as usize)?;
        if command.operands.len() != 1 {
            return None;
        }
        let operand = frame.tree.operands.get(command.operands.start as usize)?;
        let truth = self.peek(frame, dot, operand.kind, |value, _| crate::is_true(value))?;
        frame.node = Node::Operand(command.operands.start);
        Some(truth)
    }
}

/// Goes from map to map by keys.
fn follow<R>(
    value: &Value,
    in_interface: bool,
    names: &[Str],
    zero: bool,
    show: impl FnOnce(&Value, bool) -> R,
) -> Option<R> {
    let Some((name, rest)) = names.split_first() else {
        return Some(show(value, in_interface));
    };
    let Value::Map(map) = value else {
        return None;
    };
    if has_method(map, name) {
        return None;
    }
    let in_interface = map.element() == Type::Any;
    match map.entries().get(name) {
        Some(value) => follow(value, in_interface, rest, zero, show),
        None if zero && in_interface && rest.is_empty() => Some(show(&Value::Nil, true)),
        None => None,
    }
}

/// Whether the type of a map has a method of this name.
pub(super) fn has_method(map: &Map, name: &[u8]) -> bool {
    map.methods().is_some_and(|named| {
        std::str::from_utf8(name).is_ok_and(|name| (named.signature)(name).is_some())
    })
}

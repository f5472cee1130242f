//! Loops.

use super::{Executor, Flow, Frame, Held, Run};
use crate::builtin::underlying;
use crate::tree::{Branch, Span};
use crate::{Type, Value, fmt, stack};

/// What a loop does with each element.
struct Loop<'d> {
    /// The dot around the loop.
    dot: &'d Held,
    branch: Branch,
    /// The variables of its pipeline.
    variables: Span,
    /// What its pipeline gave.
    value: &'d Value,
}

impl Executor<'_> {
    pub(super) fn range(&mut self, frame: &mut Frame<'_>, dot: &Held, branch: Branch) -> Run<Flow> {
        let value = self.pipe(frame, dot, branch.pipe)?;
        let pipe = frame.tree.pipes.get(branch.pipe as usize);
        let round = Loop {
            dot,
            branch,
            variables: pipe.map(|pipe| pipe.variables).unwrap_or_default(),
            value: &value,
        };
        self.iterate(frame, &round, &value)
    }

    fn iterate(&mut self, frame: &mut Frame<'_>, round: &Loop<'_>, value: &Value) -> Run<Flow> {
        match value {
            Value::Nil => self.rounds(frame, round, std::iter::empty()),
            Value::List(list) => {
                let held = list.element() == Type::Any;
                let items = list.items().iter().enumerate();
                self.rounds(
                    frame,
                    round,
                    items.map(|(at, item)| (number(at), item.clone(), held)),
                )
            }
            Value::Bytes(bytes) => {
                let items = bytes.iter().enumerate();
                self.rounds(
                    frame,
                    round,
                    items.map(|(at, &byte)| (number(at), Value::Uint8(byte), false)),
                )
            }
            Value::Map(map) => {
                let held = map.element() == Type::Any;
                // The body may change the map; the loop is over what it held before.
                let entries: Vec<_> = map
                    .entries()
                    .iter()
                    .map(|(key, item)| (Value::String(key.clone()), item.clone(), held))
                    .collect();
                self.rounds(frame, round, entries.into_iter())
            }
            Value::Int(end) => self.count(frame, round, *end, Value::Int),
            Value::Int64(end) => self.count(frame, round, *end, Value::Int64),
            Value::Int32(end) => {
                let convert = |at| Value::Int32(i32::try_from(at).unwrap_or(i32::MAX));
                self.count(frame, round, i64::from(*end), convert)
            }
            Value::Uint8(end) => {
                let convert = |at| Value::Uint8(u8::try_from(at).unwrap_or(u8::MAX));
                self.count(frame, round, i64::from(*end), convert)
            }
            Value::Uint64(end) => {
                let end = i64::try_from(*end).unwrap_or(i64::MAX);
                let convert = |at| Value::Uint64(u64::try_from(at).unwrap_or(0));
                self.count(frame, round, end, convert)
            }
            Value::Object(_) => match underlying(value) {
                Some(value) => self.iterate(frame, round, &value),
                None => Err(self.not_iterable(frame, round.value)),
            },
            _ => Err(self.not_iterable(frame, round.value)),
        }
    }

    fn not_iterable(&self, frame: &Frame<'_>, value: &Value) -> crate::ExecError {
        let text = text(value);
        self.fail(frame, format!("range can't iterate over {text}"))
    }

    /// A loop from 0 to a number.
    fn count(
        &mut self,
        frame: &mut Frame<'_>,
        round: &Loop<'_>,
        end: i64,
        convert: impl Fn(i64) -> Value,
    ) -> Run<Flow> {
        if round.variables.len() > 1 {
            let text = text(round.value);
            let message = format!("can't use {text} to iterate over more than one variable");
            return Err(self.fail(frame, message));
        }
        let items = (0..end).map(|at| (Value::Nil, convert(at), false));
        self.rounds(frame, round, items)
    }

    /// Runs the body for each element, or the `else` if there is none.
    fn rounds(
        &mut self,
        frame: &mut Frame<'_>,
        round: &Loop<'_>,
        items: impl Iterator<Item = (Value, Value, bool)>,
    ) -> Run<Flow> {
        let mut empty = true;
        for (key, value, in_interface) in items {
            empty = false;
            self.step(frame)?;
            let element = Held {
                value,
                in_interface,
            };
            self.set_loop_variables(frame, round, key, &element)?;
            let list = round.branch.list;
            let flow = stack::grow(|| self.walk(frame, &element, list))?;
            if flow == Flow::Break {
                break;
            }
        }
        if empty {
            return self.otherwise(frame, round.dot, round.branch);
        }
        Ok(Flow::Next)
    }

    fn set_loop_variables(
        &mut self,
        frame: &Frame<'_>,
        round: &Loop<'_>,
        key: Value,
        element: &Held,
    ) -> Run<()> {
        match frame.tree.variables(round.variables) {
            [] => Ok(()),
            [value] => self.set_variable(frame, value, element.clone()),
            [index, value, ..] => {
                self.set_variable(frame, index, Held::plain(key))?;
                self.set_variable(frame, value, element.clone())
            }
        }
    }
}

fn number(at: usize) -> Value {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

/// What `%v` prints for a value that reflection holds: a pointer has been followed.
fn text(value: &Value) -> String {
    let mut text = Vec::new();
    match fmt::append_pointee(&mut text, value, fmt::LIMIT) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => error.to_string(),
    }
}

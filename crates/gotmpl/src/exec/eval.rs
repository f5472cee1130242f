//! Pipelines, commands, operands and fields.

use std::rc::Rc;

use super::{Executor, Frame, Held, Run};
use crate::complex::Complex;
use crate::set::MissingKey;
use crate::tree::{Ideal, Node, OperandKind, Span, Variable};
use crate::{ExecError, Map, Object, Str, Type, Value, strconv};

/// What stands behind the first word of a command.
#[derive(Clone, Copy, Default)]
pub(super) struct Arguments {
    /// The other operands.
    pub(super) operands: Span,
}

impl Executor<'_> {
    /// The value of a pipeline, out of its interface. What it declares is declared afterwards.
    pub(super) fn pipe(&mut self, frame: &mut Frame<'_>, dot: &Held, at: u32) -> Run<Value> {
        let tree = frame.tree;
        let Some(pipe) = tree.pipes.get(at as usize) else {
            return Ok(Value::Nil);
        };
        frame.node = Node::Pipe(at);
        let mut commands = pipe.commands.start..pipe.commands.end;
        let mut value = match commands.next() {
            Some(first) => self.command(frame, dot, first, None)?,
            None => Value::Nil,
        };
        for command in commands {
            value = self.command(frame, dot, command, Some(value))?;
        }
        for variable in tree.variables(pipe.variables) {
            self.set_variable(frame, variable, Held::plain(value.clone()))?;
        }
        Ok(value)
    }

    /// Declares or assigns.
    pub(super) fn set_variable(
        &mut self,
        frame: &Frame<'_>,
        variable: &Variable,
        value: Held,
    ) -> Run<()> {
        let slots = variable.slot.iter().chain(&variable.fallbacks);
        let mut places = slots.map(|&slot| frame.base + slot as usize);
        let place = if variable.conditional {
            places.find(|&at| matches!(self.variables.get(at), Some(Some(_))))
        } else {
            places.next()
        };
        match place.and_then(|at| self.variables.get_mut(at)) {
            Some(place) => {
                *place = Some(value);
                Ok(())
            }
            None => Err(self.undefined(frame, variable)),
        }
    }

    fn variable(&self, frame: &Frame<'_>, at: u32) -> Run<&Held> {
        let Some(variable) = frame.tree.variables.get(at as usize) else {
            return Err(self.fail(frame, "undefined variable".to_owned()));
        };
        variable
            .slot
            .iter()
            .chain(&variable.fallbacks)
            .find_map(|&slot| self.variables.get(frame.base + slot as usize)?.as_ref())
            .ok_or_else(|| self.undefined(frame, variable))
    }

    fn undefined(&self, frame: &Frame<'_>, variable: &Variable) -> ExecError {
        let name = variable.name.to_text();
        self.fail(frame, format!("undefined variable: {name}"))
    }

    /// The value of a command; `last` is that of the command before the bar.
    fn command(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        at: u32,
        last: Option<Value>,
    ) -> Run<Value> {
        self.step(frame)?;
        let tree = frame.tree;
        let Some(command) = tree.commands.get(at as usize) else {
            return Ok(Value::Nil);
        };
        let first = command.operands.start;
        let Some(operand) = tree.operands.get(first as usize) else {
            return Ok(Value::Nil);
        };
        let arguments = Arguments {
            operands: command.operands.rest(),
        };
        let held = match operand.kind {
            OperandKind::Identifier(function) => {
                let call = super::call::Call {
                    function,
                    word: first,
                    node: Node::Command(at),
                    arguments,
                    declares: command.declares,
                };
                return self.function(frame, dot, call, last);
            }
            OperandKind::Field(names) => {
                frame.node = Node::Operand(first);
                self.chain(frame, dot, dot, names, first, arguments, last)?
            }
            OperandKind::Chain(inner, names) => {
                frame.node = Node::Operand(first);
                let receiver = self.chain_start(frame, dot, inner, first)?;
                self.chain(frame, dot, &receiver, names, first, arguments, last)?
            }
            OperandKind::Variable(variable, names) => {
                frame.node = Node::Operand(first);
                let receiver = self.variable(frame, variable)?.clone();
                if names.is_empty() {
                    self.no_arguments(frame, first, arguments, last.as_ref())?;
                    receiver
                } else {
                    self.chain(frame, dot, &receiver, names, first, arguments, last)?
                }
            }
            OperandKind::Pipe(pipe) => {
                self.no_arguments(frame, first, arguments, last.as_ref())?;
                return crate::stack::grow(|| self.pipe(frame, dot, pipe));
            }
            _ => {
                frame.node = Node::Operand(first);
                self.no_arguments(frame, first, arguments, last.as_ref())?;
                return self.literal(frame, dot, operand.kind);
            }
        };
        Ok(held.value)
    }

    fn no_arguments(
        &self,
        frame: &Frame<'_>,
        word: u32,
        arguments: Arguments,
        last: Option<&Value>,
    ) -> Run<()> {
        if arguments.operands.is_empty() && last.is_none() {
            return Ok(());
        }
        let source = frame.tree.describe(Node::Operand(word));
        let source = String::from_utf8_lossy(&source);
        Err(self.fail(
            frame,
            format!("can't give argument to non-function {source}"),
        ))
    }

    /// A command that is a constant or the dot.
    fn literal(&self, frame: &Frame<'_>, dot: &Held, kind: OperandKind) -> Run<Value> {
        match kind {
            OperandKind::Dot => Ok(dot.value.clone()),
            OperandKind::Nil => Err(self.fail(frame, "nil is not a command".to_owned())),
            _ => self.constant(frame, kind),
        }
    }

    /// A constant where any kind will do.
    pub(super) fn constant(&self, frame: &Frame<'_>, kind: OperandKind) -> Run<Value> {
        let tree = frame.tree;
        Ok(match kind {
            OperandKind::Bool(value) => Value::Bool(value),
            OperandKind::String(at) => match tree.strings.get(at as usize) {
                Some(constant) => Value::String(constant.value.clone()),
                None => Value::Nil,
            },
            OperandKind::Number(at) => match tree.numbers.get(at as usize) {
                Some(number) => match number.ideal {
                    Ideal::Int(int) => Value::Int(int),
                    Ideal::Float(float) => Value::Float64(float),
                    Ideal::Complex(real, imaginary) => {
                        Value::Object(Rc::new(Complex { real, imaginary }))
                    }
                    Ideal::Overflow => {
                        let text = String::from_utf8_lossy(tree.source(number.text));
                        return Err(self.fail(frame, format!("{text} overflows int")));
                    }
                },
                None => Value::Nil,
            },
            _ => Value::Nil,
        })
    }

    /// What stands in front of the fields of `(…).a.b`.
    pub(super) fn chain_start(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        inner: u32,
        chain: u32,
    ) -> Run<Held> {
        let kind = frame
            .tree
            .operands
            .get(inner as usize)
            .map(|operand| operand.kind);
        if matches!(kind, Some(OperandKind::Nil)) {
            let source = frame.tree.describe(Node::Operand(chain));
            let source = String::from_utf8_lossy(&source);
            return Err(self.fail(
                frame,
                format!("indirection through explicit nil in {source}"),
            ));
        }
        self.held_operand(frame, dot, inner)
    }

    /// The value of an operand that may be of any type.
    pub(super) fn held_operand(&mut self, frame: &mut Frame<'_>, dot: &Held, at: u32) -> Run<Held> {
        let Some(operand) = frame.tree.operands.get(at as usize) else {
            return Ok(Held::plain(Value::Nil));
        };
        frame.node = Node::Operand(at);
        let none = Arguments::default();
        match operand.kind {
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Nil => Ok(Held::plain(Value::Nil)),
            OperandKind::Field(names) => self.chain(frame, dot, dot, names, at, none, None),
            OperandKind::Variable(variable, names) => {
                let receiver = self.variable(frame, variable)?.clone();
                if names.is_empty() {
                    return Ok(receiver);
                }
                self.chain(frame, dot, &receiver, names, at, none, None)
            }
            OperandKind::Pipe(pipe) => {
                let value = crate::stack::grow(|| self.pipe(frame, dot, pipe))?;
                Ok(Held::plain(value))
            }
            OperandKind::Identifier(function) => {
                let call = super::call::Call {
                    function,
                    word: at,
                    node: Node::Operand(at),
                    arguments: none,
                    declares: Span::default(),
                };
                let value = self.function(frame, dot, call, None)?;
                // The nil that a function returns is one of its result type, an interface.
                Ok(Held {
                    in_interface: matches!(value, Value::Nil),
                    value,
                })
            }
            OperandKind::Chain(inner, names) => {
                let receiver = self.chain_start(frame, dot, inner, at)?;
                self.chain(frame, dot, &receiver, names, at, none, None)
            }
            kind => self.constant(frame, kind).map(Held::plain),
        }
    }

    /// `receiver.a.b`, the last name with the arguments.
    #[expect(
        clippy::too_many_arguments,
        reason = "the context of a call, and the call"
    )]
    fn chain(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        names: Span,
        word: u32,
        arguments: Arguments,
        last: Option<Value>,
    ) -> Run<Held> {
        let Some((final_name, names)) = frame.tree.names(names).split_last() else {
            return Ok(receiver.clone());
        };
        let none = Arguments::default();
        let mut current: Option<Held> = None;
        for name in names {
            let receiver = current.as_ref().unwrap_or(receiver);
            current = Some(match self.plain_entry(receiver, name) {
                Some(held) => held,
                None => self.field(frame, dot, receiver, name, word, none, None)?,
            });
        }
        let receiver = current.as_ref().unwrap_or(receiver);
        if arguments.operands.is_empty()
            && last.is_none()
            && let Some(held) = self.plain_entry(receiver, final_name)
        {
            return Ok(held);
        }
        self.field(frame, dot, receiver, final_name, word, arguments, last)
    }

    /// The usual case: a key that a plain map has.
    #[inline]
    fn plain_entry(&self, receiver: &Held, name: &Str) -> Option<Held> {
        let Value::Map(map) = &receiver.value else {
            return None;
        };
        if map.methods().is_some() {
            return None;
        }
        let value = map.get(name)?;
        Some(Held {
            value,
            in_interface: map.element() == Type::Any,
        })
    }

    /// A method, a field of a struct, or a key of a map.
    #[expect(
        clippy::too_many_arguments,
        reason = "the context of a call, and the call"
    )]
    fn field(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        name: &Str,
        word: u32,
        arguments: Arguments,
        last: Option<Value>,
    ) -> Run<Held> {
        match &receiver.value {
            Value::Nil if receiver.in_interface => {
                let name = name.to_text();
                let message = format!("nil pointer evaluating interface {{}}.{name}");
                Err(self.fail(frame, message))
            }
            Value::Nil => {
                if self.strict() {
                    let name = strconv::quote(name);
                    return Err(self.fail(frame, format!("nil data; no entry for key {name}")));
                }
                Ok(Held::plain(Value::Nil))
            }
            Value::Map(map) => {
                if let Some(named) = map.methods()
                    && let Some(signature) = (named.signature)(&name.to_text())
                {
                    let map = map.clone();
                    let method = super::call::Method {
                        name: name.to_text(),
                        node: Node::Operand(word),
                        signature: Some(signature),
                        arguments,
                    };
                    let body =
                        |name: &str, values: &[Value]| Some((named.call)(&map, name, values));
                    if let Some(value) = self.method(frame, dot, &method, last, body)? {
                        return Ok(value);
                    }
                    return Err(self.no_field(frame, receiver, name));
                }
                self.entry(
                    frame,
                    map,
                    name,
                    !arguments.operands.is_empty() || last.is_some(),
                )
            }
            Value::Object(object) => {
                let object = Rc::clone(object);
                self.member(frame, dot, receiver, &object, name, word, arguments, last)
            }
            _ => Err(self.no_field(frame, receiver, name)),
        }
    }

    fn no_field(&self, frame: &Frame<'_>, receiver: &Held, name: &Str) -> ExecError {
        let (name, kind) = (name.to_text(), receiver.type_name());
        self.fail(frame, format!("can't evaluate field {name} in type {kind}"))
    }

    fn entry(&self, frame: &Frame<'_>, map: &Map, name: &Str, has_arguments: bool) -> Run<Held> {
        if has_arguments {
            let name = name.to_text();
            let message = format!("{name} is not a method but has arguments");
            return Err(self.fail(frame, message));
        }
        let element = map.element();
        let in_interface = element == Type::Any;
        if let Some(value) = map.get(name) {
            return Ok(Held {
                value,
                in_interface,
            });
        }
        match self.options.missing_key {
            MissingKey::Default => Ok(Held::plain(Value::Nil)),
            MissingKey::Zero => Ok(Held {
                value: element.zero(),
                in_interface,
            }),
            MissingKey::Error => {
                let name = strconv::quote(name);
                Err(self.fail(frame, format!("map has no entry for key {name}")))
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the context of a call, and the call"
    )]
    fn member(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        object: &Rc<dyn Object>,
        name: &Str,
        word: u32,
        arguments: Arguments,
        last: Option<Value>,
    ) -> Run<Held> {
        let text = name.to_text();
        let has_arguments = !arguments.operands.is_empty() || last.is_some();
        let signature = object.signature(&text);
        let field = if signature.is_none() {
            object.field(&text)
        } else {
            None
        };
        if field.is_none() && (signature.is_some() || !object.declares_methods()) {
            let method = super::call::Method {
                name: text.clone(),
                node: Node::Operand(word),
                signature,
                arguments,
            };
            let body = |name: &str, values: &[Value]| object.call(name, values);
            let node = frame.node;
            if let Some(value) = self.method(frame, dot, &method, last, body)? {
                return Ok(value);
            }
            frame.node = node;
        }
        match (field, object.as_map()) {
            (Some(_), _) if has_arguments => {
                let message = format!("{text} has arguments but cannot be invoked as function");
                Err(self.fail(frame, message))
            }
            (Some(value), _) => Ok(Held {
                in_interface: matches!(value, Value::Nil),
                value,
            }),
            (None, Some(map)) => self.entry(frame, &map, name, has_arguments),
            (None, None) => Err(self.no_field(frame, receiver, name)),
        }
    }
}

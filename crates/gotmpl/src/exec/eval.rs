//! Pipelines, commands, operands and fields.

use std::rc::Rc;

use super::peek::has_method;
use super::{Executor, Frame, Held, Run};
use crate::complex::Complex;
use crate::set::MissingKey;
use crate::tree::{Ideal, Node, OperandKind, Span, Variable};
use crate::{ExecError, Map, NamedMap, Object, Str, Type, Value, strconv};

/// Names behind a value, and what is passed to the last of them.
pub(super) struct Access {
    names: Span,
    /// The operand that they stand in.
    word: u32,
    arguments: Span,
    /// The value of the command before the bar.
    last: Option<Value>,
}

impl Access {
    fn has_arguments(&self) -> bool {
        !self.arguments.is_empty() || self.last.is_some()
    }
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

    fn variable(&self, frame: &Frame<'_>, at: u32) -> Run<Held> {
        if let Some(held) = self.variable_value(frame, at) {
            return Ok(held.clone());
        }
        match frame.tree.variables.get(at as usize) {
            Some(variable) => Err(self.undefined(frame, variable)),
            None => Err(self.fail(frame, "undefined variable".to_owned())),
        }
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
        let word = command.operands.start;
        let Some(operand) = tree.operands.get(word as usize) else {
            return Ok(Value::Nil);
        };
        let arguments = command.operands.rest();
        if let OperandKind::Identifier(function) = operand.kind {
            let call = super::call::Call {
                function,
                word,
                node: Node::Command(at),
                arguments,
                declares: command.declares,
            };
            return self.function(frame, dot, call, last);
        }
        if arguments.is_empty()
            && last.is_none()
            && let Some(value) = self.peek(frame, dot, operand.kind, |value, _| value.clone())
        {
            frame.node = Node::Operand(word);
            return Ok(value);
        }
        self.value_command(frame, dot, operand.kind, word, arguments, last)
    }

    /// A command that begins with a value.
    fn value_command(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        kind: OperandKind,
        word: u32,
        arguments: Span,
        last: Option<Value>,
    ) -> Run<Value> {
        let access = |names: Span, last: Option<Value>| Access {
            names,
            word,
            arguments,
            last,
        };
        if let OperandKind::Pipe(pipe) = kind {
            self.no_arguments(frame, word, arguments, last.as_ref())?;
            return crate::stack::grow(|| self.pipe(frame, dot, pipe));
        }
        frame.node = Node::Operand(word);
        let held = match kind {
            OperandKind::Field(names) => self.chain(frame, dot, dot, access(names, last))?,
            OperandKind::Chain(inner, names) => {
                let receiver = self.chain_start(frame, dot, inner, word)?;
                self.chain(frame, dot, &receiver, access(names, last))?
            }
            OperandKind::Variable(variable, names) => {
                let receiver = self.variable(frame, variable)?;
                if names.is_empty() {
                    self.no_arguments(frame, word, arguments, last.as_ref())?;
                    receiver
                } else {
                    self.chain(frame, dot, &receiver, access(names, last))?
                }
            }
            _ => {
                self.no_arguments(frame, word, arguments, last.as_ref())?;
                return self.literal(frame, dot, kind);
            }
        };
        Ok(held.value)
    }

    fn no_arguments(
        &self,
        frame: &Frame<'_>,
        word: u32,
        arguments: Span,
        last: Option<&Value>,
    ) -> Run<()> {
        if arguments.is_empty() && last.is_none() {
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
        let seen = self.peek(frame, dot, operand.kind, |value, in_interface| Held {
            value: value.clone(),
            in_interface,
        });
        if let Some(held) = seen {
            return Ok(held);
        }
        let access = |names: Span| Access {
            names,
            word: at,
            arguments: Span::default(),
            last: None,
        };
        match operand.kind {
            OperandKind::Field(names) => self.chain(frame, dot, dot, access(names)),
            OperandKind::Variable(variable, names) => {
                let receiver = self.variable(frame, variable)?;
                self.chain(frame, dot, &receiver, access(names))
            }
            OperandKind::Pipe(pipe) => {
                let value = crate::stack::grow(|| self.pipe(frame, dot, pipe))?;
                Ok(Held::plain(value))
            }
            OperandKind::Identifier(function) => self.bare_function(frame, dot, function, at),
            OperandKind::Chain(inner, names) => {
                let receiver = self.chain_start(frame, dot, inner, at)?;
                self.chain(frame, dot, &receiver, access(names))
            }
            kind => self.constant(frame, kind).map(Held::plain),
        }
    }

    /// A function that is an operand, without arguments.
    fn bare_function(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        function: u32,
        word: u32,
    ) -> Run<Held> {
        let call = super::call::Call {
            function,
            word,
            node: Node::Operand(word),
            arguments: Span::default(),
            declares: Span::default(),
        };
        let value = self.function(frame, dot, call, None)?;
        // The nil that a function returns is one of its result type, an interface.
        Ok(Held {
            in_interface: matches!(value, Value::Nil),
            value,
        })
    }

    /// `receiver.a.b`, the last name with the arguments.
    fn chain(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        access: Access,
    ) -> Run<Held> {
        let Some((last_name, names)) = frame.tree.names(access.names).split_last() else {
            return Ok(receiver.clone());
        };
        let mut current: Option<Held> = None;
        for name in names {
            let plain = Access {
                names: Span::default(),
                word: access.word,
                arguments: Span::default(),
                last: None,
            };
            let receiver = current.as_ref().unwrap_or(receiver);
            current = Some(self.field(frame, dot, receiver, name, plain)?);
        }
        let receiver = current.as_ref().unwrap_or(receiver);
        self.field(frame, dot, receiver, last_name, access)
    }

    /// A method, a field of a struct, or a key of a map.
    fn field(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        name: &Str,
        access: Access,
    ) -> Run<Held> {
        match &receiver.value {
            Value::Nil if receiver.in_interface => {
                let name = name.to_text();
                let message = format!("nil pointer evaluating interface {{}}.{name}");
                Err(self.fail(frame, message))
            }
            Value::Nil if self.strict() => {
                let name = strconv::quote(name);
                Err(self.fail(frame, format!("nil data; no entry for key {name}")))
            }
            Value::Nil => Ok(Held::plain(Value::Nil)),
            Value::Map(map) => match map.methods() {
                Some(named) if has_method(map, name) => {
                    self.map_method(frame, dot, map, named, name, access)
                }
                _ => self.entry(frame, map, name, access.has_arguments()),
            },
            Value::Object(object) => {
                let object = Rc::clone(object);
                self.member(frame, dot, receiver, &object, name, access)
            }
            _ => Err(self.no_field(frame, receiver, name)),
        }
    }

    fn map_method(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        map: &Map,
        named: &NamedMap,
        name: &Str,
        access: Access,
    ) -> Run<Held> {
        let method = super::call::Method {
            name: name.to_text(),
            node: Node::Operand(access.word),
            signature: (named.signature)(&name.to_text()),
            arguments: access.arguments,
        };
        let body = |name: &str, values: &[Value]| Some((named.call)(map, name, values));
        let value = self.method(frame, dot, &method, access.last, body)?;
        Ok(value.unwrap_or(Held::plain(Value::Nil)))
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

    /// A method or a field of an object, or a key of the map that it is.
    fn member(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        receiver: &Held,
        object: &Rc<dyn Object>,
        name: &Str,
        access: Access,
    ) -> Run<Held> {
        let text = name.to_text();
        let has_arguments = access.has_arguments();
        let signature = object.signature(&text);
        let field = if signature.is_none() {
            object.field(&text)
        } else {
            None
        };
        if field.is_none() && (signature.is_some() || !object.declares_methods()) {
            let method = super::call::Method {
                name: text.clone(),
                node: Node::Operand(access.word),
                signature,
                arguments: access.arguments,
            };
            let body = |name: &str, values: &[Value]| object.call(name, values);
            let node = frame.node;
            if let Some(value) = self.method(frame, dot, &method, access.last, body)? {
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

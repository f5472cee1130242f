//! Calls of functions and methods: arguments, their types, and errors.

use std::borrow::Cow;

use super::{Executor, Frame, Held, Run};
use crate::builtin::{self, Builtin};
use crate::tree::{FunctionName, Node, Operand, OperandKind, Span};
use crate::{ExecError, FunctionError, Signature, Type, Value};

/// A function where it is called.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Into the table of functions.
    pub(super) function: u32,
    /// The operand that names it.
    pub(super) word: u32,
    /// What an error of the function is about.
    pub(super) node: Node,
    /// The operands behind it.
    pub(super) arguments: Span,
    /// The variables that its operands declare.
    pub(super) declares: Span,
}

/// A method where it is called.
pub(super) struct Method<'n> {
    pub(super) name: Cow<'n, str>,
    pub(super) node: Node,
    pub(super) signature: Option<Signature>,
    pub(super) arguments: Span,
}

impl Executor<'_> {
    pub(super) fn function(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        call: Call,
        last: Option<Value>,
    ) -> Run<Value> {
        frame.node = Node::Operand(call.word);
        let Some(named) = frame.tree.functions.get(call.function as usize) else {
            return Ok(Value::Nil);
        };
        let functions = self.functions;
        match named.slot.map(|slot| functions.at(slot, &named.name)) {
            Some(Some(function)) => {
                let signature = Signature {
                    parameters: function.parameters,
                    variadic: function.variadic,
                };
                let operands = call.arguments;
                let values = self.arguments(frame, dot, &named.name, signature, operands, last)?;
                let result = (function.body)(self, &values);
                self.finish_call(frame, call.node, &named.name, values, result)
            }
            _ => match named.builtin {
                Some(builtin) => self.builtin(frame, dot, named, builtin, call, last),
                None => {
                    let name = crate::strconv::quote(named.name.as_bytes());
                    Err(self.fail(frame, format!("{name} is not a defined function")))
                }
            },
        }
    }

    fn builtin(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        named: &FunctionName,
        builtin: Builtin,
        call: Call,
        last: Option<Value>,
    ) -> Run<Value> {
        let (parameters, more) = builtin.signature();
        let signature = Signature {
            parameters,
            variadic: more.then_some(Type::Any),
        };
        let operands = call.arguments;
        match builtin {
            Builtin::And | Builtin::Or => {
                self.check_count(frame, &named.name, signature, operands, last.is_some())?;
                return self.lazy(frame, dot, builtin == Builtin::Or, call, last);
            }
            Builtin::Len if last.is_none() && operands.len() == 1 => {
                let held = self.held_operand(frame, dot, operands.start)?;
                let result = builtin::length(&held.value, held.in_interface);
                return self.finish_call(frame, call.node, &named.name, Vec::new(), result);
            }
            _ => {}
        }
        let values = if builtin == Builtin::Slice {
            self.check_count(frame, &named.name, signature, operands, last.is_some())?;
            self.slice_arguments(frame, dot, operands, last)?
        } else {
            self.arguments(frame, dot, &named.name, signature, operands, last)?
        };
        let result = match builtin {
            Builtin::Len => builtin::length(values.first().unwrap_or(&Value::Nil), false),
            Builtin::Call => Err(not_callable(frame, &values, operands)),
            _ => builtin.call(&values, self.budget.limits().output),
        };
        self.finish_call(frame, call.node, &named.name, values, result)
    }

    /// The arguments of `slice`, which refuses an index that comes out of a container of
    /// interfaces.
    fn slice_arguments(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        operands: Span,
        last: Option<Value>,
    ) -> Run<Vec<Value>> {
        let mut values = Vec::with_capacity(4);
        for at in operands.start..operands.end {
            let held = self.held_operand(frame, dot, at)?;
            values.push(if held.in_interface && at > operands.start {
                Value::Object(std::rc::Rc::new(builtin::HeldIndex))
            } else {
                held.value
            });
        }
        values.extend(last);
        Ok(values)
    }

    /// `and` and `or`: the first argument that decides, else the last one.
    fn lazy(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        decisive: bool,
        call: Call,
        last: Option<Value>,
    ) -> Run<Value> {
        for slot in call.declares.range() {
            if let Some(place) = self.variables.get_mut(frame.base + slot) {
                *place = None;
            }
        }
        let mut value = Value::Nil;
        let operands = call.arguments;
        for at in operands.start..operands.end {
            value = self.held_operand(frame, dot, at)?.value;
            if crate::is_true(&value) == decisive {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Calls a method, if `body` has it.
    pub(super) fn method(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        method: &Method<'_>,
        last: Option<Value>,
        body: impl FnOnce(&str, &[Value]) -> Option<Result<Value, String>>,
    ) -> Run<Option<Held>> {
        // Without a signature, the method looks at its arguments itself.
        let signature = method.signature.unwrap_or(Signature {
            parameters: &[],
            variadic: Some(Type::Any),
        });
        let operands = method.arguments;
        let values = self.arguments(frame, dot, &method.name, signature, operands, last)?;
        let Some(result) = body(&method.name, &values) else {
            return Ok(None);
        };
        let result = result.map_err(FunctionError);
        let value = self.finish_call(frame, method.node, &method.name, values, result)?;
        Ok(Some(Held {
            in_interface: matches!(value, Value::Nil),
            value,
        }))
    }

    /// Puts the buffer of the arguments aside, charges for what was made, and puts a position to
    /// an error.
    fn finish_call(
        &mut self,
        frame: &mut Frame<'_>,
        node: Node,
        name: &str,
        mut values: Vec<Value>,
        result: Result<Value, FunctionError>,
    ) -> Run<Value> {
        if values.capacity() > 0 && self.spare.len() < 64 {
            values.clear();
            self.spare.push(values);
        }
        match result {
            Ok(value) => match self.budget.charge(fresh_bytes(&value)) {
                Ok(()) => Ok(value),
                Err(exceeded) => Err(self.exceeded(frame, exceeded)),
            },
            Err(error) => Err(self.call_failed(frame, node, name, error)),
        }
    }

    #[cold]
    fn call_failed(
        &mut self,
        frame: &mut Frame<'_>,
        node: Node,
        name: &str,
        FunctionError(text): FunctionError,
    ) -> ExecError {
        frame.node = node;
        let message = format!("error calling {name}: {text}");
        let source = match self.nested.take() {
            Some(nested) if nested.text() == text => nested,
            Some(nested) if text.ends_with(nested.text()) => ExecError::other(text, Some(nested)),
            _ => ExecError::other(text, None),
        };
        self.fail_because(frame, message, Some(source))
    }

    /// Checks how many arguments there are, evaluates and checks each.
    fn arguments(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        name: &str,
        signature: Signature,
        operands: Span,
        last: Option<Value>,
    ) -> Run<Vec<Value>> {
        self.check_count(frame, name, signature, operands, last.is_some())?;
        let variadic = signature.variadic.unwrap_or(Type::Any);
        let mut parameters = signature.parameters.iter();
        let mut values = self.spare.pop().unwrap_or_default();
        for at in operands.start..operands.end {
            let parameter = *parameters.next().unwrap_or(&variadic);
            values.push(self.argument(frame, dot, at, parameter)?);
        }
        if let Some(last) = last {
            let parameter = *parameters.next().unwrap_or(&variadic);
            values.push(self.admit(frame, Held::plain(last), parameter)?);
        }
        self.foresee(frame, &values)?;
        Ok(values)
    }

    /// What a function makes of a text is charged when it is there. Of a large one it must not be more than is left.
    fn foresee(&mut self, frame: &mut Frame<'_>, values: &[Value]) -> Run<()> {
        /// Shorter texts cannot hurt.
        const LARGE: usize = 1 << 20;
        let length = |value: &Value| match value {
            Value::String(text) | Value::Bytes(text) => text.len(),
            _ => 0,
        };
        let longest = values.iter().map(length).max().unwrap_or(0);
        if longest < LARGE {
            return Ok(());
        }
        let foreseen = self.budget.foresee(longest.saturating_mul(crate::GROWTH));
        foreseen.map_err(|exceeded| self.exceeded(frame, exceeded))
    }

    fn check_count(
        &self,
        frame: &Frame<'_>,
        name: &str,
        signature: Signature,
        operands: Span,
        piped: bool,
    ) -> Run<()> {
        let written = operands.len();
        let given = written + usize::from(piped);
        let fixed = signature.parameters.len();
        let (bad, want, got) = match signature.variadic {
            Some(_) => (given < fixed, format_args!("at least {fixed}"), written),
            None => (given != fixed, format_args!("{fixed}"), given),
        };
        if !bad {
            return Ok(());
        }
        let message = format!("wrong number of args for {name}: want {want} got {got}");
        Err(self.fail(frame, message))
    }

    /// An operand as the value of a parameter.
    fn argument(
        &mut self,
        frame: &mut Frame<'_>,
        dot: &Held,
        at: u32,
        parameter: Type,
    ) -> Run<Value> {
        let Some(operand) = frame.tree.operands.get(at as usize) else {
            return Ok(Value::Nil);
        };
        match operand.kind {
            OperandKind::Nil => {
                frame.node = Node::Operand(at);
                if parameter.can_be_nil() {
                    return Ok(parameter.zero());
                }
                Err(self.fail(frame, format!("cannot assign nil to {parameter}")))
            }
            OperandKind::Bool(_) | OperandKind::Number(_) | OperandKind::String(_) => {
                frame.node = Node::Operand(at);
                self.typed_constant(frame, operand, at, parameter)
            }
            _ => {
                let held = self.held_operand(frame, dot, at)?;
                self.admit(frame, held, parameter)
            }
        }
    }

    /// A constant as the type of the parameter asks for it.
    fn typed_constant(
        &self,
        frame: &Frame<'_>,
        operand: &Operand,
        at: u32,
        parameter: Type,
    ) -> Run<Value> {
        let number = match operand.kind {
            OperandKind::Number(at) => frame.tree.numbers.get(at as usize),
            _ => None,
        };
        let expected = match (parameter, operand.kind) {
            (Type::Any, kind) => return self.constant(frame, kind),
            (Type::Bool, OperandKind::Bool(value)) => return Ok(Value::Bool(value)),
            (Type::String, OperandKind::String(_)) => return self.constant(frame, operand.kind),
            (Type::Bool, _) => "bool",
            (Type::String, _) => "string",
            (Type::Float64, _) => match number.and_then(|number| number.float) {
                Some(float) => return Ok(Value::Float64(float)),
                None => "float",
            },
            (Type::Int | Type::Int64 | Type::Int32, _) => {
                match number.and_then(|number| number.int) {
                    Some(int) => return Ok(signed(parameter, int)),
                    None => "integer",
                }
            }
            (Type::Uint64 | Type::Uint32 | Type::Uint8, _) => {
                match number.and_then(|number| number.uint) {
                    Some(uint) => return Ok(unsigned(parameter, uint)),
                    None => "unsigned integer",
                }
            }
            (Type::List(_) | Type::Map(_) | Type::Named(_), _) => {
                let source = self.source(frame, at);
                let message = format!("can't handle {source} for arg of type {parameter}");
                return Err(self.fail(frame, message));
            }
        };
        let source = self.source(frame, at);
        Err(self.fail(frame, format!("expected {expected}; found {source}")))
    }

    fn source(&self, frame: &Frame<'_>, at: u32) -> String {
        let source = frame.tree.describe(Node::Operand(at));
        String::from_utf8_lossy(&source).into_owned()
    }

    /// The value, if it can be assigned to the type.
    #[inline]
    fn admit(&self, frame: &Frame<'_>, held: Held, parameter: Type) -> Run<Value> {
        match (parameter, &held.value) {
            (Type::Any, Value::Object(object)) => Ok(object.copied().unwrap_or(held.value)),
            (Type::Any, _) | (Type::String, Value::String(_)) => Ok(held.value),
            _ => self.admit_typed(frame, held, parameter),
        }
    }

    fn admit_typed(&self, frame: &Frame<'_>, held: Held, parameter: Type) -> Run<Value> {
        match (parameter, &held.value) {
            (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::Int64, Value::Int64(_))
            | (Type::Uint64, Value::Uint64(_))
            | (Type::Int32, Value::Int32(_))
            | (Type::Uint8, Value::Uint8(_))
            | (Type::Float64, Value::Float64(_))
            | (Type::List(Type::Uint8), Value::Bytes(_)) => Ok(held.value),
            (Type::List(element), Value::List(list)) if list.element() == *element => {
                Ok(held.value)
            }
            (Type::Map(element), Value::Map(map)) if map.element() == *element => {
                Ok(Value::Map(map.without_name()))
            }
            (_, Value::Object(_)) => self.admit_object(frame, held, parameter),
            (_, Value::Nil) if !held.in_interface => {
                if parameter.can_be_nil() {
                    return Ok(parameter.zero());
                }
                Err(self.fail(frame, format!("invalid value; expected {parameter}")))
            }
            _ => Err(self.wrong_type(frame, &held.value, parameter)),
        }
    }

    fn wrong_type(&self, frame: &Frame<'_>, value: &Value, parameter: Type) -> ExecError {
        let got = match value {
            Value::Nil => "interface {}".into(),
            value => value.type_name(),
        };
        let message = format!("wrong type for value; expected {parameter}; got {got}");
        self.fail(frame, message)
    }

    /// An object by its name, or as the map or slice that it is.
    fn admit_object(&self, frame: &Frame<'_>, held: Held, parameter: Type) -> Run<Value> {
        let Value::Object(object) = &held.value else {
            return Ok(held.value);
        };
        let admitted = match parameter {
            Type::Named(name) => {
                // Go takes away or adds one pointer.
                let own = object.go_type();
                own == name || own.strip_prefix('*') == Some(name)
            }
            _ => false,
        };
        if admitted {
            return Ok(held.value);
        }
        match (parameter, builtin::underlying(&held.value)) {
            (Type::Map(element), Some(Value::Map(map))) if map.element() == *element => {
                Ok(Value::Map(map))
            }
            (Type::List(element), Some(Value::List(list))) if list.element() == *element => {
                Ok(Value::List(list))
            }
            _ => Err(self.wrong_type(frame, &held.value, parameter)),
        }
    }
}

fn not_callable(frame: &Frame<'_>, values: &[Value], operands: Span) -> FunctionError {
    let callee = values.first().unwrap_or(&Value::Nil);
    if matches!(callee, Value::Nil) {
        return FunctionError("call of nil".to_owned());
    }
    let kind = callee.type_name();
    let name = if operands.is_empty() {
        match callee {
            Value::String(text) => text.to_text().into_owned(),
            _ => format!("<{kind} Value>"),
        }
    } else {
        let source = frame.tree.describe(Node::Operand(operands.start));
        String::from_utf8_lossy(&source).into_owned()
    };
    FunctionError(format!("non-function {name} of type {kind}"))
}

/// Go truncates a constant that does not fit.
#[expect(clippy::cast_possible_truncation, reason = "as Go does")]
fn signed(parameter: Type, int: i64) -> Value {
    match parameter {
        Type::Int64 => Value::Int64(int),
        Type::Int32 => Value::Int32(int as i32),
        _ => Value::Int(int),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "as Go does")]
fn unsigned(parameter: Type, uint: u64) -> Value {
    match parameter {
        Type::Uint8 => Value::Uint8(uint as u8),
        _ => Value::Uint64(uint),
    }
}

/// How many bytes were allocated for a value that nothing else holds yet.
fn fresh_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) | Value::Bytes(text) if text.is_unshared() => text.len(),
        Value::List(list) if list.is_unshared() => size_of_val(list.items()),
        Value::Map(map) if map.is_unshared() => map.len() * 2 * size_of::<Value>(),
        _ => 0,
    }
}

//! Operands: terms and the fields behind them.

use std::borrow::Cow;

use super::{Parse, Parser, append, index, push, span};
use crate::builtin::Builtin;
use crate::lexer::{Token, TokenKind};
use crate::tree::{Constant, FunctionName, Ideal, Number, Operand, OperandKind, Span};
use crate::{stack, strconv};

impl<'t> Parser<'t> {
    /// A term with the fields that follow it; nothing if no term stands here.
    pub(super) fn operand(&mut self) -> Parse<Option<Operand>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        let first = self.peek();
        if first.kind != TokenKind::Field {
            return Ok(Some(term));
        }
        // A field's own name was the last one added, so that the others come right behind it.
        let start = match term.kind {
            OperandKind::Field(own) => own.start,
            _ => index(self.tree.names.len()),
        };
        while self.peek().kind == TokenKind::Field {
            let token = self.next();
            let name = self.field_name(token);
            self.tree.names.push(name);
        }
        let end = index(self.tree.names.len());
        let names = Span { start, end };
        let kind = match term.kind {
            OperandKind::Field(_) => OperandKind::Field(names),
            OperandKind::Variable(variable, _) => OperandKind::Variable(variable, names),
            OperandKind::Bool(_)
            | OperandKind::String(_)
            | OperandKind::Number(_)
            | OperandKind::Nil
            | OperandKind::Dot => return Err(self.misplaced_field(term)),
            OperandKind::Identifier(_) | OperandKind::Pipe(_) | OperandKind::Chain(..) => {
                let inner = push(&mut self.tree.operands, term);
                OperandKind::Chain(inner, names)
            }
        };
        Ok(Some(Operand {
            position: first.start,
            kind,
        }))
    }

    fn misplaced_field(&mut self, term: Operand) -> String {
        let at = push(&mut self.tree.operands, term);
        let source = self.tree.describe(crate::tree::Node::Operand(at));
        format!("unexpected . after term {}", strconv::quote(&source))
    }

    /// The name of a field, without its dot.
    fn field_name(&mut self, token: Token) -> crate::Str {
        let name = self.bytes(token).get(1..).unwrap_or_default();
        self.intern(name)
    }

    fn term(&mut self) -> Parse<Option<Operand>> {
        let token = self.next_non_space();
        let kind = match token.kind {
            TokenKind::Identifier => OperandKind::Identifier(self.function(token)?),
            TokenKind::Dot => OperandKind::Dot,
            TokenKind::Nil => OperandKind::Nil,
            TokenKind::Variable => OperandKind::Variable(self.variable(token)?, Span::default()),
            TokenKind::Field => {
                let name = self.field_name(token);
                OperandKind::Field(append(&mut self.tree.names, [name]))
            }
            TokenKind::Bool => OperandKind::Bool(self.bytes(token) == b"true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                let number = number(self.bytes(token), token)?;
                OperandKind::Number(push(&mut self.tree.numbers, number))
            }
            TokenKind::LeftParen => return self.parentheses().map(Some),
            TokenKind::String | TokenKind::RawString => {
                let value = self.unquote(token)?;
                let source = span(token);
                OperandKind::String(push(&mut self.tree.strings, Constant { value, source }))
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(Operand {
            position: token.start,
            kind,
        }))
    }

    fn parentheses(&mut self) -> Parse<Operand> {
        if self.state.paren_depth >= super::MAX_PARENS {
            return Err("max expression depth exceeded".to_owned());
        }
        self.state.paren_depth += 1;
        let pipe = stack::grow(|| self.pipeline("parenthesized pipeline", TokenKind::RightParen))?;
        self.state.paren_depth -= 1;
        let position = self
            .tree
            .pipes
            .get(pipe as usize)
            .map_or(0, |pipe| pipe.position);
        Ok(Operand {
            position,
            kind: OperandKind::Pipe(pipe),
        })
    }

    fn function(&mut self, token: Token) -> Parse<u32> {
        let bytes = self.bytes(token);
        if let Some(&id) = self.function_ids.get(bytes) {
            return Ok(id);
        }
        let name = std::str::from_utf8(bytes).unwrap_or_default();
        let found = self.functions.slot(name);
        let slot = found.map(|(slot, _)| slot);
        let builtin = Builtin::named(name);
        if slot.is_none() && builtin.is_none() {
            return Err(format!("function {} not defined", strconv::quote(bytes)));
        }
        let function = FunctionName {
            name: match found {
                Some((_, name)) => Cow::Borrowed(name),
                None => Cow::Owned(name.to_owned()),
            },
            slot,
            builtin,
        };
        let id = push(&mut self.tree.functions, function);
        self.function_ids.insert(bytes, id);
        Ok(id)
    }

    fn variable(&mut self, token: Token) -> Parse<u32> {
        let bytes = self.bytes(token);
        if !self.state.scope.is_mentioned(bytes) {
            return Err(format!("undefined variable {}", strconv::quote(bytes)));
        }
        let name = self.intern(bytes);
        let variable = self.state.scope.resolve(name);
        Ok(push(&mut self.tree.variables, variable))
    }
}

/// A constant, as each kind that can hold it: Go's untyped constants.
fn number(text: &[u8], token: Token) -> Parse<Number> {
    let mut number = Number {
        text: span(token),
        ..Number::default()
    };
    match token.kind {
        TokenKind::CharConstant => character(&mut number, text)?,
        TokenKind::Complex => {
            let parts = strconv::parse_complex(text)?;
            complex(&mut number, parts);
        }
        _ => real(&mut number, text)?,
    }
    number.ideal = ideal(&number, text);
    Ok(number)
}

fn ideal(number: &Number, text: &[u8]) -> Ideal {
    let character = text.first() == Some(&b'\'');
    let hex_int =
        matches!(text, [b'0', b'x' | b'X', _, ..]) && !text.iter().any(|byte| b"pP".contains(byte));
    let written_as_float = text.iter().any(|byte| b".eEpP".contains(byte));
    match number {
        Number {
            complex: Some((real, imaginary)),
            ..
        } => Ideal::Complex(*real, *imaginary),
        Number {
            float: Some(float), ..
        } if written_as_float && !character && !hex_int => Ideal::Float(*float),
        Number { int: Some(int), .. } => Ideal::Int(*int),
        _ => Ideal::Overflow,
    }
}

fn character(number: &mut Number, text: &[u8]) -> Parse<()> {
    let body = text.get(1..).unwrap_or_default();
    let (character, tail) =
        strconv::unquote_char(body, b'\'').ok_or_else(|| "invalid syntax".to_owned())?;
    if tail != b"'" {
        let text = String::from_utf8_lossy(text);
        return Err(format!("malformed character constant: {text}"));
    }
    let code = character.code();
    number.int = Some(i64::from(code));
    number.uint = Some(u64::from(code));
    number.float = Some(f64::from(code));
    Ok(())
}

fn complex(number: &mut Number, (real, imaginary): (f64, f64)) {
    number.complex = Some((real, imaginary));
    if imaginary == 0.0 {
        number.float = Some(real);
        number.int = float_to_int(real);
        number.uint = float_to_uint(real);
    }
}

fn real(number: &mut Number, text: &[u8]) -> Parse<()> {
    if let Some(digits) = text.strip_suffix(b"i")
        && let Ok(imaginary) = strconv::parse_float(digits)
    {
        complex(number, (0.0, imaginary));
        return Ok(());
    }
    number.uint = strconv::parse_uint(text).ok();
    number.int = strconv::parse_int(text).ok();
    if number.int == Some(0) {
        number.uint = Some(0); // -0 and +0
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a constant rounds to the nearest float"
    )]
    match (number.int, number.uint) {
        (Some(int), _) => number.float = Some(int as f64),
        (None, Some(uint)) => number.float = Some(uint as f64),
        (None, None) => float(number, text)?,
    }
    if number.int.is_none() && number.uint.is_none() && number.float.is_none() {
        return Err(format!("illegal number syntax: {}", strconv::quote(text)));
    }
    Ok(())
}

fn float(number: &mut Number, text: &[u8]) -> Parse<()> {
    let Ok(float) = strconv::parse_float(text) else {
        return Ok(());
    };
    // What looks like an integer and is none is too large for one.
    if !text.iter().any(|byte| b".eEpP".contains(byte)) {
        return Err(format!("integer overflow: {}", strconv::quote(text)));
    }
    number.float = Some(float);
    number.int = float_to_int(float);
    number.uint = float_to_uint(float);
    Ok(())
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn float_to_int(float: f64) -> Option<i64> {
    let whole = float.trunc() == float && (-TWO_TO_63..TWO_TO_63).contains(&float);
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    whole.then_some(float as i64)
}

fn float_to_uint(float: f64) -> Option<u64> {
    let whole = float.trunc() == float && (0.0..2.0 * TWO_TO_63).contains(&float);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and in range"
    )]
    whole.then_some(float as u64)
}

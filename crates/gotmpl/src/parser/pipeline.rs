//! Pipelines: declarations, and commands with bars between them.

use super::{Parse, Parser, append, close, push};
use crate::Str;
use crate::lexer::TokenKind;
use crate::tree::{Command, Operand, OperandKind, Pipe, Span};

impl Parser<'_> {
    /// To the end token: declarations, and commands with bars between them.
    pub(super) fn pipeline(&mut self, context: &str, end: TokenKind) -> Parse<u32> {
        let position = self.peek_non_space().start;
        let (assigns, targets) = self.declarations(context)?;
        let mark = self.open.commands.len();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::String
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    self.open.commands.push(command);
                }
                _ => return Err(self.unexpected(token, context)),
            }
        }
        let commands = close(&mut self.tree.commands, &mut self.open.commands, mark);
        self.check_pipeline(commands, context)?;
        let scope = &mut self.state.scope;
        let variables = targets.into_iter().map(|name| {
            if assigns {
                scope.resolve(name)
            } else {
                scope.declare(name)
            }
        });
        let variables = append(&mut self.tree.variables, variables);
        Ok(push(
            &mut self.tree.pipes,
            Pipe {
                position,
                assigns,
                variables,
                commands,
            },
        ))
    }

    /// `$x :=`, `$x =`, `$i, $x :=` or nothing: whether it assigns, and the names.
    pub(super) fn declarations(&mut self, context: &str) -> Parse<(bool, Vec<Str>)> {
        let mut names = Vec::new();
        loop {
            let variable = self.peek_non_space();
            if variable.kind != TokenKind::Variable {
                return Ok((false, names));
            }
            self.next();
            // A space after the variable has to be kept: in `$x foo` it ends an operand.
            let after = self.peek();
            let next = self.peek_non_space();
            let comma = next.kind == TokenKind::Char && self.bytes(next) == b",";
            if !comma && !matches!(next.kind, TokenKind::Assign | TokenKind::Declare) {
                if after.kind == TokenKind::Space {
                    self.backup_three(variable, after);
                } else {
                    self.backup_two(variable);
                }
                return Ok((false, names));
            }
            self.next_non_space();
            let name = self.intern(self.bytes(variable));
            self.state.scope.mention(name.clone());
            names.push(name);
            if !comma {
                return Ok((next.kind == TokenKind::Assign, names));
            }
            if context != "range" || names.len() >= 2 {
                return Err(format!("too many declarations in {context}"));
            }
            match self.peek_non_space().kind {
                TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen => {}
                _ => return Err("range can only initialize variables".to_owned()),
            }
        }
    }

    pub(super) fn check_pipeline(&self, commands: Span, context: &str) -> Parse<()> {
        let commands = self.tree.commands.get(commands.range()).unwrap_or_default();
        if commands.is_empty() {
            return Err(format!("missing value for {context}"));
        }
        // Only the first command may begin with what cannot be called.
        for (stage, command) in commands.iter().enumerate().skip(1) {
            let first = self.tree.operands(command.operands).first();
            if let Some(Operand {
                kind:
                    OperandKind::Bool(_)
                    | OperandKind::Dot
                    | OperandKind::Nil
                    | OperandKind::Number(_)
                    | OperandKind::String(_),
                ..
            }) = first
            {
                let stage = stage + 1;
                return Err(format!("non executable command in pipeline stage {stage}"));
            }
        }
        Ok(())
    }

    /// Operands with spaces between them, to a bar, which is taken, or a closing token, which is
    /// not.
    pub(super) fn command(&mut self) -> Parse<Command> {
        let position = self.peek_non_space().start;
        let declared = self.state.scope.mark();
        let mark = self.open.operands.len();
        loop {
            self.peek_non_space();
            let operand = self.operand()?;
            self.open.operands.extend(operand);
            let token = self.next();
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.backup(),
                TokenKind::Pipe => {}
                _ => return Err(self.unexpected(token, "operand")),
            }
            break;
        }
        let operands = close(&mut self.tree.operands, &mut self.open.operands, mark);
        let first = self.tree.operands(operands).first();
        if first.is_none() {
            return Err("empty command".to_owned());
        }
        let declares = self.state.scope.declared_since(declared);
        if !declares.is_empty() && self.is_lazy(first) {
            self.state.scope.make_conditional(declares);
        }
        Ok(Command {
            position,
            operands,
            declares,
        })
    }

    /// Whether the command may leave operands unevaluated.
    pub(super) fn is_lazy(&self, first: Option<&Operand>) -> bool {
        let Some(Operand {
            kind: OperandKind::Identifier(at),
            ..
        }) = first
        else {
            return false;
        };
        self.tree
            .functions
            .get(*at as usize)
            .is_some_and(|function| function.name == "and" || function.name == "or")
    }
}

//! Parsed templates: flat tables of nodes, which refer to each other by index.
//!
//! Flat, so that a text nested ten thousand levels deep is freed without recursion, and so that the
//! nodes of a template lie side by side.

use std::borrow::Cow;
use std::ops::Range;

use crate::Str;

/// One parsed text, shared by the templates that it defines.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The name that the text was parsed under.
    pub(crate) name: Str,
    pub(crate) text: Str,
    pub(crate) items: Vec<Item>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) calls: Vec<TemplateCall>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) commands: Vec<Command>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) names: Vec<Str>,
    pub(crate) numbers: Vec<Number>,
    pub(crate) strings: Vec<Constant>,
    pub(crate) functions: Vec<FunctionName>,
}

/// Consecutive entries of one of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Without the first entry.
    pub(crate) fn rest(self) -> Self {
        Self {
            start: self.start.saturating_add(1).min(self.end),
            end: self.end,
        }
    }
}

/// A template that can be executed: a body in a tree.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: Str,
    pub(crate) tree: std::sync::Arc<Tree>,
    pub(crate) root: Span,
    /// How many variables it needs room for, `$` among them.
    pub(crate) slots: usize,
    /// It holds only white space and comments.
    pub(crate) empty: bool,
}

/// An element of a template's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Where it begins in the text.
    pub(crate) position: u32,
    pub(crate) kind: ItemKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemKind {
    /// A piece of the source.
    Text(Span),
    Action(u32),
    Branch(u32),
    Template(u32),
    Break,
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchKind {
    If,
    With,
    Range,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub(crate) kind: BranchKind,
    pub(crate) pipe: u32,
    pub(crate) list: Span,
    pub(crate) otherwise: Option<Span>,
}

/// `{{template "name" pipe}}`
#[derive(Clone, Debug)]
pub(crate) struct TemplateCall {
    pub(crate) name: Str,
    pub(crate) pipe: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    pub(crate) position: u32,
    /// The variables are assigned, not declared.
    pub(crate) assigns: bool,
    /// Into [`Tree::variables`].
    pub(crate) variables: Span,
    pub(crate) commands: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) position: u32,
    pub(crate) operands: Span,
    /// The slots of variables declared in its operands, which `and` and `or` may leave undeclared.
    pub(crate) declares: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) position: u32,
    pub(crate) kind: OperandKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandKind {
    Bool(bool),
    Dot,
    Nil,
    Number(u32),
    String(u32),
    /// `.a.b`, into [`Tree::names`].
    Field(Span),
    /// A function.
    Identifier(u32),
    /// `$x.a.b`
    Variable(u32, Span),
    /// A pipeline in parentheses.
    Pipe(u32),
    /// `(…).a.b` or `f.a.b`: the operand in front, and the names.
    Chain(u32, Span),
}

/// A variable where it is used, declared or assigned.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// With its `$`.
    pub(crate) name: Str,
    /// Where its value is; `None` if nothing has declared it by then, although something that comes
    /// earlier in the text does.
    pub(crate) slot: Option<u32>,
    /// `and` or `or` may have left it undeclared.
    pub(crate) conditional: bool,
    /// Where to look then.
    pub(crate) fallbacks: Box<[u32]>,
}

/// A constant number, as each kind that can hold it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Number {
    pub(crate) text: Span,
    /// What it is where no kind is asked for.
    pub(crate) ideal: Ideal,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

/// A number where any kind will do: the way it is written decides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Ideal {
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    /// It is larger than an `int`.
    #[default]
    Overflow,
}

/// A constant string: its value and its source.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) value: Str,
    pub(crate) source: Span,
}

/// The name of a function, and where to look for it.
#[derive(Clone, Debug)]
pub(crate) struct FunctionName {
    pub(crate) name: Cow<'static, str>,
    /// Its place in the function table that the text was parsed with.
    pub(crate) slot: Option<usize>,
    /// What it is if no table has the name.
    pub(crate) builtin: Option<crate::builtin::Builtin>,
}

/// A node that can be what an error is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Item(u32),
    Pipe(u32),
    Command(u32),
    Operand(u32),
}

/// Entries of the tables. An index that the parser did not make is a fault of ours; it reads as
/// nothing.
impl Tree {
    pub(crate) fn source(&self, span: Span) -> &[u8] {
        self.text.get(span.range()).unwrap_or_default()
    }

    pub(crate) fn list(&self, span: Span) -> &[Item] {
        self.items.get(span.range()).unwrap_or_default()
    }

    pub(crate) fn names(&self, span: Span) -> &[Str] {
        self.names.get(span.range()).unwrap_or_default()
    }

    pub(crate) fn operands(&self, span: Span) -> &[Operand] {
        self.operands.get(span.range()).unwrap_or_default()
    }

    pub(crate) fn variables(&self, span: Span) -> &[Variable] {
        self.variables.get(span.range()).unwrap_or_default()
    }
}

/// Where a node is, and its source as Go prints it.
impl Tree {
    pub(crate) fn position(&self, node: Node) -> usize {
        let position = match node {
            Node::Item(at) => self.items.get(at as usize).map(|item| item.position),
            Node::Pipe(at) => self.pipes.get(at as usize).map(|pipe| pipe.position),
            Node::Command(at) => self
                .commands
                .get(at as usize)
                .map(|command| command.position),
            Node::Operand(at) => self
                .operands
                .get(at as usize)
                .map(|operand| operand.position),
        };
        position.unwrap_or(0) as usize
    }

    /// The line, from 1, and the byte in it, from 0.
    pub(crate) fn line_and_column(&self, position: usize) -> (usize, usize) {
        let before = self.text.get(..position).unwrap_or(&self.text);
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        (line, before.len() - line_start)
    }

    pub(crate) fn describe(&self, node: Node) -> Vec<u8> {
        let mut text = Vec::new();
        match node {
            Node::Item(at) => self.write_item(&mut text, at),
            Node::Pipe(at) => self.write_pipe(&mut text, at),
            Node::Command(at) => self.write_command(&mut text, at),
            Node::Operand(at) => self.write_operand(&mut text, at),
        }
        text
    }

    fn write_list(&self, text: &mut Vec<u8>, list: Span) {
        for at in list.start..list.end {
            self.write_item(text, at);
        }
    }

    fn write_item(&self, text: &mut Vec<u8>, at: u32) {
        let Some(item) = self.items.get(at as usize) else {
            return;
        };
        match item.kind {
            ItemKind::Text(span) => text.extend_from_slice(self.source(span)),
            ItemKind::Action(pipe) => {
                text.extend_from_slice(b"{{");
                self.write_pipe(text, pipe);
                text.extend_from_slice(b"}}");
            }
            ItemKind::Branch(at) => crate::stack::grow(|| self.write_branch(text, at)),
            ItemKind::Template(at) => self.write_call(text, at),
            ItemKind::Break => text.extend_from_slice(b"{{break}}"),
            ItemKind::Continue => text.extend_from_slice(b"{{continue}}"),
        }
    }

    fn write_branch(&self, text: &mut Vec<u8>, at: u32) {
        let Some(branch) = self.branches.get(at as usize) else {
            return;
        };
        text.extend_from_slice(match branch.kind {
            BranchKind::If => b"{{if ",
            BranchKind::With => b"{{with ",
            BranchKind::Range => b"{{range ",
        });
        self.write_pipe(text, branch.pipe);
        text.extend_from_slice(b"}}");
        self.write_list(text, branch.list);
        if let Some(otherwise) = branch.otherwise {
            text.extend_from_slice(b"{{else}}");
            self.write_list(text, otherwise);
        }
        text.extend_from_slice(b"{{end}}");
    }

    fn write_call(&self, text: &mut Vec<u8>, at: u32) {
        let Some(call) = self.calls.get(at as usize) else {
            return;
        };
        text.extend_from_slice(b"{{template ");
        crate::strconv::append_quoted(text, &call.name, false);
        if let Some(pipe) = call.pipe {
            text.push(b' ');
            self.write_pipe(text, pipe);
        }
        text.extend_from_slice(b"}}");
    }

    fn write_pipe(&self, text: &mut Vec<u8>, at: u32) {
        let Some(pipe) = self.pipes.get(at as usize) else {
            return;
        };
        let variables = self.variables(pipe.variables);
        for (index, variable) in variables.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(b", ");
            }
            text.extend_from_slice(&variable.name);
        }
        if !variables.is_empty() {
            text.extend_from_slice(if pipe.assigns { b" = " } else { b" := " });
        }
        for at in pipe.commands.start..pipe.commands.end {
            if at > pipe.commands.start {
                text.extend_from_slice(b" | ");
            }
            self.write_command(text, at);
        }
    }

    fn write_command(&self, text: &mut Vec<u8>, at: u32) {
        let Some(command) = self.commands.get(at as usize) else {
            return;
        };
        for at in command.operands.start..command.operands.end {
            if at > command.operands.start {
                text.push(b' ');
            }
            self.write_enclosed(text, at);
        }
    }

    /// An operand, in parentheses if it is a pipeline.
    fn write_enclosed(&self, text: &mut Vec<u8>, at: u32) {
        let kind = self.operands.get(at as usize).map(|operand| operand.kind);
        if let Some(OperandKind::Pipe(pipe)) = kind {
            text.push(b'(');
            crate::stack::grow(|| self.write_pipe(text, pipe));
            text.push(b')');
        } else {
            self.write_operand(text, at);
        }
    }

    fn write_operand(&self, text: &mut Vec<u8>, at: u32) {
        let Some(operand) = self.operands.get(at as usize) else {
            return;
        };
        match operand.kind {
            OperandKind::Bool(true) => text.extend_from_slice(b"true"),
            OperandKind::Bool(false) => text.extend_from_slice(b"false"),
            OperandKind::Dot => text.push(b'.'),
            OperandKind::Nil => text.extend_from_slice(b"nil"),
            OperandKind::Number(at) => {
                let number = self.numbers.get(at as usize);
                text.extend_from_slice(self.source(number.map(|n| n.text).unwrap_or_default()));
            }
            OperandKind::String(at) => {
                let constant = self.strings.get(at as usize);
                text.extend_from_slice(self.source(constant.map(|c| c.source).unwrap_or_default()));
            }
            OperandKind::Field(names) => self.write_names(text, names),
            OperandKind::Identifier(at) => {
                if let Some(function) = self.functions.get(at as usize) {
                    text.extend_from_slice(function.name.as_bytes());
                }
            }
            OperandKind::Variable(at, names) => {
                if let Some(variable) = self.variables.get(at as usize) {
                    text.extend_from_slice(&variable.name);
                }
                self.write_names(text, names);
            }
            OperandKind::Pipe(pipe) => crate::stack::grow(|| self.write_pipe(text, pipe)),
            OperandKind::Chain(inner, names) => {
                self.write_enclosed(text, inner);
                self.write_names(text, names);
            }
        }
    }

    fn write_names(&self, text: &mut Vec<u8>, names: Span) {
        for name in self.names(names) {
            text.push(b'.');
            text.extend_from_slice(name);
        }
    }
}

//! Execution: the walk over bodies.

mod call;
mod eval;
mod host;
mod peek;
mod range;

use std::any::Any;

use crate::set::{MissingKey, Options, TemplateSet};
use crate::tree::{Branch, BranchKind, ItemKind, Node, Span, Template, Tree};
use crate::{Budget, Exceeded, ExecError, Functions, Location, Value, fmt, stack};

/// A step of execution, or why it failed.
type Run<T> = Result<T, ExecError>;

/// A value as Go's reflection holds it: by itself, or in an interface, as elements of a
/// `map[string]interface {}` are. Error texts tell the two apart. A nil by itself is no value at
/// all.
#[derive(Clone)]
struct Held {
    value: Value,
    in_interface: bool,
}

impl Held {
    fn plain(value: Value) -> Self {
        Self {
            value,
            in_interface: false,
        }
    }

    /// The name of the static type.
    fn type_name(&self) -> std::borrow::Cow<'static, str> {
        if self.in_interface {
            "interface {}".into()
        } else {
            self.value.type_name()
        }
    }
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// A template that is being executed.
struct Frame<'t> {
    template: &'t Template,
    tree: &'t Tree,
    /// Where its variables begin.
    base: usize,
    /// The node that an error would be about.
    node: Node,
}

/// One execution, from a set's `execute` to the end of what it calls.
pub(crate) struct Executor<'a> {
    set: TemplateSet,
    functions: &'a Functions,
    host: &'a mut dyn Any,
    options: Options,
    budget: &'a mut Budget,
    /// What is printed, by nested executions behind what was printed before.
    output: Vec<u8>,
    /// The variables of all templates that are being executed; `None` if not declared yet.
    variables: Vec<Option<Held>>,
    /// Buffers for arguments, to be used again.
    spare: Vec<Vec<Value>>,
    depth: u32,
    /// The error of the nested execution that failed last: the cause of the error of the function
    /// that asked for it, if it passes its text on.
    nested: Option<ExecError>,
}

/// So much at most is set aside for the output before anything is printed.
const RESERVED: usize = 1 << 20;

impl<'a> Executor<'a> {
    pub(crate) fn new(
        set: &TemplateSet,
        functions: &'a Functions,
        host: &'a mut dyn Any,
        options: Options,
        budget: &'a mut Budget,
    ) -> Self {
        Self {
            set: set.clone(),
            functions,
            host,
            options,
            budget,
            output: Vec::new(),
            variables: Vec::new(),
            spare: Vec::new(),
            depth: 0,
            nested: None,
        }
    }

    /// Executes a template of the set and returns what it printed.
    pub(crate) fn execute(mut self, name: &[u8], data: &Value) -> Result<Vec<u8>, ExecError> {
        let Some(template) = self.set.get(name) else {
            return Err(ExecError::no_template(name, self.set.name()));
        };
        // Most of a template is text that it prints, and growing means copying.
        self.output.reserve(template.tree.text.len().min(RESERVED));
        self.body(&template, Held::plain(data.clone()))?;
        Ok(self.output)
    }

    /// Executes the body of a template on its data.
    fn body(&mut self, template: &Template, data: Held) -> Run<()> {
        let base = self.variables.len();
        self.variables.push(Some(data.clone()));
        self.variables.resize_with(base + template.slots, || None);
        let mut frame = Frame {
            template,
            tree: &template.tree,
            base,
            node: Node::Item(template.root.start),
        };
        self.depth += 1;
        let ended = stack::grow(|| self.walk(&mut frame, &data, template.root));
        self.depth -= 1;
        self.variables.truncate(base);
        ended.map(|_| ())
    }

    fn walk(&mut self, frame: &mut Frame<'_>, dot: &Held, list: Span) -> Run<Flow> {
        let tree = frame.tree;
        for (item, at) in tree.list(list).iter().zip(list.start..) {
            self.step(frame)?;
            frame.node = Node::Item(at);
            match item.kind {
                ItemKind::Text(span) => {
                    self.output.extend_from_slice(tree.source(span));
                    self.check_output(frame)?;
                }
                ItemKind::Action(pipe) => self.action(frame, dot, at, pipe)?,
                ItemKind::Branch(branch) => {
                    let flow = match tree.branches.get(branch as usize) {
                        Some(branch) => self.branch(frame, dot, *branch)?,
                        None => Flow::Next,
                    };
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                ItemKind::Template(call) => self.template(frame, dot, call)?,
                ItemKind::Break => return Ok(Flow::Break),
                ItemKind::Continue => return Ok(Flow::Continue),
            }
        }
        Ok(Flow::Next)
    }

    fn action(&mut self, frame: &mut Frame<'_>, dot: &Held, item: u32, at: u32) -> Run<()> {
        let value = self.pipe(frame, dot, at)?;
        let declares = frame
            .tree
            .pipes
            .get(at as usize)
            .is_some_and(|pipe| !pipe.variables.is_empty());
        if declares {
            return Ok(());
        }
        frame.node = Node::Item(item);
        self.print(frame, &value)
    }

    fn print(&mut self, frame: &Frame<'_>, value: &Value) -> Run<()> {
        match value {
            Value::Nil => self.output.extend_from_slice(b"<no value>"),
            Value::String(text) => self.output.extend_from_slice(text),
            _ => {
                let limit = self.budget.limits().output;
                if let Err(error) = fmt::append_printable(&mut self.output, value, limit) {
                    return Err(self.fail(frame, error.to_string()));
                }
            }
        }
        self.check_output(frame)
    }

    fn branch(&mut self, frame: &mut Frame<'_>, dot: &Held, branch: Branch) -> Run<Flow> {
        if branch.kind == BranchKind::Range {
            return self.range(frame, dot, branch);
        }
        if branch.kind == BranchKind::If {
            if self.condition(frame, dot, branch.pipe)? {
                return stack::grow(|| self.walk(frame, dot, branch.list));
            }
            return self.otherwise(frame, dot, branch);
        }
        let value = self.pipe(frame, dot, branch.pipe)?;
        if crate::is_true(&value) {
            let dot = Held::plain(value);
            return stack::grow(|| self.walk(frame, &dot, branch.list));
        }
        self.otherwise(frame, dot, branch)
    }

    fn condition(&mut self, frame: &mut Frame<'_>, dot: &Held, at: u32) -> Run<bool> {
        if let Some(pipe) = frame.tree.pipes.get(at as usize)
            && let Some(truth) = self.peek_truth(frame, dot, *pipe)
        {
            return Ok(truth);
        }
        Ok(crate::is_true(&self.pipe(frame, dot, at)?))
    }

    fn otherwise(&mut self, frame: &mut Frame<'_>, dot: &Held, branch: Branch) -> Run<Flow> {
        match branch.otherwise {
            Some(list) => stack::grow(|| self.walk(frame, dot, list)),
            None => Ok(Flow::Next),
        }
    }

    fn template(&mut self, frame: &mut Frame<'_>, dot: &Held, at: u32) -> Run<()> {
        let Some(call) = frame.tree.calls.get(at as usize) else {
            return Ok(());
        };
        let Some(template) = self.set.get(&call.name) else {
            let name = crate::strconv::quote(&call.name);
            return Err(self.fail(frame, format!("template {name} not defined")));
        };
        if let Err(exceeded) = self.check_depth() {
            return Err(self.exceeded(frame, exceeded));
        }
        let data = match call.pipe {
            Some(pipe) => self.pipe(frame, dot, pipe)?,
            None => Value::Nil,
        };
        self.body(&template, Held::plain(data))
    }
}

/// Bounds and errors.
impl Executor<'_> {
    #[inline]
    fn step(&mut self, frame: &Frame<'_>) -> Run<()> {
        match self.budget.step() {
            Ok(()) => Ok(()),
            Err(exceeded) => Err(self.exceeded(frame, exceeded)),
        }
    }

    #[inline]
    fn check_output(&self, frame: &Frame<'_>) -> Run<()> {
        let limit = self.budget.limits().output;
        if self.output.len() > limit {
            return Err(self.exceeded(frame, Exceeded::Output(limit)));
        }
        Ok(())
    }

    fn check_depth(&self) -> Result<(), Exceeded> {
        let limit = self.budget.limits().depth;
        if self.depth > limit {
            return Err(Exceeded::Depth(limit));
        }
        Ok(())
    }

    #[cold]
    fn exceeded(&self, frame: &Frame<'_>, exceeded: Exceeded) -> ExecError {
        self.fail(frame, exceeded.to_string())
    }

    #[cold]
    fn fail(&self, frame: &Frame<'_>, message: String) -> ExecError {
        self.fail_because(frame, message, None)
    }

    #[cold]
    fn fail_because(
        &self,
        frame: &Frame<'_>,
        message: String,
        source: Option<ExecError>,
    ) -> ExecError {
        let tree = frame.tree;
        let (line, column) = tree.line_and_column(tree.position(frame.node));
        let location = Location {
            name: tree.name.clone(),
            line,
            column,
        };
        let context = String::from_utf8_lossy(&tree.describe(frame.node)).into_owned();
        let template = frame.template.name.clone();
        ExecError::executing(location, template, context, message, source)
    }

    fn strict(&self) -> bool {
        self.options.missing_key == MissingKey::Error
    }
}

//! What functions reach while they run: nested executions, the host, the budget.

use std::any::Any;
use std::sync::Arc;

use super::{Executor, Held};
use crate::tree::Template;
use crate::{Call, ExecError, FunctionError, Str, Value, parser, strconv};

impl Call for Executor<'_> {
    fn execute(&mut self, template: &str, data: &Value) -> Result<Str, FunctionError> {
        let Some(template) = self.set.get(template.as_bytes()) else {
            let error = ExecError::no_template(template.as_bytes(), self.set.name());
            return Err(self.pass_on(error));
        };
        self.nested_body(&template, data)
            .map_err(|error| self.pass_on(error))
    }

    fn execute_text(&mut self, text: &Str, data: &Value) -> Result<Str, FunctionError> {
        // Without an action, the text prints itself.
        if memchr::memmem::find(text, b"{{").is_none() {
            return Ok(text.clone());
        }
        self.text_body(text, data)
            .map_err(|error| self.pass_on(error))
    }

    fn host(&mut self) -> &mut dyn Any {
        self.host
    }

    fn charge(&mut self, bytes: usize) -> Result<(), FunctionError> {
        Ok(self.budget.charge(bytes)?)
    }

    fn foresee(&mut self, bytes: usize) -> Result<(), FunctionError> {
        Ok(self.budget.foresee(bytes)?)
    }

    fn has_template(&self, template: &str) -> bool {
        self.set.contains(template.as_bytes())
    }

    fn step(&mut self) -> Result<(), FunctionError> {
        Ok(self.budget.step()?)
    }
}

impl Executor<'_> {
    /// Gives the text of an error to the function that asked, and keeps the error itself.
    fn pass_on(&mut self, error: ExecError) -> FunctionError {
        let text = error.text().to_owned();
        self.nested = Some(error);
        FunctionError(text)
    }

    /// Executes a template and takes what it printed out of the output.
    fn nested_body(&mut self, template: &Template, data: &Value) -> Result<Str, ExecError> {
        if let Err(exceeded) = self.check_depth() {
            return Err(ExecError::other(exceeded.to_string(), None));
        }
        let start = self.output.len();
        let ended = self.body(template, Held::plain(data.clone()));
        let printed = Str::from(self.output.get(start..).unwrap_or_default());
        self.output.truncate(start);
        ended.map(|()| printed)
    }

    fn text_body(&mut self, text: &Str, data: &Value) -> Result<Str, ExecError> {
        // A tree takes many times the length of its text.
        if !self.set.texts().has(text)
            && let Err(exceeded) = self.budget.charge(text.len().saturating_mul(TREE))
        {
            return Err(ExecError::other(exceeded.to_string(), None));
        }
        let templates = self.parse_text(text).map_err(|error| {
            let quoted = quoted(text);
            wrap(&format!("cannot parse template {quoted}"), error)
        })?;
        let Some(root) = templates
            .iter()
            .find(|template| &*template.name == self.set.name())
            .cloned()
        else {
            return Ok(Str::default());
        };
        let inner = self.set.with(&templates);
        let outer = std::mem::replace(&mut self.set, inner);
        self.depth = self.depth.saturating_add(TEXT_DEPTH);
        let printed = self.nested_body(&root, data);
        self.depth = self.depth.saturating_sub(TEXT_DEPTH);
        self.set = outer;
        printed.map_err(|error| {
            let quoted = quoted(text);
            let head = format!("error during tpl function execution for {quoted}");
            wrap(&head, error)
        })
    }

    fn parse_text(&self, text: &Str) -> Result<Arc<[Arc<Template>]>, ExecError> {
        let parsed = self.set.texts().get_or_parse(text, || {
            let name = Str::from(self.set.name());
            parser::parse(&name, text.clone(), self.functions)
        });
        parsed.map_err(ExecError::parse)
    }
}

/// For how many levels a text counts, see [`Limits::depth`](crate::Limits).
const TEXT_DEPTH: u32 = 200;

/// How many times its length a text is charged for when it is parsed.
const TREE: usize = 16;

/// The longest text that errors quote, and the longest error that still gets a head. Each level of `tpl` quotes its text
/// before the error of the level below: without a bound a thousand levels would take gigabytes.
const LONGEST: usize = 128 << 10;

fn quoted(text: &Str) -> String {
    strconv::quote(text.get(..LONGEST).unwrap_or(text))
}

fn wrap(head: &str, error: ExecError) -> ExecError {
    if error.text().len() > LONGEST {
        return error;
    }
    ExecError::other(format!("{head}: {error}"), Some(error))
}

//! The functions that templates call: signatures, the table of them, and what a call can reach.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::{Str, Type, Value};

/// Why a function failed: the text of the error that Go's function would return or panic with.
/// Execution reports it as `error calling NAME: TEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionError(pub String);

impl<T: fmt::Display> From<T> for FunctionError {
    fn from(text: T) -> Self {
        Self(text.to_string())
    }
}

/// What the body of a function is.
pub type Body = dyn Fn(&mut dyn Call, &[Value]) -> Result<Value, FunctionError> + Send + Sync;

/// What a running function can reach.
pub trait Call {
    /// Executes the named template with this data and returns what it printed, as `include` does.
    /// The error is that of execution, with its position.
    fn execute(&mut self, template: &str, data: &Value) -> Result<Str, FunctionError>;

    /// Parses a text as a template that sees all templates of this set, executes it and returns
    /// what it printed, as `tpl` does. What the text defines lives for this call and the calls in
    /// it. Errors have the texts of Helm's `tpl` (`cannot parse template "…": …`, `error during tpl
    /// function execution for "…": …`) and go back to execution as they are. `<no value>` is left
    /// in what was printed.
    fn execute_text(&mut self, text: &Str, data: &Value) -> Result<Str, FunctionError>;

    /// What the one who executes has put at the functions' disposal: a cluster for `lookup`, …
    fn host(&mut self) -> &mut dyn Any;

    /// Charges bytes to the budget of this execution before they are allocated. Execution itself
    /// charges the strings that functions return; functions charge what else they build.
    fn charge(&mut self, bytes: usize) -> Result<(), FunctionError>;

    /// Whether bytes that may be allocated could be charged to the budget; they are not. For what takes more while it
    /// is made than when it is there.
    fn foresee(&mut self, bytes: usize) -> Result<(), FunctionError>;

    /// Whether the set has a template of this name.
    fn has_template(&self, template: &str) -> bool {
        let _ = template;
        false
    }

    /// Takes steps from the budget: for functions that loop over what templates give them.
    fn step(&mut self) -> Result<(), FunctionError> {
        Ok(())
    }
}

/// The Go signature of a function or a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signature {
    /// Types of the fixed parameters.
    pub parameters: &'static [Type],
    /// Type of the variadic parameter's elements, if there is one.
    pub variadic: Option<Type>,
}

impl Signature {
    /// A signature without a variadic parameter.
    #[must_use]
    pub const fn fixed(parameters: &'static [Type]) -> Self {
        Self {
            parameters,
            variadic: None,
        }
    }
}

/// A function with its Go signature. Arguments are checked and converted before the body runs, with
/// Go's error texts: `wrong number of args for NAME: want 2 got 1`,
/// `wrong type for value; expected string; got float64`, …
#[derive(Clone)]
pub struct Function {
    /// Types of the fixed parameters.
    pub parameters: &'static [Type],
    /// Type of the variadic parameter's elements, if there is one.
    pub variadic: Option<Type>,
    /// The body; it sees exactly the arguments that the signature admits.
    pub body: Arc<Body>,
}

impl Function {
    /// A function of this signature.
    pub fn new(
        parameters: &'static [Type],
        variadic: Option<Type>,
        body: impl Fn(&mut dyn Call, &[Value]) -> Result<Value, FunctionError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            parameters,
            variadic,
            body: Arc::new(body),
        }
    }
}

/// The functions that templates may call, by name. Functions put in later replace earlier ones and
/// the built-in ones.
#[derive(Clone, Default)]
pub struct Functions {
    index: HashMap<&'static str, usize, RandomState>,
    slots: Vec<Option<(&'static str, Function)>>,
}

impl Functions {
    /// An empty table: the built-in functions of text/template are always there.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function, or replaces it.
    pub fn insert(&mut self, name: &'static str, function: Function) {
        let entry = Some((name, function));
        match self.index.get(name).and_then(|&at| self.slots.get_mut(at)) {
            Some(slot) => *slot = entry,
            None => {
                self.index.insert(name, self.slots.len());
                self.slots.push(entry);
            }
        }
    }

    /// Removes a function, as Helm does with `env` and `expandenv`.
    pub fn remove(&mut self, name: &str) {
        if let Some(at) = self.index.remove(name)
            && let Some(slot) = self.slots.get_mut(at)
        {
            *slot = None;
        }
    }

    /// A function by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        let slot = self.slots.get(*self.index.get(name)?)?;
        slot.as_ref().map(|(_, function)| function)
    }

    /// Where a function is, as long as none is removed: a hint for [`at`](Self::at). And the name
    /// as the table has it.
    pub(crate) fn slot(&self, name: &str) -> Option<(usize, &'static str)> {
        self.index
            .get_key_value(name)
            .map(|(name, slot)| (*slot, *name))
    }

    /// The function of this name, looked for at a place first.
    pub(crate) fn at(&self, slot: usize, name: &str) -> Option<&Function> {
        match self.slots.get(slot) {
            Some(Some((found, function))) if std::ptr::eq(*found, name) || *found == name => {
                Some(function)
            }
            _ => self.get(name),
        }
    }

    /// The names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.index.keys().copied()
    }
}

//! The functions that templates call: signatures, the table of them, and what a call can reach.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

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
    /// what it printed, as `tpl` does.
    fn execute_text(&mut self, text: &Str, data: &Value) -> Result<Str, FunctionError>;

    /// What the one who executes has put at the functions' disposal: a cluster for `lookup`, …
    fn host(&mut self) -> &mut dyn Any;

    /// Charges bytes to the budget of this execution before they are allocated.
    fn charge(&mut self, bytes: usize) -> Result<(), FunctionError>;
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
pub struct Functions(HashMap<&'static str, Function>);

impl Functions {
    /// An empty table: the built-in functions of text/template are always there.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function, or replaces it.
    pub fn insert(&mut self, name: &'static str, function: Function) {
        self.0.insert(name, function);
    }

    /// Removes a function, as Helm does with `env` and `expandenv`.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// A function by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }

    /// The names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }
}

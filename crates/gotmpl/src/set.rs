//! Named templates that see each other.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::exec::Executor;
use crate::texts::Texts;
use crate::tree::Template;
use crate::{Budget, ExecError, Functions, ParseError, Str, Value, parser};

/// What a key gives that a map does not have: Go's option `missingkey`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value at all; prints `<no value>`. Go's own default.
    #[default]
    Default,
    /// The zero value of the map's element type. What Helm uses.
    Zero,
    /// An error: `map has no entry for key "x"`. What Helm uses in strict mode.
    Error,
}

/// How to execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What a missing key gives.
    pub missing_key: MissingKey,
}

/// A set of named templates that call each other: Go's `Template` with all its associated ones.
///
/// Clones are cheap and share what has been parsed; parsing into a clone does not touch the
/// original. A set is `Send` and `Sync`: parse once, keep it, execute on any thread.
#[derive(Clone, Debug)]
pub struct TemplateSet {
    name: Str,
    layer: Arc<Layer>,
    /// Shared by all clones: a text is the same template in each.
    texts: Arc<Texts>,
}

/// Templates on top of others, which they hide.
#[derive(Debug, Default)]
struct Layer {
    templates: HashMap<Str, Arc<Template>, RandomState>,
    below: Option<Arc<Self>>,
}

impl Layer {
    fn get(&self, name: &[u8]) -> Option<&Arc<Template>> {
        std::iter::successors(Some(self), |layer| layer.below.as_deref())
            .find_map(|layer| layer.templates.get(name))
    }

    /// Adds a template, unless it is empty and hides another.
    fn add(&mut self, template: &Arc<Template>) {
        if !template.empty || self.get(&template.name).is_none() {
            let name = template.name.clone();
            self.templates.insert(name, Arc::clone(template));
        }
    }
}

/// How many layers are looked through before they are made one.
const MOST_LAYERS: usize = 8;

impl TemplateSet {
    /// An empty set. The name is that of the root template, `gotpl` in Helm: it appears in
    /// `no template "x" associated with template "gotpl"`, and texts given to `tpl` are parsed
    /// under it.
    #[must_use]
    pub fn new(name: impl Into<Str>) -> Self {
        Self {
            name: name.into(),
            layer: Arc::default(),
            texts: Arc::default(),
        }
    }

    /// Parses a text as the template of this name, and all that it defines. All texts of a set are
    /// parsed and executed with the same functions, by name.
    ///
    /// A name that the set has already gets the new body, unless that is empty (white space and
    /// comments): an empty body never replaces one. Functions are checked by name.
    ///
    /// # Errors
    /// The text is no template, calls an unknown function, or defines one name twice. The set is
    /// then as it was.
    pub fn parse(
        &mut self,
        name: impl Into<Str>,
        text: impl Into<Str>,
        functions: &Functions,
    ) -> Result<(), ParseError> {
        let templates = parser::parse(&name.into(), text.into(), functions)?;
        match Arc::get_mut(&mut self.layer) {
            Some(layer) => templates.iter().for_each(|template| layer.add(template)),
            None => *self = self.with(&templates),
        }
        Ok(())
    }

    /// The set with more templates on top.
    pub(crate) fn with(&self, templates: &[Arc<Template>]) -> Self {
        let mut layer = Layer {
            templates: HashMap::default(),
            below: Some(Arc::clone(&self.layer)),
        };
        if self.depth() >= MOST_LAYERS {
            layer = self.flat();
        }
        templates.iter().for_each(|template| layer.add(template));
        Self {
            name: self.name.clone(),
            layer: Arc::new(layer),
            texts: Arc::clone(&self.texts),
        }
    }

    fn depth(&self) -> usize {
        std::iter::successors(Some(&*self.layer), |layer| layer.below.as_deref()).count()
    }

    /// All layers as one.
    fn flat(&self) -> Layer {
        let mut templates = HashMap::default();
        for layer in std::iter::successors(Some(&*self.layer), |layer| layer.below.as_deref()) {
            for (name, template) in &layer.templates {
                templates
                    .entry(name.clone())
                    .or_insert_with(|| Arc::clone(template));
            }
        }
        Layer {
            templates,
            below: None,
        }
    }

    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<Template>> {
        self.layer.get(name).cloned()
    }

    /// Whether there is a template of this name.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.layer.get(name).is_some()
    }

    /// The names of all templates, in no order.
    #[must_use]
    pub fn names(&self) -> Vec<Str> {
        self.flat().templates.into_keys().collect()
    }

    /// Executes a template on this data and returns what it printed.
    ///
    /// `host` is what functions reach through [`Call::host`](crate::Call::host). The native stack
    /// is grown as needed: any thread will do.
    ///
    /// # Errors
    /// There is no such template, execution failed, or the budget is used up.
    pub fn execute(
        &self,
        name: &str,
        data: &Value,
        functions: &Functions,
        host: &mut dyn Any,
        options: Options,
        budget: &mut Budget,
    ) -> Result<Vec<u8>, ExecError> {
        let executor = Executor::new(self, functions, host, options, budget);
        executor.execute(name.as_bytes(), data)
    }
}

//! Named templates that see each other.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// From so many bytes on a second thread pays: what it takes to start is what parsing takes for a
/// tenth of them.
const SHARED_BYTES: usize = 96 << 10;

type Parsed = Result<Vec<Arc<Template>>, ParseError>;

/// Parses each text, on this thread and on another; the results come in the order of the texts.
fn parse_shared(texts: &[(Str, Str)], functions: &Functions) -> Vec<Parsed> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut parsed = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, text)) = texts.get(at) else {
                return parsed;
            };
            parsed.push((at, parser::parse(name, text.clone(), functions)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        // Without a second thread, this one does all of it.
        let other = std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let mut all = work();
        // A thread that fell over has left a gap, which is filled below.
        all.extend(
            other
                .and_then(|other| other.join().ok())
                .unwrap_or_default(),
        );
        all
    });
    all.sort_by_key(|(at, _)| *at);
    let mut all = all.into_iter().peekable();
    let of = |(at, (name, text)): (usize, &(Str, Str))| match all.next_if(|next| next.0 == at) {
        Some((_, parsed)) => parsed,
        None => parser::parse(name, text.clone(), functions),
    };
    texts.iter().enumerate().map(of).collect()
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
        self.add(&templates);
        Ok(())
    }

    /// Parses texts, each with its name, as [`parse`](Self::parse) does one after the other. If
    /// there is much of them, two threads share the work.
    ///
    /// ```
    /// use gotmpl::{Functions, TemplateSet};
    ///
    /// let mut set = TemplateSet::new("all");
    /// let texts = [("a".into(), "{{ 1 }}".into()), ("b".into(), "{{ end }}".into())];
    /// let error = set.parse_all(&texts, &Functions::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "template: b:1: unexpected {{end}}");
    /// ```
    ///
    /// # Errors
    /// That of the first text that has one. The set then holds the texts in front of it.
    pub fn parse_all(
        &mut self,
        texts: &[(Str, Str)],
        functions: &Functions,
    ) -> Result<(), ParseError> {
        if texts.iter().map(|(_, text)| text.len()).sum::<usize>() < SHARED_BYTES {
            let mut texts = texts.iter();
            return texts
                .try_for_each(|(name, text)| self.parse(name.clone(), text.clone(), functions));
        }
        for parsed in parse_shared(texts, functions) {
            self.add(&parsed?);
        }
        Ok(())
    }

    fn add(&mut self, templates: &[Arc<Template>]) {
        match Arc::get_mut(&mut self.layer) {
            Some(layer) => templates.iter().for_each(|template| layer.add(template)),
            None => *self = self.with(templates),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// More texts than one thread parses alone, all of which define `last`.
    fn texts() -> Vec<(Str, Str)> {
        let padding = "{{ if .a }}{{ .b }}{{ end }}".repeat(200);
        let text = |number: usize| {
            format!(
                "{{{{ define \"last\" }}}}{number}{{{{ end }}}}{{{{ template \"last\" }}}}{padding}"
            )
        };
        (0..40)
            .map(|number| (format!("t{number}").into(), text(number).into()))
            .collect()
    }

    fn print(set: &TemplateSet, name: &str) -> String {
        let (functions, mut budget) = (Functions::new(), Budget::default());
        let printed = set.execute(
            name,
            &Value::Nil,
            &functions,
            &mut (),
            Options::default(),
            &mut budget,
        );
        String::from_utf8(printed.unwrap()).unwrap()
    }

    #[test]
    fn texts_parsed_by_two_threads_are_as_those_parsed_in_order() {
        let texts = texts();
        assert!(texts.iter().map(|(_, text)| text.len()).sum::<usize>() > SHARED_BYTES);
        let mut set = TemplateSet::new("set");
        set.parse_all(&texts, &Functions::new()).unwrap();
        assert_eq!(set.names().len(), texts.len() + 1);
        assert_eq!(print(&set, "t0"), "39");
    }

    #[test]
    fn the_first_of_several_errors_is_told() {
        let mut texts = texts();
        for (at, wrong) in [(30, "{{ strange }}"), (7, "\n{{ end }}"), (39, "{{")] {
            texts[at].1 = wrong.into();
        }
        for _ in 0..20 {
            let mut set = TemplateSet::new("set");
            let error = set.parse_all(&texts, &Functions::new()).unwrap_err();
            assert_eq!(error.to_string(), "template: t7:2: unexpected {{end}}");
            assert!(set.contains(b"t6") && !set.contains(b"t7"));
        }
    }
}

//! Parsed templates and schemas, kept from one render of a chart to the next.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gotmpl::{Str, TemplateSet};

use crate::schema::Schema;

/// The templates of a chart, parsed for one choice of subcharts.
///
/// Which templates there are depends on the values: conditions and tags switch subcharts off, and
/// aliases rename them. So the key is the list of them, by name and by identity of their bytes, and
/// the cache holds the choices that were rendered last.
#[derive(Default)]
pub(crate) struct CompiledCache {
    templates: Mutex<Vec<Arc<Compiled>>>,
    schema: OnceLock<Result<Arc<Schema>, String>>,
}

/// How many choices of subcharts are kept.
const KEPT: usize = 4;

/// A set of parsed templates and what it was parsed from.
pub(crate) struct Compiled {
    sources: Vec<(Str, Str)>,
    pub(crate) set: TemplateSet,
}

impl CompiledCache {
    /// The set for these templates, parsed now if it is not there.
    pub(crate) fn get_or_compile<E>(
        &self,
        sources: Vec<(Str, Str)>,
        compile: impl FnOnce(&[(Str, Str)]) -> Result<TemplateSet, E>,
    ) -> Result<Arc<Compiled>, E> {
        if let Some(found) = self.find(&sources) {
            return Ok(found);
        }
        let set = compile(&sources)?;
        let compiled = Arc::new(Compiled { sources, set });
        let mut kept = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.truncate(KEPT - 1);
        kept.insert(0, Arc::clone(&compiled));
        Ok(compiled)
    }

    /// The chart's schema, compiled now if it is not there.
    pub(crate) fn schema(
        &self,
        compile: impl FnOnce() -> Result<Arc<Schema>, String>,
    ) -> Result<Arc<Schema>, String> {
        self.schema.get_or_init(compile).clone()
    }

    fn find(&self, sources: &[(Str, Str)]) -> Option<Arc<Compiled>> {
        let kept = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|compiled| same_sources(&compiled.sources, sources))
            .cloned()
    }
}

/// Whether both lists have the same names and the very same texts.
fn same_sources(left: &[(Str, Str)], right: &[(Str, Str)]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            left.0 == right.0 && std::ptr::eq(left.1.as_bytes(), right.1.as_bytes())
        })
}

impl Clone for CompiledCache {
    /// A clone of a chart may be changed, so it starts anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for CompiledCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompiledCache")
    }
}

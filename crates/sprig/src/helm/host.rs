//! What a render puts at the disposal of Helm's functions.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use gotmpl::{Call, FunctionError, Str};

/// How often `include` may be under way for one name before it is an endless recursion.
pub const INCLUDE_LIMIT: usize = 1000;

/// The cluster, as `lookup` asks it.
pub trait Lookup: Send + Sync {
    /// One object by name, or with an empty `name` a list, as the API server's JSON. An empty
    /// `namespace` means all of them, or a cluster-scoped kind.
    ///
    /// # Errors
    /// The text of any error but `NotFound`, which is `Ok(None)` and an empty map in templates.
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<serde_json::Value>, String>;
}

/// The state of one render that `include`, `tpl`, `required`, `fail` and `lookup` share: the value
/// that the engine gives to execution as `Call::host()`.
///
/// One host lives as long as one render of a chart: the depth of `include` counts over all of its
/// templates, as in Helm. Without a host of this type the functions behave as with
/// `RenderHost::default()`, save that recursion is stopped by the budget alone.
#[derive(Default)]
pub struct RenderHost {
    /// The cluster, where there is one to ask: install, upgrade, `--dry-run=server`. With `None`
    /// every lookup is an empty map, as in `helm template`.
    pub lookup: Option<Arc<dyn Lookup>>,
    /// `helm lint`: `required` and `fail` give an empty string and are noted in `lint_notes`, and
    /// `lookup` is an empty map.
    pub lint_mode: bool,
    /// What `required` and `fail` would have said in lint mode, in order.
    pub lint_notes: Vec<String>,
    include_depth: HashMap<Str, usize, RandomState>,
}

impl RenderHost {
    /// A host that asks this cluster.
    #[must_use]
    pub fn with_lookup(lookup: Arc<dyn Lookup>) -> Self {
        Self {
            lookup: Some(lookup),
            ..Self::default()
        }
    }

    /// Counts an `include` of this name as begun; `false` if too many are under way.
    pub(crate) fn enter(&mut self, name: &Str) -> bool {
        if let Some(depth) = self.include_depth.get_mut(&name[..]) {
            if *depth > INCLUDE_LIMIT {
                return false;
            }
            *depth += 1;
        } else {
            self.include_depth.insert(name.clone(), 1);
        }
        true
    }

    /// Counts an `include` of this name as done.
    pub(crate) fn leave(&mut self, name: &Str) {
        if let Some(depth) = self.include_depth.get_mut(&name[..]) {
            *depth = depth.saturating_sub(1);
        }
    }
}

/// The host of this call, if the one who executes gave one.
pub(crate) fn host(call: &mut dyn Call) -> Option<&mut RenderHost> {
    call.host().downcast_mut::<RenderHost>()
}

/// Begins an `include`, or says that it nests too deeply.
pub(crate) fn enter(call: &mut dyn Call, name: &Str) -> Result<(), FunctionError> {
    let Some(host) = host(call) else {
        return Ok(());
    };
    if host.enter(name) {
        return Ok(());
    }
    Err(FunctionError(format!(
        "rendering template has a nested reference name: {}: unable to execute template",
        name.to_text()
    )))
}

//! The digest that ties `Chart.lock` to `Chart.yaml`.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::{Dependency, Lock};

/// The digest that `helm dependency build` and `update` write and check: over the dependencies of
/// `Chart.yaml` (aliases of repositories replaced by their addresses) and the locked ones, as Go
/// writes them in JSON.
#[must_use]
pub fn lock_digest(requested: &[Dependency], locked: &[Option<Dependency>]) -> String {
    digest(&(requested, locked))
}

/// The digest that Helm 2 wrote into `requirements.lock`.
#[must_use]
pub fn helm2_lock_digest(requested: &[Dependency]) -> String {
    digest(&BTreeMap::from([("dependencies", requested)]))
}

impl Lock {
    /// Whether this lock was written for these dependencies.
    #[must_use]
    pub fn is_in_sync(&self, requested: &[Dependency]) -> bool {
        let locked = self.dependencies.as_deref().unwrap_or_default();
        self.digest == lock_digest(requested, locked)
    }
}

fn digest(value: &impl serde::Serialize) -> String {
    // Keys keep the order of the fields; plain data in memory cannot fail to be written.
    let text = escape(&serde_json::to_string(value).unwrap_or_default());
    let hash = Sha256::digest(text);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Go's encoder escapes what could end a script element; such characters stand in strings only.
fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

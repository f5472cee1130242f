//! How an action is carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::calls::Propagation;
use crate::storage::Driver;

/// How an action is carried out. The defaults are those of `helm` with server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where records are kept.
    pub driver: Driver,
    /// Who acts: written into pending records. It has to be the same after a restart.
    pub holder: String,
    /// How long a pending record of another client is left alone.
    pub patience: Duration,
    /// How long each wait may take: readiness, each hook, deletion.
    pub timeout: Duration,
    /// What is waited for.
    pub wait: WaitFor,
    /// Run hooks.
    pub hooks: bool,
    /// How many revisions are kept; 0 means all.
    pub max_history: usize,
    /// Create the namespace of the release if it is missing.
    pub create_namespace: bool,
    /// What is done with the files of `crds/`.
    pub crds: CrdPolicy,
    /// Take objects that belong to nobody, or to somebody else, into the release.
    pub take_ownership: bool,
    /// Take fields that other managers own.
    pub force_conflicts: bool,
    /// Refuse fields that a kind does not have.
    pub strict: bool,
    /// Kinds whose objects are deleted and made anew when an immutable field changes. Claims and
    /// volumes never are.
    pub recreate: Vec<String>,
    /// Accept a manifest without objects where there were some.
    pub allow_empty: bool,
    /// Delete what a failed action has created.
    pub cleanup_on_fail: bool,
    /// What becomes of the dependents of deleted objects.
    pub propagation: Propagation,
    /// Annotations that every object of the release gets beside Helm's own. They are applied, and
    /// not recorded in the manifest.
    pub annotations: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: Driver::Secret,
            holder: "helm-operator".to_owned(),
            patience: Duration::from_secs(600),
            timeout: Duration::from_secs(300),
            wait: WaitFor::Nothing,
            hooks: true,
            max_history: 10,
            create_namespace: false,
            crds: CrdPolicy::Create,
            take_ownership: false,
            force_conflicts: false,
            strict: true,
            recreate: Vec::new(),
            allow_empty: false,
            cleanup_on_fail: false,
            propagation: Propagation::Background,
            annotations: BTreeMap::new(),
        }
    }
}

impl Options {
    /// Whether objects of that kind may be made anew.
    #[must_use]
    pub(crate) fn may_recreate(&self, kind: &str) -> bool {
        !matches!(kind, "PersistentVolumeClaim" | "PersistentVolume")
            && self.recreate.iter().any(|allowed| allowed == kind)
    }
}

/// What an action waits for before it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitFor {
    /// Hooks only, as Helm 4 without `--wait`.
    #[default]
    Nothing,
    /// All objects are ready; deleted ones are gone.
    Ready,
    /// The same, and Jobs have completed.
    ReadyAndJobs,
}

/// What is done with the files of `crds/`. They are never deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrdPolicy {
    /// Nothing.
    Skip,
    /// Missing ones are created.
    #[default]
    Create,
    /// Missing ones are created, existing ones replaced.
    CreateReplace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_never_recreated() {
        let options = Options {
            recreate: ["Job", "PersistentVolumeClaim", "PersistentVolume"]
                .map(str::to_owned)
                .to_vec(),
            ..Options::default()
        };
        assert!(options.may_recreate("Job"));
        assert!(!options.may_recreate("Deployment"));
        assert!(!options.may_recreate("PersistentVolumeClaim"));
        assert!(!options.may_recreate("PersistentVolume"));
    }
}

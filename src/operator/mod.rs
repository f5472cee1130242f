//! The operator: watch → queue → workers; each reconciliation observes, decides, acts and reports.

mod act;
mod adopt;
mod backoff;
mod brake;
mod chart;
mod compare;
mod context;
mod decide;
mod deploy;
mod depwatch;
mod digest;
mod drift;
mod external;
mod gates;
mod hold;
mod identity;
mod odd;
mod options;
mod origin;
mod preview;
mod queue;
mod reconcile;
mod remove;
mod report;
mod rollback;
mod run;
mod secrets;
mod trouble;
mod validate;
mod values;
mod wake;

pub use context::{Settings, Shard};
pub use decide::{Action, Attempt, Desired, decide};
pub use digest::{input_digest, values_digest};
pub use gates::approval_name;
pub use identity::Clusters;
pub use origin::{Composed, compose_with_origins};
pub use preview::{Preview, preview};
pub use queue::{Priority, Queue, Taken};
pub use run::{Operator, Parts, Stopped};
pub use secrets::ClusterSecrets;
pub use trouble::is_retried;
pub use validate::{complaints, schema_complaint};
pub(crate) use values::{lay_content, tree as values_of_json};

/// Settings for tests: the defaults of the flags.
#[cfg(test)]
pub(crate) fn test_settings() -> Settings {
    use std::time::Duration;
    Settings {
        workers: 2,
        sync_interval: Duration::from_secs(180),
        status_interval: Duration::from_secs(10),
        holder: "helm-operator".into(),
        own_namespace_only: false,
        update_dependencies: true,
        default_service_account: None,
        log_diffs: false,
        allow_local: false,
        grace: Duration::from_secs(1),
        scope: crate::watch::Scope::default(),
        shard: Shard::ALL,
        aliases: std::sync::Arc::default(),
    }
}

//! Helm releases in a Kubernetes cluster: storage, apply, wait and the actions.
//!
//! ```text
//! history ──▶ History ──recover──▶ RecoveryPlan ─┐
//!                                                ├─install, upgrade, resume, rollback,──▶ Machine ──Cluster::run──▶ Outcome
//! chart, values ──helm_engine::render──▶ Desired ┘ uninstall, test
//! ```
//!
//! Every action is a [`Machine`]: it asks for one request at a time and can be dropped at any of
//! them. What it did is in the cluster, and [`recover`] says how to go on, so that a crash needs
//! no person. Waiting is a step of its own ([`Step::Wait`]), in which no request is in flight and
//! no worker is needed.
//!
//! Releases are Helm's: the stock `helm` reads and drives what is recorded here, and the other way
//! round. Objects are applied server-side with the field manager `helm`, as Helm 4 does.

mod actions;
mod apply;
mod calls;
mod cluster;
mod crds;
mod drift;
mod error;
mod hooks;
mod logs;
mod machine;
mod migrate;
mod object;
mod options;
mod outcome;
mod ownership;
mod readiness;
mod recover;
mod release;
mod request;
mod session;
mod storage;
mod values;
mod wait;
mod yaml;

pub use actions::{
    ActionResult, Deploy, ObjectStatus, ReleaseStatus, Resume, Rollback, Test, Uninstall,
    Uninstalled, get, history, install, mend, records, resume, rollback, rollback_target, status,
    test, uninstall, upgrade,
};
pub use calls::{FIELD_MANAGER, Propagation};
pub use cluster::{
    ApiResource, Catalog, Cluster, ClusterLookup, ClusterOptions, Halt, ServerVersion,
};
pub use drift::{
    DRIFT_DETECTION, Difference, DifferenceKind, Drift, DriftCheck, IgnoreRule, IgnoreTarget,
    LabelSelector, SelectorError, differences, drift,
};
pub use error::{ActionError, Class, Reason};
pub use hooks::{HookFilter, hook_order};
pub use machine::{Machine, Step, Wait, WaitReason};
pub use migrate::migration;
pub use object::{
    MAX_OBJECTS, Object, ObjectKey, RESOURCE_POLICY, Resource, parse as parse_manifest,
};
pub use options::{CrdPolicy, Options, WaitFor};
pub use outcome::{Change, ChangeKind, HookRun, Outcome, PodLog, Report};
pub use ownership::{MANAGED_BY, MANAGER, RELEASE_NAME, RELEASE_NAMESPACE, is_owned, owner};
pub use readiness::{Readiness, State, is_current_at_once, readiness, run_status};
pub use recover::{Interrupted, NextAction, RecoverContext, RecoveryPlan, recover};
pub use release::{Desired, ReleaseKey};
pub use request::{
    Accept, ApiCause, ApiStatus, Call, Content, Failure, Reply, Request, Response, Verb,
};
pub use storage::{
    DIGEST, Driver, HOLDER, History, MAX_RECORD_SIZE, ObjectVersion, Revision, SYSTEM_LABELS,
    Storage, Stored, fit,
};
pub use values::{UpgradeValues, ValuesPolicy, upgrade_values};

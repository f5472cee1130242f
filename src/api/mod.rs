//! The `helm.fluxcd.io/v1` API: the `HelmRelease` type, its CRD, its derived names and its vocabulary.
//!
//! No client and no I/O: what is here can be used by every verb, test and tool. The shape is that of
//! Flux Helm Operator 1.4; every field that 1.4 lacked is optional and nullable.

#[expect(
    unreachable_pub,
    reason = "KubeSchema derives from a private twin of the type"
)]
mod chart;
mod crd;
mod duration;
#[expect(
    unreachable_pub,
    reason = "KubeSchema derives from a private twin of the type"
)]
mod gates;
mod names;
mod redact;
#[expect(
    unreachable_pub,
    reason = "KubeSchema derives from a private twin of the type"
)]
#[expect(
    clippy::duplicated_attributes,
    reason = "printer columns of one type are no duplicates"
)]
mod spec;
mod status;
mod values;
mod warnings;

pub use chart::{
    ChartChoice, ChartSource, IncompleteChart, NamespacedName, OciSource, SecretRef, Verification,
};
pub use crd::{crd, crd_yaml};
pub use duration::{Duration, InvalidDuration};
pub use gates::{ConfigMapCheck, Dependency, DependsOn, Gate, GateType};
pub use names::{InvalidReleaseName, check_release_name, resource_id};
pub use redact::{InlineValues, SourceUrl, redact_url};
pub use spec::{
    CrdPolicy, DriftDetection, DriftIgnore, DriftMode, DriftTarget, HelmRelease, HelmReleaseSpec,
    HelmVersion, KubeConfigRef, KubeConfigSecretRef, LocalName, Retry, Rollback, Test, Uninstall,
};
pub use status::{
    Condition, ConditionStatus, ConditionType, HelmReleaseStatus, MESSAGE_LIMIT, Phase, Reason,
    cut_message, gate_condition,
};
pub use values::{ChartFileRef, ExternalRef, KeyRef, ValuesFrom, ValuesSource};
pub(crate) use warnings::is_json_pointer;
pub use warnings::odd_input;

/// The API group of `HelmRelease`.
pub const GROUP: &str = "helm.fluxcd.io";
/// The only served and stored version.
pub const VERSION: &str = "v1";
/// The finalizer that lets a deletion which happens while the daemon is down still uninstall.
pub const FINALIZER: &str = "helm.fluxcd.io/uninstall";
/// Set to `"true"` on a HelmRelease to give its release up: the finalizer goes, the objects stay.
pub const ABANDON_ANNOTATION: &str = "helm.fluxcd.io/abandon";
/// Written on every object of a release, as 1.4 did: `<namespace>:helmrelease/<name>`.
pub const ANTECEDENT_ANNOTATION: &str = "helm.fluxcd.io/antecedent";
/// Any change of this annotation's value asks for one full verification, whatever the back-off says.
pub const RECONCILE_ANNOTATION: &str = "helm.fluxcd.io/reconcile-at";
/// 1.4's Helm 2 migration switch: accepted, answered with a warning and nothing else.
pub const MIGRATE_ANNOTATION: &str = "helm.fluxcd.io/migrate";

//! Whether an object is as its author wants it: the rules of kstatus, which Helm 4 waits by.
//!
//! Everything here is a pure function of the live object (and the time, for Pods that cannot be
//! scheduled yet).

mod batch;
mod workloads;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use batch::run_status;

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The state.
    pub state: State,
    /// A sentence for people.
    pub message: String,
}

/// The states of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is on its way.
    InProgress,
    /// It is as it should be.
    Current,
    /// It will not get there.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It does not exist.
    NotFound,
    /// It could not be looked at.
    Unknown,
}

impl State {
    /// The word that Helm prints.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "InProgress",
            Self::Current => "Current",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::NotFound => "NotFound",
            Self::Unknown => "Unknown",
        }
    }
}

impl Readiness {
    pub(crate) fn current(message: impl Into<String>) -> Self {
        Self::new(State::Current, message)
    }

    pub(crate) fn in_progress(message: impl Into<String>) -> Self {
        Self::new(State::InProgress, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(State::Failed, message)
    }

    pub(crate) fn new(state: State, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
        }
    }
}

/// The state of a live object.
#[must_use]
pub fn readiness(object: &Value, now: Timestamp) -> Readiness {
    generic(object)
        .or_else(|| by_kind(object, now))
        .or_else(|| by_ready_condition(object))
        .unwrap_or_else(|| Readiness::current("Resource is current"))
}

/// Whether an object of that kind is current as soon as it exists, so that nothing needs to be
/// asked about one that has just been applied.
#[must_use]
pub fn is_current_at_once(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("", "Secret" | "ConfigMap" | "ServiceAccount" | "LimitRange")
            | ("batch", "CronJob")
            | ("policy", "PodDisruptionBudget")
            | (
                "rbac.authorization.k8s.io",
                "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding"
            )
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "StorageClass")
            | (
                "networking.k8s.io",
                "NetworkPolicy" | "IngressClass" | "Ingress"
            )
            | (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"
            )
    )
}

fn generic(object: &Value) -> Option<Readiness> {
    if !at(object, "metadata.deletionTimestamp").is_null() {
        return Some(Readiness::new(
            State::Terminating,
            "Resource scheduled for deletion",
        ));
    }
    let generation = at(object, "metadata.generation").as_i64().unwrap_or(0);
    let observed = at(object, "status.observedGeneration").as_i64();
    if let Some(observed) = observed
        && generation != 0
        && observed != generation
    {
        return Some(Readiness::in_progress(format!(
            "{} generation is {generation}, but latest observed generation is {observed}",
            text(object, "kind")
        )));
    }
    conditions(object).find_map(|condition| match (condition.kind, condition.status) {
        ("Reconciling", "True") => Some(Readiness::in_progress(condition.message)),
        ("Stalled", "True") => Some(Readiness::failed(condition.message)),
        _ => None,
    })
}

fn by_kind(object: &Value, now: Timestamp) -> Option<Readiness> {
    let api_version = text(object, "apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some(match (group, text(object, "kind")) {
        ("", "Service") => service(object),
        ("", "Pod") => pod(object, now),
        ("", "Secret" | "ConfigMap") | ("batch", "CronJob") => {
            Readiness::current("Resource is always ready")
        }
        ("policy", "PodDisruptionBudget") => {
            Readiness::current("AllowedDisruptions has been computed.")
        }
        ("", "PersistentVolumeClaim") => claim(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(object),
        ("apps" | "extensions", "Deployment") => workloads::deployment(object),
        ("apps" | "extensions", "ReplicaSet") => workloads::replica_set(object),
        ("batch", "Job") => batch::job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => return None,
    })
}

fn by_ready_condition(object: &Value) -> Option<Readiness> {
    conditions(object)
        .filter(|condition| condition.kind == "Ready")
        .find_map(|condition| match condition.status {
            "True" => Some(Readiness::current("Resource is Ready")),
            "False" | "Unknown" => Some(Readiness::in_progress(condition.message)),
            _ => None,
        })
}

fn service(object: &Value) -> Readiness {
    let spec = at(object, "spec");
    if text(spec, "type") == "LoadBalancer" && text(spec, "clusterIP").is_empty() {
        return Readiness::in_progress("ClusterIP not set. Service type: LoadBalancer");
    }
    Readiness::current("Service is ready")
}

fn claim(object: &Value) -> Readiness {
    match text(at(object, "status"), "phase") {
        "Bound" => Readiness::current("PVC is Bound"),
        "" => Readiness::in_progress("PVC is not Bound. phase: unknown"),
        phase => Readiness::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}

/// How long a Pod may stay unscheduled before that counts as a failure.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

fn pod(object: &Value, now: Timestamp) -> Readiness {
    match text(at(object, "status"), "phase") {
        "Succeeded" => Readiness::current("Pod has completed successfully"),
        "Failed" => Readiness::current("Pod has completed, but not successfully"),
        "Running" => running_pod(object),
        "Pending" => pending_pod(object, now),
        "" => Readiness::in_progress("Pod phase not available"),
        phase => Readiness::new(State::Unknown, format!("unknown phase {phase}")),
    }
}

fn running_pod(object: &Value) -> Readiness {
    if has_condition(object, "Ready", "True") {
        return Readiness::current("Pod is Ready");
    }
    let looping: Vec<_> = list(at(object, "status.containerStatuses"))
        .filter(|container| text(at(container, "state.waiting"), "reason") == "CrashLoopBackOff")
        .map(|container| text(container, "name"))
        .collect();
    if looping.is_empty() {
        return Readiness::in_progress("Pod is running but is not Ready");
    }
    Readiness::failed(format!(
        "Containers in CrashLoop state: {}",
        looping.join(",")
    ))
}

fn pending_pod(object: &Value, now: Timestamp) -> Readiness {
    let is_unschedulable = conditions(object).any(|condition| {
        condition.kind == "PodScheduled"
            && condition.status == "False"
            && condition.reason == "Unschedulable"
    });
    if !is_unschedulable {
        return Readiness::in_progress("Pod is in the Pending phase");
    }
    let created = text(at(object, "metadata"), "creationTimestamp").parse::<Timestamp>();
    if created.is_ok_and(|created| now.duration_since(created) < SCHEDULE_WINDOW) {
        return Readiness::in_progress("Pod has not been scheduled");
    }
    Readiness::failed("Pod could not be scheduled")
}

fn definition(object: &Value) -> Readiness {
    for condition in conditions(object) {
        match (condition.kind, condition.status) {
            ("NamesAccepted", "False") => return Readiness::failed(condition.message),
            ("Established", "False") if condition.reason != "Installing" => {
                return Readiness::failed(condition.message);
            }
            ("Established", "True") => return Readiness::current("CRD is established"),
            _ => {}
        }
    }
    Readiness::in_progress("Install in progress")
}

struct Condition<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

fn conditions(object: &Value) -> impl Iterator<Item = Condition<'_>> {
    list(at(object, "status.conditions")).map(|condition| Condition {
        kind: text(condition, "type"),
        status: text(condition, "status"),
        reason: text(condition, "reason"),
        message: text(condition, "message"),
    })
}

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    conditions(object).any(|condition| condition.kind == kind && condition.status == status)
}

/// The value at a path of keys; null if it is not there.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(object: &Value, path: &str, default: i64) -> i64 {
    at(object, path).as_i64().unwrap_or(default)
}

#[cfg(test)]
mod tests;

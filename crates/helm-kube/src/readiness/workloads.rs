//! Deployments, ReplicaSets, StatefulSets and DaemonSets.

use serde_json::Value;

use super::{Readiness, at, conditions, has_condition, number, text};

pub(super) fn deployment(object: &Value) -> Readiness {
    for condition in conditions(object) {
        if condition.kind == "Progressing" && condition.reason == "ProgressDeadlineExceeded" {
            return Readiness::failed("Progress deadline exceeded");
        }
    }
    deployment_replicas(object).unwrap_or_else(|| deployment_conditions(object))
}

fn deployment_replicas(object: &Value) -> Option<Readiness> {
    let wanted = number(object, "spec.replicas", 1);
    let replicas = number(object, "status.replicas", 0);
    let updated = number(object, "status.updatedReplicas", 0);
    let available = number(object, "status.availableReplicas", 0);
    let ready = number(object, "status.readyReplicas", 0);
    let message = if wanted > replicas {
        format!("Replicas: {replicas}/{wanted}")
    } else if wanted > updated {
        format!("Updated: {updated}/{wanted}")
    } else if replicas > wanted {
        format!("Pending termination: {}", replicas - wanted)
    } else if updated > available {
        format!("Available: {available}/{updated}")
    } else if wanted > ready {
        format!("Ready: {ready}/{wanted}")
    } else {
        return None;
    };
    Some(Readiness::in_progress(message))
}

fn deployment_conditions(object: &Value) -> Readiness {
    // Without a deadline (the largest number stands for none) the condition is never set.
    let no_deadline = i64::from(i32::MAX);
    let is_progressing = number(object, "spec.progressDeadlineSeconds", no_deadline) == no_deadline
        || conditions(object).any(|condition| {
            condition.kind == "Progressing"
                && condition.status == "True"
                && condition.reason == "NewReplicaSetAvailable"
        });
    if !is_progressing {
        return Readiness::in_progress("ReplicaSet not Available");
    }
    if !has_condition(object, "Available", "True") {
        return Readiness::in_progress("Deployment not Available");
    }
    let replicas = number(object, "status.replicas", 0);
    Readiness::current(format!("Deployment is available. Replicas: {replicas}"))
}

pub(super) fn replica_set(object: &Value) -> Readiness {
    if has_condition(object, "ReplicaFailure", "True") {
        return Readiness::in_progress("Replica Failure condition. Check Pods");
    }
    let wanted = number(object, "spec.replicas", 1);
    let replicas = number(object, "status.replicas", 0);
    for (name, field) in [
        ("Labelled", "status.fullyLabeledReplicas"),
        ("Available", "status.availableReplicas"),
        ("Ready", "status.readyReplicas"),
    ] {
        let actual = number(object, field, 0);
        if wanted > actual {
            return Readiness::in_progress(format!("{name}: {actual}/{wanted}"));
        }
    }
    if replicas > wanted {
        return Readiness::in_progress(format!("Pending termination: {}", replicas - wanted));
    }
    Readiness::current(format!("ReplicaSet is available. Replicas: {replicas}"))
}

pub(super) fn stateful_set(object: &Value) -> Readiness {
    if text(at(object, "spec.updateStrategy"), "type") == "OnDelete" {
        return Readiness::current("StatefulSet is using the ondelete update strategy");
    }
    let wanted = number(object, "spec.replicas", 1);
    let replicas = number(object, "status.replicas", 0);
    let ready = number(object, "status.readyReplicas", 0);
    if wanted > replicas {
        return Readiness::in_progress(format!("Replicas: {replicas}/{wanted}"));
    }
    if wanted > ready {
        return Readiness::in_progress(format!("Ready: {ready}/{wanted}"));
    }
    if replicas > wanted {
        return Readiness::in_progress(format!("Pending termination: {}", replicas - wanted));
    }
    stateful_set_rollout(object, wanted, replicas)
}

fn stateful_set_rollout(object: &Value, wanted: i64, replicas: i64) -> Readiness {
    let partition = number(object, "spec.updateStrategy.rollingUpdate.partition", -1);
    if partition != -1 {
        let updated = number(object, "status.updatedReplicas", 0);
        let due = wanted.saturating_sub(partition);
        if updated < due {
            return Readiness::in_progress(format!("updated: {updated}/{due}"));
        }
        return Readiness::current(format!("Partition rollout complete. updated: {updated}"));
    }
    let current = number(object, "status.currentReplicas", 0);
    if wanted > current {
        return Readiness::in_progress(format!("current: {current}/{wanted}"));
    }
    let status = at(object, "status");
    if text(status, "currentRevision") != text(status, "updateRevision") {
        return Readiness::in_progress("Waiting for updated revision to match current");
    }
    Readiness::current(format!(
        "All replicas scheduled as expected. Replicas: {replicas}"
    ))
}

pub(super) fn daemon_set(object: &Value) -> Readiness {
    for (path, what) in [
        ("metadata.generation", "metadata.generation"),
        ("status.observedGeneration", "status.observedGeneration"),
    ] {
        if at(object, path).is_null() {
            return Readiness::in_progress(format!("{} {what} not found", text(object, "kind")));
        }
    }
    let desired = number(object, "status.desiredNumberScheduled", -1);
    if desired == -1 {
        return Readiness::in_progress("Missing .status.desiredNumberScheduled");
    }
    for (name, field) in [
        ("Current", "status.currentNumberScheduled"),
        ("Updated", "status.updatedNumberScheduled"),
        ("Available", "status.numberAvailable"),
        ("Ready", "status.numberReady"),
    ] {
        let actual = number(object, field, 0);
        if desired > actual {
            return Readiness::in_progress(format!("{name}: {actual}/{desired}"));
        }
    }
    Readiness::current(format!(
        "All replicas scheduled as expected. Replicas: {desired}"
    ))
}

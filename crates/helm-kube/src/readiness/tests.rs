use serde_json::json;

use super::State::{Current, Failed, InProgress, Terminating, Unknown};
use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn check(table: Vec<(&str, Value, State, &str)>) {
    for (name, object, state, message) in table {
        let found = readiness(&object, now());
        assert_eq!(found, Readiness::new(state, message), "{name}");
    }
}

fn object(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "generation": 1},
        "spec": spec, "status": status})
}

#[test]
fn rules_of_every_kind_come_first() {
    let thing = |metadata: Value, status: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "status": status});
    check(vec![
        (
            "deleted",
            thing(
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                json!({}),
            ),
            Terminating,
            "Resource scheduled for deletion",
        ),
        (
            "not observed",
            thing(json!({"generation": 2}), json!({"observedGeneration": 1})),
            InProgress,
            "Thing generation is 2, but latest observed generation is 1",
        ),
        (
            "reconciling",
            thing(
                json!({}),
                json!({"conditions": [
            {"type": "Reconciling", "status": "True", "message": "working"}]}),
            ),
            InProgress,
            "working",
        ),
        (
            "stalled",
            thing(
                json!({}),
                json!({"conditions": [
            {"type": "Stalled", "status": "True", "message": "broken"}]}),
            ),
            Failed,
            "broken",
        ),
        (
            "ready",
            thing(
                json!({}),
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            ),
            Current,
            "Resource is Ready",
        ),
        (
            "not ready",
            thing(
                json!({}),
                json!({"conditions": [
            {"type": "Ready", "status": "False", "message": "no database"}]}),
            ),
            InProgress,
            "no database",
        ),
        (
            "no conditions",
            thing(json!({}), json!({})),
            Current,
            "Resource is current",
        ),
        (
            "odd conditions",
            thing(json!({}), json!({"conditions": "x"})),
            Current,
            "Resource is current",
        ),
        ("no object at all", json!(7), Current, "Resource is current"),
    ]);
}

#[test]
fn services_claims_and_plain_objects() {
    check(vec![
        (
            "service",
            object("v1", "Service", json!({"type": "ClusterIP"}), json!({})),
            Current,
            "Service is ready",
        ),
        (
            "load balancer without address",
            object("v1", "Service", json!({"type": "LoadBalancer"}), json!({})),
            InProgress,
            "ClusterIP not set. Service type: LoadBalancer",
        ),
        (
            "load balancer",
            object(
                "v1",
                "Service",
                json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
                json!({}),
            ),
            Current,
            "Service is ready",
        ),
        (
            "bound claim",
            object(
                "v1",
                "PersistentVolumeClaim",
                json!({}),
                json!({"phase": "Bound"}),
            ),
            Current,
            "PVC is Bound",
        ),
        (
            "pending claim",
            object(
                "v1",
                "PersistentVolumeClaim",
                json!({}),
                json!({"phase": "Pending"}),
            ),
            InProgress,
            "PVC is not Bound. phase: Pending",
        ),
        (
            "new claim",
            object("v1", "PersistentVolumeClaim", json!({}), json!({})),
            InProgress,
            "PVC is not Bound. phase: unknown",
        ),
        (
            "secret",
            object("v1", "Secret", json!({}), json!({})),
            Current,
            "Resource is always ready",
        ),
        (
            "cron job",
            object("batch/v1", "CronJob", json!({}), json!({})),
            Current,
            "Resource is always ready",
        ),
        (
            "budget",
            object("policy/v1", "PodDisruptionBudget", json!({}), json!({})),
            Current,
            "AllowedDisruptions has been computed.",
        ),
    ]);
}

#[test]
fn pods() {
    let pod = |status: Value| object("v1", "Pod", json!({}), status);
    let unschedulable = |created: &str| {
        let mut pod = pod(json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}));
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod
    };
    check(vec![
        ("new", pod(json!({})), InProgress, "Pod phase not available"),
        (
            "pending",
            pod(json!({"phase": "Pending"})),
            InProgress,
            "Pod is in the Pending phase",
        ),
        (
            "just not scheduled",
            unschedulable("2026-01-01T00:00:50Z"),
            InProgress,
            "Pod has not been scheduled",
        ),
        (
            "long not scheduled",
            unschedulable("2026-01-01T00:00:45Z"),
            Failed,
            "Pod could not be scheduled",
        ),
        (
            "running",
            pod(json!({"phase": "Running"})),
            InProgress,
            "Pod is running but is not Ready",
        ),
        (
            "ready",
            pod(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
            Current,
            "Pod is Ready",
        ),
        (
            "crashing",
            pod(json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            {"name": "b", "state": {"running": {}}}]})),
            Failed,
            "Containers in CrashLoop state: a",
        ),
        (
            "succeeded",
            pod(json!({"phase": "Succeeded"})),
            Current,
            "Pod has completed successfully",
        ),
        (
            "failed",
            pod(json!({"phase": "Failed"})),
            Current,
            "Pod has completed, but not successfully",
        ),
        (
            "odd",
            pod(json!({"phase": "Lost"})),
            Unknown,
            "unknown phase Lost",
        ),
    ]);
}

#[test]
fn deployments() {
    let spec = json!({"replicas": 2, "progressDeadlineSeconds": 600});
    let deployment = |status: Value| object("apps/v1", "Deployment", spec.clone(), status);
    let good =
        json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
    let with = |extra: Value| {
        let mut status = good.clone();
        for (key, value) in extra.as_object().unwrap() {
            status[key] = value.clone();
        }
        deployment(status)
    };
    let progressing =
        json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"});
    let available = json!({"type": "Available", "status": "True"});
    check(vec![
        ("new", deployment(json!({})), InProgress, "Replicas: 0/2"),
        (
            "not updated",
            with(json!({"updatedReplicas": 1})),
            InProgress,
            "Updated: 1/2",
        ),
        (
            "surplus",
            with(json!({"replicas": 3})),
            InProgress,
            "Pending termination: 1",
        ),
        (
            "not available",
            with(json!({"availableReplicas": 1})),
            InProgress,
            "Available: 1/2",
        ),
        (
            "not ready",
            with(json!({"readyReplicas": 1})),
            InProgress,
            "Ready: 1/2",
        ),
        (
            "no conditions",
            with(json!({})),
            InProgress,
            "ReplicaSet not Available",
        ),
        (
            "progressed only",
            with(json!({"conditions": [progressing.clone()]})),
            InProgress,
            "Deployment not Available",
        ),
        (
            "done",
            with(json!({"conditions": [progressing, available.clone()]})),
            Current,
            "Deployment is available. Replicas: 2",
        ),
        (
            "deadline",
            deployment(json!({"conditions": [
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]})),
            Failed,
            "Progress deadline exceeded",
        ),
        (
            "no deadline",
            object(
                "apps/v1",
                "Deployment",
                json!({"replicas": 0}),
                json!({"conditions": [available]}),
            ),
            Current,
            "Deployment is available. Replicas: 0",
        ),
    ]);
}

#[test]
fn replica_sets() {
    let set = |status: Value| object("apps/v1", "ReplicaSet", json!({"replicas": 1}), status);
    check(vec![
        (
            "failure",
            set(json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]})),
            InProgress,
            "Replica Failure condition. Check Pods",
        ),
        ("new", set(json!({})), InProgress, "Labelled: 0/1"),
        (
            "labelled",
            set(json!({"fullyLabeledReplicas": 1})),
            InProgress,
            "Available: 0/1",
        ),
        (
            "available",
            set(json!({"fullyLabeledReplicas": 1, "availableReplicas": 1})),
            InProgress,
            "Ready: 0/1",
        ),
        (
            "surplus",
            set(
                json!({"replicas": 2, "fullyLabeledReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}),
            ),
            InProgress,
            "Pending termination: 1",
        ),
        (
            "done",
            set(
                json!({"replicas": 1, "fullyLabeledReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}),
            ),
            Current,
            "ReplicaSet is available. Replicas: 1",
        ),
    ]);
}

#[test]
fn stateful_sets() {
    let set = |spec: Value, status: Value| object("apps/v1", "StatefulSet", spec, status);
    let two = || json!({"replicas": 2});
    let partitioned =
        || json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    check(vec![
        (
            "by hand",
            set(json!({"updateStrategy": {"type": "OnDelete"}}), json!({})),
            Current,
            "StatefulSet is using the ondelete update strategy",
        ),
        ("new", set(two(), json!({})), InProgress, "Replicas: 0/2"),
        (
            "not ready",
            set(two(), json!({"replicas": 2, "readyReplicas": 1})),
            InProgress,
            "Ready: 1/2",
        ),
        (
            "surplus",
            set(two(), json!({"replicas": 3, "readyReplicas": 3})),
            InProgress,
            "Pending termination: 1",
        ),
        (
            "not current",
            set(
                two(),
                json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 1}),
            ),
            InProgress,
            "current: 1/2",
        ),
        (
            "other revision",
            set(
                two(),
                json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 2,
            "currentRevision": "a", "updateRevision": "b"}),
            ),
            InProgress,
            "Waiting for updated revision to match current",
        ),
        (
            "done",
            set(
                two(),
                json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 2,
            "currentRevision": "b", "updateRevision": "b"}),
            ),
            Current,
            "All replicas scheduled as expected. Replicas: 2",
        ),
        (
            "partition",
            set(
                partitioned(),
                json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1}),
            ),
            InProgress,
            "updated: 1/2",
        ),
        (
            "partition done",
            set(
                partitioned(),
                json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2}),
            ),
            Current,
            "Partition rollout complete. updated: 2",
        ),
    ]);
}

#[test]
fn daemon_sets() {
    let set = |status: Value| object("apps/v1", "DaemonSet", json!({}), status);
    let counts = |current: i64, updated: i64, available: i64, ready: i64| {
        set(
            json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": current,
            "updatedNumberScheduled": updated, "numberAvailable": available, "numberReady": ready}),
        )
    };
    check(vec![
        (
            "new",
            set(json!({})),
            InProgress,
            "DaemonSet status.observedGeneration not found",
        ),
        (
            "observed",
            set(json!({"observedGeneration": 1})),
            InProgress,
            "Missing .status.desiredNumberScheduled",
        ),
        ("current", counts(1, 0, 0, 0), InProgress, "Current: 1/2"),
        ("updated", counts(2, 1, 0, 0), InProgress, "Updated: 1/2"),
        (
            "available",
            counts(2, 2, 1, 0),
            InProgress,
            "Available: 1/2",
        ),
        ("ready", counts(2, 2, 2, 1), InProgress, "Ready: 1/2"),
        (
            "done",
            counts(2, 2, 2, 2),
            Current,
            "All replicas scheduled as expected. Replicas: 2",
        ),
    ]);
}

#[test]
fn jobs() {
    let job = |status: Value| object("batch/v1", "Job", json!({"completions": 2}), status);
    let ended = |kind: &str| json!({"succeeded": 2, "failed": 1, "conditions": [{"type": kind, "status": "True"}]});
    check(vec![
        ("new", job(json!({})), InProgress, "Job not started"),
        (
            "running",
            job(json!({"startTime": "x", "active": 1})),
            Current,
            "Job in progress. success:0, active: 1, failed: 0",
        ),
        (
            "complete",
            job(ended("Complete")),
            Current,
            "Job Completed. succeeded: 2/2",
        ),
        (
            "failed",
            job(ended("Failed")),
            Failed,
            "Job Failed. failed: 1/2",
        ),
    ]);
}

#[test]
fn definitions() {
    let definition = |kind: &str, status: &str, reason: &str| {
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({}),
            json!({"conditions": [
            {"type": kind, "status": status, "reason": reason, "message": "m"}]}),
        )
    };
    check(vec![
        (
            "names taken",
            definition("NamesAccepted", "False", ""),
            Failed,
            "m",
        ),
        (
            "installing",
            definition("Established", "False", "Installing"),
            InProgress,
            "Install in progress",
        ),
        (
            "broken",
            definition("Established", "False", "NotAccepted"),
            Failed,
            "m",
        ),
        (
            "established",
            definition("Established", "True", ""),
            Current,
            "CRD is established",
        ),
    ]);
}

#[test]
fn hooks_have_to_run_to_their_end() {
    let job = |status: Value| object("batch/v1", "Job", json!({}), status);
    let pod = |phase: &str| object("v1", "Pod", json!({}), json!({"phase": phase}));
    for (object, expected) in [
        (job(json!({"startTime": "x"})), InProgress),
        (
            job(json!({"conditions": [{"type": "Complete", "status": "True"}]})),
            Current,
        ),
        (
            job(json!({"conditions": [{"type": "Failed", "status": "True"}]})),
            Failed,
        ),
        (pod("Running"), InProgress),
        (pod("Succeeded"), Current),
        (pod("Failed"), Failed),
        (object("v1", "ConfigMap", json!({}), json!({})), Current),
    ] {
        assert_eq!(run_status(&object).state, expected, "{object}");
    }
}

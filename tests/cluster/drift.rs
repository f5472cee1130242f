//! Live objects that someone has changed by hand: reported, mended, or left alone, as the spec says.

use serde_json::Value;

use crate::support::{Lone, condition, lone_plane, text};

const MENDED: &str = "False DriftCorrected";

/// A daemon with the release `hello`, which is looked at each second.
fn deployed<'a>(name: &str, detection: &str) -> Lone<'a> {
    let lone = Lone::start(lone_plane(), name, &[]);
    lone.apply(
        "hello",
        &format!(
            "interval: 1s\nretry: {{backoff: 1s, maxBackoff: 4s}}\ndriftDetection: {detection}"
        ),
    );
    lone.wait("hello", testkit::is_ready);
    lone
}

fn edit(lone: &Lone<'_>, patch: &str) {
    let patch = format!("--patch={patch}");
    lone.kubectl(&["patch", "configmap", "hello", &patch]);
}

/// Waits for a word in the condition `Degraded`.
fn degraded(lone: &Lone<'_>, expected: &str) -> Value {
    lone.wait("hello", |release| {
        condition(release, "Degraded") == expected
    })
}

fn message(release: &Value) -> String {
    let conditions = release["status"]["conditions"].as_array().unwrap();
    let degraded = conditions.iter().find(|found| found["type"] == "Degraded");
    text(degraded.unwrap(), "/message")
}

/// How many Events there are with this reason, once there is one.
fn told(lone: &Lone<'_>, reason: &str) -> usize {
    let path = format!("/api/v1/namespaces/{}/events", lone.namespace);
    let count = || {
        let list = lone.rig.plane.get(&path).unwrap();
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|event| event["reason"] == reason)
            .count()
    };
    lone.until(reason, || count() > 0);
    count()
}

fn gauge(lone: &Lone<'_>) -> bool {
    let metrics = lone.rig.daemon.get("/metrics").unwrap().1;
    let line = metrics
        .lines()
        .find(|line| line.starts_with("helm_operator_release_drifted{"));
    line.unwrap().ends_with(" 1")
}

#[test]
fn drift_is_reported_once_and_left_alone() {
    let lone = deployed("drift-warn", "{mode: warn}");
    assert!(!gauge(&lone));
    edit(&lone, r#"{"data":{"greeting":"a canary"}}"#);
    let release = degraded(&lone, "True DriftDetected");
    assert!(testkit::is_ready(&release));
    let said = message(&release);
    assert!(
        said.contains("/data/greeting changed") && !said.contains("canary"),
        "{said}"
    );
    lone.until("the metric tells", || gauge(&lone));
    // Another difference is no news in an Event, and it is in the condition.
    edit(&lone, r#"{"data":{"revision":"7"}}"#);
    lone.wait("hello", |release| {
        message(release).contains("/data/revision")
    });
    assert_eq!(told(&lone, "DriftDetected"), 1);
    lone.greets("hello", "a canary");
    edit(&lone, r#"{"data":{"greeting":"hello","revision":"1"}}"#);
    degraded(&lone, MENDED);
    assert_eq!(told(&lone, "DriftCorrected"), 1);
    lone.until("the metric tells no more", || !gauge(&lone));
    assert_eq!(lone.records("hello").len(), 1);
}

#[test]
fn drift_is_mended_without_a_new_revision_and_ignored_where_the_spec_says() {
    let detection =
        "{mode: enabled, ignore: [{paths: [/data/revision], target: {kind: ConfigMap}}]}";
    let lone = deployed("drift-mend", detection);
    edit(&lone, r#"{"data":{"greeting":"other","revision":"7"}}"#);
    let said = message(&degraded(&lone, MENDED));
    assert!(
        said.contains("/data/greeting changed") && !said.contains("revision"),
        "{said}"
    );
    lone.greets("hello", "hello");
    lone.kubectl(&["delete", "configmap", "hello"]);
    lone.greets("hello", "hello");
    assert!(told(&lone, "DriftCorrected") >= 1);
    assert_eq!(lone.records("hello").len(), 1);
    assert!(!gauge(&lone));
}

#[test]
fn what_drifted_while_the_daemon_was_away_is_mended_after_its_start() {
    let mut lone = deployed("drift-away", "{mode: enabled}");
    lone.rig.daemon.kill().unwrap();
    edit(&lone, r#"{"data":{"greeting":"other"}}"#);
    lone.rig.daemon.start_again().unwrap();
    lone.greets("hello", "hello");
    assert_eq!(lone.records("hello").len(), 1);
}

#[test]
fn drift_that_cannot_be_mended_is_tried_again_after_pauses_until_it_can() {
    let lone = deployed("drift-stuck", "{mode: enabled}");
    // An immutable ConfigMap refuses to be as the release says.
    edit(&lone, r#"{"immutable":true,"data":{"greeting":"other"}}"#);
    let said = message(&degraded(&lone, "True DriftDetected"));
    assert!(
        said.contains("cannot be mended") && said.contains("immutable"),
        "{said}"
    );
    assert_eq!(told(&lone, "DriftDetected"), 1);
    lone.greets("hello", "other");
    lone.kubectl(&["delete", "configmap", "hello"]);
    degraded(&lone, MENDED);
    lone.greets("hello", "hello");
    assert_eq!(lone.records("hello").len(), 1);
    assert_eq!(told(&lone, "DriftDetected"), 1);
}

/// A gate holds the next change back, for days perhaps; what is deployed is looked after all the same.
#[test]
fn drift_is_mended_while_the_next_change_waits_at_a_gate() {
    let lone = Lone::start(lone_plane(), "drift-gate", &[]);
    let spec =
        "interval: 1s\nretry: {backoff: 1s, maxBackoff: 4s}\ndriftDetection: {mode: enabled}";
    lone.apply("hello", spec);
    lone.wait("hello", testkit::is_ready);
    let gate = "gates: [{name: ops, type: ManualApproval, checkInterval: 1h}]";
    lone.apply(
        "hello",
        &format!("{spec}\nvalues: {{greeting: next}}\n{gate}"),
    );
    lone.wait("hello", |release| {
        text(release, "/status/phase") == "Pending"
    });
    edit(&lone, r#"{"data":{"greeting":"other"}}"#);
    let said = message(&degraded(&lone, MENDED));
    assert!(said.contains("/data/greeting changed"), "{said}");
    lone.greets("hello", "hello");
    assert_eq!(lone.records("hello").len(), 1);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: approval-hello}\ndata: {approved: \"true\"}\n";
    lone.rig.apply(&lone.namespace, map).unwrap();
    lone.greets("hello", "next");
}

//! Live objects that someone has changed by hand: reported, mended, or left alone, as the spec says.

use serde_json::Value;

use crate::support::{POLLS, Solo, condition, message, text};

const MENDED: &str = "False DriftCorrected";

/// A daemon with the release `hello`, which is looked at each second.
fn deployed(name: &str, detection: &str) -> Solo<'static> {
    let solo = Solo::new(name, &[POLLS]);
    solo.apply(
        "hello",
        &format!(
            "interval: 1s\nretry: {{backoff: 1s, maxBackoff: 4s}}\ndriftDetection: {detection}"
        ),
    );
    solo.wait("hello", testkit::is_ready);
    solo
}

fn edit(solo: &Solo<'_>, patch: &str) {
    let patch = format!("--patch={patch}");
    solo.kubectl(&["patch", "configmap", "hello", &patch]);
}

/// Waits for a word in the condition `Degraded`.
fn degraded(solo: &Solo<'_>, expected: &str) -> Value {
    solo.wait("hello", |release| {
        condition(release, "Degraded") == expected
    })
}

/// How many Events there are with this reason, once there is one.
fn told(solo: &Solo<'_>, reason: &str) -> usize {
    let path = format!("/api/v1/namespaces/{}/events", solo.namespace);
    let count = || {
        let list = solo.rig.plane.get(&path).unwrap();
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|event| event["reason"] == reason)
            .count()
    };
    solo.until(reason, || count() > 0);
    count()
}

/// Waits until the metric says whether the release has drifted; it follows the status, which is written first.
fn gauge(solo: &Solo<'_>, drifted: bool) {
    let expected = if drifted { " 1" } else { " 0" };
    solo.until("the metric of drift", || {
        let metrics = solo.rig.daemon.get("/metrics").unwrap().1;
        metrics.lines().any(|line| {
            line.starts_with("helm_operator_release_drifted{") && line.ends_with(expected)
        })
    });
}

#[test]
fn drift_is_reported_once_and_left_alone() {
    let solo = deployed("drift-warn", "{mode: warn}");
    gauge(&solo, false);
    edit(&solo, r#"{"data":{"greeting":"a canary"}}"#);
    let release = degraded(&solo, "True DriftDetected");
    assert!(testkit::is_ready(&release));
    let said = message(&release, "Degraded");
    assert!(
        said.contains("/data/greeting changed") && !said.contains("canary"),
        "{said}"
    );
    gauge(&solo, true);
    // Another difference is no news in an Event, and it is in the condition.
    edit(&solo, r#"{"data":{"revision":"7"}}"#);
    solo.wait("hello", |release| {
        message(release, "Degraded").contains("/data/revision")
    });
    assert_eq!(told(&solo, "DriftDetected"), 1);
    solo.greets("hello", "a canary");
    edit(&solo, r#"{"data":{"greeting":"hello","revision":"1"}}"#);
    degraded(&solo, MENDED);
    assert_eq!(told(&solo, "DriftCorrected"), 1);
    gauge(&solo, false);
    assert_eq!(solo.records("hello").len(), 1);
}

#[test]
fn drift_is_mended_without_a_new_revision_and_ignored_where_the_spec_says() {
    let detection =
        "{mode: enabled, ignore: [{paths: [/data/revision], target: {kind: ConfigMap}}]}";
    let solo = deployed("drift-mend", detection);
    edit(&solo, r#"{"data":{"greeting":"other","revision":"7"}}"#);
    let said = message(&degraded(&solo, MENDED), "Degraded");
    assert!(
        said.contains("/data/greeting changed") && !said.contains("revision"),
        "{said}"
    );
    solo.greets("hello", "hello");
    solo.kubectl(&["delete", "configmap", "hello"]);
    solo.greets("hello", "hello");
    assert!(told(&solo, "DriftCorrected") >= 1);
    assert_eq!(solo.records("hello").len(), 1);
    gauge(&solo, false);
}

#[test]
fn what_drifted_while_the_daemon_was_away_is_mended_after_its_start() {
    let mut solo = deployed("drift-away", "{mode: enabled}");
    solo.rig.daemon.kill().unwrap();
    edit(&solo, r#"{"data":{"greeting":"other"}}"#);
    solo.bench.rig.daemon.start_again().unwrap();
    solo.greets("hello", "hello");
    assert_eq!(solo.records("hello").len(), 1);
}

#[test]
fn drift_that_cannot_be_mended_is_tried_again_after_pauses_until_it_can() {
    let solo = deployed("drift-stuck", "{mode: enabled}");
    // An immutable ConfigMap refuses to be as the release says.
    edit(&solo, r#"{"immutable":true,"data":{"greeting":"other"}}"#);
    let said = message(&degraded(&solo, "True DriftDetected"), "Degraded");
    assert!(
        said.contains("cannot be mended") && said.contains("immutable"),
        "{said}"
    );
    assert_eq!(told(&solo, "DriftDetected"), 1);
    solo.greets("hello", "other");
    solo.kubectl(&["delete", "configmap", "hello"]);
    degraded(&solo, MENDED);
    solo.greets("hello", "hello");
    assert_eq!(solo.records("hello").len(), 1);
    assert_eq!(told(&solo, "DriftDetected"), 1);
}

/// A gate holds the next change back, for days perhaps; what is deployed is looked after all the same.
#[test]
fn drift_is_mended_while_the_next_change_waits_at_a_gate() {
    let solo = Solo::new("drift-gate", &[POLLS]);
    let spec =
        "interval: 1s\nretry: {backoff: 1s, maxBackoff: 4s}\ndriftDetection: {mode: enabled}";
    solo.apply("hello", spec);
    solo.wait("hello", testkit::is_ready);
    let gate = "gates: [{name: ops, type: ManualApproval, checkInterval: 1h}]";
    solo.apply(
        "hello",
        &format!("{spec}\nvalues: {{greeting: next}}\n{gate}"),
    );
    solo.wait("hello", |release| {
        text(release, "/status/phase") == "Pending"
    });
    edit(&solo, r#"{"data":{"greeting":"other"}}"#);
    let said = message(&degraded(&solo, MENDED), "Degraded");
    assert!(said.contains("/data/greeting changed"), "{said}");
    solo.greets("hello", "hello");
    assert_eq!(solo.records("hello").len(), 1);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: approval-hello}\ndata: {approved: \"true\"}\n";
    solo.rig.apply(&solo.namespace, map).unwrap();
    solo.greets("hello", "next");
}

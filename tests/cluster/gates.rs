//! Gates: each opens at once when what it waits for happens, without polling.

use std::time::{Duration, Instant};

use crate::support::{Bench, condition, message, text};

/// No gate is looked at again by itself within a test.
const NEVER: &str = "checkInterval: 1h";

/// Waits until the release is held back, does something, waits until it is deployed, and returns how long after that
/// the gate was seen open: the API server is asked every few milliseconds.
fn opened_by(bench: &Bench, name: &str, open: impl FnOnce()) -> Duration {
    bench.wait(name, |release| text(release, "/status/phase") == "Pending");
    open();
    let start = Instant::now();
    bench.wait(name, |release| {
        condition(release, "AllGatesPassed") == "True GatePassed"
    });
    let took = start.elapsed();
    bench.ready(name);
    took
}

/// Without polling a gate opens within a second.
const AT_ONCE: Duration = Duration::from_secs(1);

#[test]
fn a_gate_opens_when_its_config_map_appears() {
    let bench = Bench::new("gate-map");
    let gate = format!(
        "gates: [{{name: flags, type: ConfigMapExists, {NEVER}, configMap: {{name: flags, key: go, value: \"yes\"}}}}]"
    );
    bench.apply("hello", &gate);
    let waiting = bench.wait("hello", |release| {
        text(release, "/status/phase") == "Pending"
    });
    assert_eq!(condition(&waiting, "Gate-flags"), "False GateNotPassed");
    assert_eq!(condition(&waiting, "AllGatesPassed"), "False GateNotPassed");
    assert_eq!(bench.records("hello"), []);
    // What `kubectl get hr` shows.
    assert_eq!(condition(&waiting, "Released"), "Unknown Pending");
    let said = message(&waiting, "Released");
    assert!(said.contains("waits: gate 'flags': ConfigMap"), "{said}");
    let took = opened_by(&bench, "hello", || {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: flags}\ndata: {go: \"yes\"}\n";
        bench.rig.apply(&bench.namespace, map).unwrap();
    });
    assert!(took < AT_ONCE, "{took:?}");
    let reasons: Vec<String> = bench
        .events("hello")
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    assert_eq!(reasons, ["GateNotPassed", "GatePassed", "ReleaseSynced"]);
}

#[test]
fn an_approval_is_for_the_digest_that_waits() {
    let bench = Bench::new("gate-ok");
    bench.apply(
        "hello",
        &format!("gates: [{{name: ops, type: ManualApproval, {NEVER}}}]"),
    );
    let approve = || {
        let mut command = std::process::Command::new(crate::support::BINARY);
        let kubeconfig = format!("--kubeconfig={}", bench.rig.plane.kubeconfig().display());
        command.args([
            "approve",
            "hello",
            "--namespace",
            &bench.namespace,
            &kubeconfig,
        ]);
        testkit::run(&mut command).unwrap();
    };
    let waiting = bench.wait("hello", |release| {
        text(release, "/status/phase") == "Pending"
    });
    let digest = text(&waiting, "/status/waitingDigest");
    assert!(message(&waiting, "Gate-ops").contains(&digest));
    let took = opened_by(&bench, "hello", approve);
    assert!(took < AT_ONCE, "{took:?}");
    // The next change waits for an approval of its own, and what is deployed stays.
    let gated = format!(
        "values: {{greeting: changed}}\ngates: [{{name: ops, type: ManualApproval, {NEVER}}}]"
    );
    bench.apply("hello", &gated);
    let waiting = bench.wait("hello", |release| {
        let other = text(release, "/status/waitingDigest");
        text(release, "/status/phase") == "Pending" && !other.is_empty() && other != digest
    });
    assert!(
        message(&waiting, "Gate-ops").contains("which approves"),
        "{waiting:#}"
    );
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    opened_by(&bench, "hello", approve);
    assert_eq!(bench.greeting("hello").as_deref(), Some("changed"));
}

#[test]
fn a_release_waits_for_what_it_depends_on() {
    let bench = Bench::new("gate-dep");
    bench.apply("web", "dependsOn: [{name: db}]");
    let waiting = bench.wait("web", |release| text(release, "/status/phase") == "Pending");
    assert!(
        message(&waiting, "Ready").contains("does not exist"),
        "{}",
        message(&waiting, "Ready")
    );
    let took = opened_by(&bench, "web", || {
        bench.apply("db", "");
        bench.ready("db");
    });
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn a_gate_opens_when_an_object_of_another_kind_is_ready() {
    let bench = Bench::new("gate-kind");
    let gate = format!(
        "gates: [{{name: claim, type: DependencyReady, {NEVER}, dependency: {{apiVersion: v1, kind: PersistentVolumeClaim, name: disk}}}}]"
    );
    bench.apply("hello", &gate);
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    bench.rig.apply(&bench.namespace, claim).unwrap();
    bench.wait("hello", |release| {
        message(release, "Gate-claim").contains("not ready")
    });
    let took = opened_by(&bench, "hello", || {
        bench.kubectl(&[
            "patch",
            "pvc",
            "disk",
            "--subresource=status",
            "--type=merge",
            "--patch={\"status\":{\"phase\":\"Bound\"}}",
        ]);
    });
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn a_cycle_of_dependencies_is_told_on_each_member() {
    let bench = Bench::new("gate-cycle");
    bench.apply("a", "dependsOn: [{name: b}]");
    bench.apply("b", "dependsOn: [{name: a}]");
    for name in ["a", "b"] {
        let stuck = bench.wait(name, |release| {
            condition(release, "Ready") == "False DependencyCycle"
        });
        assert!(message(&stuck, "Ready").contains("cycle"));
    }
    bench.apply("b", "");
    bench.ready("a");
}

#[test]
fn a_gate_that_is_not_mandatory_is_shown_and_holds_nothing_back() {
    let bench = Bench::new("gate-soft");
    bench.apply(
        "hello",
        "gates: [{name: soft, type: ConfigMapExists, mandatory: false, configMap: {name: none}}]",
    );
    let ready = bench.ready("hello");
    assert_eq!(condition(&ready, "Gate-soft"), "False GateNotPassed");
    assert_eq!(condition(&ready, "AllGatesPassed"), "True GatePassed");
    bench.apply("hello", "");
    let without = bench.wait("hello", |release| {
        condition(release, "Gate-soft").is_empty()
    });
    assert_eq!(condition(&without, "AllGatesPassed"), "");
}

#[test]
fn a_suspended_release_is_left_alone_until_it_is_not() {
    let bench = Bench::new("suspend");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.apply("hello", "suspend: true\nvalues: {greeting: later}");
    bench.wait("hello", |release| {
        text(release, "/status/phase") == "Suspended"
    });
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    bench.apply("hello", "suspend: false\nvalues: {greeting: later}");
    bench.wait("hello", |release| {
        text(release, "/status/phase") == "Succeeded"
    });
    assert_eq!(bench.greeting("hello").as_deref(), Some("later"));
}

//! Stops and starts: what goes on meanwhile is not missed, and nothing is left behind.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{ControlPlane, Fault, run};

use crate::support::{LIMIT, Solo, condition, shared, text};

/// A chart whose upgrades run a hook that no node takes, until one is labelled for it.
fn with_slow_hook(solo: &Solo) {
    let hook = "{{- if .Values.hook }}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: slow\n  annotations: {helm.sh/hook: pre-upgrade}\n\
                spec:\n  template:\n    spec:\n      restartPolicy: Never\n      nodeSelector: {hook: {{ .Release.Namespace }}}\n      \
                containers: [{name: slow, image: registry.example.com/slow:1}]\n{{- end }}\n";
    solo.repository
        .commit_file("charts/hello/templates/hook.yaml", hook)
        .unwrap();
}

/// An upgrade that has come to its hook.
fn waiting_for_hook(name: &str, grace: &str) -> Solo<'static> {
    let plane = ControlPlane::shared_full().unwrap();
    testkit::apply_crd(plane).unwrap();
    let solo = Solo::on(plane, name, &[grace]);
    with_slow_hook(&solo);
    solo.apply("hello", "");
    solo.ready("hello");
    solo.apply("hello", "values: {hook: true, greeting: changed}");
    solo.wait("hello", |release| {
        text(release, "/status/phase") == "Upgrading"
    });
    let job = format!("/apis/batch/v1/namespaces/{}/jobs/slow", solo.namespace);
    until("the hook runs", || plane.get(&job).is_ok());
    solo
}

/// Lets the hook run to its end.
fn release_hook(solo: &Solo) {
    let mut label = solo.rig.plane.kubectl().unwrap();
    let value = format!("hook={}", solo.namespace);
    run(label.args(["label", "node", "node-1", "--overwrite", &value])).unwrap();
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn r04_sigterm_during_a_long_hook_marks_it_within_the_grace_and_the_next_start_goes_on() {
    let mut solo = waiting_for_hook("r04-mark", "--shutdown-grace=1s");
    let start = Instant::now();
    let status = solo.rig.daemon.terminate().unwrap();
    // The grace, and the few requests that it takes to say so.
    assert!(
        start.elapsed() < Duration::from_secs(11),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(status.code(), Some(0));
    let records = solo.records("hello");
    assert_eq!(records.last().unwrap().1, "failed", "{records:?}");
    assert!(
        records.iter().any(|(_, status)| status == "deployed"),
        "{records:?}"
    );
    // The stock helm is not stopped by it either.
    let mut helm = solo.rig.plane.helm().unwrap();
    let history = run(helm.args(["history", "hello", "--namespace", &solo.namespace])).unwrap();
    assert!(!history.contains("pending"), "{history}");
    solo.bench.rig.daemon.start_again().unwrap();
    release_hook(&solo);
    solo.wait("hello", |release| {
        testkit::is_ready(release) && release["status"]["observedGeneration"] == 2
    });
    assert_eq!(solo.greeting("hello").as_deref(), Some("changed"));
}

#[test]
fn r04_sigterm_during_a_hook_that_ends_within_the_grace_lets_the_upgrade_end() {
    let solo = waiting_for_hook("r04-drain", "--shutdown-grace=60s");
    let controls = solo.rig.daemon.controls();
    controls.signal("TERM").unwrap();
    until("the daemon stops", || {
        solo.rig.daemon.log().contains("stopping: no new work")
    });
    // What comes now is for the next start.
    solo.apply("late", "");
    release_hook(&solo);
    assert_eq!(controls.wait(LIMIT).unwrap().code(), Some(0));
    let expected = [(1, "superseded".to_owned()), (2, "deployed".to_owned())];
    assert_eq!(solo.records("hello"), expected);
    let release = solo.rig.release(&solo.namespace, "hello").unwrap();
    assert_eq!(condition(&release, "Ready"), "True UpgradeSucceeded");
    assert_eq!(solo.records("late"), []);
}

#[test]
fn r07_what_is_created_and_deleted_while_the_daemon_is_down_leaves_nothing_behind() {
    let mut solo = Solo::new("r07-gone", &[]);
    solo.apply("kept", "");
    solo.ready("kept");
    solo.rig.daemon.kill().unwrap();
    solo.apply("short", "");
    solo.kubectl(&["delete", "hr", "short"]);
    solo.kubectl(&["delete", "hr", "kept", "--wait=false"]);
    solo.bench.rig.daemon.start_again().unwrap();
    until("the release is uninstalled", || {
        solo.rig.release(&solo.namespace, "kept").is_err()
    });
    assert_eq!(solo.records("kept"), []);
    assert_eq!(solo.greeting("kept"), None);
    assert_eq!(solo.records("short"), []);
}

#[test]
fn r07_an_object_that_was_replaced_by_another_of_its_name_keeps_one_release() {
    let mut solo = Solo::new("r07-twin", &[]);
    solo.apply("hello", "");
    let first = solo.ready("hello");
    solo.rig.daemon.kill().unwrap();
    // Someone is in a hurry and takes the finalizer away.
    solo.kubectl(&["delete", "hr", "hello", "--wait=false"]);
    let patch = "--patch={\"metadata\":{\"finalizers\":null}}";
    solo.kubectl(&["patch", "hr", "hello", "--type=merge", patch]);
    solo.apply("hello", "values: {greeting: twin}");
    solo.bench.rig.daemon.start_again().unwrap();
    let second = solo.ready("hello");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(solo.greeting("hello").as_deref(), Some("twin"));
    let expected = [(1, "superseded".to_owned()), (2, "deployed".to_owned())];
    assert_eq!(solo.records("hello"), expected);
    solo.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    assert_eq!(solo.records("hello"), []);
}

#[test]
fn r07_a_change_that_is_taken_back_while_the_daemon_is_down_is_no_change() {
    let mut solo = Solo::new("r07-back", &[]);
    solo.apply("hello", "");
    solo.ready("hello");
    solo.rig.daemon.kill().unwrap();
    solo.apply("hello", "values: {greeting: other}");
    solo.apply("hello", "");
    solo.bench.rig.daemon.start_again().unwrap();
    let release = solo.wait("hello", |release| {
        testkit::is_ready(release) && release["status"]["observedGeneration"] == 3
    });
    assert_eq!(condition(&release, "Released"), "True Succeeded");
    assert_eq!(solo.records("hello"), [(1, "deployed".to_owned())]);
}

#[test]
fn r07_what_happens_while_the_api_server_is_out_of_reach_is_seen_afterwards() {
    let solo = Solo::new("r07-cut", &[]);
    for name in ["gone", "changed"] {
        solo.apply(name, "");
        solo.ready(name);
    }
    solo.proxy.traffic().fault(Fault::Cut);
    solo.proxy.traffic().cut_streams();
    solo.kubectl(&["delete", "hr", "gone", "--wait=false"]);
    solo.apply("changed", "values: {greeting: seen}");
    solo.apply("new", "");
    solo.apply("brief", "");
    solo.kubectl(&["delete", "hr", "brief"]);
    solo.proxy.traffic().heal();
    until("the release is uninstalled", || {
        solo.rig.release(&solo.namespace, "gone").is_err()
    });
    solo.ready("changed");
    solo.ready("new");
    assert_eq!(solo.greeting("changed").as_deref(), Some("seen"));
    for name in ["gone", "brief"] {
        assert_eq!(solo.records(name), [], "{name}");
    }
}

/// The list of HelmReleases as the API server gives it now.
fn listed(solo: &Solo) -> Value {
    let base = "/apis/helm.fluxcd.io/v1/namespaces";
    shared()
        .plane
        .get(&format!("{base}/{}/helmreleases", solo.namespace))
        .unwrap()
}

#[test]
fn r08_an_old_list_after_a_restart_does_not_take_a_release_back() {
    let mut solo = Solo::new("r08", &[]);
    solo.apply("hello", "values: {greeting: old}");
    solo.ready("hello");
    let old = listed(&solo);
    solo.apply("hello", "values: {greeting: new}");
    solo.wait("hello", |release| {
        testkit::is_ready(release) && release["status"]["observedGeneration"] == 2
    });
    let before = solo.records("hello");
    solo.rig.daemon.kill().unwrap();
    // The API server that answers has fallen behind, and stays so for a while.
    let traffic = solo.proxy.traffic();
    let of_releases = |path: &str| path.ends_with("/helmreleases");
    traffic.fault_when(
        usize::MAX,
        move |exchange| of_releases(&exchange.path) && exchange.query.contains("watch="),
        Fault::Status(503, None),
    );
    traffic.fault_when(
        1,
        move |exchange| of_releases(&exchange.path) && !exchange.query.contains("watch="),
        Fault::Reply(old.to_string().into_bytes()),
    );
    solo.bench.rig.daemon.start_again().unwrap();
    until("the old object is looked at", || {
        let log = solo.log("hello");
        log.iter()
            .any(|line| line.contains("the object has changed meanwhile: nothing is done"))
    });
    assert_eq!(solo.records("hello"), before);
    assert_eq!(solo.greeting("hello").as_deref(), Some("new"));
    solo.proxy.traffic().heal();
    solo.ready("hello");
    assert_eq!(solo.records("hello"), before);
}

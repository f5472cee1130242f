//! What a spec may say about retries and deletion.

use std::time::Instant;

use crate::support::{Bench, LIMIT, condition, message, text};

/// What the daemon has logged about a release, how often.
fn logged(bench: &Bench, name: &str, words: &str) -> usize {
    let key = format!("{}/{name}", bench.namespace);
    let log = bench.rig.daemon.log();
    let lines = log
        .lines()
        .filter(|line| line.contains(&key) && line.contains(words));
    lines.count()
}

#[test]
fn what_fails_for_good_is_tried_as_often_as_retry_allows_and_then_waits_for_a_change() {
    let bench = Bench::new("retry");
    let invalid = "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {ports: [{port: {{ .Values.port }}}]}\n";
    bench
        .repository
        .commit_file("charts/hello/templates/service.yaml", invalid)
        .unwrap();
    bench.apply("hello", "values: {port: 80}");
    bench.ready("hello");
    bench.apply(
        "hello",
        "retry: {limit: 2, backoff: 1s, maxBackoff: 1s}\nvalues: {port: 99999}",
    );
    let stalled = bench.wait("hello", |release| {
        condition(release, "Stalled").starts_with("True")
    });
    assert_eq!(stalled["status"]["failures"], 3);
    let tries = "warning=\"upgrade failed";
    assert_eq!(logged(&bench, "hello", tries), 3);
    // Neither the next look nor another object of the namespace makes it try again.
    bench.apply("other", "values: {port: 80}");
    bench.ready("other");
    assert_eq!(logged(&bench, "hello", tries), 3);
    bench.apply("hello", "values: {port: 81}");
    bench.ready("hello");
}

#[test]
fn an_uninstall_may_keep_the_records() {
    let bench = Bench::new("uninstall-keep");
    bench.apply("hello", "uninstall: {keepHistory: true}");
    bench.ready("hello");
    bench.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    assert_eq!(bench.records("hello"), [(1, "uninstalled".to_owned())]);
    assert_eq!(bench.greeting("hello"), None);
    // The name can be used again, and the records go on.
    bench.apply("hello", "");
    bench.ready("hello");
    let records = bench.records("hello");
    assert_eq!(records.last().unwrap(), &(2, "deployed".to_owned()));
}

#[test]
fn an_uninstall_runs_its_hooks_unless_it_shall_not() {
    for (name, more, expected) in [
        ("uninstall-hooks", "", true),
        (
            "uninstall-nohooks",
            "uninstall: {disableHooks: true}",
            false,
        ),
    ] {
        let bench = Bench::new(name);
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: farewell, annotations: {helm.sh/hook: pre-delete}}\n";
        bench
            .repository
            .commit_file("charts/hello/templates/hook.yaml", hook)
            .unwrap();
        bench.apply("hello", more);
        bench.ready("hello");
        bench.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
        let path = format!("/api/v1/namespaces/{}/configmaps/farewell", bench.namespace);
        assert_eq!(bench.rig.plane.get(&path).is_ok(), expected, "{name}");
    }
}

/// A chart with an object that does not go away before its finalizer is taken off.
fn with_clinging_object(bench: &Bench) {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clinging, finalizers: [example.com/wait]}\n";
    bench
        .repository
        .commit_file("charts/hello/templates/clinging.yaml", map)
        .unwrap();
}

fn let_go(bench: &Bench) {
    let patch = "--patch={\"metadata\":{\"finalizers\":null}}";
    bench.kubectl(&["patch", "configmap", "clinging", "--type=merge", patch]);
}

fn until_gone(bench: &Bench) {
    let end = Instant::now() + LIMIT;
    while bench.rig.release(&bench.namespace, "hello").is_ok() {
        assert!(Instant::now() < end, "{}", bench.rig.daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn an_uninstall_that_waits_fails_when_its_time_is_over_and_is_tried_again() {
    let bench = Bench::new("uninstall-wait");
    with_clinging_object(&bench);
    bench.apply(
        "hello",
        "retry: {backoff: 1s, maxBackoff: 1s}\nuninstall: {wait: true, timeout: 1s}",
    );
    bench.ready("hello");
    bench.kubectl(&["delete", "hr", "hello", "--wait=false"]);
    let failed = bench.wait("hello", |release| {
        text(release, "/status/phase") == "UninstallFailed"
    });
    assert!(
        message(&failed, "Ready").contains("clinging"),
        "{}",
        message(&failed, "Ready")
    );
    let tries = || bench.rig.daemon.log().matches("running uninstall").count();
    let end = Instant::now() + LIMIT;
    while tries() < 4 {
        assert!(Instant::now() < end, "{}", bench.rig.daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let told = bench.told("hello", "FailedReleaseUninstall", 1);
    assert_eq!(told.len(), 1, "the same failure is told once: {told:?}");
    let_go(&bench);
    until_gone(&bench);
    assert_eq!(bench.records("hello"), []);
}

#[test]
fn an_uninstall_that_does_not_wait_leaves_what_clings_to_itself() {
    let bench = Bench::new("uninstall-go");
    with_clinging_object(&bench);
    bench.apply("hello", "");
    bench.ready("hello");
    bench.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    assert_eq!(bench.records("hello"), []);
    let path = format!("/api/v1/namespaces/{}/configmaps/clinging", bench.namespace);
    let left = bench.rig.plane.get(&path).unwrap();
    assert!(!left["metadata"]["deletionTimestamp"].is_null());
    let_go(&bench);
}

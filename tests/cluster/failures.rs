//! What goes wrong gives a condition with a specific reason and one Event, and leaves the rest alone.

use serde_json::Value;

use crate::support::{Bench, condition, message, text};

/// Waits until the release says so, and checks that the last good one is untouched and that one Warning
/// Event tells it.
fn fails_with(bench: &Bench, name: &str, reason: &str) -> Value {
    let failed = bench.wait(name, |release| {
        condition(release, "Ready") == format!("False {reason}")
    });
    let warnings = bench.told(name, "FailedReleaseSync", 1);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    failed
}

/// A release that was deployed once; then `spoil` is applied to it.
fn spoiled(name: &str, spoil: &str, reason: &str) -> (Bench, Value) {
    let bench = Bench::new(name);
    bench.apply("hello", "");
    bench.ready("hello");
    bench.apply("hello", spoil);
    let failed = fails_with(&bench, "hello", reason);
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    (bench, failed)
}

#[test]
fn values_that_are_no_map_fail_with_their_place_and_without_their_content() {
    let bench = Bench::new("novalues");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\ndata: {values.yaml: \"canary: [\"}\n";
    bench.rig.apply(&bench.namespace, map).unwrap();
    bench.apply("hello", "");
    bench.ready("hello");
    bench.apply("hello", "valuesFrom: [{configMapKeyRef: {name: broken}}]");
    let failed = fails_with(&bench, "hello", "ValuesInvalid");
    assert!(
        message(&failed, "Ready").contains("ConfigMap"),
        "{}",
        message(&failed, "Ready")
    );
    assert!(!failed.to_string().contains("canary"));
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
}

#[test]
fn values_that_fit_no_schema_fail_until_the_schema_is_not_looked_at() {
    let bench = Bench::new("schema");
    bench.install("hello");
    let schema =
        r#"{"properties": {"greeting": {"$ref": "https://schemas.example.com/text.json"}}}"#;
    let path = "charts/hello/values.schema.json";
    bench.repository.commit_file(path, schema).unwrap();
    bench.pushed();
    let failed = fails_with(&bench, "hello", "SchemaInvalid");
    assert!(
        message(&failed, "Ready").contains("leave out the check"),
        "{failed:#}"
    );
    bench.apply("hello", "disableSchemaValidation: true");
    let ready = bench.ready("hello");
    assert_eq!(text(&ready, "/status/phase"), "Succeeded");
    assert_eq!(bench.records("hello").len(), 2);
    // What is deployed does not depend on the check: without it nothing changes.
    bench.apply("hello", "maxHistory: 7");
    bench.wait("hello", |release| {
        release["status"]["observedGeneration"] == release["metadata"]["generation"]
    });
    assert_eq!(bench.records("hello").len(), 2);
}

#[test]
fn a_failure_that_was_taken_back_no_longer_hides_the_one_before() {
    let bench = Bench::new("behind");
    bench.install("hello");
    let push = |path: &str, content: &str| {
        let path = format!("charts/hello/{path}");
        let commit = bench.repository.commit_file(&path, content).unwrap();
        bench.pushed();
        commit
    };
    push("templates/more.yaml", "{{ fail \"no\" }}");
    let reason = |reason: &'static str| {
        move |release: &Value| condition(release, "Ready") == format!("False {reason}")
    };
    bench.wait("hello", reason("RenderFailed"));
    push("Chart.yaml", "name: [");
    let unread = bench.wait("hello", reason("ChartInvalid"));
    assert_eq!(text(&unread, "/status/phase"), "ChartFetchFailed");
    assert_eq!(condition(&unread, "ChartFetched"), "False ChartFetchFailed");
    let last = push(
        "Chart.yaml",
        "apiVersion: v2\nname: hello\nversion: 1.0.0\n",
    );
    let held = bench.wait("hello", reason("UpgradeFailed"));
    assert_eq!(text(&held, "/status/phase"), "DeployFailed");
    assert_eq!(condition(&held, "ChartFetched"), "True ChartFetched");
    assert_eq!(text(&held, "/status/lastAttemptedRevision"), last);
    assert!(
        message(&held, "Ready").contains("failed before"),
        "{held:#}"
    );
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    assert_eq!(bench.records("hello").len(), 1);
}

#[test]
fn values_that_are_missing_heal_when_they_appear() {
    let (bench, failed) = spoiled(
        "lost",
        "valuesFrom: [{configMapKeyRef: {name: later}}]",
        "ValuesNotFound",
    );
    assert!(message(&failed, "Ready").contains("later does not exist"));
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\ndata: {values.yaml: \"greeting: found\"}\n";
    bench.rig.apply(&bench.namespace, map).unwrap();
    bench.ready("hello");
    assert_eq!(bench.greeting("hello").as_deref(), Some("found"));
}

#[test]
fn a_chart_path_that_does_not_exist_is_said() {
    let bench = Bench::new("nopath");
    bench.apply("hello", "");
    bench.ready("hello");
    let manifest = bench
        .manifest("hello", "")
        .replace("charts/hello", "charts/none");
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    let failed = fails_with(&bench, "hello", "PathNotFound");
    assert_eq!(condition(&failed, "ChartFetched"), "False ChartFetchFailed");
    assert_eq!(condition(&failed, "Released"), "False ChartFetchFailed");
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
}

#[test]
fn a_branch_that_does_not_exist_is_said() {
    let bench = Bench::new("nobranch");
    bench.apply("hello", "");
    bench.ready("hello");
    let manifest = bench
        .manifest("hello", "")
        .replace("ref: main", "ref: none");
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    fails_with(&bench, "hello", "RefNotFound");
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
}

#[test]
fn a_git_server_that_cannot_be_reached_is_said() {
    let bench = Bench::new("nogit");
    bench.apply("hello", "");
    bench.ready("hello");
    let [port] = testkit::free_ports().unwrap();
    let url = format!("http://127.0.0.1:{port}/x.git");
    let manifest = bench
        .manifest("hello", "")
        .replace(bench.repository.url(), &url);
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    fails_with(&bench, "hello", "Unreachable");
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
}

#[test]
fn a_broken_template_is_said_and_the_next_push_puts_it_right() {
    let bench = Bench::new("template");
    bench.apply("hello", "");
    bench.ready("hello");
    let template = "charts/hello/templates/map.yaml";
    bench
        .repository
        .commit_file(template, "{{ required \"no\" nil }}")
        .unwrap();
    bench.pushed();
    let failed = fails_with(&bench, "hello", "RenderFailed");
    assert!(condition(&failed, "Stalled").starts_with("True"));
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    let good = crate::support::TEMPLATE.replace(".Values.greeting", "\"mended\"");
    let commit = bench.repository.commit_file(template, good).unwrap();
    bench.pushed();
    bench.wait("hello", |release| {
        text(release, "/status/revision") == commit
    });
    assert_eq!(bench.greeting("hello").as_deref(), Some("mended"));
}

#[test]
fn a_namespace_that_is_missing_is_said_and_heals() {
    let bench = Bench::new("nons");
    let target = format!("{}-target", bench.namespace);
    bench.apply("hello", &format!("targetNamespace: {target}"));
    fails_with(&bench, "hello", "NamespaceNotFound");
    let manifest = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {target}}}\n");
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    bench.ready("hello");
}

#[test]
fn a_missing_namespace_is_created_when_that_is_asked_for() {
    let bench = Bench::new("makens");
    let target = format!("{}-target", bench.namespace);
    bench.apply(
        "hello",
        &format!("targetNamespace: {target}\ncreateNamespace: true"),
    );
    bench.ready("hello");
}

#[test]
fn helm_2_and_bad_release_names_fail_at_once() {
    let bench = Bench::new("early");
    bench.apply("old", "helmVersion: v2");
    let failed = fails_with(&bench, "old", "HelmV2Unsupported");
    assert_eq!(text(&failed, "/status/phase"), "Failed");
    assert_eq!(failed["status"]["observedGeneration"], 1);
    let long = "x".repeat(60);
    bench.apply(&long, "");
    let failed = fails_with(&bench, &long, "InvalidReleaseName");
    assert!(message(&failed, "Ready").contains("Release name is invalid"));
}

#[test]
fn odd_input_gives_one_warning_that_says_what_is_done() {
    let bench = Bench::new("odd");
    bench.apply("hello", "maxHistory: -1\nvaluesFrom: [{}]");
    bench.ready("hello");
    let odd = bench.told("hello", "OddInput", 1);
    assert_eq!(odd.len(), 1);
    assert!(odd[0].contains("maxHistory is -1") && odd[0].contains("valuesFrom[0]"));
}

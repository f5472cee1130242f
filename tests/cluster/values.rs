//! Values from elsewhere: their order, their changes, and what is told when they cannot be had.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ChartAnswer, ChartServer, run};

use crate::support::{BINARY, Bench, condition, message, text};

/// A chart that renders all its values.
fn with_all_values(bench: &Bench) {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: all}\ndata:\n  values: {{ omit .Values \"greeting\" | toJson | quote }}\n";
    bench
        .repository
        .write("charts/hello/templates/all.yaml", template)
        .unwrap();
    bench
        .repository
        .write(
            "charts/hello/env/prod.yaml",
            "from: {file: file}\nwho: file\n",
        )
        .unwrap();
    bench.repository.commit("Show all values").unwrap();
}

fn all_values(bench: &Bench) -> Value {
    let path = format!("/api/v1/namespaces/{}/configmaps/all", bench.namespace);
    let map = bench.rig.plane.get(&path).unwrap();
    serde_json::from_str(map["data"]["values"].as_str().unwrap()).unwrap()
}

fn map(name: &str, key: &str, content: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: content}});
    map.to_string()
}

fn secret(name: &str, key: &str, content: &str) -> String {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: content}});
    secret.to_string()
}

fn server() -> &'static ChartServer {
    static SERVER: OnceLock<ChartServer> = OnceLock::new();
    SERVER.get_or_init(|| ChartServer::start().unwrap())
}

#[test]
fn all_kinds_of_sources_are_merged_in_their_order_and_inline_values_win() {
    let bench = Bench::new("values-order");
    with_all_values(&bench);
    server().put(
        "/values.yaml",
        b"from: {url: url}\nwho: url\nlist: [url]\n".to_vec(),
    );
    let url = format!("{}/values.yaml", server().url());
    bench
        .rig
        .apply(
            &bench.namespace,
            &secret(
                "legacy",
                "values.yaml",
                "from: {legacy: legacy}\nwho: legacy\n",
            ),
        )
        .unwrap();
    bench
        .rig
        .apply(
            &bench.namespace,
            &map(
                "m",
                "prod.yaml",
                "from: {map: map}\nwho: map\nlist: [map, map]\n",
            ),
        )
        .unwrap();
    bench
        .rig
        .apply(
            &bench.namespace,
            &secret("s", "values.yaml", "from: {secret: secret}\nwho: secret\n"),
        )
        .unwrap();
    bench
        .rig
        .apply(&bench.namespace, &secret("p", "password", "007\n"))
        .unwrap();
    bench.apply(
        "hello",
        &format!(
            "valueFileSecrets: [{{name: legacy}}]\nvaluesFrom:\n- chartFileRef: {{path: env/prod.yaml}}\n\
             - configMapKeyRef: {{name: m, key: prod.yaml}}\n- configMapKeyRef: {{name: none, optional: true}}\n\
             - externalSourceRef: {{url: \"{url}\"}}\n- secretKeyRef: {{name: s}}\n\
             - {{secretKeyRef: {{name: p, key: password}}, targetPath: db.password}}\n- {{}}\n\
             values: {{from: {{inline: inline}}, number: 3}}"
        ),
    );
    bench.ready("hello");
    let kinds = ["legacy", "file", "map", "url", "secret", "inline"];
    let from: serde_json::Map<String, Value> = kinds
        .iter()
        .map(|kind| ((*kind).to_owned(), json!(kind)))
        .collect();
    assert_eq!(
        all_values(&bench),
        json!({"from": from, "who": "secret", "list": ["url"], "db": {"password": "007"}, "number": 3})
    );
    let origins = origins(&bench);
    for line in [
        "from.legacy key values.yaml of Secret NS/legacy",
        "from.file chart file env/prod.yaml",
        "from.map key prod.yaml of ConfigMap NS/m",
        &format!("from.url URL {url}"),
        "who key values.yaml of Secret NS/s",
        &format!("list URL {url}"),
        "db.password key password of Secret NS/p",
        "number spec.values",
    ] {
        let line = line.replace("NS", &bench.namespace);
        assert!(origins.contains(&line), "no {line} in {origins:#?}");
    }
}

/// The table of `values --origin`, with one space between its columns; as JSON it says the same.
fn origins(bench: &Bench) -> Vec<String> {
    let table = values(bench, &[]);
    let lines = table.lines().skip(1);
    let rows: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let objects: Vec<Value> = serde_json::from_str(&values(bench, &["--output=json"])).unwrap();
    let same = objects.iter().map(|object| {
        let [value, source] = ["value", "source"].map(|field| object[field].as_str().unwrap());
        format!("{value} {source}")
    });
    assert_eq!(same.collect::<Vec<_>>(), rows);
    rows
}

/// What `values --origin` prints of the release `hello`.
fn values(bench: &Bench, more: &[&str]) -> String {
    let mut command = std::process::Command::new(BINARY);
    let kubeconfig = format!("--kubeconfig={}", bench.rig.plane.kubeconfig().display());
    command.args([
        "values",
        "hello",
        "--origin",
        "--git-allow-local",
        &kubeconfig,
    ]);
    run(command.args(["--namespace", &bench.namespace]).args(more)).unwrap()
}

/// The time from a change of a source to its deployment: nothing but the watch tells of it.
fn deployed_after(bench: &Bench, change: impl FnOnce(), greeting: &str) -> Duration {
    let start = Instant::now();
    change();
    bench.wait("hello", |_| {
        bench.greeting("hello").as_deref() == Some(greeting)
    });
    start.elapsed()
}

#[test]
fn a_change_of_a_source_is_deployed_at_once() {
    let bench = Bench::new("values-watch");
    let apply = |manifest: String| {
        bench.rig.apply(&bench.namespace, &manifest).unwrap();
    };
    apply(map("m", "values.yaml", "greeting: map-1\n"));
    apply(secret("s", "values.yaml", "other: 1\n"));
    bench.apply(
        "hello",
        "valuesFrom: [{configMapKeyRef: {name: m}}, {secretKeyRef: {name: s}}, {secretKeyRef: {name: later, optional: true}}]",
    );
    bench.ready("hello");
    let changes = [
        (map("m", "values.yaml", "greeting: map-2\n"), "map-2"),
        (
            secret("s", "values.yaml", "greeting: secret-2\n"),
            "secret-2",
        ),
        (secret("later", "values.yaml", "greeting: later\n"), "later"),
    ];
    for (manifest, greeting) in changes {
        let took = deployed_after(&bench, || apply(manifest), greeting);
        assert!(took < Duration::from_secs(5), "{greeting}: {took:?}");
    }
    // One that is deleted again is no more merged.
    let delete = || drop(bench.kubectl(&["delete", "secret", "later"]));
    deployed_after(&bench, delete, "secret-2");
}

#[test]
fn a_url_is_read_again_at_each_interval() {
    let bench = Bench::new("values-url");
    server().put("/interval.yaml", b"greeting: one\n".to_vec());
    let url = format!("{}/interval.yaml", server().url());
    bench.apply(
        "hello",
        &format!("interval: 1s\nvaluesFrom: [{{externalSourceRef: {{url: \"{url}\"}}}}]"),
    );
    bench.ready("hello");
    assert_eq!(bench.greeting("hello").as_deref(), Some("one"));
    let change = || server().put("/interval.yaml", b"greeting: two\n".to_vec());
    deployed_after(&bench, change, "two");
}

/// Everything that the daemon lets out about a release: its status, its Events, the log, the metrics.
fn everything_told(bench: &Bench) -> String {
    let release = bench.rig.release(&bench.namespace, "hello").unwrap();
    let events = format!("{:?}", bench.events("hello"));
    let metrics = bench.rig.daemon.get("/metrics").unwrap().1;
    let log = bench.rig.daemon.log();
    [release["status"].to_string(), events, metrics, log].join("\n")
}

#[test]
fn content_of_a_source_that_cannot_be_used_is_told_nowhere() {
    let bench = Bench::new("values-secrecy");
    let canary = "kanarienvogel-4711";
    server().put("/broken.yaml", format!("- {canary}: [\n").into_bytes());
    let url = server()
        .url()
        .replace("http://", &format!("http://user:{canary}@"));
    let answer = ChartAnswer::Canned(500, Vec::new(), canary.into());
    server().answer("/500", answer);
    for (name, content) in [
        ("broken", format!("{canary}: [")),
        ("list", format!("- {canary}")),
        ("text", canary.to_owned()),
    ] {
        bench
            .rig
            .apply(&bench.namespace, &secret(name, "values.yaml", &content))
            .unwrap();
    }
    let rows = [
        (
            "valuesFrom: [{secretKeyRef: {name: broken}}]".to_owned(),
            "ValuesInvalid",
            "Secret",
        ),
        (
            "valuesFrom: [{secretKeyRef: {name: list}}]".to_owned(),
            "ValuesInvalid",
            "Secret",
        ),
        (
            "valuesFrom: [{secretKeyRef: {name: text}}]".to_owned(),
            "ValuesInvalid",
            "Secret",
        ),
        (
            "valuesFrom: [{secretKeyRef: {name: text}, targetPath: \"a[\"}]".to_owned(),
            "ValuesInvalid",
            "targetPath",
        ),
        (
            "valuesFrom: [{secretKeyRef: {name: text}, targetPath: \"a[x].b\"}]".to_owned(),
            "ValuesInvalid",
            "targetPath",
        ),
        (
            format!("valuesFrom: [{{externalSourceRef: {{url: \"{url}/broken.yaml\"}}}}]"),
            "ValuesInvalid",
            "URL",
        ),
        (
            format!("valuesFrom: [{{externalSourceRef: {{url: \"{url}/500\"}}}}]"),
            "ValuesNotFound",
            "500",
        ),
        (
            format!("valuesFrom: [{{externalSourceRef: {{url: \"{url}/none?token={canary}\"}}}}]"),
            "ValuesNotFound",
            "404",
        ),
    ];
    for (generation, (spec, reason, words)) in rows.iter().enumerate() {
        bench.apply("hello", spec);
        let failed = bench.wait("hello", |release| {
            release["status"]["observedGeneration"] == generation + 1
                && condition(release, "Ready") == format!("False {reason}")
        });
        assert!(
            message(&failed, "Ready").contains(words),
            "{}",
            message(&failed, "Ready")
        );
        assert_eq!(text(&failed, "/status/phase"), "Failed");
    }
    bench.told("hello", "FailedReleaseSync", rows.len());
    let told = everything_told(&bench);
    let line = told.lines().find(|line| line.contains(canary));
    assert_eq!(line, None);
}

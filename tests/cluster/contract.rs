//! What people and programs hold on to in Flux Helm Operator 1.4, row by row: each is there, or
//! `COMPATIBILITY.md` says why not.

use std::process::Command;

use serde_json::Value;

use crate::support::{BINARY, Bench, condition, message, shared, text};

/// Where a field is, and its JSON type; `any` is a schema that lets everything pass.
type Field = (&'static str, &'static str);

const SPEC: &[Field] = &[
    ("helmVersion", "string"),
    ("chart", "object"),
    ("chart.git", "string"),
    ("chart.ref", "string"),
    ("chart.path", "string"),
    ("chart.secretRef", "object"),
    ("chart.secretRef.name", "string"),
    ("chart.secretRef.namespace", "string"),
    ("chart.skipDepUpdate", "boolean"),
    ("chart.repository", "string"),
    ("chart.name", "string"),
    ("chart.version", "string"),
    ("chart.chartPullSecret", "object"),
    ("chart.chartPullSecret.name", "string"),
    ("releaseName", "string"),
    ("targetNamespace", "string"),
    ("maxHistory", "integer"),
    ("timeout", "integer"),
    ("wait", "boolean"),
    ("resetValues", "boolean"),
    ("forceUpgrade", "boolean"),
    ("skipCRDs", "boolean"),
    ("disableOpenAPIValidation", "boolean"),
    ("values", "any"),
    ("valuesFrom", "array"),
    ("valuesFrom[].configMapKeyRef", "object"),
    ("valuesFrom[].configMapKeyRef.name", "string"),
    ("valuesFrom[].configMapKeyRef.namespace", "string"),
    ("valuesFrom[].configMapKeyRef.key", "string"),
    ("valuesFrom[].configMapKeyRef.optional", "boolean"),
    ("valuesFrom[].secretKeyRef", "object"),
    ("valuesFrom[].secretKeyRef.name", "string"),
    ("valuesFrom[].secretKeyRef.namespace", "string"),
    ("valuesFrom[].secretKeyRef.key", "string"),
    ("valuesFrom[].secretKeyRef.optional", "boolean"),
    ("valuesFrom[].externalSourceRef", "object"),
    ("valuesFrom[].externalSourceRef.url", "string"),
    ("valuesFrom[].externalSourceRef.optional", "boolean"),
    ("valuesFrom[].chartFileRef", "object"),
    ("valuesFrom[].chartFileRef.path", "string"),
    ("valuesFrom[].chartFileRef.optional", "boolean"),
    ("valueFileSecrets", "array"),
    ("valueFileSecrets[].name", "string"),
    ("rollback", "object"),
    ("rollback.enable", "boolean"),
    ("rollback.retry", "boolean"),
    ("rollback.maxRetries", "integer"),
    ("rollback.force", "boolean"),
    ("rollback.recreate", "boolean"),
    ("rollback.disableHooks", "boolean"),
    ("rollback.timeout", "integer"),
    ("rollback.wait", "boolean"),
    ("test", "object"),
    ("test.enable", "boolean"),
    ("test.ignoreFailures", "boolean"),
    ("test.timeout", "integer"),
    ("test.cleanup", "boolean"),
];

const STATUS: &[Field] = &[
    ("observedGeneration", "integer"),
    ("phase", "string"),
    ("releaseName", "string"),
    ("releaseStatus", "string"),
    ("revision", "string"),
    ("lastAttemptedRevision", "string"),
    ("rollbackCount", "integer"),
    ("conditions", "array"),
    ("conditions[].type", "string"),
    ("conditions[].status", "string"),
    ("conditions[].reason", "string"),
    ("conditions[].message", "string"),
    ("conditions[].lastUpdateTime", "string"),
    ("conditions[].lastTransitionTime", "string"),
];

const PHASES: &[&str] = &[
    "ChartFetched",
    "ChartFetchFailed",
    "Installing",
    "Upgrading",
    "Deployed",
    "DeployFailed",
    "Testing",
    "TestFailed",
    "Tested",
    "Succeeded",
    "Failed",
    "RollingBack",
    "RolledBack",
    "RollbackFailed",
];

const COLUMNS: &[(&str, &str, &str)] = &[
    ("Release", "string", ".status.releaseName"),
    ("Phase", "string", ".status.phase"),
    ("ReleaseStatus", "string", ".status.releaseStatus"),
    (
        "Message",
        "string",
        ".status.conditions[?(@.type==\"Released\")].message",
    ),
    ("Age", "date", ".metadata.creationTimestamp"),
];

/// A schema by the path of its field.
fn field<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(schema, |schema, part| match part.strip_suffix("[]") {
            Some(list) => &schema["properties"][list]["items"],
            None => &schema["properties"][part],
        })
}

fn kind(schema: &Value) -> &str {
    if schema["x-kubernetes-preserve-unknown-fields"] == true && schema["type"].is_null() {
        return "any";
    }
    schema["type"].as_str().unwrap_or("missing")
}

fn served_crd() -> Value {
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/helmreleases.helm.fluxcd.io";
    shared().plane.get(path).unwrap()
}

#[test]
fn every_field_of_1_4_is_served_with_its_type() {
    let crd = served_crd();
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    for (part, fields) in [("spec", SPEC), ("status", STATUS)] {
        for (path, expected) in fields {
            let found = kind(field(&schema["properties"][part], path));
            assert_eq!(found, *expected, "{part}.{path}");
        }
    }
    let phases = &field(&schema["properties"]["status"], "phase")["enum"];
    let phases: Vec<&str> = phases
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_str)
        .collect();
    assert_eq!(phases[..PHASES.len()], *PHASES);
}

#[test]
fn the_resource_of_1_4_is_served_under_its_names_with_its_columns() {
    let crd = served_crd();
    let names = &crd["spec"]["names"];
    let rows = [
        (text(&crd, "/spec/group"), "helm.fluxcd.io"),
        (text(&crd, "/spec/scope"), "Namespaced"),
        (text(names, "/kind"), "HelmRelease"),
        (text(names, "/listKind"), "HelmReleaseList"),
        (text(names, "/plural"), "helmreleases"),
        (text(names, "/singular"), "helmrelease"),
        (names["shortNames"].to_string(), "[\"hr\",\"hrs\"]"),
    ];
    for (found, expected) in rows {
        assert_eq!(found, expected);
    }
    let version = &crd["spec"]["versions"][0];
    assert_eq!(text(version, "/name"), "v1");
    assert!(version["subresources"]["status"].is_object());
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    for (column, (name, kind, path)) in columns.iter().zip(COLUMNS) {
        assert_eq!(text(column, "/name"), *name);
        assert_eq!(text(column, "/type"), *kind);
        assert_eq!(text(column, "/jsonPath"), *path);
    }
}

/// A flag as manifests write it; its default in 1.4, unless it has none or is shown differently; and the words
/// of `COMPATIBILITY.md` when it does not mean what it meant.
type Flag = (&'static str, Option<&'static str>, Option<&'static str>);

const FLAGS: &[Flag] = &[
    ("--log-format=json", Some("fmt"), None),
    ("--kubeconfig=/root/.kube/config", None, None),
    ("--master=https://127.0.0.1:6443", None, None),
    ("--allow-namespace=demo", None, None),
    ("--workers=4", Some("2"), None),
    ("--listen=:3031", Some(":3030"), None),
    ("-l=:3031", None, None),
    ("--charts-sync-interval=90s", Some("3m"), None),
    ("--status-update-interval=30s", Some("10s"), None),
    ("--log-release-diffs", None, Some("--log-release-diffs")),
    (
        "--log-release-diffs=true",
        Some("false"),
        Some("--log-release-diffs"),
    ),
    ("--update-chart-deps=false", Some("true"), None),
    ("--git-timeout=1m", Some("20s"), None),
    ("--git-poll-interval=1m", Some("5m"), None),
    (
        "--git-default-ref=main",
        Some("HEAD"),
        Some("--git-default-ref"),
    ),
    ("--helm-repository-import=v2:/a,v3:/b", None, None),
    (
        "--enabled-helm-versions=v2,v3",
        Some("v3"),
        Some("Helm 2, Tiller"),
    ),
    ("--tiller-ip=10.0.0.1", None, Some("Helm 2, Tiller")),
    ("--tiller-port=44134", None, Some("Helm 2, Tiller")),
    (
        "--tiller-namespace=kube-system",
        None,
        Some("Helm 2, Tiller"),
    ),
    ("--tiller-tls-enable", None, Some("Helm 2, Tiller")),
    ("--tiller-tls-verify=true", None, Some("Helm 2, Tiller")),
    ("--tiller-tls-key-path=/etc/k", None, Some("Helm 2, Tiller")),
    (
        "--tiller-tls-cert-path=/etc/c",
        None,
        Some("Helm 2, Tiller"),
    ),
    (
        "--tiller-tls-ca-cert-path=/etc/ca",
        None,
        Some("Helm 2, Tiller"),
    ),
    ("--tiller-tls-hostname=tiller", None, Some("Helm 2, Tiller")),
    ("--convert-tiller-out-cluster", None, Some("Helm 2, Tiller")),
    (
        "--convert-release-storage=configmaps",
        None,
        Some("Helm 2, Tiller"),
    ),
];

fn compatibility() -> String {
    std::fs::read_to_string(testkit::repository().join("COMPATIBILITY.md")).unwrap()
}

/// The paragraph of the help text that is about a flag.
fn help_of<'a>(help: &'a str, flag: &str) -> &'a str {
    let start = help
        .find(&format!("{flag} "))
        .or_else(|| help.find(&format!("{flag}[")));
    let rest = &help[start.unwrap_or_default()..];
    let end = rest
        .get(2..)
        .and_then(|rest| rest.find("\n  -").or_else(|| rest.find("\n      --")));
    &rest[..end.map_or(rest.len(), |end| end + 2)]
}

#[test]
fn every_flag_of_1_4_is_accepted_and_has_its_default() {
    let help = Command::new(BINARY)
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = compatibility();
    for (flag, default, differs) in FLAGS {
        // Behind a flag that is not known, or a value that cannot be read, there is no help.
        let mut command = Command::new(BINARY);
        let accepted = command.args([flag, "--help"]).output().unwrap();
        assert!(accepted.status.success(), "{flag}: {accepted:?}");
        if let Some(default) = default {
            let name = flag.split('=').next().unwrap_or_default();
            let about = help_of(&help, name);
            assert!(
                about.contains(&format!("[default: {default}]")),
                "{flag}: {about}"
            );
        }
        if let Some(words) = differs {
            assert!(
                listed.contains(words),
                "{flag}: COMPATIBILITY.md does not say {words}"
            );
        }
    }
}

#[test]
fn a_bad_flag_ends_with_2_and_version_with_0() {
    let bad = Command::new(BINARY).arg("--none").output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
    let version = Command::new(BINARY).arg("--version").output().unwrap();
    assert_eq!(version.status.code(), Some(0));
}

/// Name, type and labels of a metric of 1.4.
const METRICS: &[(&str, &str, &[&str])] = &[
    ("flux_helm_operator_release_count", "gauge", &[]),
    (
        "flux_helm_operator_release_queue_length_count",
        "gauge",
        &[],
    ),
    (
        "flux_helm_operator_release_action_duration_seconds",
        "histogram",
        &["action", "success", "target_namespace", "release_name"],
    ),
    (
        "flux_helm_operator_release_condition_info",
        "gauge",
        &["target_namespace", "release_name", "condition"],
    ),
    (
        "flux_helm_operator_release_duration_seconds",
        "histogram",
        &["success", "namespace", "release_name"],
    ),
    (
        "flux_helm_operator_release_phase_duration_seconds",
        "histogram",
        &["action", "success", "namespace", "release_name"],
    ),
    ("flux_git_ready", "gauge", &[]),
    ("process_cpu_seconds_total", "counter", &[]),
    ("process_resident_memory_bytes", "gauge", &[]),
];
const BUCKETS: [&str; 10] = [
    "1", "5", "10", "30", "60", "120", "180", "300", "600", "1800",
];

/// The labels of a sample without those of its kind: `name{a="b",le="1"} 3`.
fn labels(line: &str) -> Vec<&str> {
    let inner = line
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = inner.map_or("", |(inner, _)| inner).split(',');
    let names = pairs.filter_map(|pair| Some(pair.split_once('=')?.0));
    names.filter(|name| *name != "le").collect()
}

/// The values of `le` of one histogram's buckets.
fn bounds<'a>(metrics: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("{name}_bucket{{");
    let mut found: Vec<&str> = Vec::new();
    for line in metrics.lines().filter(|line| line.starts_with(&start)) {
        let le = line
            .split_once("le=\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let bound = le.map_or("", |(bound, _)| bound.trim_end_matches(".0"));
        if !found.contains(&bound) {
            found.push(bound);
        }
    }
    found
}

#[test]
fn every_metric_of_1_4_is_served_with_its_type_labels_and_buckets() {
    let bench = Bench::new("contract-metrics");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.told("hello", "ReleaseSynced", 1);
    let (code, metrics) = bench.rig.daemon.get("/metrics").unwrap();
    assert_eq!(code, 200);
    for (name, kind, expected) in METRICS {
        let family = name.strip_suffix("_total").unwrap_or(name);
        let declared = [*name, family]
            .iter()
            .any(|name| metrics.contains(&format!("# TYPE {name} {kind}\n")));
        assert!(declared, "{name} is no {kind}");
        let sample = match *kind {
            "histogram" => format!("{name}_count"),
            _ => (*name).to_owned(),
        };
        let line = metrics.lines().find(|line| {
            line.strip_prefix(sample.as_str())
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        let line = line.unwrap_or_else(|| panic!("no sample of {name}"));
        assert_eq!(labels(line), *expected, "{line}");
        if *kind == "histogram" {
            let found = bounds(&metrics, name);
            assert_eq!(found[..BUCKETS.len()], BUCKETS, "{name}");
            assert_eq!(found[BUCKETS.len()..], ["+Inf"], "{name}");
        }
    }
    for action in ["sync", "install"] {
        assert!(
            metrics.contains(&format!("action=\"{action}\"")),
            "{action}"
        );
    }
    // True is 1, and the metrics that Go programs have of themselves are of no use here.
    let released = format!(
        "flux_helm_operator_release_condition_info{{target_namespace=\"{}\",release_name=\"hello\",condition=\"Released\"}} 1",
        bench.namespace
    );
    assert!(metrics.contains(&released));
    assert!(compatibility().contains("`go_*`"));
}

#[test]
fn every_route_of_1_4_answers() {
    let daemon = &shared().daemon;
    let rows = [
        ("GET", "/healthz", 200),
        ("POST", "/healthz", 200),
        ("GET", "/metrics", 200),
        ("POST", "/api/v1/sync-git", 200),
        ("GET", "/api/v1/sync-git", 405),
        ("GET", "/api/v1/none", 404),
        ("POST", "/api/none", 404),
        // The profiler was open to everybody.
        ("GET", "/debug/pprof/", 404),
    ];
    for (method, path, expected) in rows {
        let (code, answer) = match method {
            "GET" => daemon.get(path).unwrap(),
            _ => daemon.post(path, "").unwrap(),
        };
        assert_eq!(code, expected, "{method} {path}: {answer}");
        if expected == 200 && path != "/metrics" {
            assert_eq!(answer, "OK", "{method} {path}");
        }
    }
    assert!(compatibility().contains("/debug/pprof"));
}

/// What happens, the condition that tells it, its status and reason, and 1.4's sentence.
const STORY: &[(&str, &str, &str, &str)] = &[
    (
        "ChartFetched",
        "True",
        "ChartFetched",
        "Chart fetch was successful for Helm release 'R' in 'N'.",
    ),
    (
        "Deployed",
        "True",
        "Deployed",
        "Installation or upgrade succeeded for Helm release 'R' in 'N'.",
    ),
    (
        "Released",
        "True",
        "Succeeded",
        "Release was successful for Helm release 'R' in 'N'.",
    ),
];

#[test]
fn conditions_and_events_say_what_they_said_in_1_4() {
    let bench = Bench::new("contract-story");
    bench.apply("hello", "");
    let ready = bench.ready("hello");
    let sentence = |text: &str| {
        text.replace("'R'", "'hello'")
            .replace("'N'", &format!("'{}'", bench.namespace))
    };
    for (name, status, reason, expected) in STORY {
        assert_eq!(condition(&ready, name), format!("{status} {reason}"));
        assert_eq!(message(&ready, name), sentence(expected));
    }
    let synced = bench.told("hello", "ReleaseSynced", 1).remove(0);
    let expected = sentence("managed release 'R' in namespace 'N' synchronized");
    assert!(synced.starts_with(&expected), "{synced}");

    bench.apply("hello", "valuesFrom: [{configMapKeyRef: {name: none}}]");
    let failed = bench.told("hello", "FailedReleaseSync", 1).remove(0);
    let expected = sentence(
        "synchronization of release 'R' in namespace 'N' failed: failed to compose values for release: ",
    );
    assert!(failed.starts_with(&expected), "{failed}");
    let release = bench.wait("hello", |release| {
        text(release, "/status/phase") == "Failed"
    });
    assert_eq!(condition(&release, "Released"), "False Failed");
    let expected = sentence("Release failed for Helm release 'R' in 'N'");
    assert!(message(&release, "Released").starts_with(&expected));

    let manifest = bench
        .manifest("hello", "")
        .replace("charts/hello", "charts/none");
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    let release = bench.wait("hello", |release| {
        text(release, "/status/phase") == "ChartFetchFailed"
    });
    for name in ["ChartFetched", "Released"] {
        assert_eq!(condition(&release, name), "False ChartFetchFailed");
        let expected = sentence("Chart fetch failed for Helm release 'R' in 'N'");
        assert!(message(&release, name).starts_with(&expected));
    }
    let path = format!("/api/v1/namespaces/{}/events", bench.namespace);
    let events = bench.rig.plane.get(&path).unwrap();
    for event in events["items"].as_array().unwrap() {
        assert_eq!(text(event, "/source/component"), "helm-operator");
        assert_eq!(text(event, "/involvedObject/kind"), "HelmRelease");
    }
}

#[test]
fn annotations_of_1_4_mean_what_they_meant() {
    let bench = Bench::new("contract-notes");
    let annotations = "annotations:\n    helm.fluxcd.io/migrate: \"true\"\n    fluxcd.io/automated: \"true\"\n    \
                       filter.fluxcd.io/chart-image: \"glob:1.*\"";
    let manifest = bench.manifest("hello", "").replace(
        "  name: hello\n",
        &format!("  name: hello\n  {annotations}\n"),
    );
    bench.rig.apply(&bench.namespace, &manifest).unwrap();
    let ready = bench.ready("hello");
    // Those of the Flux daemon are neither followed nor taken away.
    let kept = &ready["metadata"]["annotations"];
    assert_eq!(kept["fluxcd.io/automated"], "true");
    assert_eq!(kept["filter.fluxcd.io/chart-image"], "glob:1.*");
    let odd = bench.told("hello", "OddInput", 1);
    assert!(odd[0].contains("helm.fluxcd.io/migrate"), "{odd:?}");
    assert!(compatibility().contains("helm.fluxcd.io/migrate"));
    let path = format!("/api/v1/namespaces/{}/configmaps/hello", bench.namespace);
    let object = bench.rig.plane.get(&path).unwrap();
    let antecedent = &object["metadata"]["annotations"]["helm.fluxcd.io/antecedent"];
    assert_eq!(
        *antecedent,
        format!("{}:helmrelease/hello", bench.namespace)
    );
}

/// What people look for in the logs.
#[test]
fn log_lines_that_people_look_for_are_still_there() {
    let bench = Bench::new("contract-log");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.apply("hello", "values: {greeting: other}");
    bench.wait("hello", |release| {
        release["status"]["observedGeneration"] == 2
            && text(release, "/status/phase") == "Succeeded"
    });
    let log = bench.rig.daemon.log();
    for words in [
        "waiting for informer caches to sync",
        "informer caches synced",
        "starting operator",
        "starting workers",
        "starting HTTP server on",
    ] {
        assert!(log.contains(words), "{words}");
    }
    let key = format!("{}/hello", bench.namespace);
    let ours: Vec<&str> = log.lines().filter(|line| line.contains(&key)).collect();
    for words in [
        "running installation",
        "installation succeeded",
        "running upgrade",
        "upgrade succeeded",
    ] {
        assert!(ours.iter().any(|line| line.contains(words)), "{words}");
    }
}

/// What 1.4 did in another way, each with words of the line of `COMPATIBILITY.md` that tells it.
#[test]
fn every_difference_has_its_line() {
    let listed = compatibility();
    for (what, words) in [
        ("a HelmRelease of Helm 2", "HelmV2Unsupported"),
        ("chart: {} is refused", "no complete chart source"),
        ("chartPullSecret is read", "`chart.chartPullSecret`"),
        ("rollback.force", "`rollback.force`"),
        (
            "disableOpenAPIValidation on upgrades",
            "`disableOpenAPIValidation`",
        ),
        ("maxHistory and rollbacks", "`maxHistory`"),
        ("the error is in the status", "error text"),
        ("conditions heal", "heal"),
        ("Events only on transitions", "Event"),
        ("failed releases are upgraded again", "failed"),
        ("annotating by kubectl", "`kubectl`"),
        ("ownership", "belongs to another HelmRelease"),
        ("deletion", "finalizer"),
        ("git programs' configuration", ".gitconfig"),
        ("downloader plugins", "downloader plugins"),
        ("values URLs", "values URLs"),
        ("update notice", "CHECKPOINT_DISABLE"),
        ("HELM_DRIVER and Helm's homes", "HELM_CACHE_HOME"),
        ("chart files of archives", "`chartFileRef`"),
        ("install failures", "failed install"),
    ] {
        assert!(listed.contains(words), "{what}: no line with {words}");
    }
}

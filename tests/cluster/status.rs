//! What is told, to whom and how often: the status and the Events.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ControlPlane, DaemonOptions, Fault, Options, Rig, run};

use crate::support::{
    BINARY, Bench, LIMIT, POLLS, Solo, condition, message, records, text, write_chart,
};

/// Who wrote what of an object: manager, operation and subresource.
fn writers(object: &Value) -> Vec<(String, String, String)> {
    let fields = object["metadata"]["managedFields"].as_array();
    fields
        .into_iter()
        .flatten()
        .map(|entry| {
            let text = |name: &str| text(entry, name);
            (text("/manager"), text("/operation"), text("/subresource"))
        })
        .collect()
}

#[test]
fn the_status_has_one_writer_and_is_applied() {
    let bench = Bench::new("status-writer");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.apply("hello", "values: {greeting: other}");
    bench.wait("hello", |release| {
        testkit::is_ready(release) && text(release, "/status/releaseStatus") == "deployed"
    });
    let shown = bench.kubectl(&[
        "get",
        "hr",
        "hello",
        "--output=json",
        "--show-managed-fields",
    ]);
    let of_status: Vec<_> = writers(&serde_json::from_str(&shown).unwrap())
        .into_iter()
        .filter(|(_, _, part)| part == "status")
        .collect();
    let expected = (
        "helm-operator".to_owned(),
        "Apply".to_owned(),
        "status".to_owned(),
    );
    assert_eq!(of_status, [expected]);
}

/// How often the status was written.
fn status_writes(solo: &Solo, name: &str) -> usize {
    let written = format!("/helmreleases/{name}/status");
    let exchanges = solo.proxy.traffic().exchanges();
    exchanges
        .iter()
        .filter(|exchange| exchange.write.is_some() && exchange.path.ends_with(&written))
        .count()
}

#[test]
fn the_status_is_written_before_a_long_action_and_after_it_and_only_when_it_changes() {
    let solo = Solo::new("status-when", &["--charts-sync-interval=1s"]);
    solo.apply("hello", "");
    solo.ready("hello");
    solo.wait("hello", |release| {
        text(release, "/status/releaseStatus") == "deployed"
    });
    let first = status_writes(&solo, "hello");
    assert_eq!(first, 2, "before the action, and after it");
    let exchanges = solo.proxy.traffic().exchanges();
    let place = |ends: &str, write: bool| {
        exchanges
            .iter()
            .position(|exchange| exchange.path.ends_with(ends) && exchange.write.is_some() == write)
            .unwrap_or_else(|| panic!("nothing was asked of {ends}"))
    };
    assert!(place("/hello/status", true) < place("/configmaps/hello", true));
    // Several periodic looks later nothing has been written.
    let looked = || solo.rig.daemon.get("/metrics").unwrap().1;
    let count = |metrics: &str| -> u64 {
        let name =
            "controller_runtime_reconcile_total{controller=\"helmrelease\",result=\"success\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let before = count(&looked());
    let end = Instant::now() + LIMIT;
    while count(&looked()) < before + 4 {
        assert!(Instant::now() < end, "no periodic looks");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status_writes(&solo, "hello"), first);
}

#[test]
fn what_an_action_recorded_is_told_although_the_watch_is_behind() {
    let solo = Solo::new("status-behind", &[POLLS, "--status-update-interval=1s"]);
    solo.install("hello");
    solo.proxy.traffic().stall_streams();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_a_name}\n";
    solo.repository
        .commit_file("charts/hello/templates/refused.yaml", template)
        .unwrap();
    let failed = solo.wait("hello", |release| {
        condition(release, "Ready").starts_with("False")
    });
    assert_eq!(text(&failed, "/status/releaseStatus"), "failed");
    let writes = status_writes(&solo, "hello");
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        assert_eq!(status_writes(&solo, "hello"), writes, "it is taken back");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let bench = Bench::new("status-cut");
    let template = "{{ fail (repeat 2000 \"绿é😀\") }}";
    bench
        .repository
        .commit_file("charts/hello/templates/fail.yaml", template)
        .unwrap();
    bench.apply("hello", "");
    let failed = bench.wait("hello", |release| {
        condition(release, "Ready") == "False RenderFailed"
    });
    for name in ["Ready", "Released", "Stalled", "Degraded"] {
        let message = message(&failed, name);
        assert!(
            message.len() <= 1024 && message.len() > 1000,
            "{name}: {}",
            message.len()
        );
        assert!(
            message.ends_with('…') && !message.contains('\u{fffd}'),
            "{message}"
        );
    }
    let told = bench.told("hello", "FailedReleaseSync", 1).remove(0);
    assert!(told.len() <= 1024 && told.ends_with('…'), "{told}");
}

#[test]
fn the_status_comes_right_after_any_number_of_refused_writes() {
    let solo = Solo::new("status-fault", &[]);
    let of_status = |exchange: &testkit::Exchange| exchange.path.ends_with("/hello/status");
    for fault in [
        Fault::Status(500, None),
        Fault::Status(409, None),
        Fault::Cut,
        Fault::Status(429, Some(1)),
        Fault::Status(503, None),
    ] {
        solo.proxy.traffic().fault_when(1, of_status, fault);
    }
    solo.apply("hello", "");
    let ready = solo.wait("hello", |release| {
        testkit::is_ready(release) && text(release, "/status/releaseStatus") == "deployed"
    });
    assert_eq!(text(&ready, "/status/phase"), "Succeeded");
    let revision = |which: &str| text(&ready, &format!("/status/{which}"));
    assert_eq!(revision("revision"), revision("lastAttemptedRevision"));
    // The trouble was the status's alone: the release was deployed once, and nobody was told of a failure.
    assert_eq!(solo.records("hello"), [(1, "deployed".to_owned())]);
    let reasons: Vec<String> = solo
        .events("hello")
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    assert!(
        !reasons.contains(&"FailedReleaseSync".to_owned()),
        "{reasons:?}"
    );
    // And the status loop is alive.
    let mut helm = solo.rig.plane.helm().unwrap();
    let chart = solo.repository.work().join("charts/hello");
    helm.args([
        "upgrade",
        "hello",
        "--namespace",
        &solo.namespace,
        "--reuse-values",
        "--set",
        "by=hand",
    ]);
    run(helm.arg(chart)).unwrap();
    solo.wait("hello", |_| solo.records("hello").len() == 3);
}

#[test]
fn events_tell_of_transitions_only() {
    let solo = Solo::new("events", &["--charts-sync-interval=1s"]);
    solo.apply("hello", "");
    let ready = solo.ready("hello");
    let synced = solo.told("hello", "ReleaseSynced", 1).remove(0);
    for part in [
        "chart hello-1.0.0",
        &format!("revision {}", text(&ready, "/status/revision")),
        &format!("digest {}", text(&ready, "/status/digest")),
    ] {
        assert!(synced.contains(part), "no {part} in {synced}");
    }
    let missing = format!(
        "targetNamespace: {}-none\nretry: {{backoff: 1s, maxBackoff: 1s}}",
        solo.namespace
    );
    solo.apply("failing", &missing);
    let end = Instant::now() + LIMIT;
    let tries = || {
        let log = solo.log("failing");
        log.iter()
            .filter(|line| line.contains("installation failed"))
            .count()
    };
    while tries() < 4 {
        assert!(Instant::now() < end, "{:#?}", solo.log("failing"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Four tries and many periodic looks: one Event each.
    assert_eq!(solo.told("failing", "FailedReleaseSync", 1).len(), 1);
    assert_eq!(solo.events("hello").len(), 1, "{:?}", solo.events("hello"));
}

/// A control plane with the CRD as 1.4 left it: its fields, its phases, its five conditions and no others.
fn old_plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let plane = ControlPlane::start(Options::default()).unwrap();
        testkit::apply_crd(&plane).unwrap();
        let path =
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/helmreleases.helm.fluxcd.io";
        let crd = plane.get(path).unwrap();
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let fields = crd.pointer(status).unwrap().as_object().unwrap();
        let added = [
            "chart",
            "digest",
            "failures",
            "lastAttemptedDigest",
            "lastHandledReconcileAt",
            "waitingDigest",
        ];
        let mut patch: Vec<Value> = fields
            .keys()
            .filter(|name| added.contains(&name.as_str()) || *name == "lastAttemptedRevision")
            .map(|name| json!({"op": "remove", "path": format!("{status}/{name}")}))
            .collect();
        let types = [
            "ChartFetched",
            "Deployed",
            "Released",
            "RolledBack",
            "Tested",
        ];
        let of_condition = format!("{status}/conditions/items/properties");
        patch.push(
            json!({"op": "add", "path": format!("{of_condition}/type/enum"), "value": types}),
        );
        patch.push(json!({"op": "remove", "path": format!("{of_condition}/observedGeneration")}));
        let mut kubectl = plane.kubectl().unwrap();
        let patch = format!("--patch={}", Value::from(patch));
        run(kubectl.args([
            "patch",
            "crd",
            "helmreleases.helm.fluxcd.io",
            "--type=json",
            &patch,
        ]))
        .unwrap();
        plane
    })
}

#[test]
fn a_crd_that_is_too_old_is_said_once_and_does_not_make_a_release_anew() {
    let plane = old_plane();
    let flags = [
        "--charts-sync-interval=1s",
        "--status-update-interval=1s",
        "--git-default-ref=main",
    ];
    let daemon =
        testkit::Daemon::start(DaemonOptions::local(BINARY, plane.kubeconfig(), &flags)).unwrap();
    let git = testkit::GitServer::start(testkit::GitOptions::default()).unwrap();
    let mut rig = Rig { plane, git, daemon };
    let namespace = plane.namespace("old-crd").unwrap();
    let repository = rig.git.repository("old-crd").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let url = repository.url();
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: hello}}\nspec:\n  \
         releaseName: hello\n  chart: {{git: \"{url}\", path: charts/hello}}\n"
    );
    rig.apply(&namespace, &manifest).unwrap();
    rig.wait_for(&namespace, "hello", LIMIT, |release| {
        condition(release, "Released") == "True Succeeded"
            && text(release, "/status/releaseStatus") == "deployed"
    })
    .unwrap();
    // A restart knows nothing but what the old CRD could hold, and the record.
    rig.daemon.start_again().unwrap();
    let before = plane.request_counts().unwrap();
    let end = Instant::now() + LIMIT;
    let looks = || {
        let (_, metrics) = rig.daemon.get("/metrics").unwrap();
        let name =
            "controller_runtime_reconcile_total{controller=\"helmrelease\",result=\"success\"} ";
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.and_then(|count| count.parse::<u64>().ok())
            .unwrap_or(0)
    };
    while looks() < 5 {
        assert!(Instant::now() < end, "no periodic looks");
        std::thread::sleep(Duration::from_millis(100));
    }
    let writes = plane.request_counts().unwrap().since(&before).writes();
    let total: u64 = writes.values().sum();
    // A refusal names a few of the unknown fields at a time.
    assert!(total <= 3, "{writes:?}");
    assert_eq!(
        records(plane, &namespace, "hello"),
        [(1, "deployed".to_owned())]
    );
    let log = rig.daemon.log();
    let said = log
        .lines()
        .filter(|line| line.contains("CRD of this cluster is too old"))
        .count();
    assert!((1..=2).contains(&said), "once each start: {said}");
}

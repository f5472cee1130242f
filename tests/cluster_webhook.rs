//! The validating webhook, asked by the real API server.

#![cfg(test)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Authority, ControlPlane, Options, Rig, free_ports, run};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_helm-operator");
const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/helm-operator";

/// A control plane whose API server asks a webhook on this port, if somebody answers there; the trust is ours to give,
/// or the daemon's.
fn plane(port: u16, authority: Option<&str>) -> ControlPlane {
    let plane = ControlPlane::start(Options::default()).unwrap();
    testkit::apply_crd(&plane).unwrap();
    configure(&plane, port, authority);
    plane
}

fn configure(plane: &ControlPlane, port: u16, authority: Option<&str>) {
    let mut client = json!({ "url": format!("https://localhost:{port}/validate") });
    if let Some(authority) = authority {
        use base64::Engine as _;
        client["caBundle"] = base64::engine::general_purpose::STANDARD
            .encode(authority)
            .into();
    }
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "helm-operator" },
        "webhooks": [{
            "name": "helmreleases.helm.fluxcd.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "clientConfig": client,
            "rules": [{
                "apiGroups": ["helm.fluxcd.io"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["helmreleases"],
            }],
        }],
    });
    testkit::apply(plane, "default", &configuration.to_string()).unwrap();
}

/// A daemon with the webhook on a port, and a chart with a schema.
fn rig<'a>(plane: &'a ControlPlane, port: u16, more: &[&str]) -> Rig<'a> {
    let listen = format!("--webhook-listen=127.0.0.1:{port}");
    let common = [
        listen.as_str(),
        "--webhook-service=localhost",
        "--leader-election-namespace=default",
        "--git-default-ref=main",
    ];
    let rig = Rig::start(plane, BINARY, &[&common, more].concat()).unwrap();
    let charts = rig.git.repository("charts").unwrap();
    for (path, text) in [
        ("a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
        (
            "a/values.schema.json",
            r#"{"properties": {"replicas": {"type": "integer"}}}"#,
        ),
        (
            "a/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n",
        ),
    ] {
        charts.write(path, text).unwrap();
    }
    charts.commit("Add the chart").unwrap();
    rig
}

fn release(rig: &Rig<'_>, name: &str, chart: &Value, values: &Value) -> String {
    let mut chart = chart.clone();
    if chart.get("git").is_none() && chart.get("oci").is_none() && chart.get("repository").is_none()
    {
        let repository = rig.git.url("charts");
        chart["git"] = repository.into();
    }
    json!({
        "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
        "metadata": { "name": name },
        "spec": { "releaseName": name, "chart": chart, "values": values },
    })
    .to_string()
}

/// Applies until the API server refuses: it may take a moment until it asks.
fn refused(rig: &Rig<'_>, manifest: &str) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        match rig.apply("default", manifest) {
            Err(error) => return format!("{error:#}"),
            Ok(_) => {
                assert!(
                    Instant::now() < end,
                    "nobody refuses:\n{}",
                    rig.daemon.log()
                );
                let object: Value = serde_json::from_str(manifest).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap();
                let delete = ["delete", "helmrelease", name, "--wait=false"];
                run(rig.plane.kubectl().unwrap().args(delete)).unwrap();
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

fn bad() -> Value {
    json!({"repository": "https://charts.example.com", "name": "a", "version": "one point two"})
}

#[test]
fn what_cannot_work_is_refused_before_it_is_stored() {
    let [port] = free_ports().unwrap();
    let plane = plane(port, None);
    let rig = rig(&plane, port, &[]);
    let text = refused(&rig, &release(&rig, "range", &bad(), &json!({})));
    assert!(text.contains("spec.chart.version: "), "{text}");
    assert!(text.contains("is neither a version nor a range"), "{text}");

    // What works is stored, with a warning where it is odd.
    let good = release(&rig, "good", &json!({"path": "a"}), &json!({"replicas": 1}));
    rig.apply("default", &good).unwrap();
    rig.wait_until_ready("default", "good", LIMIT).unwrap();

    // The chart is at hand now, and its schema is looked at.
    let wrong = release(
        &rig,
        "good",
        &json!({"path": "a"}),
        &json!({"replicas": "canary"}),
    );
    let text = refused(&rig, &wrong);
    assert!(text.contains("spec.values: "), "{text}");
    assert!(text.contains("/replicas"), "{text}");

    let (_, metrics) = rig.daemon.get("/metrics").unwrap();
    let refused = "helm_operator_webhook_reviews_total{answer=\"refused\"} ";
    assert!(metrics.contains(refused), "{metrics}");
    assert!(metrics.contains("helm_operator_webhook_certificate_not_after_timestamp_seconds "));
}

/// What was stored before there was a webhook can still be labelled, and deleted.
#[test]
fn what_is_stored_already_is_not_held_fast() {
    let [port] = free_ports().unwrap();
    let plane = plane(port, None);
    let kubectl = |arguments: &[&str]| run(plane.kubectl().unwrap().args(arguments));
    let manifest = json!({
        "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": { "name": "old" },
        "spec": { "chart": bad() },
    });
    // Nobody answers, and so nobody refuses: the daemon is not needed.
    testkit::apply(&plane, "default", &manifest.to_string()).unwrap();
    let rig = rig(&plane, port, &[]);
    refused(&rig, &release(&rig, "new", &bad(), &json!({})));
    testkit::apply(&plane, "default", &manifest.to_string()).unwrap();
    kubectl(&["label", "helmrelease", "old", "team=a"]).unwrap();
    let patch = r#"{"spec": {"chart": {"version": "two"}}}"#;
    let changed = kubectl(&[
        "patch",
        "helmrelease",
        "old",
        "--type=merge",
        "--patch",
        patch,
    ]);
    assert!(changed.is_err());
    kubectl(&["delete", "helmrelease", "old", "--timeout=60s"]).unwrap();
}

#[test]
fn a_certificate_is_renewed_while_it_serves() {
    let [port] = free_ports().unwrap();
    let plane = plane(port, None);
    let rig = rig(&plane, port, &["--webhook-cert-lifetime=9s"]);
    let manifest = release(&rig, "range", &bad(), &json!({}));
    refused(&rig, &manifest);
    let secret = "/api/v1/namespaces/default/secrets/helm-operator-webhook";
    let first = plane.get(secret).unwrap();
    let bundle =
        plane.get(CONFIGURATION).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].clone();
    assert_eq!(first["data"]["ca.crt"], bundle);
    let process = rig.daemon.process();
    let renewed = || {
        plane
            .get(secret)
            .is_ok_and(|now| now["data"]["tls.crt"] != first["data"]["tls.crt"])
    };
    process.wait_until(LIMIT, renewed).unwrap();
    // The first one has ended by then, and the new one is trusted.
    std::thread::sleep(Duration::from_secs(6));
    refused(&rig, &manifest);
    let second = plane.get(secret).unwrap();
    assert_eq!(second["data"]["ca.crt"], first["data"]["ca.crt"]);
    assert!(!rig.daemon.log().contains("canary"));
}

/// As cert-manager does it: it mounts the files, renews them, and tells the API server whom to trust.
#[test]
fn files_of_a_certificate_are_served_and_followed() {
    let authority = Authority::new("test").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let write = |authority: &Authority| {
        let identity = authority.server(&["localhost"]).unwrap();
        std::fs::write(directory.path().join("tls.key"), identity.key).unwrap();
        std::fs::write(directory.path().join("tls.crt"), identity.certificate).unwrap();
    };
    write(&authority);
    let [port] = free_ports().unwrap();
    let plane = plane(port, Some(&authority.pem()));
    let flag = format!("--webhook-cert-dir={}", directory.path().display());
    let rig = rig(&plane, port, &[&flag]);
    let manifest = release(&rig, "range", &bad(), &json!({}));
    refused(&rig, &manifest);
    let other = Authority::new("other").unwrap();
    write(&other);
    configure(&plane, port, Some(&other.pem()));
    refused(&rig, &manifest);
    assert!(
        plane
            .get("/api/v1/namespaces/default/secrets/helm-operator-webhook")
            .is_err()
    );
}

/// Nobody has made the configuration: that is said once, and the releases are worked on.
#[test]
fn the_daemon_lives_without_being_asked() {
    let [port] = free_ports().unwrap();
    let plane = ControlPlane::start(Options::default()).unwrap();
    let rig = rig(&plane, port, &[]);
    let good = release(&rig, "good", &json!({"path": "a"}), &json!({}));
    rig.apply("default", &good).unwrap();
    rig.wait_until_ready("default", "good", LIMIT).unwrap();
    let said = "there is no ValidatingWebhookConfiguration helm-operator";
    rig.daemon.process().wait_for_log(said, LIMIT).unwrap();
}

//! Each folder of `examples/`, applied to the real API server and deployed by the daemon.

#![cfg(test)]

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use testkit::{ControlPlane, GitRepository, Rig, repository};

const LIMIT: Duration = Duration::from_secs(60);
const URL: &str = "https://git.example.com/team/charts.git";

/// One daemon and one repository with the examples' chart for all tests.
fn rig() -> (&'static Rig<'static>, &'static GitRepository) {
    static RIG: OnceLock<(Rig<'static>, GitRepository)> = OnceLock::new();
    let (rig, charts) = RIG.get_or_init(|| {
        let plane = ControlPlane::shared_full().unwrap();
        let rig = Rig::start(plane, env!("CARGO_BIN_EXE_helm-operator"), &[]).unwrap();
        let charts = rig.git.repository("charts").unwrap();
        charts
            .write_directory("charts", &repository().join("examples/charts"))
            .unwrap();
        charts.commit("Add the charts of the examples").unwrap();
        (rig, charts)
    });
    (rig, charts)
}

fn apply(namespace: &str, file: &str) {
    let (rig, charts) = rig();
    let text = fs::read_to_string(repository().join("examples").join(file)).unwrap();
    rig.apply(namespace, &text.replace(URL, charts.url()))
        .unwrap();
}

fn page(namespace: &str, release: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{release}");
    let map = rig().0.plane.get(&path).unwrap();
    map["data"]["index.html"]
        .as_str()
        .unwrap()
        .trim()
        .to_owned()
}

fn condition<'a>(release: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = release["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

#[test]
fn chart_in_git_is_deployed() {
    let (rig, _) = rig();
    let namespace = rig.plane.namespace("git-chart").unwrap();
    apply(&namespace, "git-chart/helmrelease.yaml");
    rig.wait_until_ready(&namespace, "greeter", LIMIT).unwrap();
    assert_eq!(page(&namespace, "greeter"), "<h1>Good morning, world!</h1>");
}

#[test]
fn values_are_merged_in_their_order() {
    let (rig, _) = rig();
    let namespace = rig.plane.namespace("values").unwrap();
    apply(&namespace, "values/values.yaml");
    apply(&namespace, "values/helmrelease.yaml");
    rig.wait_until_ready(&namespace, "greeter-values", LIMIT)
        .unwrap();
    assert_eq!(
        page(&namespace, "greeter-values"),
        "<h1>Welcome, team!</h1>"
    );
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/greeter-values");
    assert_eq!(rig.plane.get(&deployment).unwrap()["spec"]["replicas"], 2);
    let secret = format!("/api/v1/namespaces/{namespace}/secrets/greeter-values");
    assert_eq!(
        rig.plane.get(&secret).unwrap()["data"]["token"],
        "bm90LWEtcmVhbC1zZWNyZXQ="
    );
}

#[test]
fn release_with_rollback_is_deployed_and_available() {
    let (rig, _) = rig();
    let namespace = rig.plane.namespace("rollback").unwrap();
    apply(&namespace, "rollback/helmrelease.yaml");
    rig.wait_until_ready(&namespace, "greeter-rollback", LIMIT)
        .unwrap();
    // It waits, so that Ready means available.
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/greeter-rollback");
    assert_eq!(
        rig.plane.get(&deployment).unwrap()["status"]["availableReplicas"],
        1
    );
}

#[test]
fn gates_hold_a_release_until_they_are_opened() {
    let (rig, _) = rig();
    let namespace = rig.plane.namespace("gates").unwrap();
    apply(&namespace, "gates/helmrelease.yaml");
    let closed = |release: &Value| {
        condition(release, "AllGatesPassed").is_some_and(|gates| gates["status"] == "False")
    };
    let waiting = rig
        .wait_for(&namespace, "greeter-gates", LIMIT, closed)
        .unwrap();
    for gate in ["Gate-window", "Gate-database", "Gate-approval"] {
        assert_eq!(
            condition(&waiting, gate).unwrap()["status"],
            "False",
            "{gate}"
        );
    }
    let map = format!("/api/v1/namespaces/{namespace}/configmaps/greeter-gates");
    assert!(
        rig.plane.get(&map).is_err(),
        "deployed before the gates were open"
    );
    apply(&namespace, "gates/open/open.yaml");
    apply(&namespace, "git-chart/helmrelease.yaml");
    rig.wait_until_ready(&namespace, "greeter-gates", LIMIT)
        .unwrap();
    assert_eq!(
        page(&namespace, "greeter-gates"),
        "<h1>At last, world!</h1>"
    );
}

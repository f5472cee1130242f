//! The control plane itself: it starts, serves, counts, and goes.

#![cfg(test)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use testkit::{ControlPlane, Options, run};

#[tokio::test]
async fn shared_control_plane_serves_a_namespace_per_test() {
    let plane = ControlPlane::shared().unwrap();
    let (one, two) = (
        plane.namespace("one").unwrap(),
        plane.namespace("two").unwrap(),
    );
    assert_ne!(one, two);
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().unwrap(), &one);
    let map = serde_json::from_value(json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }));
    maps.create(&PostParams::default(), &map.unwrap())
        .await
        .unwrap();
    let found = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items[0].data.as_ref().unwrap()["k"], "v");
    let seen = plane
        .get(&format!("/api/v1/namespaces/{two}/configmaps"))
        .unwrap();
    assert_eq!(seen["items"], json!([]));
}

#[test]
fn kubectl_and_helm_use_the_control_plane() {
    let plane = ControlPlane::shared().unwrap();
    let namespace = plane.namespace("cli").unwrap();
    let version = run(plane.kubectl().unwrap().args(["version", "--output=json"])).unwrap();
    assert!(version.contains("\"serverVersion\""), "{version}");
    let list = run(plane
        .helm()
        .unwrap()
        .args(["list", "--namespace", &namespace]))
    .unwrap();
    assert!(list.starts_with("NAME"), "{list}");
}

#[tokio::test]
async fn service_account_has_only_its_own_rights() {
    let plane = ControlPlane::shared().unwrap();
    let namespace = plane.namespace("rights").unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client().unwrap(), &namespace);
    let account = serde_json::from_value(json!({ "metadata": { "name": "weak" } })).unwrap();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let token = plane.service_account_token(&namespace, "weak").unwrap();
    let maps: Api<ConfigMap> =
        Api::namespaced(plane.client_for(plane.url(), &token).unwrap(), &namespace);
    let error = maps
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    let user = format!("system:serviceaccount:{namespace}:weak");
    assert!(
        error.contains("forbidden") && error.contains(&user),
        "{error}"
    );
}

#[tokio::test]
async fn requests_are_counted_and_audited() {
    let plane = ControlPlane::start(Options {
        audit: true,
        ..Options::default()
    })
    .unwrap();
    let namespace = plane.namespace("audit").unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().unwrap(), &namespace);
    let before = plane.request_counts().unwrap();
    let map = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let added = plane.request_counts().unwrap().since(&before);
    assert_eq!(added.of("POST", "configmaps"), 1);
    let uri = format!("/api/v1/namespaces/{namespace}/configmaps");
    let entries = plane.audit().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.uri.starts_with(&uri))
        .unwrap();
    assert_eq!(
        (entry.verb.as_str(), entry.user.as_str(), entry.code),
        ("create", "admin", 201)
    );
}

#[test]
fn api_server_can_be_killed_and_started_again() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    let namespace = plane.namespace("restart").unwrap();
    plane.stop_api_server().unwrap();
    assert!(plane.get("/api/v1/namespaces").is_err());
    plane.start_api_server().unwrap();
    let found = plane
        .get(&format!("/api/v1/namespaces/{namespace}"))
        .unwrap();
    assert_eq!(found["metadata"]["name"], namespace);
}

#[test]
fn what_came_after_a_backup_is_gone_when_it_is_restored() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    let version = || {
        let list = plane.get("/api/v1/namespaces").unwrap();
        let version = list["metadata"]["resourceVersion"].as_str();
        version.unwrap().parse::<u64>().unwrap()
    };
    let kept = plane.namespace("kept").unwrap();
    let backup = plane.back_up().unwrap();
    let lost = plane.namespace("lost").unwrap();
    let before = version();
    plane.restart_etcd().unwrap();
    let is_there = |name: &str| plane.get(&format!("/api/v1/namespaces/{name}")).is_ok();
    assert!(is_there(&kept) && is_there(&lost));
    plane.restore(&backup).unwrap();
    assert!(is_there(&kept) && !is_there(&lost));
    assert!(version() < before + 100, "the store has gone on");
}

#[test]
fn nothing_is_left_when_a_control_plane_is_dropped() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    let directory = plane.kubeconfig().parent().unwrap().to_owned();
    assert!(!processes_of(&directory).is_empty());
    drop(plane);
    assert!(!directory.exists());
    assert_eq!(processes_of(&directory), Vec::<String>::new());
}

/// Not a test of its own: what the next one runs as another process.
#[test]
fn holder() {
    if std::env::var_os("TESTKIT_HOLD").is_some() {
        let plane = ControlPlane::shared().unwrap();
        println!("{}", plane.kubeconfig().display());
        std::thread::sleep(Duration::from_secs(600));
    }
}

#[test]
fn nothing_is_left_when_the_test_process_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env("TESTKIT_HOLD", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.ends_with("/kubeconfig"))
        .unwrap();
    let directory = Path::new(&line).parent().unwrap();
    assert!(!processes_of(directory).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while directory.exists() || !processes_of(directory).is_empty() {
        assert!(Instant::now() < end, "left: {:?}", processes_of(directory));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn deployments_become_available_on_the_full_control_plane() {
    let plane = ControlPlane::shared_full().unwrap();
    let namespace = plane.namespace("full").unwrap();
    let kubectl = |arguments: &[&str]| {
        run(plane
            .kubectl()
            .unwrap()
            .args(["--namespace", &namespace])
            .args(arguments))
        .unwrap()
    };
    kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=example.invalid/web:1",
        "--replicas=2",
    ]);
    kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    kubectl(&["create", "job", "once", "--image=example.invalid/once:1"]);
    kubectl(&[
        "wait",
        "--for=condition=complete",
        "job/once",
        "--timeout=60s",
    ]);
    kubectl(&["delete", "namespace", &namespace, "--timeout=60s"]);
}

/// The command lines of the running processes that name the directory, sweepers apart.
fn processes_of(directory: &Path) -> Vec<String> {
    let name = directory.to_str().unwrap();
    let read = |pid: &Path| std::fs::read_to_string(pid.join("cmdline")).unwrap_or_default();
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .map(|entry| read(&entry.unwrap().path()));
    all.filter(|line| line.contains(name) && !line.contains("sweep"))
        .collect()
}

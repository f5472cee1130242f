//! The fault proxy, in front of the real API server.

#![cfg(test)]

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use testkit::{ControlPlane, Fault, FaultProxy, Process, Victim, run};

const LIMIT: Duration = Duration::from_secs(30);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

/// A proxy of its own, a namespace of its own, and the ConfigMaps in it by way of the proxy.
fn through_proxy() -> (FaultProxy<'static>, String, Api<ConfigMap>) {
    let plane = ControlPlane::shared().unwrap();
    let proxy = FaultProxy::start(plane).unwrap();
    let namespace = plane.namespace("proxy").unwrap();
    let maps = Api::namespaced(proxy.client().unwrap(), &namespace);
    (proxy, namespace, maps)
}

fn exists(namespace: &str, name: &str) -> bool {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    ControlPlane::shared().unwrap().get(&path).is_ok()
}

#[tokio::test]
async fn requests_are_passed_on_and_numbered() {
    let (proxy, namespace, maps) = through_proxy();
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    assert!(exists(&namespace, "a"));
    let exchanges = proxy.traffic().exchanges();
    let seen: Vec<_> = exchanges
        .iter()
        .map(|it| (it.number, it.write, it.method.as_str(), it.status))
        .collect();
    assert_eq!(
        seen,
        [(1, Some(1), "POST", Some(201)), (2, None, "GET", Some(200))]
    );
    assert_eq!(
        exchanges[0].path,
        format!("/api/v1/namespaces/{namespace}/configmaps")
    );
}

#[test]
fn kubectl_works_through_the_proxy() {
    let plane = ControlPlane::shared().unwrap();
    let proxy = FaultProxy::start(plane).unwrap();
    let mut kubectl = plane.kubectl().unwrap();
    kubectl.env("KUBECONFIG", proxy.kubeconfig().unwrap());
    let list = run(kubectl.args(["get", "namespaces", "--output=name"])).unwrap();
    assert!(list.contains("namespace/default"), "{list}");
    assert!(
        proxy
            .traffic()
            .exchanges()
            .iter()
            .any(|it| it.agent.starts_with("kubectl"))
    );
}

#[tokio::test]
async fn status_faults_look_like_the_api_server() {
    let (proxy, _namespace, maps) = through_proxy();
    proxy.traffic().fault_next(1, Fault::Status(409, None));
    let error = maps
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
}

#[tokio::test]
async fn cut_before_does_nothing_and_cut_after_does_it() {
    let (proxy, namespace, maps) = through_proxy();
    proxy.traffic().fault_at_write(1, Fault::Cut);
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(!exists(&namespace, "a"));
    proxy.traffic().fault_at_write(2, Fault::CutReply);
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(exists(&namespace, "a"));
    let statuses: Vec<_> = proxy
        .traffic()
        .exchanges()
        .iter()
        .map(|it| it.status)
        .collect();
    assert_eq!(statuses, [None, None]);
}

#[tokio::test]
async fn victim_dies_before_or_after_the_request() {
    let (proxy, namespace, maps) = through_proxy();
    let log = tempfile::NamedTempFile::new().unwrap();
    let sleeper = || {
        let mut command = Command::new("sleep");
        Process::spawn("sleeper", command.arg("600"), log.path()).unwrap()
    };
    let (before, after) = (sleeper(), sleeper());
    proxy
        .traffic()
        .fault_at_write(1, Fault::KillBefore(before.controls().into()));
    let later = Victim::default();
    proxy
        .traffic()
        .fault_at_write(2, Fault::KillAfter(later.clone()));
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(!exists(&namespace, "a"));
    assert!(before.controls().try_wait().unwrap().is_some());
    assert!(after.controls().try_wait().unwrap().is_none());
    later.set(after.controls());
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(exists(&namespace, "a"));
    assert!(after.controls().try_wait().unwrap().is_some());
}

/// A raw watch, so that nothing reconnects behind our back.
async fn watch(proxy: &FaultProxy<'_>, namespace: &str) -> reqwest::Response {
    let url = format!(
        "{}/api/v1/namespaces/{namespace}/configmaps?watch=true",
        proxy.url()
    );
    let plane = ControlPlane::shared().unwrap();
    let authority = reqwest::Certificate::from_pem(plane.authority().pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([authority])
        .no_proxy()
        .build()
        .unwrap();
    client
        .get(url)
        .bearer_auth(plane.token())
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn watch_can_be_cut_and_stalled() {
    let (proxy, namespace, maps) = through_proxy();
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let mut cut = watch(&proxy, &namespace).await;
    assert!(
        cut.chunk()
            .await
            .unwrap()
            .unwrap()
            .starts_with(b"{\"type\":\"ADDED\"")
    );
    proxy.traffic().cut_streams();
    let ended = tokio::time::timeout(LIMIT, cut.chunk()).await.unwrap();
    assert!(ended.is_err(), "a cut is no proper end: {ended:?}");

    let mut stalled = watch(&proxy, &namespace).await;
    stalled.chunk().await.unwrap().unwrap();
    proxy.traffic().stall_streams();
    maps.create(&PostParams::default(), &map("b"))
        .await
        .unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(300), stalled.chunk()).await;
    assert!(silent.is_err(), "a stalled watch says nothing: {silent:?}");
}

#[tokio::test]
async fn events_of_a_watch_can_be_hidden() {
    let (proxy, namespace, maps) = through_proxy();
    let is_watch = |it: &testkit::Exchange| it.query.contains("watch=true");
    proxy
        .traffic()
        .fault_when(1, is_watch, Fault::HideLines("secret-name".to_owned()));
    maps.create(&PostParams::default(), &map("secret-name"))
        .await
        .unwrap();
    let mut watched = watch(&proxy, &namespace).await;
    maps.create(&PostParams::default(), &map("other-name"))
        .await
        .unwrap();
    let seen = watched.chunk().await.unwrap().unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.contains("other-name") && !seen.contains("secret-name"),
        "{seen}"
    );
}

//! The statuses that tests on the shared control plane make the daemons write: none may contradict itself. What comes
//! within the last moment of a test may pass unseen.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::Value;
use testkit::ControlPlane;

use crate::support::{condition, message, text};

/// What is wrong with a status, by namespace.
type Contradictions = HashMap<String, Vec<String>>;

fn found() -> &'static Mutex<Contradictions> {
    static FOUND: OnceLock<Mutex<Contradictions>> = OnceLock::new();
    FOUND.get_or_init(Mutex::default)
}

static WATCHER: OnceLock<JoinHandle<()>> = OnceLock::new();

/// Watches all HelmReleases of a plane from now on.
pub(crate) fn watch(plane: &'static ControlPlane) {
    WATCHER.get_or_init(|| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(read(plane));
        })
    });
}

async fn read(plane: &ControlPlane) {
    let kind = GroupVersionKind::gvk("helm.fluxcd.io", "v1", "HelmRelease");
    let api: Api<DynamicObject> =
        Api::all_with(plane.client().unwrap(), &ApiResource::from_gvk(&kind));
    let mut known: HashMap<String, Value> = HashMap::new();
    let mut events = Box::pin(watcher(api, Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let object = serde_json::to_value(object).unwrap();
                let uid = text(&object, "/metadata/uid");
                note(known.get(&uid), &object);
                known.insert(uid, object);
            }
            Ok(_) => {}
            // The tests stop the API server and restore its backups.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn note(before: Option<&Value>, object: &Value) {
    let wrong = contradictions(object).into_iter();
    let wrong = wrong.chain(before.and_then(|before| written_in_vain(before, object)));
    let wrong: Vec<String> = wrong
        .map(|what| format!("{what}: {:#}", object["status"]))
        .collect();
    if !wrong.is_empty() {
        let mut found = found().lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = text(object, "/metadata/namespace");
        found.entry(namespace).or_default().extend(wrong);
    }
}

/// What a status says that cannot be true together.
fn contradictions(object: &Value) -> Vec<&'static str> {
    let status = |name: &str| condition(object, name);
    let is = |name: &str, value: &str| status(name).starts_with(value);
    let phase = text(object, "/status/phase");
    let is_ready = is("Ready", "True");
    let is_stale = message(object, "ChartFetched").ends_with("the last good commit stays in use");
    let rows = [
        (
            is_ready && is("Stalled", "True"),
            "ready, and nothing is tried again",
        ),
        (
            is_ready && is("ChartFetched", "False") && !is_stale,
            "ready without a chart",
        ),
        (
            is_ready && is("Released", "False"),
            "ready, and not released",
        ),
        (
            is_ready && (is("Deployed", "False") || is("Deployed", "Unknown")),
            "ready, and not deployed",
        ),
        (
            is_ready && phase != "Succeeded" && phase != "Suspended",
            "ready in another phase",
        ),
        (
            is_ready
                && text(object, "/status/revision")
                    != text(object, "/status/lastAttemptedRevision"),
            "ready, and something else is attempted",
        ),
        (
            is("Ready", "False") && phase == "Succeeded",
            "not ready, and all went well",
        ),
        (
            is("Progressing", "True") && !is("Reconciling", "True"),
            "under way, and nothing reconciles it",
        ),
        (
            phase == "ChartFetchFailed" && !is("ChartFetched", "False"),
            "no chart, and it was fetched",
        ),
        (
            object["status"]["observedGeneration"].as_i64()
                > object["metadata"]["generation"].as_i64(),
            "observed before it was",
        ),
    ];
    let rows = rows.into_iter().filter(|(holds, _)| *holds);
    rows.map(|(_, what)| what).collect()
}

/// A write that changed nothing but who wrote it and when.
fn written_in_vain(before: &Value, object: &Value) -> Option<&'static str> {
    let content = |object: &Value| {
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut()?;
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        Some(object)
    };
    let is_same = content(before) == content(object);
    let is_other_version =
        before["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"];
    (is_same && is_other_version).then_some("written without a change")
}

/// Fails the test to which the namespace belongs if one of its statuses contradicted itself.
pub(crate) fn check(namespace: &str) {
    let has_ended = WATCHER.get().is_some_and(JoinHandle::is_finished);
    assert!(!has_ended, "nobody watches the statuses any more");
    let mut found = found().lock().unwrap_or_else(PoisonError::into_inner);
    let wrong = found.remove(namespace).unwrap_or_default();
    drop(found);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn statuses_that_contradict_themselves_are_seen() {
    let status = |status: Value| serde_json::json!({"metadata": {"generation": 2, "resourceVersion": "7"}, "status": status});
    let good = status(serde_json::json!({
        "phase": "Succeeded", "revision": "a", "lastAttemptedRevision": "a", "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Available", "status": "True"}],
    }));
    assert!(contradictions(&good).is_empty());
    let mut other = good.clone();
    other["status"]["lastAttemptedRevision"] = "b".into();
    other["status"]["phase"] = "ChartFetchFailed".into();
    assert_eq!(
        contradictions(&other),
        [
            "ready in another phase",
            "ready, and something else is attempted",
            "no chart, and it was fetched"
        ]
    );
    assert!(written_in_vain(&good, &good).is_none());
    let mut later = good.clone();
    later["metadata"]["resourceVersion"] = "8".into();
    assert!(written_in_vain(&good, &later).is_some());
    later["status"]["observedGeneration"] = 1.into();
    assert!(written_in_vain(&good, &later).is_none());
}

//! What needs controllers: waiting, hooks, tests, deletion.

use std::time::Duration;

use helm_engine::{HookEvent, HookPhase};
use helm_kube::{Reason, WaitFor};

use crate::support::{Site, config_map, desired, hook, until};

fn deployment(replicas: u32) -> String {
    format!(
        "---\n# Source: demo/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: {replicas}\n  selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    spec:\n      containers:\n      - name: web\n        image: example.invalid/web:1\n"
    )
}

/// kwok ends Jobs at once, and Pods of Jobs too.
pub(crate) fn job(name: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: work\n        image: example.invalid/work:1\n"
    )
}

#[tokio::test]
async fn waiting_ends_when_a_deployment_is_available() {
    let mut site = Site::full("wait");
    site.options.wait = WaitFor::Ready;
    let outcome = site.deploy(desired("1.0.0", deployment(2))).await.unwrap();
    assert_eq!(outcome.release.revision, 1);
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/web",
        site.namespace()
    );
    assert_eq!(
        site.plane.get(&path).unwrap()["status"]["availableReplicas"],
        2
    );
}

#[tokio::test]
async fn waiting_for_what_does_not_come_fails_and_says_why() {
    let mut site = Site::full("stuck");
    site.options.wait = WaitFor::Ready;
    site.options.timeout = Duration::from_millis(1500);
    let stuck = deployment(1).replace(
        "    spec:\n      containers",
        "    spec:\n      nodeSelector: {no: such-node}\n      containers",
    );
    let error = site.deploy(desired("1.0.0", stuck)).await.unwrap_err();
    assert_eq!(error.reason, Reason::WaitTimeout);
    let expected = format!(
        "resource Deployment/{}/web not ready. status: InProgress",
        site.namespace()
    );
    assert!(error.message.contains(&expected), "{error}");
    assert_eq!(site.states().await, "1 failed");
    let description = &site.records().await[0].release.info.description;
    assert!(
        description.starts_with("Release \"web\" failed: resource Deployment"),
        "{description}"
    );
    // A failed first install is upgraded over.
    site.deploy(desired("1.0.1", deployment(1))).await.unwrap();
    assert_eq!(site.states().await, "1 failed, 2 deployed");
}

#[tokio::test]
async fn hooks_run_in_order_and_are_recorded() {
    let site = Site::full("hooks");
    let mut first = desired("1.0.0", config_map("one", "a"));
    let events = [HookEvent::PreInstall, HookEvent::PreUpgrade];
    let mut early = hook("early", "Job", &events, job("early"));
    early.weight = -1;
    let mut after = hook("after", "Job", &[HookEvent::PostInstall], job("after"));
    after.delete_policies = vec!["hook-succeeded".to_owned()];
    first.hooks = vec![hook("late", "Job", &events, job("late")), early, after];
    let outcome = site.deploy(first.clone()).await.unwrap();
    let runs: Vec<_> = outcome
        .report
        .hooks
        .iter()
        .map(|run| (run.name.as_str(), run.event, run.phase))
        .collect();
    assert_eq!(
        runs,
        [
            ("early", HookEvent::PreInstall, HookPhase::Succeeded),
            ("late", HookEvent::PreInstall, HookPhase::Succeeded),
            ("after", HookEvent::PostInstall, HookPhase::Succeeded),
        ]
    );
    let jobs = |name: &str| {
        site.plane
            .get(&format!(
                "/apis/batch/v1/namespaces/{}/jobs/{name}",
                site.namespace()
            ))
            .ok()
    };
    assert!(jobs("early").is_some() && jobs("late").is_some());
    assert_eq!(jobs("after"), None);
    let before = jobs("early").unwrap()["metadata"]["uid"].clone();

    first.annotations.clear();
    let outcome = site.deploy(first).await.unwrap();
    assert_eq!(outcome.report.hooks.len(), 2);
    assert_ne!(jobs("early").unwrap()["metadata"]["uid"], before);
    let hooks = site.helm(&["get", "hooks", "web"]);
    assert!(hooks.contains("name: early"), "{hooks}");
    let record = &site.records().await[1].release;
    assert!(record.hooks[0].last_run.started_at < record.hooks[0].last_run.completed_at);
}

#[tokio::test]
async fn a_failing_hook_stops_an_upgrade_before_objects_change() {
    let mut site = Site::full("badhook");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.options.timeout = Duration::from_millis(1500);
    let stuck = job("migrate").replace(
        "    spec:\n      restartPolicy",
        "    spec:\n      nodeSelector: {no: such-node}\n      restartPolicy",
    );
    let mut second = desired("1.1.0", config_map("one", "b"));
    second.hooks = vec![hook("migrate", "Job", &[HookEvent::PreUpgrade], stuck)];
    let error = site.deploy(second).await.unwrap_err();
    assert_eq!(error.reason, Reason::HookFailed);
    assert!(
        error
            .message
            .starts_with("hook pre-upgrade demo/templates/migrate.yaml failed: "),
        "{error}"
    );
    assert_eq!(site.live("configmaps", "one").unwrap()["data"]["key"], "a");
    assert_eq!(site.states().await, "1 deployed, 2 failed");
    let record = &site.records().await[1].release;
    assert_eq!(record.hooks[0].last_run.phase, HookPhase::Failed);
}

#[tokio::test]
async fn tests_of_a_release_are_run_and_recorded() {
    let site = Site::full("tests");
    let mut first = desired("1.0.0", config_map("one", "a"));
    first.hooks = vec![hook("check", "Job", &[HookEvent::Test], job("check"))];
    site.deploy(first).await.unwrap();
    let outcome = site.test().await.unwrap();
    assert_eq!(outcome.report.hooks[0].phase, HookPhase::Succeeded);
    assert_eq!(
        outcome.release.hooks[0].last_run.phase,
        HookPhase::Succeeded
    );
    assert_eq!(site.test().await.unwrap().report.hooks.len(), 1);
    let status = site.helm(&["status", "web"]);
    assert!(
        status.contains("TEST SUITE:     check") && status.contains("Phase:          Succeeded"),
        "{status}"
    );
}

#[tokio::test]
async fn an_object_on_its_way_out_is_let_go_and_made_anew() {
    let site = Site::full("leaving");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.kubectl(&[
        "patch",
        "configmap",
        "one",
        "--type=merge",
        "--patch={\"metadata\":{\"finalizers\":[\"example.com/x\"]}}",
    ]);
    site.kubectl(&["delete", "configmap", "one", "--wait=false"]);
    let upgrade = site.deploy(desired("1.1.0", config_map("one", "b")));
    let release = async {
        until("the upgrade is at work", async || {
            site.states().await == "1 deployed, 2 pending-upgrade"
        })
        .await;
        site.kubectl(&[
            "patch",
            "configmap",
            "one",
            "--type=merge",
            "--patch={\"metadata\":{\"finalizers\":null}}",
        ]);
    };
    let (outcome, ()) = futures::join!(upgrade, release);
    outcome.unwrap();
    let one = site.live("configmaps", "one").unwrap();
    assert_eq!(one["data"]["key"], "b");
    assert_eq!(one["metadata"].get("deletionTimestamp"), None);
}

//! Install, upgrade, rollback and uninstall, with the stock helm looking on.

use helm_kube::{ChangeKind, Reason};

use crate::support::{Site, config_map, desired};

#[tokio::test]
async fn what_we_install_is_read_by_the_stock_helm() {
    let site = Site::new("read");
    let manifest = config_map("one", "a") + &config_map("two", "b");
    let mut first = desired("1.0.0", &manifest);
    first.notes = "hello".to_owned();
    let outcome = site.deploy(first).await.unwrap();
    assert_eq!(outcome.release.revision, 1);
    let kinds: Vec<_> = outcome
        .report
        .changes
        .iter()
        .map(|change| change.kind)
        .collect();
    assert_eq!(kinds, [ChangeKind::Created, ChangeKind::Created]);

    let list = site.helm(&["list", "--output", "json"]);
    assert!(list.contains("\"status\":\"deployed\""), "{list}");
    assert!(list.contains("\"chart\":\"demo-1.0.0\""), "{list}");
    let status = site.helm(&["status", "web"]);
    assert!(
        status.contains("STATUS: deployed") && status.contains("hello"),
        "{status}"
    );
    assert!(site.helm(&["history", "web"]).contains("Install complete"));
    assert_eq!(
        site.helm(&["get", "manifest", "web"]).trim(),
        manifest.trim()
    );
}

#[tokio::test]
async fn an_upgrade_deletes_what_the_chart_drops() {
    let site = Site::new("upgrade");
    let both = config_map("one", "a") + &config_map("two", "b");
    site.deploy(desired("1.0.0", both)).await.unwrap();
    let uid = site.live("configmaps", "one").unwrap()["metadata"]["uid"].clone();
    let outcome = site
        .deploy(desired("1.1.0", config_map("one", "c")))
        .await
        .unwrap();
    assert_eq!(outcome.report.changes[0].kind, ChangeKind::Applied);
    assert_eq!(outcome.report.changes[1].kind, ChangeKind::Deleted);
    let one = site.live("configmaps", "one").unwrap();
    assert_eq!(one["data"]["key"], "c");
    assert_eq!(one["metadata"]["uid"], uid);
    assert_eq!(one["metadata"]["managedFields"][0]["manager"], "helm");
    assert_eq!(one["metadata"]["managedFields"][0]["operation"], "Apply");
    assert_eq!(site.live("configmaps", "two"), None);
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
}

#[tokio::test]
async fn a_rollback_brings_an_earlier_manifest_back() {
    let site = Site::new("rollback");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.deploy(desired("1.1.0", config_map("two", "b")))
        .await
        .unwrap();
    let outcome = site.rollback(None).await.unwrap();
    assert_eq!(outcome.release.info.description, "Rollback to 1");
    assert!(site.live("configmaps", "one").is_some());
    assert_eq!(site.live("configmaps", "two"), None);
    assert_eq!(
        site.states().await,
        "1 superseded, 2 superseded, 3 deployed"
    );
    let error = site.rollback(Some(9)).await.unwrap_err();
    assert_eq!(error.reason, Reason::ReleaseNotFound);
}

#[tokio::test]
async fn an_uninstall_leaves_nothing_but_what_is_to_be_kept() {
    let site = Site::new("uninstall");
    let kept = config_map("kept", "a").replace(
        "metadata:\n",
        "metadata:\n  annotations: {helm.sh/resource-policy: keep}\n",
    );
    site.deploy(desired("1.0.0", kept + &config_map("gone", "b")))
        .await
        .unwrap();
    let done = site.uninstall(false).await.unwrap();
    let mut kinds: Vec<_> = done
        .report
        .changes
        .iter()
        .map(|change| change.kind)
        .collect();
    kinds.sort_by_key(|kind| *kind != ChangeKind::Kept);
    assert_eq!(kinds, [ChangeKind::Kept, ChangeKind::Deleted]);
    assert!(site.live("configmaps", "kept").is_some());
    assert_eq!(site.live("configmaps", "gone"), None);
    assert_eq!(site.states().await, "");
    assert!(site.uninstall(false).await.unwrap().release.is_none());
}

#[tokio::test]
async fn a_kept_history_is_installed_over() {
    let site = Site::new("keep");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.uninstall(true).await.unwrap();
    assert_eq!(site.states().await, "1 uninstalled");
    assert!(
        site.helm(&["list", "--uninstalled"])
            .contains("uninstalled")
    );
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
}

#[tokio::test]
async fn an_install_that_meets_a_foreign_object_leaves_nothing_behind() {
    let site = Site::new("foreign");
    site.kubectl(&["create", "configmap", "two", "--from-literal=key=mine"]);
    let manifest = config_map("one", "a") + &config_map("two", "b");
    let error = site
        .deploy(desired("1.0.0", manifest.clone()))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::OwnershipConflict);
    let name = site.namespace();
    assert!(
        error.message.starts_with(&format!(
            "unable to continue with install: ConfigMap \"two\" in namespace \"{name}\" exists and \
             cannot be imported into the current release: invalid ownership metadata; label \
             validation error: missing key"
        )),
        "{error}"
    );
    assert_eq!(site.live("configmaps", "one"), None);
    assert_eq!(
        site.live("configmaps", "two").unwrap()["data"]["key"],
        "mine"
    );
    assert_eq!(site.states().await, "");

    let mut site = site;
    site.options.take_ownership = true;
    site.options.force_conflicts = true;
    let outcome = site.deploy(desired("1.0.0", manifest)).await.unwrap();
    assert_eq!(outcome.report.changes[1].kind, ChangeKind::Adopted);
    assert_eq!(site.live("configmaps", "two").unwrap()["data"]["key"], "b");
}

#[tokio::test]
async fn the_stock_helm_and_we_take_turns() {
    let site = Site::new("turns");
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  key: from-helm\n";
    let chart = site.chart("2.0.0", &[("one.yaml", template)]);
    let chart = chart.to_str().unwrap();
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.helm(&["upgrade", "web", chart]);
    assert_eq!(
        site.live("configmaps", "one").unwrap()["data"]["key"],
        "from-helm"
    );
    site.deploy(desired("3.0.0", config_map("one", "c")))
        .await
        .unwrap();
    site.helm(&["rollback", "web", "1"]);
    assert_eq!(site.live("configmaps", "one").unwrap()["data"]["key"], "a");
    site.rollback(Some(2)).await.unwrap();
    assert_eq!(
        site.live("configmaps", "one").unwrap()["data"]["key"],
        "from-helm"
    );
    let expected = "1 superseded, 2 superseded, 3 superseded, 4 superseded, 5 deployed";
    assert_eq!(site.states().await, expected);
    site.helm(&["uninstall", "web"]);
    assert_eq!(site.live("configmaps", "one"), None);
    assert_eq!(site.states().await, "");
    site.helm(&["install", "web", chart]);
    site.deploy(desired("3.0.0", config_map("one", "c")))
        .await
        .unwrap();
    site.uninstall(false).await.unwrap();
    assert_eq!(site.helm(&["list", "--short"]).trim(), "");
}

//! What the cluster, or somebody in it, puts in the way of a release.

use std::process::{Command, Stdio};

use helm_engine::{Crd, HookEvent};
use helm_kube::{
    ChangeKind, Class, CrdPolicy, DriftCheck, Driver, IgnoreRule, IgnoreTarget, NextAction, Reason,
    drift,
};

use crate::support::{Actor, Site, config_map, desired, hook, until};

/// Applies a text with kubectl, as somebody else.
fn kubectl_apply(site: &Site, text: &str) {
    let mut kubectl: Command = site.plane.kubectl().unwrap();
    kubectl.args([
        "apply",
        "--server-side",
        "--force-conflicts",
        "--filename=-",
    ]);
    kubectl
        .args(["--namespace", site.namespace()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = kubectl.spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn key(site: &Site, name: &str) -> String {
    site.live("configmaps", name).unwrap()["data"]["key"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_field_of_another_manager_is_a_conflict_that_names_both() {
    let mut site = Site::new("conflict");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    kubectl_apply(
        &site,
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {key: mine}}",
    );
    let error = site
        .deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::Conflict, Class::Permanent)
    );
    assert!(
        error
            .message
            .contains("conflict with \"kubectl\": .data.key"),
        "{error}"
    );
    assert_eq!(key(&site, "one"), "mine");
    assert_eq!(site.states().await, "1 deployed, 2 failed");
    site.options.force_conflicts = true;
    site.deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    assert_eq!(key(&site, "one"), "b");
    assert_eq!(site.states().await, "1 superseded, 2 failed, 3 deployed");
}

#[tokio::test]
async fn an_immutable_field_is_a_clear_error_or_a_new_object() {
    let mut site = Site::new("immutable");
    let job = |image: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: work}}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {{name: work, image: {image}}}\n"
        )
    };
    site.deploy(desired("1.0.0", job("a"))).await.unwrap();
    let path = format!("/apis/batch/v1/namespaces/{}/jobs/work", site.namespace());
    let before = site.plane.get(&path).unwrap()["metadata"]["uid"].clone();
    let error = site.deploy(desired("1.1.0", job("b"))).await.unwrap_err();
    assert_eq!(error.reason, Reason::ImmutableField);
    assert!(error.message.contains("spec.template"), "{error}");
    assert!(
        error.message.ends_with("or allow its kind to be recreated"),
        "{error}"
    );
    site.options.recreate = vec!["Job".to_owned()];
    let outcome = site.deploy(desired("1.1.0", job("b"))).await.unwrap();
    assert_eq!(outcome.report.changes[0].kind, ChangeKind::Recreated);
    assert_ne!(site.plane.get(&path).unwrap()["metadata"]["uid"], before);
}

#[tokio::test]
async fn a_claim_is_never_recreated() {
    let mut site = Site::new("claim");
    let claim = |class: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec:\n  storageClassName: {class}\n  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
        )
    };
    site.deploy(desired("1.0.0", claim("a"))).await.unwrap();
    site.options.recreate = vec!["PersistentVolumeClaim".to_owned()];
    let before = site.live("persistentvolumeclaims", "data").unwrap()["metadata"]["uid"].clone();
    let error = site.deploy(desired("1.1.0", claim("b"))).await.unwrap_err();
    assert!(
        matches!(error.reason, Reason::ImmutableField | Reason::InvalidObject),
        "{error}"
    );
    let after = site.live("persistentvolumeclaims", "data").unwrap()["metadata"]["uid"].clone();
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_field_that_a_kind_does_not_have_is_refused() {
    let mut site = Site::new("strict");
    let bad = config_map("one", "a") + "tada: {}\n";
    let error = site
        .deploy(desired("1.0.0", bad.clone()))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::InvalidObject);
    assert!(error.message.contains("tada"), "{error}");
    site.options.strict = false;
    let fixed = site.deploy(desired("1.0.1", bad)).await;
    // Even then the API server has no place for it in a typed object.
    assert!(fixed.is_err() || key(&site, "one") == "a");
}

#[tokio::test]
async fn an_empty_render_is_refused_unless_it_is_allowed() {
    let mut site = Site::new("empty");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    let error = site
        .deploy(desired("1.1.0", "# nothing\n"))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::EmptyRender);
    assert_eq!(site.states().await, "1 deployed");
    assert_eq!(key(&site, "one"), "a");
    site.options.allow_empty = true;
    site.deploy(desired("1.1.0", "# nothing\n")).await.unwrap();
    assert_eq!(site.live("configmaps", "one"), None);
}

#[tokio::test]
async fn an_object_of_another_release_stops_an_upgrade_before_anything_is_done() {
    let site = Site::new("owned");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    let mut other = Actor::new(
        &site.plane.kubeconfig(),
        site.namespace(),
        helm_kube::ClusterOptions::default(),
    );
    other.release.name = "other".to_owned();
    other
        .deploy(desired("1.0.0", config_map("theirs", "t")))
        .await
        .unwrap();
    let both = config_map("one", "b") + &config_map("theirs", "b");
    let error = site.deploy(desired("1.1.0", both)).await.unwrap_err();
    assert_eq!(error.reason, Reason::OwnershipConflict);
    assert!(
        error
            .message
            .starts_with("unable to continue with update: ConfigMap \"theirs\""),
        "{error}"
    );
    assert!(
        error
            .message
            .contains("must equal \"web\": current value is \"other\""),
        "{error}"
    );
    assert_eq!(
        (key(&site, "one"), key(&site, "theirs")),
        ("a".to_owned(), "t".to_owned())
    );
    assert_eq!(site.states().await, "1 deployed");
}

#[tokio::test]
async fn an_object_that_changed_hands_is_not_deleted() {
    let site = Site::new("hands");
    let both = config_map("one", "a") + &config_map("two", "a");
    site.deploy(desired("1.0.0", both)).await.unwrap();
    site.kubectl(&[
        "annotate",
        "--overwrite",
        "configmap",
        "two",
        "meta.helm.sh/release-name=other",
    ]);
    let outcome = site
        .deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    assert_eq!(outcome.report.changes[1].kind, ChangeKind::NotOwned);
    assert!(site.live("configmaps", "two").is_some());
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: PLURAL.GROUP\nspec:\n  group: GROUP\n  scope: Namespaced\n  names: {kind: Thing, plural: PLURAL, singular: thing}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}\n";

fn definition(group: &str) -> String {
    DEFINITION
        .replace("GROUP", group)
        .replace("PLURAL", "things")
}

fn thing(group: &str) -> String {
    format!("---\napiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: one}}\nspec: {{a: 1}}\n")
}

#[tokio::test]
async fn a_definition_and_its_object_in_one_chart_work_on_first_install() {
    let site = Site::new("crds");
    let group = format!("{}.example.com", site.namespace());
    let mut first = desired("1.0.0", thing(&group));
    first.crds = vec![Crd {
        path: "demo/crds/things.yaml".to_owned(),
        data: definition(&group).into(),
    }];
    site.deploy(first.clone()).await.unwrap();
    let path = format!(
        "/apis/{group}/v1/namespaces/{}/things/one",
        site.namespace()
    );
    assert_eq!(site.plane.get(&path).unwrap()["spec"]["a"], 1);

    // A definition that is there is left alone, or replaced, by the policy.
    let definition_path =
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}");
    let generation = || site.plane.get(&definition_path).unwrap()["metadata"]["generation"].clone();
    let changed =
        definition(&group).replace("singular: thing", "singular: thing, shortNames: [th]");
    first.crds[0].data = changed.into();
    let before = generation();
    site.deploy(first.clone()).await.unwrap();
    assert_eq!(generation(), before);
    let mut replacing = Actor::new(
        &site.plane.kubeconfig(),
        site.namespace(),
        helm_kube::ClusterOptions::default(),
    );
    replacing.options.crds = CrdPolicy::CreateReplace;
    replacing.deploy(first).await.unwrap();
    assert_ne!(generation(), before);
    site.uninstall(false).await.unwrap();
    assert!(site.plane.get(&definition_path).is_ok());
}

#[tokio::test]
async fn a_definition_among_the_templates_works_too() {
    let site = Site::new("templated");
    let group = format!("{}.example.com", site.namespace());
    let manifest = format!("---\n{}{}", definition(&group), thing(&group));
    site.deploy(desired("1.0.0", manifest)).await.unwrap();
    let path = format!(
        "/apis/{group}/v1/namespaces/{}/things/one",
        site.namespace()
    );
    assert!(site.plane.get(&path).is_ok());
}

#[tokio::test]
async fn a_kind_that_is_gone_blocks_neither_upgrade_nor_uninstall() {
    let site = Site::new("removed");
    let group = format!("{}.example.com", site.namespace());
    let manifest = format!(
        "{}---\n{}{}",
        config_map("one", "a"),
        definition(&group),
        thing(&group)
    );
    site.deploy(desired("1.0.0", manifest)).await.unwrap();
    site.kubectl(&["delete", "crd", &format!("things.{group}")]);
    // A new client, which knows nothing of the kind.
    let later = Actor::new(
        &site.plane.kubeconfig(),
        site.namespace(),
        helm_kube::ClusterOptions::default(),
    );
    let outcome = later
        .deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    assert!(
        outcome
            .report
            .warnings
            .iter()
            .any(|warning| warning.contains("is no longer served: taken as gone")),
        "{:?}",
        outcome.report
    );
    // The earlier manifest has the definition, too.
    later.rollback(Some(1)).await.unwrap();
    later.uninstall(false).await.unwrap();
    assert_eq!(site.live("configmaps", "one"), None);
    assert_eq!(site.states().await, "");
}

#[tokio::test]
async fn an_unknown_kind_is_refused_before_anything_is_done() {
    let site = Site::new("unknown");
    let error = site
        .deploy(desired(
            "1.0.0",
            config_map("one", "a") + &thing("no.such.group"),
        ))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::KindNotFound);
    assert!(error.message.contains("no matches for kind \"Thing\" in version \"no.such.group/v1\": ensure CRDs are installed first"), "{error}");
    assert_eq!(site.states().await, "");
    assert_eq!(site.live("configmaps", "one"), None);
}

#[tokio::test]
async fn a_missing_namespace_is_said_or_created() {
    let mut site = Site::new("nowhere");
    site.release.namespace = format!("{}-new", site.namespace());
    let error = site
        .deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::NamespaceNotFound);
    site.options.create_namespace = true;
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    let path = format!("/api/v1/namespaces/{}", site.namespace());
    assert_eq!(
        site.plane.get(&path).unwrap()["metadata"]["labels"]["name"],
        site.namespace()
    );
}

#[tokio::test]
async fn a_terminating_namespace_is_told_from_a_forbidden_one() {
    // Without controllers a namespace stays terminating.
    let site = Site::new("leaving");
    site.kubectl(&["delete", "namespace", site.namespace(), "--wait=false"]);
    let error = site
        .deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::NamespaceTerminating, Class::Transient)
    );
}

#[tokio::test]
async fn a_quota_that_is_used_up_fails_the_release_with_its_cause() {
    let site = Site::full("quota");
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {count/services: '0'}}}";
    kubectl_apply(&site, quota);
    let path = format!("/api/v1/namespaces/{}/resourcequotas/q", site.namespace());
    until("the quota is in force", async || {
        !site.plane.get(&path).unwrap()["status"]["hard"].is_null()
    })
    .await;
    let service =
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    let error = site
        .deploy(desired("1.0.0", config_map("one", "a") + service))
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::QuotaExceeded, Class::Transient)
    );
    assert_eq!(site.states().await, "1 failed");
    site.kubectl(&["delete", "resourcequota", "q"]);
    site.deploy(desired("1.0.1", config_map("one", "a") + service))
        .await
        .unwrap();
    assert_eq!(site.states().await, "1 failed, 2 deployed");
}

#[tokio::test]
async fn rights_that_are_taken_away_in_the_middle_fail_the_release() {
    let site = Site::new("rights");
    let namespace = site.namespace();
    let role = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: deployer}}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: deployer}}\nrules:\n- apiGroups: ['']\n  resources: [secrets]\n  verbs: ['*']\n- apiGroups: ['']\n  resources: [configmaps]\n  resourceNames: [one]\n  verbs: ['*']\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: deployer}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}}\nsubjects:\n- {{kind: ServiceAccount, name: deployer, namespace: {namespace}}}\n"
    );
    kubectl_apply(&site, &role);
    let token = site
        .plane
        .service_account_token(namespace, "deployer")
        .unwrap();
    let kubeconfig = site.plane.kubeconfig_for(site.plane.url(), &token).unwrap();
    let weak = Actor::new(&kubeconfig, namespace, helm_kube::ClusterOptions::default());
    let both = config_map("one", "a") + &config_map("two", "a");
    let error = weak.deploy(desired("1.0.0", both)).await.unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::Forbidden, Class::Permanent)
    );
    assert!(
        error.message.contains("configmaps \"two\" is forbidden"),
        "{error}"
    );
    assert_eq!(site.states().await, "1 failed");
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_before_anything_is_done() {
    let site = Site::new("large");
    let mut state = 7_u64;
    let noise: String = (0..2_000_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
        })
        .collect();
    let error = site
        .deploy(desired("1.0.0", config_map("one", &noise)))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::ReleaseTooLarge);
    assert_eq!(site.states().await, "");
    assert_eq!(site.live("configmaps", "one"), None);
}

#[tokio::test]
async fn a_release_that_others_have_tampered_with_has_a_way_on() {
    let site = Site::new("tampered");
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    site.deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    // The deployed record is deleted.
    site.kubectl(&["delete", "secret", "sh.helm.release.v1.web.v2"]);
    site.deploy(desired("1.2.0", config_map("one", "c")))
        .await
        .unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
    // An earlier record becomes garbage.
    let garbage = "{apiVersion: v1, kind: Secret, metadata: {name: sh.helm.release.v1.web.v1}, stringData: {release: rubbish}}";
    kubectl_apply(&site, garbage);
    site.deploy(desired("1.3.0", config_map("one", "d")))
        .await
        .unwrap();
    // The deployed record becomes garbage.
    kubectl_apply(
        &site,
        &garbage.replace("v1}", "v3}").replace(".v1,", ".v3,"),
    );
    let error = site.deploy(desired("1.4.0", config_map("one", "e"))).await;
    assert!(error.is_ok(), "{error:?}");
    // All records are deleted: the objects say whose they are.
    site.kubectl(&["delete", "secret", "--selector=owner=helm"]);
    let outcome = site
        .deploy(desired("1.5.0", config_map("one", "f")))
        .await
        .unwrap();
    assert_eq!(outcome.report.changes[0].kind, ChangeKind::Adopted);
    assert_eq!(
        (key(&site, "one"), site.states().await),
        ("f".to_owned(), "1 deployed".to_owned())
    );
    // Somebody uninstalls it.
    site.helm(&["uninstall", "web"]);
    site.deploy(desired("1.5.0", config_map("one", "f")))
        .await
        .unwrap();
    assert_eq!(site.states().await, "1 deployed");
}

#[tokio::test]
async fn an_action_of_another_client_is_waited_for_and_then_taken_over() {
    let mut site = Site::new("pending");
    let stuck = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: never\n  annotations: {helm.sh/hook: post-install}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {name: x, image: x}\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {key: helm}\n";
    let chart = site.chart("1.0.0", &[("one.yaml", template), ("never.yaml", stuck)]);
    let mut helm = site.plane.helm().unwrap();
    helm.args(["install", "web"])
        .arg(chart)
        .args(["--namespace", site.namespace()]);
    let mut helm = helm.stdout(Stdio::null()).spawn().unwrap();
    until("helm is at work", async || {
        site.states().await == "1 pending-install" && site.live("configmaps", "one").is_some()
    })
    .await;
    let plan = site.plan(&site.history().await, Some("x"));
    assert!(
        matches!(plan.next, NextAction::Wait { revision: 1, .. }),
        "{plan:?}"
    );
    let error = site.uninstall(false).await.unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::OperationInProgress, Class::Transient)
    );
    helm.kill().unwrap();
    helm.wait().unwrap();
    site.options.patience = std::time::Duration::ZERO;
    site.deploy(desired("1.1.0", config_map("one", "ours")))
        .await
        .unwrap();
    assert_eq!(site.states().await, "1 failed, 2 deployed");
    assert_eq!(key(&site, "one"), "ours");
}

#[tokio::test]
async fn history_is_pruned_and_the_deployed_revision_is_kept() {
    let mut site = Site::new("prune");
    site.options.max_history = 3;
    for number in 1..=4 {
        site.deploy(desired(&format!("{number}.0.0"), config_map("one", "a")))
            .await
            .unwrap();
    }
    assert_eq!(
        site.states().await,
        "2 superseded, 3 superseded, 4 deployed"
    );
    for number in 5..=8 {
        // The first object is changed before the second is refused.
        let changed = config_map("one", &format!("for-{number}"));
        let bad = changed + &config_map("two", "b") + "tada: {}\n";
        site.deploy(desired(&format!("{number}.0.0"), bad))
            .await
            .unwrap_err();
    }
    assert_eq!(site.states().await, "4 deployed, 7 failed, 8 failed");
}

#[tokio::test]
async fn labels_of_a_record_are_kept() {
    let site = Site::new("labels");
    let mut first = desired("1.0.0", config_map("one", "a"));
    first.labels.insert("team".to_owned(), "blue".to_owned());
    site.deploy(first).await.unwrap();
    assert!(
        site.helm(&["list", "--selector=team=blue"])
            .contains("deployed")
    );
    site.deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    let labels = site.history().await.revisions()[0].labels.clone();
    assert_eq!(labels["team"], "blue");
    let mut reserved = desired("1.2.0", config_map("one", "b"));
    reserved.labels.insert("owner".to_owned(), "me".to_owned());
    assert!(
        site.deploy(reserved)
            .await
            .unwrap_err()
            .message
            .contains("reserved label name")
    );
}

#[tokio::test]
async fn drift_is_seen_mended_and_ignored() {
    let site = Site::full("drift");
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - {name: web, image: 'example.invalid/web:1'}\n";
    let manifest = config_map("one", "a") + &config_map("two", "a") + deployment;
    site.deploy(desired("1.0.0", manifest)).await.unwrap();
    let check = |ignore: Vec<IgnoreRule>, correct: bool| {
        let site = &site;
        async move {
            let check = DriftCheck {
                release: site.release.clone(),
                history: site.history().await,
                ignore,
                correct,
                options: site.options.clone(),
            };
            site.cluster.run(drift(check)).await.unwrap()
        }
    };
    assert_eq!(check(vec![], false).await, []);
    site.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    site.kubectl(&["delete", "configmap", "two"]);
    site.kubectl(&[
        "patch",
        "configmap",
        "one",
        "--patch={\"data\":{\"key\":\"x\",\"own\":\"y\"}}",
    ]);
    let told = |drifts: &[helm_kube::Drift]| -> Vec<String> {
        drifts
            .iter()
            .map(|drift| {
                let paths: Vec<_> = drift.differences.iter().map(ToString::to_string).collect();
                format!(
                    "{} {}{}",
                    drift.object.name,
                    if drift.is_missing { "missing" } else { "" },
                    paths.join(",")
                )
            })
            .collect()
    };
    assert_eq!(
        told(&check(vec![], false).await),
        [
            "one /data/key changed",
            "two missing",
            "web /spec/replicas changed"
        ]
    );
    let ignore = vec![IgnoreRule {
        paths: vec!["/spec/replicas".to_owned()],
        target: IgnoreTarget {
            kind: Some("Deployment".to_owned()),
            ..IgnoreTarget::default()
        },
    }];
    let mended = check(ignore.clone(), true).await;
    assert_eq!(told(&mended), ["one /data/key changed", "two missing"]);
    assert!(mended.iter().all(|drift| drift.is_corrected));
    assert_eq!(check(ignore, false).await, []);
    assert_eq!(key(&site, "one"), "a");
    assert_eq!(site.live("configmaps", "one").unwrap()["data"]["own"], "y");
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/web",
        site.namespace()
    );
    assert_eq!(site.plane.get(&path).unwrap()["spec"]["replicas"], 3);
    assert_eq!(site.states().await, "1 deployed");
    check(vec![], true).await;
    assert_eq!(site.plane.get(&path).unwrap()["spec"]["replicas"], 1);
}

#[tokio::test]
async fn an_uninstall_with_a_failing_hook_is_taken_up_where_it_stopped() {
    let mut site = Site::new("stubborn");
    let mut first = desired("1.0.0", config_map("one", "a"));
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: never}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {name: x, image: x}\n";
    first.hooks = vec![hook(
        "never",
        "Job",
        &[HookEvent::PreDelete],
        job.to_owned(),
    )];
    site.deploy(first).await.unwrap();
    site.options.timeout = std::time::Duration::from_millis(400);
    let error = site.uninstall(false).await.unwrap_err();
    assert_eq!(error.reason, Reason::HookFailed);
    assert_eq!(site.states().await, "1 uninstalling");
    assert!(site.live("configmaps", "one").is_some());
    site.options.hooks = false;
    site.uninstall(false).await.unwrap();
    assert_eq!(site.live("configmaps", "one"), None);
    assert_eq!(site.states().await, "");
}

#[tokio::test]
async fn an_uninstall_of_a_release_that_another_client_made_is_taken_up_at_once() {
    let mut site = Site::new("inherited");
    let mut first = desired("1.0.0", config_map("one", "a"));
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: never}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {name: x, image: x}\n";
    let event = [HookEvent::PreDelete];
    first.hooks = vec![hook("never", "Job", &event, job.to_owned())];
    let ours = std::mem::replace(&mut site.options.holder, "another client".to_owned());
    site.deploy(first).await.unwrap();
    site.options.holder = ours;
    // It stops in the middle, as by a crash.
    site.options.timeout = std::time::Duration::from_millis(400);
    let error = site.uninstall(false).await.unwrap_err();
    assert_eq!(error.reason, Reason::HookFailed);
    assert_eq!(site.states().await, "1 uninstalling");
    site.options.hooks = false;
    site.uninstall(false).await.unwrap();
    assert_eq!(site.states().await, "");
    assert_eq!(site.live("configmaps", "one"), None);
}

/// A webhook or policy is for one namespace only: other tests share the cluster.
fn selector(site: &Site) -> String {
    format!(
        "{{matchLabels: {{kubernetes.io/metadata.name: {}}}}}",
        site.namespace()
    )
}

/// Policies and webhooks take effect a moment after they are made.
async fn until_refused(site: &Site, key: &str) {
    let literal = format!("--from-literal=key={key}");
    until("a ConfigMap is refused", async || {
        let tried = site.try_kubectl(&["create", "configmap", "probe", &literal]);
        if tried.is_ok() {
            // The webhook may be in force by now.
            site.try_kubectl(&["delete", "configmap", "probe"]).ok();
        }
        tried.is_err()
    })
    .await;
}

#[tokio::test]
async fn what_admission_denies_fails_the_release_with_its_words() {
    let site = Site::new("denied");
    let policy = format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec:\n  failurePolicy: Fail\n  matchConstraints:\n    resourceRules:\n    - apiGroups: ['']\n      apiVersions: [v1]\n      operations: [CREATE, UPDATE]\n      resources: [configmaps]\n  validations:\n  - expression: \"object.data.key != 'bad'\"\n    message: no bad keys here\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}}}\nspec:\n  policyName: {name}\n  validationActions: [Deny]\n  matchResources: {{namespaceSelector: {selector}}}\n",
        name = site.namespace(),
        selector = selector(&site),
    );
    kubectl_apply(&site, &policy);
    until_refused(&site, "bad").await;
    let error = site
        .deploy(desired("1.0.0", config_map("one", "bad")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::AdmissionDenied, Class::Permanent)
    );
    assert!(error.message.contains("no bad keys here"), "{error}");
    assert_eq!(site.states().await, "1 failed");
    site.deploy(desired("1.0.1", config_map("one", "good")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_webhook_that_is_down_is_waited_out() {
    let site = Site::new("webhook");
    let webhook = format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: {name}}}\nwebhooks:\n- name: down.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  timeoutSeconds: 1\n  failurePolicy: Fail\n  clientConfig: {{url: 'https://127.0.0.1:9/x'}}\n  namespaceSelector: {selector}\n  rules:\n  - apiGroups: ['']\n    apiVersions: [v1]\n    operations: ['*']\n    resources: [configmaps]\n",
        name = site.namespace(),
        selector = selector(&site),
    );
    kubectl_apply(&site, &webhook);
    until_refused(&site, "any").await;
    let error = site
        .deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason, error.class()),
        (Reason::ServerError, Class::Transient)
    );
    assert!(
        error.message.contains("down.example.com") && error.resumable,
        "{error}"
    );
    site.kubectl(&["delete", "validatingwebhookconfiguration", site.namespace()]);
    until("it is deployed", async || {
        let again = desired("1.0.0", config_map("one", "a"));
        site.deploy(again).await.is_ok()
    })
    .await;
    assert_eq!(site.states().await, "1 deployed");
}

#[tokio::test]
async fn config_maps_keep_records_as_well() {
    let mut site = Site::new("driver");
    site.options.driver = Driver::ConfigMap;
    let helm = |arguments: &[&str]| {
        let mut helm = site.plane.helm().unwrap();
        helm.env("HELM_DRIVER", "configmap").args(arguments);
        testkit::run(helm.args(["--namespace", site.namespace()])).unwrap()
    };
    site.deploy(desired("1.0.0", config_map("one", "a")))
        .await
        .unwrap();
    assert!(helm(&["status", "web"]).contains("STATUS: deployed"));
    helm(&["rollback", "web", "1"]);
    site.deploy(desired("1.1.0", config_map("one", "b")))
        .await
        .unwrap();
    assert_eq!(
        site.states().await,
        "1 superseded, 2 superseded, 3 deployed"
    );
    helm(&["uninstall", "web"]);
    assert_eq!(site.states().await, "");
}

#[tokio::test]
async fn objects_whose_names_the_server_makes_are_created_each_time() {
    let site = Site::new("names");
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: many-}\n";
    site.deploy(desired("1.0.0", manifest)).await.unwrap();
    site.deploy(desired("1.1.0", manifest)).await.unwrap();
    let list = site.kubectl(&["get", "configmaps", "--output=name"]);
    assert_eq!(list.matches("configmap/many-").count(), 2, "{list}");
    let both = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: many-, name: one}\n";
    let error = site.deploy(desired("1.2.0", both)).await.unwrap_err();
    assert!(error.message.contains("cannot both be set"), "{error}");
}

//! Releases deployed as a ServiceAccount, and to other clusters.

use std::sync::OnceLock;

use testkit::{ControlPlane, Options, Rig};

use crate::support::{BINARY, LIMIT, condition, kubectl, message, text, write_chart};

/// A control plane that writes down who asked for what, and a daemon that lets nobody reach into other
/// namespaces.
fn rig() -> &'static Rig<'static> {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    static RIG: OnceLock<Rig<'static>> = OnceLock::new();
    RIG.get_or_init(|| {
        let options = Options {
            audit: true,
            ..Options::default()
        };
        let plane = PLANE.get_or_init(|| ControlPlane::start(options).unwrap());
        let flags = ["--no-cross-namespace-refs", "--git-default-ref=main"];
        Rig::start(plane, BINARY, &flags).unwrap()
    })
}

/// A namespace with a ServiceAccount that may do what a release of the chart needs, there only.
fn tenant(name: &str) -> String {
    let rig = rig();
    let namespace = rig.plane.namespace(name).unwrap();
    let rights = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: deployer}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: deployer}}\nrules:\n\
         - {{apiGroups: [''], resources: [configmaps, secrets], verbs: ['*']}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: deployer}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}}\n\
         subjects: [{{kind: ServiceAccount, name: deployer, namespace: {namespace}}}]\n"
    );
    rig.apply(&namespace, &rights).unwrap();
    namespace
}

fn release(namespace: &str, more: &str) -> String {
    let rig = rig();
    let repository = rig.git.repository(namespace).unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let url = repository.url();
    format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: hello}}\nspec:\n  \
         releaseName: hello\n  chart: {{git: \"{url}\", path: charts/hello}}\n{more}"
    )
}

#[test]
fn every_request_of_a_release_is_made_as_its_service_account() {
    let rig = rig();
    let namespace = tenant("account");
    let values = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {values.yaml: \"greeting: hi\"}\n";
    rig.apply(&namespace, values).unwrap();
    let more = "  serviceAccountName: deployer\n  valuesFrom: [{configMapKeyRef: {name: more}}]\n";
    rig.apply(&namespace, &release(&namespace, more)).unwrap();
    rig.wait_until_ready(&namespace, "hello", LIMIT).unwrap();
    let delete = ["delete", "hr", "hello", "--timeout=60s"];
    kubectl(rig.plane, &namespace, &delete);

    let account = format!("system:serviceaccount:{namespace}:deployer");
    let inside = format!("/namespaces/{namespace}/");
    let entries = rig.plane.audit().unwrap();
    let of_release: Vec<_> = entries
        .iter()
        .filter(|entry| entry.uri.contains(&inside) && !entry.agent.contains("kubectl"))
        .filter(|entry| entry.uri.contains("/configmaps") || entry.uri.contains("/secrets"))
        .collect();
    assert!(of_release.len() > 6, "{of_release:#?}");
    for entry in of_release {
        assert_eq!(
            entry.impersonated.as_deref(),
            Some(account.as_str()),
            "{entry:?}"
        );
    }
}

#[test]
fn a_service_account_without_rights_deploys_nothing() {
    let rig = rig();
    let namespace = tenant("weak");
    let target = rig.plane.namespace("weak-target").unwrap();
    let more = format!("  serviceAccountName: deployer\n  targetNamespace: {target}\n");
    rig.apply(&namespace, &release(&namespace, &more)).unwrap();
    let failed = rig
        .wait_for(&namespace, "hello", LIMIT, |release| {
            condition(release, "Ready") == "False Forbidden"
        })
        .unwrap();
    assert!(
        message(&failed, "Ready").contains("deployer"),
        "{}",
        message(&failed, "Ready")
    );
    let maps = rig
        .plane
        .get(&format!("/api/v1/namespaces/{target}/configmaps/hello"));
    assert!(maps.is_err());
}

#[test]
fn references_into_other_namespaces_can_be_forbidden() {
    let rig = rig();
    let namespace = tenant("own");
    let other = rig.plane.namespace("other").unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {values.yaml: \"greeting: canary\"}\n";
    rig.apply(&other, secret).unwrap();
    let more = format!("  valuesFrom: [{{secretKeyRef: {{name: s, namespace: {other}}}}}]\n");
    rig.apply(&namespace, &release(&namespace, &more)).unwrap();
    let failed = rig
        .wait_for(&namespace, "hello", LIMIT, |release| {
            condition(release, "Ready") == "False CrossNamespaceDenied"
        })
        .unwrap();
    assert!(!failed.to_string().contains("canary"));
}

#[test]
fn a_release_whose_service_account_is_gone_can_be_deleted() {
    let rig = rig();
    let namespace = tenant("gone");
    rig.apply(
        &namespace,
        &release(&namespace, "  serviceAccountName: deployer\n"),
    )
    .unwrap();
    rig.wait_until_ready(&namespace, "hello", LIMIT).unwrap();
    let kubectl = |arguments: &[&str]| kubectl(rig.plane, &namespace, arguments);
    kubectl(&["delete", "serviceaccount,rolebinding", "deployer"]);
    kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    let map = rig
        .plane
        .get(&format!("/api/v1/namespaces/{namespace}/configmaps/hello"))
        .unwrap();
    assert_eq!(text(&map, "/data/greeting"), "hello");
}

#[test]
fn a_release_goes_to_the_cluster_of_its_kubeconfig() {
    let rig = rig();
    let remote = ControlPlane::shared().unwrap();
    let namespace = tenant("remote");
    let target = remote.namespace("from-afar").unwrap();
    let kubeconfig = std::fs::read_to_string(remote.kubeconfig()).unwrap();
    let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "afar"}, "stringData": {"value": kubeconfig}});
    rig.apply(&namespace, &secret.to_string()).unwrap();
    let more =
        format!("  targetNamespace: {target}\n  kubeConfig: {{secretRef: {{name: afar}}}}\n");
    rig.apply(&namespace, &release(&namespace, &more)).unwrap();
    rig.wait_until_ready(&namespace, "hello", LIMIT).unwrap();
    let map = remote
        .get(&format!("/api/v1/namespaces/{target}/configmaps/hello"))
        .unwrap();
    assert_eq!(text(&map, "/data/greeting"), "hello");
    let delete = ["delete", "hr", "hello", "--timeout=60s"];
    kubectl(rig.plane, &namespace, &delete);
    assert!(
        remote
            .get(&format!("/api/v1/namespaces/{target}/configmaps/hello"))
            .is_err()
    );
}

#[test]
fn a_kubeconfig_that_starts_a_program_is_refused() {
    let rig = rig();
    let namespace = tenant("exec");
    let kubeconfig = r#"{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"touch","args":["/tmp/canary"],"interactiveMode":"Never"}}}]}"#;
    let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "afar"}, "stringData": {"value": kubeconfig}});
    rig.apply(&namespace, &secret.to_string()).unwrap();
    rig.apply(
        &namespace,
        &release(&namespace, "  kubeConfig: {secretRef: {name: afar}}\n"),
    )
    .unwrap();
    let failed = rig
        .wait_for(&namespace, "hello", LIMIT, |release| {
            condition(release, "Ready") == "False KubeConfigInvalid"
        })
        .unwrap();
    assert!(
        message(&failed, "Ready").contains("exec"),
        "{}",
        message(&failed, "Ready")
    );
}

#[test]
fn a_release_whose_kubeconfig_is_gone_lets_its_object_go() {
    let rig = rig();
    let namespace = tenant("lost");
    let more = "  kubeConfig: {secretRef: {name: afar}}\n";
    rig.apply(&namespace, &release(&namespace, more)).unwrap();
    rig.wait_for(&namespace, "hello", LIMIT, |release| {
        condition(release, "Ready") == "False KubeConfigNotFound"
    })
    .unwrap();
    let kubectl = |arguments: &[&str]| kubectl(rig.plane, &namespace, arguments);
    kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    let events = kubectl(&["get", "events", "--output=json"]);
    let events: serde_json::Value = serde_json::from_str(&events).unwrap();
    let mut reasons = events["items"].as_array().unwrap().iter();
    assert!(reasons.any(|event| event["reason"] == "ReleaseAbandoned"));
}

//! deploy/install.yaml and the chart, applied to the real API server.

#![cfg(test)]

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use testkit::{ControlPlane, DaemonOptions, Rig, repository, run};

const LIMIT: Duration = Duration::from_secs(60);

const ACCOUNT: &str = "system:serviceaccount:helm-operator:helm-operator";

/// The control plane with deploy/install.yaml applied, once for all tests.
fn installed() -> &'static ControlPlane {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let plane = ControlPlane::shared_full().unwrap();
    INSTALLED.get_or_init(|| {
        let file = repository().join("deploy/install.yaml");
        let mut apply = plane.kubectl().unwrap();
        run(apply
            .args(["apply", "--server-side", "--filename"])
            .arg(file))
        .unwrap();
    });
    plane
}

fn may(plane: &ControlPlane, question: &str) -> bool {
    let mut kubectl = plane.kubectl().unwrap();
    kubectl
        .args(["auth", "can-i", "--as", ACCOUNT])
        .args(question.split(' '));
    // `can-i` says no with exit code 1.
    kubectl.output().unwrap().status.success()
}

#[test]
fn deployment_of_the_install_manifest_becomes_available() {
    let plane = installed();
    let mut kubectl = plane.kubectl().unwrap();
    let rollout = [
        "rollout",
        "status",
        "deployment/helm-operator",
        "--timeout=60s",
    ];
    run(kubectl.args(["--namespace=helm-operator"]).args(rollout)).unwrap();
    let pods = plane.get("/api/v1/namespaces/helm-operator/pods").unwrap();
    let pod = &pods["items"][0];
    // The namespace enforces the restricted standard, so a pod that breaks it would not be there.
    assert_eq!(
        pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
        true
    );
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
}

#[test]
fn service_account_may_do_what_it_needs() {
    let plane = installed();
    for question in [
        "watch helmreleases.helm.fluxcd.io --all-namespaces",
        "patch helmreleases.helm.fluxcd.io --subresource=status --all-namespaces",
        "update helmreleases.helm.fluxcd.io --subresource=finalizers --all-namespaces",
        "create secrets --all-namespaces",
        "create events --all-namespaces",
        "watch configmaps --all-namespaces",
        "create namespaces",
        "create customresourcedefinitions.apiextensions.k8s.io",
        "create leases.coordination.k8s.io --namespace=helm-operator",
        "patch deployments.apps --all-namespaces",
        "delete services --all-namespaces",
        "create jobs.batch --all-namespaces",
        "get pods --subresource=log --all-namespaces",
        "patch ingresses.networking.k8s.io --all-namespaces",
        "create rolebindings.rbac.authorization.k8s.io --all-namespaces",
    ] {
        assert!(may(plane, question), "must be allowed to {question}");
    }
}

#[test]
fn service_account_may_not_do_more() {
    let plane = installed();
    for question in [
        "* * --all-namespaces",
        "delete helmreleases.helm.fluxcd.io --all-namespaces",
        "create leases.coordination.k8s.io --namespace=default",
        "delete namespaces",
        "delete customresourcedefinitions.apiextensions.k8s.io",
        "get nodes",
        "create persistentvolumes",
        "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "create pods --subresource=exec --all-namespaces",
        "escalate clusterroles.rbac.authorization.k8s.io",
        "bind clusterroles.rbac.authorization.k8s.io",
        "impersonate users",
        "impersonate serviceaccounts --all-namespaces",
        "get /metrics",
    ] {
        assert!(!may(plane, question), "must not be allowed to {question}");
    }
}

#[test]
fn daemon_deploys_with_the_rights_of_the_install_manifest() {
    let plane = installed();
    let token = plane
        .service_account_token("helm-operator", "helm-operator")
        .unwrap();
    let kubeconfig = plane.kubeconfig_for(plane.url(), &token).unwrap();
    let namespace = plane.namespace("rights").unwrap();
    let flags = [
        "--leader-election=true",
        "--leader-election-namespace=helm-operator",
        &format!("--allow-namespace={namespace}"),
    ];
    let binary = env!("CARGO_BIN_EXE_helm-operator");
    let rig = Rig::start_with(plane, DaemonOptions::local(binary, kubeconfig, &flags)).unwrap();
    let charts = rig.git.repository("charts").unwrap();
    charts
        .write_directory("charts", &repository().join("examples/charts"))
        .unwrap();
    charts.commit("Add the charts of the examples").unwrap();
    let example = repository().join("examples/git-chart/helmrelease.yaml");
    let manifest = fs::read_to_string(example).unwrap();
    let manifest = manifest.replace("https://git.example.com/team/charts.git", charts.url());
    rig.apply(&namespace, &manifest).unwrap();
    rig.wait_until_ready(&namespace, "greeter", LIMIT).unwrap();
    assert!(
        !rig.daemon.log().contains("forbidden"),
        "{}",
        rig.daemon.log()
    );
}

#[test]
fn chart_is_installed_and_upgraded_by_the_stock_helm() {
    let plane = ControlPlane::shared_full().unwrap();
    let namespace = plane.namespace("flux").unwrap();
    let helm = |arguments: &[&str]| {
        let mut command = plane.helm().unwrap();
        command
            .current_dir(repository())
            .args(arguments)
            .args(["--namespace", &namespace]);
        run(&mut command).unwrap()
    };
    let chart = "charts/helm-operator";
    // The CRD and the cluster roles belong to the install manifest of the other tests.
    installed();
    let own = [
        "--skip-crds",
        "--set=fullnameOverride=flux-helm-operator",
        "--wait",
        "--timeout=60s",
    ];
    helm(&[["install", "flux", chart].as_slice(), &own].concat());
    let more = [
        "--set=replicaCount=2",
        "--set=podDisruptionBudget.create=true",
    ];
    let upgraded = helm(&[["upgrade", "flux", chart].as_slice(), &own, &more].concat());
    assert!(upgraded.contains("STATUS: deployed"), "{upgraded}");
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/flux-helm-operator");
    assert_eq!(plane.get(&path).unwrap()["status"]["readyReplicas"], 2);
}

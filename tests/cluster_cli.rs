//! The verbs on releases, beside the stock helm on the same release.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

use testkit::{ControlPlane, ScratchDir, run};

/// A namespace with a release that the stock helm has installed and upgraded.
struct Site {
    plane: &'static ControlPlane,
    namespace: String,
    _charts: ScratchDir,
}

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\ndata:\n  message: {{ .Values.message | quote }}\n";
const KEPT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations: {helm.sh/resource-policy: keep}\n";
const CHECK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: check\n  annotations: {helm.sh/hook: test}\n";

fn write(root: &Path) {
    let files = [
        (
            "Chart.yaml",
            "apiVersion: v2\nname: demo\nversion: 1.2.3\nappVersion: \"4.5\"\n",
        ),
        (
            "values.yaml",
            "message: hello\nmap: {a: 1, b: [x, 'yes']}\n",
        ),
        ("templates/config.yaml", CONFIG),
        ("templates/kept.yaml", KEPT),
        ("templates/check.yaml", CHECK),
        ("templates/NOTES.txt", "Say {{ .Values.message }}.\n"),
    ];
    std::fs::create_dir_all(root.join("templates")).unwrap();
    for (name, text) in files {
        std::fs::write(root.join(name), text).unwrap();
    }
}

impl Site {
    fn new(prefix: &str) -> Self {
        let plane = ControlPlane::shared().unwrap();
        let charts = ScratchDir::new("charts").unwrap();
        write(charts.path());
        let namespace = plane.namespace(prefix).unwrap();
        let site = Self {
            plane,
            namespace,
            _charts: charts,
        };
        let chart = site._charts.path().to_str().unwrap();
        site.helm(&["install", "web", chart]);
        let long = format!("--description={}", "long ".repeat(30));
        site.helm(&[
            "upgrade",
            "web",
            chart,
            "--set=message=bye,n=1000000",
            &long,
        ]);
        site
    }

    fn helm(&self, arguments: &[&str]) -> String {
        let mut helm = self.plane.helm().unwrap();
        run(helm
            .args(arguments)
            .args(["--namespace", &self.namespace])
            .env("TZ", "UTC"))
        .unwrap()
    }

    fn try_ours(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut ours = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        ours.env("KUBECONFIG", self.plane.kubeconfig());
        run(ours.args(arguments).args(["--namespace", &self.namespace]))
    }

    fn ours(&self, arguments: &[&str]) -> String {
        self.try_ours(arguments).unwrap()
    }
}

#[test]
fn what_is_recorded_is_printed_as_helm_prints_it() {
    let site = Site::new("print");
    site.helm(&["test", "web"]);
    for arguments in [
        &["history", "web"][..],
        &["history", "web", "--max=1"],
        &["history", "web", "--output=json"],
        &["history", "web", "--output=yaml"],
        &["get", "values", "web"],
        &["get", "values", "web", "--revision=1"],
        &["get", "values", "web", "--all"],
        &["get", "values", "web", "--output=json"],
        &["get", "values", "web", "--all", "--output=yaml"],
        &["get", "manifest", "web"],
        &["get", "hooks", "web"],
        &["get", "notes", "web"],
        &["get", "all", "web"],
        &["get", "all", "web", "--revision=1"],
    ] {
        assert_eq!(site.ours(arguments), site.helm(arguments), "{arguments:?}");
    }
    // What is live, helm shows in tables with ages.
    for arguments in [&["status", "web"][..], &["status", "web", "--revision=1"]] {
        let recorded = [arguments, &["--record-only"]].concat();
        let helm = site.helm(arguments);
        let expected = match helm.split_once("RESOURCES:\n") {
            Some((head, tail)) => {
                let end = tail
                    .find("TEST SUITE:")
                    .or_else(|| tail.find("NOTES:"))
                    .unwrap();
                format!("{head}{}", &tail[end..])
            }
            None => helm,
        };
        assert_eq!(site.ours(&recorded), expected, "{arguments:?}");
    }
}

#[test]
fn the_live_objects_of_a_release_are_shown() {
    let site = Site::new("live");
    let mut kubectl = site.plane.kubectl().unwrap();
    run(kubectl.args([
        "delete",
        "configmap",
        "config",
        "--namespace",
        &site.namespace,
    ]))
    .unwrap();
    let status = site.ours(&["status", "web"]);
    let namespace = &site.namespace;
    let config = format!("ConfigMap {namespace}/config: NotFound, Resource not found\n");
    let kept = format!("ConfigMap {namespace}/kept: Current, Resource is always ready\n");
    assert!(
        status.contains(&config) && status.contains(&kept),
        "{status}"
    );
}

#[test]
fn rollback_test_and_uninstall_do_what_helm_does() {
    let site = Site::new("act");
    assert_eq!(
        site.ours(&["rollback", "web", "1"]),
        "Rollback was a success! Happy Helming!\n"
    );
    assert!(site.helm(&["history", "web"]).contains("Rollback to 1"));
    let tested = site.ours(&["test", "web", "--logs"]);
    assert!(
        tested.contains("TEST SUITE:     check") && tested.contains("Phase:          Succeeded"),
        "{tested}"
    );
    assert_eq!(
        site.ours(&["uninstall", "web"]),
        "These resources were kept due to the resource policy:\n[ConfigMap] kept\nrelease \"web\" uninstalled\n"
    );
    assert_eq!(site.helm(&["list", "--short"]).trim(), "");
    assert_eq!(
        site.ours(&["uninstall", "web", "--ignore-not-found"]),
        "release \"web\" uninstalled\n"
    );
}

#[test]
fn what_cannot_be_done_is_said() {
    let site = Site::new("errors");
    for (arguments, text) in [
        (&["history", "none"][..], "release: not found"),
        (&["status", "web", "--revision=9"], "has no revision 9"),
        (&["rollback", "web", "9"], "release has no 9 version"),
        (&["uninstall", "none"], "release: not found"),
        (
            &["get", "values", "Not_A_Name"],
            "release name is invalid: Not_A_Name",
        ),
        (&["test", "web", "--filter=x"], "is no filter"),
    ] {
        let error = format!("{:#}", site.try_ours(arguments).unwrap_err());
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}

/// Both fail with the same exit code, and our words begin with helm's.
#[test]
fn what_helm_refuses_is_refused_with_its_words() {
    let site = Site::new("refused");
    for arguments in [
        &["history", "none"][..],
        &["status", "none"],
        &["get", "values", "none"],
        &["get", "manifest", "web", "--revision=9"],
        &["rollback", "none", "1"],
        &["rollback", "web", "9"],
        &["test", "none"],
    ] {
        let output = |mut program: Command| {
            program
                .args(arguments)
                .args(["--namespace", &site.namespace]);
            let output = program
                .env("KUBECONFIG", site.plane.kubeconfig())
                .output()
                .unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), text.trim().to_owned())
        };
        let helm = output(site.plane.helm().unwrap());
        let ours = output(Command::new(env!("CARGO_BIN_EXE_helm-operator")));
        assert_eq!(ours.0, helm.0, "{arguments:?}");
        assert!(
            ours.1.to_lowercase().starts_with(&helm.1.to_lowercase()),
            "{arguments:?}: {:?} instead of {:?}",
            ours.1,
            helm.1
        );
    }
}

#[test]
fn several_releases_go_with_one_uninstall() {
    let site = Site::new("several");
    let chart = site._charts.path().to_str().unwrap();
    site.helm(&["install", "api", chart, "--take-ownership"]);
    assert_eq!(
        site.ours(&["uninstall", "web", "api", "--dry-run"]),
        "release \"web\" uninstalled\nrelease \"api\" uninstalled\n"
    );
    assert_eq!(site.helm(&["list", "--short"]), "api\nweb\n");
    let told = site.ours(&[
        "uninstall",
        "web",
        "api",
        "--cascade=foreground",
        "--keep-history",
    ]);
    assert!(told.ends_with("release \"api\" uninstalled\n"), "{told}");
    assert_eq!(site.helm(&["list", "--short", "--deployed"]), "");
    let error = site.try_ours(&["uninstall", "none", "api"]).unwrap_err();
    assert!(format!("{error:#}").contains("release: not found"));
}

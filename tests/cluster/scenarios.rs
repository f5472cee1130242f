//! The end-to-end scenarios of Flux Helm Operator 1.4, each by its number and name there, with pods that
//! come up, on the full control plane.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{ChartServer, ControlPlane, GitRepository, Rig, chart_archive, run};

use crate::support::{BINARY, NOT_SOLO, condition, kubectl, records, text};

/// Pods have to come up, and waits have to end in vain.
const LIMIT: Duration = Duration::from_secs(120);

fn rig() -> &'static Rig<'static> {
    static RIG: OnceLock<Rig<'static>> = OnceLock::new();
    RIG.get_or_init(|| {
        let plane = ControlPlane::shared_full().unwrap();
        let flags = [
            "--workers=4",
            "--charts-sync-interval=30s",
            "--git-poll-interval=3s",
            "--git-default-ref=main",
            "--status-update-interval=1s",
            "--log-level=info,helm_operator=debug",
            NOT_SOLO,
        ];
        Rig::start(plane, BINARY, &flags).unwrap()
    })
}

/// The templates of the chart: a Deployment whose pods find no node if `faults.unready`, and a test that
/// fails after a second if `faults.testFail` and does not end if `faults.testTimeout`.
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}}\nspec:\n  \
replicas: {{ .Values.replicaCount }}\n  selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    \
metadata: {labels: {app: {{ .Release.Name }}}}\n    spec:\n      \
containers: [{name: app, image: registry.example.com/app:{{ .Values.tag }}}]\n      \
{{- if .Values.faults.unready }}\n      nodeSelector: {no: such-node}\n      {{- end }}\n";
const TEST: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations:\n    \
helm.sh/hook: test\n    helm.sh/hook-delete-policy: before-hook-creation\nspec:\n  backoffLimit: 0\n  \
{{- if .Values.faults.testFail }}\n  activeDeadlineSeconds: 1\n  {{- end }}\n  template:\n    \
spec:\n      restartPolicy: Never\n      containers: [{name: test, image: registry.example.com/test:1}]\n      \
{{- if or .Values.faults.testFail .Values.faults.testTimeout }}\n      nodeSelector: {no: such-node}\n      {{- end }}\n";
const VALUES: &str =
    "replicaCount: 1\ntag: \"1\"\nfaults: {unready: false, testFail: false, testTimeout: false}\n";
const NOTES: &str = "enjoy {{ .Release.Name }}\n";

fn chart_files(version: &str) -> Vec<(String, String)> {
    [
        (
            "Chart.yaml",
            format!("apiVersion: v2\nname: podinfo\nversion: {version}\n"),
        ),
        ("values.yaml", VALUES.to_owned()),
        ("templates/deployment.yaml", DEPLOYMENT.to_owned()),
        ("templates/tests/test.yaml", TEST.to_owned()),
        ("templates/NOTES.txt", NOTES.to_owned()),
        ("env/prod.yaml", "replicaCount: 2\n".to_owned()),
    ]
    .map(|(path, content)| (path.to_owned(), content))
    .into()
}

/// One scenario's namespace and its chart in git.
struct Scene {
    namespace: String,
    repository: GitRepository,
}

impl Scene {
    fn new(name: &str) -> Self {
        let namespace = rig().plane.namespace(name).unwrap();
        let repository = rig().git.repository(&format!("scene-{namespace}")).unwrap();
        for (path, content) in chart_files("3.2.0") {
            repository
                .write(&format!("charts/podinfo/{path}"), content)
                .unwrap();
        }
        repository.commit("Add podinfo").unwrap();
        Self {
            namespace,
            repository,
        }
    }

    /// Applies a HelmRelease of the chart in git, with more lines of its spec.
    fn apply(&self, more: &str) {
        let url = self.repository.url();
        self.apply_chart(&format!("{{git: \"{url}\", path: charts/podinfo}}"), more);
    }

    fn apply_chart(&self, chart: &str, more: &str) {
        let more: String = more.lines().map(|line| format!("  {line}\n")).collect();
        let manifest = format!(
            "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: podinfo}}\nspec:\n  \
             releaseName: podinfo\n  chart: {chart}\n{more}"
        );
        rig().apply(&self.namespace, &manifest).unwrap();
    }

    fn wait(&self, enough: impl Fn(&Value) -> bool) -> Value {
        rig()
            .wait_for(&self.namespace, "podinfo", LIMIT, enough)
            .unwrap()
    }

    /// Waits until a condition has this status at the newest generation.
    fn wait_condition(&self, name: &str, status: &str) -> Value {
        self.wait(|release| {
            let is_seen =
                release["status"]["observedGeneration"] == release["metadata"]["generation"];
            is_seen && condition(release, name).starts_with(status)
        })
    }

    fn records(&self) -> Vec<(i64, String)> {
        records(rig().plane, &self.namespace, "podinfo")
    }

    fn replicas(&self) -> Value {
        let path = format!(
            "/apis/apps/v1/namespaces/{}/deployments/podinfo",
            self.namespace
        );
        rig()
            .plane
            .get(&path)
            .map_or(Value::Null, |object| object["spec"]["replicas"].clone())
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(rig().plane, &self.namespace, arguments)
    }

    fn object(&self, manifest: &str) {
        rig().apply(&self.namespace, manifest).unwrap();
    }

    fn wait_for_log(&self, words: &str) {
        let end = Instant::now() + LIMIT;
        while !self.log().contains(words) {
            assert!(Instant::now() < end, "no {words} in\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The lines that the daemon has logged about this release.
    fn log(&self) -> String {
        let key = format!("{}/podinfo", self.namespace);
        let log = rig().daemon.log();
        log.lines()
            .filter(|line| line.contains(&key))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// As every one of 1.4's scenarios does, each ends with the look at whether the daemon has come through it.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let alive = rig().daemon.get("/healthz").map(|(code, _)| code);
        assert_eq!(alive.unwrap(), 200);
        assert!(!self.log().contains("panic"), "{}", self.log());
    }
}

/// A Helm repository with podinfo 3.2.0.
fn charts() -> &'static ChartServer {
    static CHARTS: OnceLock<ChartServer> = OnceLock::new();
    CHARTS.get_or_init(|| {
        let server = ChartServer::start().unwrap();
        let files = chart_files("3.2.0");
        let files: Vec<(&str, &str)> = files
            .iter()
            .skip(1)
            .map(|(path, content)| (path.as_str(), content.as_str()))
            .collect();
        server.add_chart(
            "podinfo",
            "3.2.0",
            chart_archive("podinfo", "3.2.0", &files).unwrap(),
        );
        server
    })
}

fn from_repository() -> String {
    format!(
        "{{repository: \"{}\", name: podinfo, version: 3.2.0}}",
        charts().url()
    )
}

const UNREADY: &str = "values: {tag: \"2\", faults: {unready: true}}";
/// A rollback that is quick to be decided on.
const ROLLBACK: &str = "timeout: 3\nretry: {backoff: 1s, maxBackoff: 1s}\n";

#[test]
fn e2e_10_smoke() {
    let (git, repository) = (Scene::new("smoke-git"), Scene::new("smoke-repo"));
    git.apply("wait: true");
    repository.apply_chart(&from_repository(), "wait: true");
    for scene in [git, repository] {
        let released = scene.wait(|release| {
            text(release, "/status/releaseStatus") == "deployed"
                && condition(release, "Released") == "True Succeeded"
        });
        assert_eq!(condition(&released, "Deployed"), "True Deployed");
    }
}

#[test]
fn e2e_15_upgrade_a_a_commit_that_changes_a_template() {
    let scene = Scene::new("upgrade-a");
    scene.apply("");
    scene.wait_condition("Released", "True");
    let notes = "charts/podinfo/templates/NOTES.txt";
    let commit = scene.repository.commit_file(notes, "changed\n").unwrap();
    let upgraded = scene.wait(|release| text(release, "/status/revision") == commit);
    assert_eq!(text(&upgraded, "/status/lastAttemptedRevision"), commit);
    assert_eq!(condition(&upgraded, "Deployed"), "True Deployed");
}

#[test]
fn e2e_15_upgrade_b_a_commit_that_changes_default_values() {
    let scene = Scene::new("upgrade-b");
    scene.apply("");
    scene.wait_condition("Released", "True");
    let values = VALUES.replace("replicaCount: 1", "replicaCount: 3");
    let commit = scene
        .repository
        .commit_file("charts/podinfo/values.yaml", values)
        .unwrap();
    scene.wait(|release| text(release, "/status/revision") == commit);
    assert_eq!(scene.replicas(), 3);
}

#[test]
fn e2e_15_upgrade_c_takeover_with_the_values_of_the_release() {
    let scene = Scene::new("upgrade-c");
    let chart = scene.repository.work().join("charts/podinfo");
    let mut helm = rig().plane.helm().unwrap();
    helm.args([
        "install",
        "podinfo",
        "--set",
        "replicaCount=2",
        "--namespace",
        &scene.namespace,
    ]);
    run(helm.arg(&chart)).unwrap();
    scene.apply("resetValues: false\nvalues: {tag: \"2\"}");
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 2);
    scene.apply("values: {tag: \"2\"}");
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 1);
}

#[test]
fn e2e_15_upgrade_d_a_helm_release_inside_of_a_chart() {
    let scene = Scene::new("upgrade-d");
    let child = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: child}}\nspec:\n  releaseName: child\n  \
         chart: {}\n  values: {{replicaCount: {{{{ .Values.replicaCount }}}}}}\n",
        from_repository()
    );
    scene
        .repository
        .commit_file("charts/podinfo/templates/child.yaml", child)
        .unwrap();
    scene.apply("");
    scene.wait_condition("Released", "True");
    let ready = |generation: i64| {
        rig().wait_for(&scene.namespace, "child", LIMIT, |child| {
            child["status"]["observedGeneration"] == generation
                && condition(child, "Released") == "True Succeeded"
        })
    };
    ready(1).unwrap();
    scene.apply("values: {replicaCount: 2}");
    ready(2).unwrap();
}

#[test]
fn e2e_15_upgrade_e_a_failed_upgrade_without_rollback() {
    let scene = Scene::new("upgrade-e");
    let base = "wait: true\ntimeout: 3\n";
    scene.apply_chart(&from_repository(), base);
    scene.wait_condition("Released", "True");
    scene.apply_chart(&from_repository(), &format!("{base}{UNREADY}"));
    let failed = scene.wait_condition("Released", "False");
    assert_eq!(condition(&failed, "Deployed"), "False DeployFailed");
    assert!(scene.log().contains("upgrade failed"), "{}", scene.log());
}

#[test]
fn e2e_20_rollbacks_a_a_failed_upgrade_is_rolled_back_and_put_right() {
    let scene = Scene::new("rollback-a");
    let base = format!("{ROLLBACK}rollback: {{enable: true, wait: true}}\n");
    scene.apply_chart(&from_repository(), &base);
    scene.wait_condition("Released", "True");
    scene.apply_chart(&from_repository(), &format!("{base}{UNREADY}"));
    scene.wait_condition("RolledBack", "True");
    assert_eq!(scene.records().last().unwrap().1, "deployed");
    scene.apply_chart(&from_repository(), &base);
    let good = scene.wait_condition("Released", "True");
    assert_eq!(condition(&good, "RolledBack"), "");
}

#[test]
fn e2e_20_rollbacks_b_retries_are_counted() {
    let scene = Scene::new("rollback-b");
    let base = format!("{ROLLBACK}rollback: {{enable: true, retry: true, wait: true}}\n");
    scene.apply_chart(&from_repository(), &base);
    scene.wait_condition("Released", "True");
    scene.apply_chart(&from_repository(), &format!("{base}{UNREADY}"));
    scene.wait(|release| release["status"]["rollbackCount"].as_i64() >= Some(3));
    scene.apply_chart(&from_repository(), &base);
    let good = scene.wait_condition("Released", "True");
    assert_eq!(good["status"]["rollbackCount"], Value::Null);
}

#[test]
fn e2e_20_rollbacks_c_retries_end_at_their_limit() {
    let scene = Scene::new("rollback-c");
    let rollback = "rollback: {enable: true, retry: true, maxRetries: 1, wait: true}";
    let base = format!("{ROLLBACK}interval: 1s\n{rollback}\n");
    scene.apply_chart(&from_repository(), &base);
    scene.wait_condition("Released", "True");
    scene.apply_chart(&from_repository(), &format!("{base}{UNREADY}"));
    let stuck = scene.wait(|release| {
        release["status"]["rollbackCount"] == 2 && condition(release, "Stalled").starts_with("True")
    });
    assert_eq!(condition(&stuck, "RolledBack"), "True RolledBack");
    let before = scene.records();
    // The next periodic look compares, and leaves it at that.
    scene.wait_for_log("action=Hold");
    assert_eq!(scene.records(), before, "{}", scene.log());
    let upgrades = scene.log().matches("running upgrade").count();
    assert_eq!(upgrades, 2, "{}", scene.log());
}

#[test]
fn e2e_20_rollbacks_d_a_release_that_fails_validation_is_not_rolled_back() {
    let scene = Scene::new("rollback-d");
    let base = format!("{ROLLBACK}rollback: {{enable: true, wait: true}}\n");
    scene.apply(&base);
    scene.wait_condition("Released", "True");
    scene.apply(&format!("{base}values: {{replicaCount: \"many\"}}"));
    let failed = scene.wait_condition("Released", "False");
    assert_eq!(failed["status"]["rollbackCount"], Value::Null);
    assert_eq!(condition(&failed, "RolledBack"), "");
    assert_eq!(scene.replicas(), 1);
    assert_eq!(scene.records(), [(1, "deployed".to_owned())]);
}

/// Upgrades so many times, each by one value.
fn patch_values(scene: &Scene, more: &str, times: usize) {
    for round in 0..times {
        scene.apply(&format!("{more}values: {{tag: \"{round}\"}}"));
        scene.wait_condition("Released", "True");
    }
}

#[test]
fn e2e_25_history_a_ten_revisions_are_kept() {
    let scene = Scene::new("history-a");
    patch_values(&scene, "", 15);
    assert_eq!(scene.records().len(), 10);
}

#[test]
fn e2e_25_history_b_max_history_is_kept_to() {
    let scene = Scene::new("history-b");
    patch_values(&scene, "maxHistory: 5\n", 8);
    assert_eq!(scene.records().len(), 5);
}

#[test]
fn e2e_30_values_from_a_config_map() {
    values_from("configMapKeyRef", "values-map", |namespace, name| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{values.yaml: \"replicaCount: 2\"}}\n"
        )
    });
}

#[test]
fn e2e_30_values_from_b_secret() {
    values_from("secretKeyRef", "values-secret", |namespace, name| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\nstringData: {{values.yaml: \"replicaCount: 2\"}}\n"
        )
    });
}

fn values_from(kind: &str, name: &str, manifest: fn(&str, &str) -> String) {
    let scene = Scene::new(name);
    scene.apply(&format!("valuesFrom: [{{{kind}: {{name: more}}}}]"));
    scene.wait_condition("Released", "False");
    scene.object(&manifest(&scene.namespace, "more"));
    scene.wait_condition("Released", "True");
    let other = rig().plane.namespace(name).unwrap();
    scene.apply(&format!(
        "valuesFrom: [{{{kind}: {{name: more, namespace: {other}}}}}]"
    ));
    scene.wait_condition("Released", "False");
    rig().apply(&other, &manifest(&other, "more")).unwrap();
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 2);
}

#[test]
fn e2e_30_values_from_c_external_source() {
    let scene = Scene::new("values-url");
    charts().put("/values.yaml", b"replicaCount: 2\n".to_vec());
    let source = |path: &str, optional: bool| {
        let url = charts().url();
        format!(
            "valuesFrom: [{{externalSourceRef: {{url: \"{url}/{path}\", optional: {optional}}}}}]"
        )
    };
    scene.apply(&source("values.yaml", false));
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 2);
    scene.apply(&source("none.yaml", false));
    scene.wait_condition("Released", "False");
    scene.apply(&source("none.yaml", true));
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 1);
}

#[test]
fn e2e_30_values_from_d_chart_file() {
    let scene = Scene::new("values-file");
    let source = |path: &str, optional: bool| {
        format!("valuesFrom: [{{chartFileRef: {{path: {path}, optional: {optional}}}}}]")
    };
    scene.apply(&source("env/prod.yaml", false));
    scene.wait_condition("Released", "True");
    assert_eq!(scene.replicas(), 2);
    scene.apply(&source("env/none.yaml", false));
    scene.wait_condition("Released", "False");
    scene.apply(&source("env/none.yaml", true));
    scene.wait_condition("Released", "True");
}

#[test]
fn e2e_35_skip_crds() {
    let scene = Scene::new("skip-crds");
    let group = format!("{}.example.com", scene.namespace);
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.{group}}}\nspec:\n  \
         group: {group}\n  names: {{plural: things, singular: thing, kind: Thing}}\n  scope: Namespaced\n  versions:\n  \
         - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
    );
    scene
        .repository
        .commit_file("charts/podinfo/crds/things.yaml", crd)
        .unwrap();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}");
    scene.apply("skipCRDs: true");
    scene.wait_condition("Released", "True");
    assert!(rig().plane.get(&path).is_err());
    // Without it they are there: the scenario shows something.
    scene.kubectl(&["delete", "hr", "podinfo", "--timeout=60s"]);
    scene.apply("");
    scene.wait_condition("Released", "True");
    assert!(rig().plane.get(&path).is_ok());
}

const TESTED: &str = "timeout: 10\nretry: {backoff: 1s, maxBackoff: 1s}\n";
const FAILING_TEST: &str = "values: {faults: {testFail: true}}";
const SLOW_TEST: &str = "values: {faults: {testTimeout: true}}";

/// Tests are on; a test may take so many seconds.
fn with_test(timeout: u32, more: &str) -> String {
    format!("{TESTED}test: {{enable: true, timeout: {timeout}{more}}}\n")
}

#[test]
fn e2e_40_tests_a_a_test_that_succeeds() {
    let scene = Scene::new("tests-a");
    scene.apply(&with_test(60, ""));
    let released = scene.wait_condition("Released", "True");
    assert_eq!(condition(&released, "Tested"), "True Tested");
    let mut helm = rig().plane.helm().unwrap();
    helm.args(["status", "podinfo", "--namespace", &scene.namespace]);
    assert!(
        run(&mut helm)
            .unwrap()
            .contains("Phase:          Succeeded")
    );
}

#[test]
fn e2e_40_tests_b_a_failing_test_of_an_install_uninstalls_it() {
    let scene = Scene::new("tests-b");
    scene.apply(&format!("{}{FAILING_TEST}", with_test(60, "")));
    scene.wait_condition("Released", "False");
    scene.wait_for_log("test failed");
    scene.wait_for_log("running uninstall");
    let end = Instant::now() + LIMIT;
    while !scene.records().is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(scene.records(), []);
}

#[test]
fn e2e_40_tests_c_a_failing_test_of_an_upgrade() {
    let scene = Scene::new("tests-c");
    scene.apply(&with_test(60, ""));
    scene.wait_condition("Released", "True");
    scene.apply(&format!("{}{FAILING_TEST}", with_test(60, "")));
    let failed = scene.wait_condition("Released", "False");
    assert_eq!(condition(&failed, "Tested"), "False TestFailed");
}

#[test]
fn e2e_40_tests_d_a_failing_test_that_is_ignored() {
    let scene = Scene::new("tests-d");
    let ignored = with_test(60, ", ignoreFailures: true");
    scene.apply(&format!("{ignored}{FAILING_TEST}"));
    let released = scene.wait_condition("Released", "True");
    assert_eq!(condition(&released, "Tested"), "False TestFailed");
    assert!(scene.log().contains("ignoring failures"));
    scene.apply(&format!(
        "{ignored}values: {{replicaCount: 2, faults: {{testFail: true}}}}"
    ));
    let released = scene.wait_condition("Released", "True");
    assert_eq!(condition(&released, "Tested"), "False TestFailed");
    assert!(scene.log().contains("upgrade succeeded"));
    assert_eq!(scene.replicas(), 2);
}

fn rolled_back_after_a_test(name: &str, bad: &str) {
    let scene = Scene::new(name);
    let good = format!("{}rollback: {{enable: true}}\n", with_test(60, ""));
    scene.apply(&good);
    scene.wait_condition("Released", "True");
    scene.apply(&format!("{bad}rollback: {{enable: true}}\n"));
    let back = scene.wait_condition("RolledBack", "True");
    assert_eq!(condition(&back, "Tested"), "False TestFailed");
    scene.apply(&good);
    scene.wait_condition("Released", "True");
}

#[test]
fn e2e_40_tests_e_a_failing_test_is_rolled_back() {
    let bad = format!("{}{FAILING_TEST}\n", with_test(60, ""));
    rolled_back_after_a_test("tests-e", &bad);
}

#[test]
fn e2e_40_tests_f_a_test_that_takes_too_long_is_rolled_back() {
    let bad = format!("{}{SLOW_TEST}\n", with_test(1, ""));
    rolled_back_after_a_test("tests-f", &bad);
}

/// Helm 2 is not served: the annotation gives a warning and nothing else.
#[test]
fn e2e_45_migrate_a_the_annotation_changes_nothing() {
    migrate("migrate-a");
}

#[test]
fn e2e_45_migrate_b_without_a_release_of_helm_2_it_is_an_install() {
    migrate("migrate-b");
}

fn migrate(name: &str) {
    let scene = Scene::new(name);
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: podinfo, annotations: {{helm.fluxcd.io/migrate: \"true\"}}}}\n\
         spec: {{releaseName: podinfo, helmVersion: v3, chart: {}}}\n",
        from_repository()
    );
    scene.object(&manifest);
    scene.wait_condition("Released", "True");
    let events = scene.kubectl(&["get", "events", "--output=jsonpath={.items[*].message}"]);
    assert!(
        events.contains("helm.fluxcd.io/migrate has no effect"),
        "{events}"
    );
}

#[test]
fn e2e_50_delete() {
    let scene = Scene::new("delete");
    scene.apply("wait: true");
    scene.wait_condition("Released", "True");
    scene.kubectl(&["delete", "hr", "podinfo", "--timeout=60s"]);
    assert_eq!(scene.replicas(), Value::Null);
    assert_eq!(scene.records(), []);
}

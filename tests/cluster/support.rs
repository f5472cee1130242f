//! What the cluster tests share.

use std::ops::Deref;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{ControlPlane, DaemonOptions, FaultProxy, GitRepository, Rig};

/// How long anything may take on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_helm-operator");

/// The rig that most tests share: a daemon whose periodic work does not come within a test.
pub(crate) fn shared() -> &'static Rig<'static> {
    static RIG: OnceLock<Rig<'static>> = OnceLock::new();
    RIG.get_or_init(|| {
        let plane = ControlPlane::shared().unwrap();
        let flags = [
            "--workers=4",
            "--charts-sync-interval=10m",
            "--git-default-ref=main",
            "--status-update-interval=1s",
            "--log-level=info,helm_operator=debug",
            NOT_SOLO,
        ];
        let rig = Rig::start(plane, BINARY, &flags).unwrap();
        crate::statuses::watch(plane);
        rig
    })
}

/// What daemons that tests share leave to the daemons of single tests.
pub(crate) const NOT_SOLO: &str = "--watch-label-selector=!solo";

/// Finds pushes without being told, even of a daemon that is dead when they come.
pub(crate) const POLLS: &str = "--git-poll-interval=1s";

/// A namespace and a repository of its own for one test: on the shared rig, or on one of its own.
pub(crate) struct Bench<R = &'static Rig<'static>> {
    pub(crate) rig: R,
    pub(crate) namespace: String,
    pub(crate) repository: GitRepository,
    /// Lines of the metadata of HelmReleases.
    labels: &'static str,
}

/// A daemon of its own for one test, behind a proxy that lets requests go wrong.
pub(crate) struct Solo<'a> {
    pub(crate) bench: Bench<Box<Rig<'a>>>,
    pub(crate) proxy: FaultProxy<'a>,
}

impl Solo<'static> {
    /// On the control plane without controllers.
    pub(crate) fn new(name: &str, flags: &[&str]) -> Self {
        // The CRD is there for all daemons of the plane.
        Self::on(shared().plane, name, flags)
    }
}

impl<'a> Solo<'a> {
    pub(crate) fn on(plane: &'a ControlPlane, name: &str, flags: &[&str]) -> Self {
        let proxy = FaultProxy::start(plane).unwrap();
        let namespace = plane.namespace(name).unwrap();
        let only = format!("--allow-namespace={namespace}");
        let usual = [
            only.as_str(),
            // Of a flag that is given twice the last one counts.
            "--charts-sync-interval=10m",
            "--status-update-interval=1s",
            "--log-level=info,helm_operator=debug",
        ];
        let flags = [&usual, flags].concat();
        let options = DaemonOptions::local(BINARY, proxy.kubeconfig().unwrap(), &flags);
        let rig = Rig::start_with(plane, options).unwrap();
        let bench = Bench::on(Box::new(rig), namespace, "  labels: {solo: \"true\"}\n");
        Self { bench, proxy }
    }

    /// What the daemon has logged about a HelmRelease.
    pub(crate) fn log(&self, name: &str) -> Vec<String> {
        let key = format!("{}/{name}", self.bench.namespace);
        let log = self.bench.rig.daemon.log();
        log.lines()
            .filter(|line| line.contains(&key))
            .map(str::to_owned)
            .collect()
    }

    /// Waits for something that no HelmRelease says.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds() {
            assert!(
                Instant::now() < end,
                "in vain: {what}\n{}",
                self.rig.daemon.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the ConfigMap of a release says so.
    pub(crate) fn greets(&self, name: &str, greeting: &str) {
        self.until(&format!("{name} greets {greeting}"), || {
            self.greeting(name).as_deref() == Some(greeting)
        });
    }
}

impl<'a> Deref for Solo<'a> {
    type Target = Bench<Box<Rig<'a>>>;

    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

/// A template that renders a ConfigMap with a value.
pub(crate) const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n\
data:\n  greeting: {{ .Values.greeting | quote }}\n  revision: {{ .Release.Revision | quote }}\n";

/// Writes the chart `charts/hello` of that version.
pub(crate) fn write_chart(repository: &GitRepository, version: &str) {
    let chart = format!("apiVersion: v2\nname: hello\nversion: {version}\n");
    repository.write("charts/hello/Chart.yaml", chart).unwrap();
    repository
        .write("charts/hello/values.yaml", "greeting: hello\n")
        .unwrap();
    repository
        .write("charts/hello/templates/map.yaml", TEMPLATE)
        .unwrap();
}

/// A HelmRelease of the chart in a repository.
fn manifest(repository: &GitRepository, name: &str, more: &str) -> String {
    let url = repository.url();
    let more: String = more.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata:\n  name: {name}\nspec:\n  \
         releaseName: {name}\n  chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n{more}"
    )
}

impl Bench {
    /// On the shared rig, with the chart `charts/hello` 1.0.0 in the repository.
    pub(crate) fn new(name: &str) -> Self {
        let rig = shared();
        let namespace = rig.plane.namespace(name).unwrap();
        Self::on(rig, namespace, "")
    }
}

impl<'a, R: Deref<Target = Rig<'a>>> Bench<R> {
    fn on(rig: R, namespace: String, labels: &'static str) -> Self {
        let repository = rig.git.repository(&namespace).unwrap();
        write_chart(&repository, "1.0.0");
        repository.commit("Add the chart").unwrap();
        Self {
            rig,
            namespace,
            repository,
            labels,
        }
    }

    /// Applies a HelmRelease of the chart; `more` are further lines of its spec.
    pub(crate) fn apply(&self, name: &str, more: &str) {
        let manifest = self.manifest(name, more);
        self.rig.apply(&self.namespace, &manifest).unwrap();
    }

    /// Applies it and waits until it is deployed.
    pub(crate) fn install(&self, name: &str) -> Value {
        self.apply(name, "");
        self.ready(name)
    }

    /// A HelmRelease of the chart.
    pub(crate) fn manifest(&self, name: &str, more: &str) -> String {
        let spec = format!("{}spec:\n", self.labels);
        manifest(&self.repository, name, more).replacen("spec:\n", &spec, 1)
    }

    /// Pushes a version of the chart; returns the commit.
    pub(crate) fn push(&self, version: &str) -> String {
        write_chart(&self.repository, version);
        let message = format!("Release {version}");
        self.repository.commit(&message).unwrap()
    }

    /// Tells the daemon that something was pushed.
    pub(crate) fn pushed(&self) {
        assert_eq!(self.rig.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    }

    pub(crate) fn ready(&self, name: &str) -> Value {
        self.rig
            .wait_until_ready(&self.namespace, name, LIMIT)
            .unwrap()
    }

    pub(crate) fn wait(&self, name: &str, enough: impl Fn(&Value) -> bool) -> Value {
        self.rig
            .wait_for(&self.namespace, name, LIMIT, enough)
            .unwrap()
    }

    /// Waits until a commit is deployed.
    pub(crate) fn deployed(&self, name: &str, commit: &str) -> Value {
        self.wait(name, |release| {
            text(release, "/status/revision") == commit && testkit::is_ready(release)
        })
    }

    pub(crate) fn config_map(&self, name: &str) -> Option<Value> {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace);
        self.rig.plane.get(&path).ok()
    }

    /// The value in the ConfigMap of a release.
    pub(crate) fn greeting(&self, release: &str) -> Option<String> {
        let map = self.config_map(release)?;
        map.pointer("/data/greeting")?.as_str().map(str::to_owned)
    }

    /// Runs kubectl on the namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(self.rig.plane, &self.namespace, arguments)
    }

    /// Runs the stock helm on the namespace.
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        let mut helm = self.rig.plane.helm().unwrap();
        helm.args(["--namespace", &self.namespace]).args(arguments);
        testkit::run(&mut helm).unwrap()
    }

    /// Reason and text of each Event about a HelmRelease, in order.
    pub(crate) fn events(&self, name: &str) -> Vec<(String, String)> {
        let path = format!("/api/v1/namespaces/{}/events", self.namespace);
        let list = self.rig.plane.get(&path).unwrap();
        let mut events: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["involvedObject"]["name"] == name)
            .map(|event| {
                (
                    event["metadata"]["name"].to_string(),
                    text(event, "/reason"),
                    text(event, "/message"),
                )
            })
            .collect();
        events.sort();
        events
            .into_iter()
            .map(|(_, reason, message)| (reason, message))
            .collect()
    }

    /// The texts of the Events with this reason, once there are `count`: they are sent after the status is written.
    pub(crate) fn told(&self, name: &str, reason: &str, count: usize) -> Vec<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let events = self.events(name);
            let told = events.iter().filter(|(other, _)| other == reason);
            let texts: Vec<String> = told.map(|(_, text)| text.clone()).collect();
            if texts.len() >= count {
                return texts;
            }
            assert!(
                Instant::now() < end,
                "no Event {reason} about {name}: {events:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Revision and status of each record of a release.
    pub(crate) fn records(&self, release: &str) -> Vec<(i64, String)> {
        records(self.rig.plane, &self.namespace, release)
    }
}

impl<R> Drop for Bench<R> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            crate::statuses::check(&self.namespace);
        }
    }
}

/// Runs kubectl on a namespace.
pub(crate) fn kubectl(plane: &ControlPlane, namespace: &str, arguments: &[&str]) -> String {
    let mut kubectl = plane.kubectl().unwrap();
    kubectl.args(["--namespace", namespace]).args(arguments);
    testkit::run(&mut kubectl).unwrap()
}

/// Revision and status of each record of a release.
pub(crate) fn records(plane: &ControlPlane, namespace: &str, release: &str) -> Vec<(i64, String)> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm%2Cname%3D{release}"
    );
    let list = plane.get(&path).unwrap();
    let mut records: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|secret| {
            let revision = text(secret, "/metadata/labels/version").parse().unwrap();
            (revision, text(secret, "/metadata/labels/status"))
        })
        .collect();
    records.sort();
    records
}

pub(crate) fn text(object: &Value, pointer: &str) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn find_condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|found| found["type"] == name)
}

/// Status and reason of a condition, as `True UpgradeSucceeded`.
pub(crate) fn condition(object: &Value, name: &str) -> String {
    find_condition(object, name).map_or(String::new(), |condition| {
        format!(
            "{} {}",
            text(condition, "/status"),
            text(condition, "/reason")
        )
    })
}

pub(crate) fn message(object: &Value, name: &str) -> String {
    find_condition(object, name).map_or(String::new(), |condition| text(condition, "/message"))
}

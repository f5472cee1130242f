//! A namespace on a control plane, and the short way through an action.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::FutureExt;
use helm_engine::record::StoredChart;
use helm_engine::{Hook, HookEvent, Metadata};
use helm_kube::{
    ActionResult, Cluster, ClusterOptions, DIGEST, Deploy, Desired, History, HookFilter,
    NextAction, Options, RecoverContext, RecoveryPlan, ReleaseKey, Resume, Rollback, Stored, Test,
    Uninstall, Uninstalled, history, install, mend, records, recover, resume, rollback, test,
    uninstall, upgrade,
};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use testkit::{ControlPlane, ScratchDir};

/// How long anything may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < end, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Somebody who acts on the release `web` of a namespace, as the operator does.
pub(crate) struct Actor {
    pub(crate) cluster: Cluster,
    pub(crate) release: ReleaseKey,
    pub(crate) options: Options,
}

fn config(kubeconfig: &Path) -> kube::Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
    // Files only: it is ready at once.
    config.now_or_never().unwrap().unwrap()
}

/// A namespace of its own on a control plane.
pub(crate) struct Site {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) actor: Actor,
    charts: ScratchDir,
}

impl Deref for Site {
    type Target = Actor;

    fn deref(&self) -> &Actor {
        &self.actor
    }
}

impl DerefMut for Site {
    fn deref_mut(&mut self) -> &mut Actor {
        &mut self.actor
    }
}

impl Actor {
    /// The configuration of kubectl, without the retries of the client library.
    pub(crate) fn new(kubeconfig: &Path, namespace: &str, options: ClusterOptions) -> Self {
        Self {
            cluster: Cluster::connect(config(kubeconfig), options).unwrap(),
            release: ReleaseKey::new("web", namespace),
            options: Options {
                timeout: Duration::from_secs(120),
                ..Options::default()
            },
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.release.namespace
    }

    pub(crate) async fn history(&self) -> History {
        let read = history(self.release.clone(), self.options.driver);
        self.cluster.run(read).await.unwrap()
    }

    /// `1 superseded, 2 deployed`
    pub(crate) async fn states(&self) -> String {
        let history = self.history().await;
        let states = history.revisions().iter();
        let states = states.map(|found| format!("{} {}", found.revision, found.status));
        states.collect::<Vec<_>>().join(", ")
    }

    pub(crate) async fn records(&self) -> Vec<Stored> {
        let read = records(self.release.clone(), self.options.driver);
        self.cluster.run(read).await.unwrap()
    }

    pub(crate) fn plan(&self, history: &History, digest: Option<&str>) -> RecoveryPlan {
        recover(
            history,
            &RecoverContext {
                now: Timestamp::now(),
                holder: &self.options.holder,
                digest,
                patience: self.options.patience,
            },
        )
    }

    /// What the operator does: read, decide, act.
    pub(crate) async fn deploy(&self, desired: Desired) -> ActionResult {
        let history = self.history().await;
        self.deploy_on(history, desired).await
    }

    /// Decides by a history that may be out of date, and acts.
    pub(crate) async fn deploy_on(&self, history: History, desired: Desired) -> ActionResult {
        let digest = desired.annotations.get(DIGEST).cloned();
        let plan = self.plan(&history, digest.as_deref());
        let release = self.release.clone();
        let options = self.options.clone();
        let next = plan.next;
        if let NextAction::Resume { .. } = next {
            let resumed = Resume {
                release,
                history,
                plan,
                options,
            };
            return self.cluster.run(resume(resumed)).await;
        }
        let deploy = Deploy {
            release,
            history,
            plan,
            desired,
            options,
        };
        match next {
            NextAction::Install { .. } => self.cluster.run(install(deploy)).await,
            _ => self.cluster.run(upgrade(deploy)).await,
        }
    }

    pub(crate) async fn rollback(&self, to: Option<i64>) -> ActionResult {
        let history = self.history().await;
        let plan = self.plan(&history, None);
        let action = Rollback {
            release: self.release.clone(),
            history,
            plan,
            to,
            description: None,
            annotations: BTreeMap::new(),
            options: self.options.clone(),
        };
        self.cluster.run(rollback(action)).await
    }

    pub(crate) async fn uninstall(
        &self,
        keep_history: bool,
    ) -> Result<Uninstalled, helm_kube::ActionError> {
        let history = self.history().await;
        let plan = self.plan(&history, None);
        let action = Uninstall {
            release: self.release.clone(),
            history,
            plan,
            keep_history,
            description: None,
            options: self.options.clone(),
        };
        self.cluster.run(uninstall(action)).await
    }

    /// Goes on with what was interrupted.
    pub(crate) async fn resume(&self) -> ActionResult {
        let history = self.history().await;
        let plan = self.plan(&history, None);
        let action = Resume {
            release: self.release.clone(),
            history,
            plan,
            options: self.options.clone(),
        };
        self.cluster.run(resume(action)).await
    }

    pub(crate) async fn test(&self) -> ActionResult {
        let action = Test {
            release: self.release.clone(),
            history: self.history().await,
            filter: HookFilter::default(),
            options: self.options.clone(),
        };
        self.cluster.run(test(action)).await
    }

    /// Mends what a crash has left behind.
    pub(crate) async fn mend(&self) {
        let history = self.history().await;
        let plan = self.plan(&history, None);
        if plan.has_mending() {
            let action = Resume {
                release: self.release.clone(),
                history,
                plan,
                options: self.options.clone(),
            };
            self.cluster.run(mend(action)).await.unwrap();
        }
    }
}

impl Site {
    /// On the control plane without controllers.
    pub(crate) fn new(prefix: &str) -> Self {
        Self::on(ControlPlane::shared().unwrap(), prefix)
    }

    /// On the control plane with controllers, scheduler and a fake node.
    pub(crate) fn full(prefix: &str) -> Self {
        Self::on(ControlPlane::shared_full().unwrap(), prefix)
    }

    /// On the given control plane.
    pub(crate) fn on(plane: &'static ControlPlane, prefix: &str) -> Self {
        let namespace = plane.namespace(prefix).unwrap();
        Self {
            plane,
            actor: Actor::new(&plane.kubeconfig(), &namespace, ClusterOptions::default()),
            charts: ScratchDir::new("charts").unwrap(),
        }
    }

    /// Runs the stock helm in the namespace.
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        self.try_helm(arguments).unwrap()
    }

    pub(crate) fn try_helm(&self, arguments: &[&str]) -> anyhow::Result<String> {
        testkit::run(
            self.plane
                .helm()?
                .args(arguments)
                .args(["--namespace", self.namespace()]),
        )
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap()
    }

    pub(crate) fn try_kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut kubectl = self.plane.kubectl()?;
        testkit::run(
            kubectl
                .args(arguments)
                .args(["--namespace", self.namespace()]),
        )
    }

    /// A live object; `None` if there is none.
    pub(crate) fn live(&self, plural: &str, name: &str) -> Option<Value> {
        let path = format!("/api/v1/namespaces/{}/{plural}/{name}", self.namespace());
        self.plane.get(&path).ok()
    }

    /// A chart directory for the stock helm, with the given files under `templates/`.
    pub(crate) fn chart(&self, version: &str, templates: &[(&str, &str)]) -> PathBuf {
        let root = self.charts.path().join(version);
        std::fs::create_dir_all(root.join("templates")).unwrap();
        let head = format!("apiVersion: v2\nname: demo\nversion: {version}\nappVersion: \"1\"\n");
        std::fs::write(root.join("Chart.yaml"), head).unwrap();
        for (name, text) in templates {
            std::fs::write(root.join("templates").join(name), text).unwrap();
        }
        root
    }
}

/// A ConfigMap as a manifest document.
pub(crate) fn config_map(name: &str, value: &str) -> String {
    format!(
        "---\n# Source: demo/templates/{name}.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: {value}\n"
    )
}

/// A rendered chart with that manifest.
pub(crate) fn desired(version: &str, manifest: impl Into<String>) -> Desired {
    Desired {
        manifest: manifest.into(),
        chart: StoredChart {
            metadata: Metadata {
                api_version: "v2".to_owned(),
                name: "demo".to_owned(),
                version: version.to_owned(),
                app_version: "1".to_owned(),
                ..Metadata::default()
            },
            ..StoredChart::default()
        },
        annotations: BTreeMap::from([(DIGEST.to_owned(), format!("digest-of-{version}"))]),
        ..Desired::default()
    }
}

/// A hook.
pub(crate) fn hook(name: &str, kind: &str, events: &[HookEvent], manifest: String) -> Hook {
    Hook {
        name: name.to_owned(),
        kind: kind.to_owned(),
        path: format!("demo/templates/{name}.yaml"),
        events: events.to_vec(),
        manifest,
        ..Hook::default()
    }
}

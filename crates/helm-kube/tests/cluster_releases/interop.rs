//! One release in many hands: Helm 4, Helm 3 and we, in turns.

use std::path::{Path, PathBuf};
use std::process::Command;

use helm_engine::{Limits, RenderOptions, load_directory, render, values};
use helm_kube::{Desired, NextAction};
use serde_json::Value;
use testkit::ScratchDir;

use crate::support::Site;

/// Who does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    We,
    Helm4,
    Helm3,
}

/// What is done.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Install or upgrade to chart 1 or 2 with `--set message=`.
    Deploy(u8, &'static str),
    /// Roll back to a revision.
    Rollback(i64),
    /// Run the tests.
    Test,
    /// Uninstall, keeping the history or not.
    Uninstall { keep: bool },
}

use Action::{Deploy, Rollback, Test, Uninstall};
use Hand::{Helm3, Helm4, We};

/// The states after each step: revision and status of the last two revisions.
const STEPS: [(Hand, Action, &str); 46] = [
    (We, Deploy(1, "a"), "1 deployed"),
    (Helm4, Deploy(2, "b"), "1 superseded, 2 deployed"),
    (We, Deploy(1, "c"), "2 superseded, 3 deployed"),
    (Helm3, Deploy(2, "d"), "3 superseded, 4 deployed"),
    (We, Deploy(1, "e"), "4 superseded, 5 deployed"),
    (Helm4, Rollback(4), "5 superseded, 6 deployed"),
    (We, Rollback(5), "6 superseded, 7 deployed"),
    (Helm3, Rollback(6), "7 superseded, 8 deployed"),
    (We, Rollback(3), "8 superseded, 9 deployed"),
    (Helm4, Test, "8 superseded, 9 deployed"),
    (We, Test, "8 superseded, 9 deployed"),
    (Helm3, Test, "8 superseded, 9 deployed"),
    (We, Deploy(2, "f"), "9 superseded, 10 deployed"),
    (We, Uninstall { keep: true }, "9 superseded, 10 uninstalled"),
    (Helm4, Rollback(9), "10 uninstalled, 11 deployed"),
    (We, Deploy(1, "g"), "11 superseded, 12 deployed"),
    (
        Helm4,
        Uninstall { keep: true },
        "11 superseded, 12 uninstalled",
    ),
    (We, Deploy(2, "h"), "12 superseded, 13 deployed"),
    (
        Helm3,
        Uninstall { keep: true },
        "12 superseded, 13 uninstalled",
    ),
    (We, Deploy(1, "i"), "13 superseded, 14 deployed"),
    (Helm3, Deploy(2, "j"), "14 superseded, 15 deployed"),
    (Helm4, Deploy(1, "k"), "15 superseded, 16 deployed"),
    (We, Deploy(2, "l"), "16 superseded, 17 deployed"),
    (Helm3, Uninstall { keep: false }, ""),
    (Helm3, Deploy(1, "m"), "1 deployed"),
    (We, Deploy(2, "n"), "1 superseded, 2 deployed"),
    (Helm4, Deploy(1, "o"), "2 superseded, 3 deployed"),
    (Helm3, Deploy(2, "p"), "3 superseded, 4 deployed"),
    (Helm4, Deploy(1, "q"), "4 superseded, 5 deployed"),
    (We, Rollback(1), "5 superseded, 6 deployed"),
    (We, Deploy(2, "r"), "6 superseded, 7 deployed"),
    (Helm3, Rollback(1), "7 superseded, 8 deployed"),
    (We, Test, "7 superseded, 8 deployed"),
    (Helm4, Uninstall { keep: false }, ""),
    (Helm4, Deploy(1, "s"), "1 deployed"),
    (We, Deploy(1, "s"), "1 superseded, 2 deployed"),
    (Helm3, Deploy(1, "t"), "2 superseded, 3 deployed"),
    (We, Deploy(1, "t"), "3 superseded, 4 deployed"),
    (Helm4, Rollback(3), "4 superseded, 5 deployed"),
    (We, Uninstall { keep: false }, ""),
    (We, Deploy(2, "u"), "1 deployed"),
    (Helm3, Deploy(1, "v"), "1 superseded, 2 deployed"),
    (Helm4, Rollback(1), "2 superseded, 3 deployed"),
    (We, Deploy(1, "w"), "3 superseded, 4 deployed"),
    (Helm4, Test, "3 superseded, 4 deployed"),
    (Helm3, Uninstall { keep: false }, ""),
];

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\n  labels: {chart: '{{ .Chart.Version }}'}\ndata:\n  message: {{ .Values.message | quote }}\n  only-in-{{ .Chart.Version }}: x\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  selector: {app: web}\n  ports:\n  - {name: http, port: 80}\n{{- if eq .Chart.Version \"2.0.0\" }}\n  - {name: metrics, port: 9090}\n{{- end }}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 0\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n      annotations: {message: {{ .Values.message | quote }}}\n    spec:\n      containers:\n      - name: web\n        image: example.invalid/web:{{ .Chart.Version }}\n        env:\n        - {name: ONE, value: '1'}\n{{- if eq .Chart.Version \"1.0.0\" }}\n        - {name: OLD, value: '1'}\n{{- end }}\n";
const OWN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: own-{{ .Chart.Version }}\n";
const CHECK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: check\n  annotations: {helm.sh/hook: test}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {name: check, image: example.invalid/check:1}\n";

/// The release, and everybody who works on it.
struct Table {
    site: Site,
    helm3: PathBuf,
    _directory: ScratchDir,
}

impl Table {
    fn new() -> Self {
        let site = Site::full("interop");
        // Helm names itself after its file as a field manager, and people call it helm.
        let directory = ScratchDir::new("helm3").unwrap();
        let helm3 = directory.path().join("helm");
        let real = site.plane.tool("helm3").unwrap();
        std::os::unix::fs::symlink(real.get_program(), &helm3).unwrap();
        Self {
            site,
            helm3,
            _directory: directory,
        }
    }

    fn chart(&self, number: u8) -> PathBuf {
        let templates = [
            ("config.yaml", CONFIG),
            ("service.yaml", SERVICE),
            ("deployment.yaml", DEPLOYMENT),
            ("own.yaml", OWN),
            ("check.yaml", CHECK),
        ];
        self.site.chart(&format!("{number}.0.0"), &templates)
    }

    async fn step(&self, hand: Hand, action: Action) {
        match hand {
            Hand::We => self.we(action).await,
            Hand::Helm4 => self.helm(self.site.plane.helm().unwrap(), action),
            Hand::Helm3 => {
                let mut helm3 = Command::new(&self.helm3);
                helm3.env("KUBECONFIG", self.site.plane.kubeconfig());
                self.helm(helm3, action);
            }
        }
    }

    fn helm(&self, mut helm: Command, action: Action) {
        helm.args(["--namespace", self.site.namespace()]);
        match action {
            Deploy(chart, message) => {
                helm.args(["upgrade", "--install", "web"])
                    .arg(self.chart(chart));
                helm.args(["--set", &format!("message={message}")])
            }
            Rollback(to) => helm.args(["rollback", "web", &to.to_string()]),
            Test => helm.args(["test", "web", "--timeout=120s"]),
            Uninstall { keep: true } => helm.args(["uninstall", "web", "--keep-history"]),
            Uninstall { keep: false } => helm.args(["uninstall", "web"]),
        };
        testkit::run(&mut helm).unwrap();
    }

    async fn we(&self, action: Action) {
        match action {
            Deploy(chart, message) => {
                let desired = self.render(&self.chart(chart), message).await;
                self.site.deploy(desired).await.unwrap();
            }
            Rollback(to) => {
                self.site.rollback(Some(to)).await.unwrap();
            }
            Test => {
                self.site.test().await.unwrap();
            }
            Uninstall { keep } => {
                self.site.uninstall(keep).await.unwrap();
            }
        }
    }

    async fn render(&self, chart: &Path, message: &str) -> Desired {
        let loaded = load_directory(chart, &Limits::default()).unwrap();
        let values = values::read_values(format!("message: '{message}'").as_bytes()).unwrap();
        let history = self.site.history().await;
        let plan = self.site.plan(&history, None);
        let options = RenderOptions {
            release_name: "web".to_owned(),
            namespace: self.site.namespace().to_owned(),
            revision: history.next_revision(),
            is_install: matches!(plan.next, NextAction::Install { .. }),
            is_upgrade: matches!(plan.next, NextAction::Upgrade { .. }),
            capabilities: self.site.cluster.capabilities().await.unwrap(),
            keep_chart: true,
            ..RenderOptions::default()
        };
        Desired::new(render(&loaded.chart, &values, &options).unwrap(), values)
    }

    /// What is live, told in the terms of a step: chart, message, and who owns the fields.
    fn live(&self) -> Option<(u8, String)> {
        let config = self.site.live("configmaps", "config")?;
        let service = self.site.live("services", "web").unwrap();
        let path = format!(
            "/apis/apps/v1/namespaces/{}/deployments/web",
            self.site.namespace()
        );
        let deployment = self.site.plane.get(&path).unwrap();
        let message = config["data"]["message"].as_str().unwrap().to_owned();
        let chart = if config["metadata"]["labels"]["chart"] == "1.0.0" {
            1
        } else {
            2
        };
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["metadata"]["annotations"]["message"], *message);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            container["image"],
            format!("example.invalid/web:{chart}.0.0")
        );
        // Nothing of the other chart is left, in lists and maps and among the objects.
        assert_eq!(config["data"].as_object().unwrap().len(), 2, "{config}");
        assert_eq!(
            container["env"].as_array().unwrap().len(),
            3 - usize::from(chart)
        );
        assert_eq!(
            service["spec"]["ports"].as_array().unwrap().len(),
            usize::from(chart)
        );
        let own = |number: u8| self.site.live("configmaps", &format!("own-{number}.0.0"));
        assert!(own(chart).is_some() && own(3 - chart).is_none());
        Some((chart, message))
    }

    /// After a step of ours, Helm's fields are applied ones, whoever made them.
    fn check_managers(&self) {
        let config = self.site.live("configmaps", "config").unwrap();
        let managers = config["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter();
        let managers: Vec<_> = managers
            .map(|entry| (entry["manager"].clone(), entry["operation"].clone()))
            .collect();
        assert_eq!(managers, [("helm".into(), "Apply".into())]);
    }

    /// The history as the stock helm prints it, the last two revisions.
    fn seen_by_helm(&self) -> String {
        let Ok(text) = self
            .site
            .try_helm(&["history", "web", "--max=2", "--output=json"])
        else {
            return String::new();
        };
        let list: Vec<Value> = serde_json::from_str(&text).unwrap();
        let states: Vec<_> = list
            .iter()
            .map(|entry| {
                format!(
                    "{} {}",
                    entry["revision"],
                    entry["status"].as_str().unwrap()
                )
            })
            .collect();
        states.join(", ")
    }
}

#[tokio::test]
async fn helm_4_helm_3_and_we_take_turns_on_one_release() {
    let table = Table::new();
    let mut deployed: Vec<(u8, String)> = Vec::new();
    for (number, (hand, action, states)) in STEPS.into_iter().enumerate() {
        let place = format!("step {}: {hand:?} {action:?}", number + 1);
        println!("{place}");
        table.step(hand, action).await;
        let ours = table.site.states().await;
        let ours: Vec<_> = ours.split(", ").collect();
        let ours = ours[ours.len().saturating_sub(2)..].join(", ");
        assert_eq!(ours, states, "{place}: as we see it");
        assert_eq!(table.seen_by_helm(), states, "{place}: as helm sees it");
        let live = table.live();
        match action {
            Deploy(chart, message) => deployed.push((chart, message.to_owned())),
            Rollback(to) => {
                let earlier = deployed[usize::try_from(to).unwrap() - 1].clone();
                deployed.push(earlier);
            }
            Test => {}
            Uninstall { keep } => {
                assert_eq!(live, None, "{place}");
                if !keep {
                    deployed.clear();
                }
                continue;
            }
        }
        assert_eq!(live.as_ref(), deployed.last(), "{place}");
        if hand == We && !matches!(action, Test) {
            table.check_managers();
        }
    }
    println!("{} steps", STEPS.len());
}

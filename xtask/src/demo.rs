//! `make demo`: a chart in git, deployed; a push, deployed.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{
    ControlPlane, Daemon, DaemonOptions, GitOptions, GitRepository, GitServer, Options, ToolSet,
    Tools, repository, run as output_of,
};

use crate::cargo;

/// An install and its pods take seconds; a loaded machine may take longer.
const LIMIT: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "helm-operator-demo";
const RELEASE: &str = "greeter";
const CRD: &str = "helmreleases.helm.fluxcd.io";

pub(crate) fn run() -> Result<()> {
    let step = Steps::default();
    step.say("building helm-operator");
    let binary = build()?;
    step.say("finding the programs of the test cluster");
    let tools = Tools::locate(ToolSet::Full)?;
    let cluster = Cluster::find(tools, &step)?;
    step.say("serving a git repository that holds the chart `greeter`");
    let git = GitServer::start(GitOptions::default())?;
    let repository = chart_repository(&git)?;
    let demo = Demo {
        step,
        cluster,
        binary,
        repository,
    };
    let shown = demo.show();
    // What was made is removed also after a failure.
    let cleaned = demo.clean_up();
    shown.and(cleaned)
}

/// The release binary is what users run, the debug binary what developers have built: take the latter.
fn build() -> Result<PathBuf> {
    let built = cargo::build(&["build", "--workspace", "--bin=helm-operator"])?;
    let executable = built.into_iter().find(|it| it.name == "helm-operator");
    Ok(executable.context("cargo has built no helm-operator")?.path)
}

fn chart_repository(git: &GitServer) -> Result<GitRepository> {
    let charts = git.repository("charts")?;
    let chart = "charts/greeter";
    charts.write_directory(chart, &repository().join("examples").join(chart))?;
    charts.commit("Add the chart greeter")?;
    Ok(charts)
}

/// Says what is being done, with the time since the start.
#[derive(Debug)]
struct Steps {
    start: Instant,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Steps {
    fn say(&self, text: &str) {
        println!("[{:6.1} s] {text} …", self.start.elapsed().as_secs_f32());
    }
}

/// The cluster of `$KUBECONFIG`, or one of our own.
struct Cluster {
    tools: Tools,
    kubeconfig: PathBuf,
    /// Keeps our own cluster running.
    _own: Option<ControlPlane>,
    had_crd: bool,
}

impl Cluster {
    fn find(tools: Tools, step: &Steps) -> Result<Self> {
        let mut cluster = match std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            Some(value) => {
                let kubeconfig = std::env::split_paths(&value).next().unwrap_or_default();
                step.say(&format!("using the cluster of {}", kubeconfig.display()));
                Self {
                    tools,
                    kubeconfig,
                    _own: None,
                    had_crd: true,
                }
            }
            None => {
                step.say("starting a cluster: etcd, API server, controllers, one fake node");
                let own = ControlPlane::start(Options {
                    full: true,
                    ..Options::default()
                })?;
                Self {
                    tools,
                    kubeconfig: own.kubeconfig(),
                    _own: Some(own),
                    had_crd: false,
                }
            }
        };
        cluster.had_crd = cluster
            .kubectl(&["get", "customresourcedefinition", CRD])
            .is_ok();
        Ok(cluster)
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.tools.command("kubectl")?;
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(repository())
            .args(arguments);
        Ok(command)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output_of(&mut self.command(arguments)?)
    }
}

struct Demo {
    step: Steps,
    cluster: Cluster,
    binary: PathBuf,
    repository: GitRepository,
}

impl Demo {
    fn show(&self) -> Result<()> {
        self.step.say("applying the CRD and making a namespace");
        self.cluster
            .kubectl(&["apply", "--server-side", "--filename=crds"])?;
        let established = [
            "wait",
            "--for=condition=Established",
            "crd",
            CRD,
            "--timeout=60s",
        ];
        self.cluster.kubectl(&established)?;
        self.cluster.kubectl(&["create", "namespace", NAMESPACE])?;
        self.step.say("starting the daemon");
        let daemon = self.daemon()?;
        self.install()?;
        self.upgrade(&daemon)?;
        self.uninstall()?;
        self.step.say("stopping the daemon with SIGTERM");
        let status = daemon.terminate()?;
        ensure!(
            status.success(),
            "the daemon ended with {status}; its log:\n{}",
            daemon.log()
        );
        Ok(())
    }

    fn daemon(&self) -> Result<Daemon> {
        let flags = [format!("--allow-namespace={NAMESPACE}")];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let kubeconfig = self.cluster.kubeconfig.clone();
        Daemon::start(DaemonOptions::local(&self.binary, kubeconfig, &flags))
    }

    fn install(&self) -> Result<()> {
        let example =
            std::fs::read_to_string(repository().join("examples/git-chart/helmrelease.yaml"))?;
        let url = "https://git.example.com/team/charts.git";
        ensure!(
            example.contains(url),
            "examples/git-chart does not name {url}"
        );
        let manifest = example.replace(url, self.repository.url());
        self.step.say("applying a HelmRelease");
        println!("\n{manifest}");
        let file = self.repository.work().with_extension("yaml");
        std::fs::write(&file, manifest)?;
        let file = file.display().to_string();
        self.cluster
            .kubectl(&["--namespace", NAMESPACE, "apply", "--filename", &file])?;
        self.wait_until_deployed(&self.repository.head()?)?;
        self.print(&["get", "hr"])?;
        self.print(&["describe", "hr", RELEASE])?;
        self.print(&["get", "deployments,pods,services"])?;
        self.history()
    }

    fn upgrade(&self, daemon: &Daemon) -> Result<()> {
        self.step.say("pushing a change of the chart");
        let values = self.repository.work().join("charts/greeter/values.yaml");
        let changed = std::fs::read_to_string(&values)?.replace("name: world", "name: everybody");
        std::fs::write(&values, changed)?;
        let chart = self.repository.work().join("charts/greeter/Chart.yaml");
        let newer = std::fs::read_to_string(&chart)?.replace("version: 0.1.0", "version: 0.2.0");
        std::fs::write(&chart, newer)?;
        let commit = self.repository.commit("Greet everybody")?;
        println!("  {commit}");
        let pushed = Instant::now();
        // What a push webhook does; without it the next poll finds the commit.
        daemon.post("/api/v1/sync-git", "")?;
        self.wait_until_deployed(&commit)?;
        self.step.say(&format!(
            "deployed {:.1} s after the push",
            pushed.elapsed().as_secs_f32()
        ));
        self.print(&["get", "hr"])?;
        self.print(&["describe", "hr", RELEASE])?;
        self.print(&[
            "get",
            "configmap",
            RELEASE,
            "--output=jsonpath={.data.index\\.html}",
        ])?;
        self.history()?;
        self.check_events()
    }

    fn uninstall(&self) -> Result<()> {
        self.step.say("deleting the HelmRelease");
        let delete = ["delete", "helmrelease", RELEASE, "--timeout=60s"];
        self.print(&delete)?;
        let left = self.kubectl(&["get", "deployments,services", "--output=name"])?;
        ensure!(
            !left.contains(RELEASE),
            "the release was not uninstalled: {left}"
        );
        println!("  nothing of the release is left");
        Ok(())
    }

    /// Waits until the release is Ready with this commit.
    fn wait_until_deployed(&self, commit: &str) -> Result<()> {
        self.step.say(&format!(
            "waiting until commit {} is deployed",
            &commit[..7]
        ));
        let revision = format!("--for=jsonpath={{.status.revision}}={commit}");
        let seconds = format!("--timeout={}s", LIMIT.as_secs());
        for condition in [revision.as_str(), "--for=condition=Ready"] {
            let wait = ["wait", condition, "helmrelease", RELEASE, &seconds];
            let waited = self.kubectl(&wait);
            if waited.is_err() {
                self.print(&["describe", "hr", RELEASE])?;
            }
            waited?;
        }
        Ok(())
    }

    /// The demo has shown what it promises: an Event of the install and one of the upgrade.
    fn check_events(&self) -> Result<()> {
        let columns = "--output=custom-columns=REASON:.reason,MESSAGE:.message";
        let events = self.kubectl(&["get", "events", columns])?;
        let synced = events
            .lines()
            .filter(|line| line.starts_with("ReleaseSynced"))
            .count();
        ensure!(
            synced >= 2,
            "no Events of an install and of an upgrade:\n{events}"
        );
        Ok(())
    }

    /// The stock helm reads what the daemon has recorded.
    fn history(&self) -> Result<()> {
        let mut helm = self.cluster.tools.command("helm")?;
        helm.env("KUBECONFIG", &self.cluster.kubeconfig);
        let history = output_of(helm.args(["history", RELEASE, "--namespace", NAMESPACE]))?;
        println!("\n$ helm history {RELEASE}\n{history}");
        Ok(())
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster
            .kubectl(&[["--namespace", NAMESPACE].as_slice(), arguments].concat())
    }

    fn print(&self, arguments: &[&str]) -> Result<()> {
        println!("\n$ kubectl {}", arguments.join(" "));
        println!("{}", self.kubectl(arguments)?.trim_end());
        Ok(())
    }

    fn clean_up(&self) -> Result<()> {
        self.step.say("cleaning up");
        // A daemon that failed leaves finalizers that nobody would remove.
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        let _ = self.kubectl(&[
            "patch",
            "helmrelease",
            RELEASE,
            "--type=merge",
            "--patch",
            patch,
        ]);
        let gone = "--ignore-not-found";
        self.cluster
            .kubectl(&["delete", "namespace", NAMESPACE, gone, "--timeout=120s"])?;
        if !self.cluster.had_crd {
            self.cluster
                .kubectl(&["delete", "customresourcedefinition", CRD, gone])?;
        }
        Ok(())
    }
}

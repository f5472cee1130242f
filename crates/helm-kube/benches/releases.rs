//! Releases per second: installs and upgrades against the stock helm, and many at once against a
//! client that sends nothing but the writes, with bodies made beforehand.
//!
//! `cargo bench -p helm-kube --profile quick [CHART.tgz]`; without a chart, the podinfo of the
//! corpus beside the repository.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use helm_engine::{Capabilities, Chart, Limits, RenderOptions, load_archive, render, values};
use helm_kube::{
    ActionResult, Call, Catalog, Cluster, ClusterOptions, Deploy, Desired, Driver, History,
    Machine, NextAction, Options, RecoverContext, ReleaseKey, Reply, Request, Step, Verb, history,
    install, recover, upgrade,
};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testkit::{ControlPlane, repository};

const RUNS: usize = 15;
const MANY: usize = 300;
/// How many releases are worked on at a time.
const WORKERS: usize = 16;

fn main() -> Result<()> {
    let chart = std::env::args()
        .skip(1)
        .find(|argument| argument.ends_with(".tgz"));
    let chart = chart.map_or_else(
        || repository().join("../shared/corpus/charts/stefanprodan-podinfo.tgz"),
        PathBuf::from,
    );
    if !chart.exists() {
        return say(&format!(
            "no chart at {}: nothing is measured",
            chart.display()
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(bench(&chart))
}

async fn bench(path: &Path) -> Result<()> {
    let plane = ControlPlane::shared()?;
    let rig = Rig::new(plane, path).await?;
    rig.one_by_one(path).await?;
    rig.many().await
}

struct Rig {
    plane: &'static ControlPlane,
    cluster: Cluster,
    catalog: Arc<Catalog>,
    capabilities: Capabilities,
    chart: Chart,
}

impl Rig {
    async fn new(plane: &'static ControlPlane, path: &Path) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let cluster = Cluster::connect(config, ClusterOptions::default())?;
        let catalog = cluster
            .catalog(false)
            .await
            .map_err(|failure| anyhow!("{failure:?}"))?;
        let capabilities = cluster.capabilities().await?;
        let bytes = std::fs::read(path)?;
        let chart = load_archive(bytes.as_slice(), &Limits::default())?.chart;
        Ok(Self {
            plane,
            cluster,
            catalog,
            capabilities,
            chart,
        })
    }

    fn render(&self, release: &ReleaseKey, next: NextAction, message: &str) -> Result<Desired> {
        let user = values::read_values(format!("ui: {{message: {message}}}").as_bytes())?;
        let (revision, is_install) = match next {
            NextAction::Install { revision, .. } => (revision, true),
            NextAction::Upgrade { revision, .. } => (revision, false),
            other => return Err(anyhow!("{other:?}")),
        };
        let options = RenderOptions {
            release_name: release.name.clone(),
            namespace: release.namespace.clone(),
            revision,
            is_install,
            is_upgrade: !is_install,
            capabilities: self.capabilities.clone(),
            keep_chart: true,
            ..RenderOptions::default()
        };
        Ok(Desired::new(render(&self.chart, &user, &options)?, user))
    }

    /// The machine of the next install or upgrade, rendered for it.
    fn machine(
        &self,
        release: &ReleaseKey,
        history: History,
        message: &str,
    ) -> Result<Machine<ActionResult>> {
        let options = Options::default();
        let context = RecoverContext {
            now: Timestamp::now(),
            holder: &options.holder,
            digest: None,
            patience: options.patience,
        };
        let plan = recover(&history, &context);
        let next = plan.next;
        let desired = self.render(release, next, message)?;
        let deploy = Deploy {
            release: release.clone(),
            history,
            plan,
            desired,
            options,
        };
        Ok(match next {
            NextAction::Install { .. } => install(deploy),
            _ => upgrade(deploy),
        })
    }

    /// One install or upgrade with everything that belongs to it: history, decision, render, action.
    /// Returns the number of requests.
    async fn deploy(&self, release: &ReleaseKey, message: &str) -> Result<usize> {
        let (found, listed) = self.drive(history(release.clone(), Driver::Secret)).await;
        let machine = self.machine(release, found?, message)?;
        let (result, sent) = self.drive(machine).await;
        result?;
        Ok(listed + sent)
    }

    /// Drives a machine and counts its calls.
    async fn drive<T>(&self, machine: Machine<T>) -> (T, usize) {
        let mut calls = 0;
        let mut step = machine.start(Timestamp::now());
        loop {
            step = match step {
                Step::Done(result) => return (result, calls),
                Step::Wait(wait, machine) => {
                    tokio::time::sleep(wait.after).await;
                    machine.next(Timestamp::now(), Ok(Reply::Woken))
                }
                Step::Request(request, machine) => {
                    calls += usize::from(matches!(request, Request::Call(_)));
                    let answer = self.cluster.send(request).await;
                    machine.next(Timestamp::now(), answer)
                }
            };
        }
    }

    async fn one_by_one(&self, path: &Path) -> Result<()> {
        let namespace = self.plane.namespace("bench")?;
        let mut table = Table::default();
        for run in 0..RUNS {
            let ours = ReleaseKey::new(format!("ours-{run}"), namespace.clone());
            for (case, message) in [("install", "one"), ("upgrade", "two")] {
                let start = Instant::now();
                let requests = self.deploy(&ours, message).await?;
                table.note(
                    &format!("{case} of podinfo, ours"),
                    start.elapsed(),
                    Some(requests),
                );
                let start = Instant::now();
                self.helm(&namespace, &format!("helm-{run}"), path, message)?;
                table.note(
                    &format!("{case} of podinfo, helm upgrade --install"),
                    start.elapsed(),
                    None,
                );
            }
        }
        table.print()
    }

    fn helm(&self, namespace: &str, name: &str, path: &Path, message: &str) -> Result<()> {
        let mut helm = self.plane.helm()?;
        helm.args(["upgrade", "--install", name]).arg(path);
        helm.args([
            "--namespace",
            namespace,
            "--set",
            &format!("ui.message={message}"),
        ]);
        let status = helm.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "helm failed with {status}");
        Ok(())
    }

    async fn many(&self) -> Result<()> {
        let namespace = self.plane.namespace("floor")?;
        let bodies = (0..MANY)
            .map(|number| self.writes(&ReleaseKey::new(format!("r{number}"), namespace.clone())))
            .collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        self.send_all(bodies).await?;
        let floor = start.elapsed();
        let namespace = self.plane.namespace("many")?;
        let start = Instant::now();
        let releases =
            (0..MANY).map(|number| ReleaseKey::new(format!("r{number}"), namespace.clone()));
        let work: Vec<_> = releases.collect();
        let work = stream::iter(&work).map(|release| self.deploy(release, "one"));
        let requests: Vec<_> = work.buffer_unordered(WORKERS).try_collect().await?;
        let ours = start.elapsed();
        say(&format!(
            "{MANY} installs, {WORKERS} at a time: floor {floor:.2?}, ours {ours:.2?} ({:.2}x the floor, {} requests each)",
            ours.as_secs_f64() / floor.as_secs_f64(),
            requests.first().copied().unwrap_or_default(),
        ))
    }

    /// The writes of an install, as a dry walk through its machine gives them.
    fn writes(&self, release: &ReleaseKey) -> Result<Vec<Call>> {
        let mut calls = Vec::new();
        let machine = self.machine(release, History::default(), "one")?;
        let mut step = machine.start(Timestamp::now());
        loop {
            step = match step {
                Step::Done(result) => return result.map(|_| calls).context("dry walk"),
                Step::Wait(_, machine) => machine.next(Timestamp::now(), Ok(Reply::Woken)),
                Step::Request(Request::Discover { .. }, machine) => {
                    let catalog = Reply::Catalog(Arc::clone(&self.catalog));
                    machine.next(Timestamp::now(), Ok(catalog))
                }
                Step::Request(Request::Call(call), machine) => {
                    anyhow::ensure!(call.verb != Verb::Get, "a read: {}", call.what);
                    calls.push(call);
                    let body = serde_json::json!({});
                    machine.next(Timestamp::now(), Ok(Reply::Object { code: 201, body }))
                }
            };
        }
    }

    async fn send_all(&self, bodies: Vec<Vec<Call>>) -> Result<()> {
        let work = stream::iter(bodies).map(|calls| async move {
            for call in calls {
                let answer = self.cluster.send(Request::Call(call)).await;
                answer.map_err(|failure| anyhow!("{failure:?}"))?;
            }
            Ok(())
        });
        let done: Vec<Result<()>> = work.buffer_unordered(WORKERS).collect().await;
        try_join_all(done.into_iter().map(futures::future::ready))
            .await
            .map(|_| ())
    }
}

/// Times by case.
#[derive(Default)]
struct Table(Vec<(String, Vec<Duration>, Option<usize>)>);

impl Table {
    fn note(&mut self, case: &str, time: Duration, requests: Option<usize>) {
        if let Some((_, times, _)) = self.0.iter_mut().find(|(known, ..)| known == case) {
            times.push(time);
        } else {
            self.0.push((case.to_owned(), vec![time], requests));
        }
    }

    fn print(&mut self) -> Result<()> {
        for (case, times, requests) in &mut self.0 {
            times.sort();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let requests = requests.map_or_else(String::new, |count| format!("{count} requests"));
            say(&format!(
                "{case:<44} {:>9.1} ms  {requests}",
                median.as_secs_f64() * 1000.0
            ))?;
        }
        Ok(())
    }
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

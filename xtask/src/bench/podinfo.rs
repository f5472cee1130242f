//! One release of podinfo, installed and upgraded without waiting: by `kubectl apply` of a HelmRelease and the daemon,
//! and by `helm upgrade --install`; and the actions alone, with their requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{ControlPlane, DaemonOptions, Exchange, FaultProxy, Options, Rig, repository};

use super::samples::{Row, Samples};
use super::{Arguments, Programs};
use crate::cargo;

const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if !arguments.wants("podinfo") {
        return Ok(rows);
    }
    let archive = repository().join("../shared/corpus/charts/stefanprodan-podinfo.tgz");
    if !archive.exists() {
        println!("skipped: podinfo: no chart at {}", archive.display());
        return Ok(rows);
    }
    println!("podinfo: {} installs and upgrades …", arguments.runs);
    rows.extend(daemon_and_helm(programs, &archive, arguments.runs)?);
    println!("podinfo: the actions alone, and 300 at once against a floor …");
    let mut bench = cargo::cargo();
    bench.args([
        "bench",
        "--quiet",
        "--package=helm-kube",
        "--bench=releases",
    ]);
    let status = bench.status().context("starting cargo")?;
    ensure!(
        status.success(),
        "the bench of helm-kube failed with {status}"
    );
    Ok(rows)
}

/// Times of the daemon and of helm in turns, on one control plane.
fn daemon_and_helm(programs: &Programs, archive: &Path, runs: usize) -> Result<[Row; CASES.len()]> {
    let plane = ControlPlane::start(Options::default())?;
    // The proxy counts the requests; it costs the daemon some time, and helm none.
    let proxy = FaultProxy::start(&plane)?;
    let flags = ["--charts-sync-interval=10m", "--status-update-interval=10s"];
    let options = DaemonOptions::local(&programs.ours, proxy.kubeconfig()?, &flags);
    let rig = Rig::start_with(&plane, options)?;
    let charts = rig.git.repository("charts")?;
    let chart = unpacked(archive)?;
    charts.write_directory("podinfo", &chart.path().join("podinfo"))?;
    charts.commit("Add the chart")?;
    let namespace = plane.namespace("podinfo")?;
    let site = Site {
        plane: &plane,
        rig: &rig,
        proxy: &proxy,
        url: charts.url().to_owned(),
        namespace,
    };
    // The first release waits for the mirror of the repository.
    site.ours("first", "none")?;
    let mut rows = CASES.map(|case| Row {
        case: case.to_owned(),
        stock: Some(Samples::default()),
        ours: Samples::default(),
    });
    for run in 0..runs {
        for (message, cases) in [("one", [0, 1]), ("two", [2, 3])] {
            let ours = site.ours(&format!("ours-{run}"), message)?;
            let helm = site.helm(&format!("helm-{run}"), archive, message)?;
            for (case, time) in cases.into_iter().zip([ours.whole, ours.inside]) {
                rows[case].ours.push(time);
                rows[case].stock.get_or_insert_default().push(helm);
            }
            if run == 0 {
                println!(
                    "  {}: {} requests of the daemon, status included",
                    CASES[cases[0]], ours.requests
                );
            }
        }
    }
    Ok(rows)
}

/// From the start of `kubectl apply` to a status that says `Ready`; and from the daemon's first request to its last.
const CASES: [&str; 4] = [
    "install of podinfo, with kubectl",
    "install of podinfo, in the daemon",
    "upgrade of podinfo, with kubectl",
    "upgrade of podinfo, in the daemon",
];

/// What one sync took.
struct Sync {
    whole: Duration,
    inside: Duration,
    requests: usize,
}

fn unpacked(archive: &Path) -> Result<testkit::ScratchDir> {
    let scratch = testkit::ScratchDir::new("podinfo")?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive);
    testkit::run(tar.arg("--directory").arg(scratch.path()))?;
    Ok(scratch)
}

struct Site<'a> {
    plane: &'a ControlPlane,
    rig: &'a Rig<'a>,
    proxy: &'a FaultProxy<'a>,
    url: String,
    namespace: String,
}

impl Site<'_> {
    fn ours(&self, name: &str, message: &str) -> Result<Sync> {
        let manifest = format!(
            "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: {name}}}\nspec:\n  releaseName: {name}\n  \
             chart: {{git: \"{}\", ref: main, path: podinfo}}\n  values: {{ui: {{message: {message}}}}}\n",
            self.url
        );
        let file = self.file(name, &manifest)?;
        let mut kubectl = self.plane.kubectl()?;
        kubectl.args(["apply", "--server-side", "--namespace", &self.namespace]);
        self.proxy.traffic().forget();
        let start = Instant::now();
        testkit::run(kubectl.arg("--filename").arg(&file))?;
        self.rig
            .wait_for(&self.namespace, name, LIMIT, testkit::is_ready)?;
        let whole = start.elapsed();
        let exchanges = self.proxy.traffic().exchanges();
        let work: Vec<&Exchange> = exchanges
            .iter()
            .filter(|it| !it.query.contains("watch=") && !it.path.contains("/events"))
            .collect();
        let (first, last) = (work.first(), work.last());
        let inside = first.zip(last).map(|(first, last)| last.at - first.at);
        Ok(Sync {
            whole,
            inside: inside.unwrap_or_default(),
            requests: work.len(),
        })
    }

    fn file(&self, name: &str, manifest: &str) -> Result<PathBuf> {
        let file = self.rig.daemon.directory().join(format!("{name}.yaml"));
        std::fs::write(&file, manifest)?;
        Ok(file)
    }

    fn helm(&self, name: &str, archive: &Path, message: &str) -> Result<Duration> {
        let mut helm = self.plane.helm()?;
        helm.args(["upgrade", "--install", name]).arg(archive);
        helm.args(["--set", &format!("ui.message={message}")]);
        helm.args(["--namespace", &self.namespace])
            .stdout(Stdio::null());
        let start = Instant::now();
        let status = helm.status()?;
        ensure!(status.success(), "helm failed with {status}");
        Ok(start.elapsed())
    }
}

//! Releases on a real API server: push → deployed, and many at once.

use std::fmt::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{ControlPlane, GitRepository, Options, Rig, repository};

use super::ready::wait_for_all;
use super::samples::{Row, Samples};
use super::{Arguments, Programs};

const LIMIT: Duration = Duration::from_secs(600);
/// How often the API server is asked; the error of the times.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let many = format!("{} releases deployed", arguments.releases);
    let mut rows = Vec::new();
    if arguments.wants("push to deployed") {
        rows.push(push_to_deployed(programs, arguments.runs)?);
    }
    if arguments.wants(&many) {
        rows.push(many_at_once(programs, many, arguments.releases)?);
    }
    Ok(rows)
}

/// A control plane without controllers: nothing but the API server answers, and nobody waits for pods.
fn rig<'a>(plane: &'a ControlPlane, programs: &Programs) -> Result<(Rig<'a>, GitRepository)> {
    let rig = Rig::start(plane, &programs.ours, &["--workers=4"])?;
    let charts = rig.git.repository("charts")?;
    charts.write_directory("greeter", &repository().join("examples/charts/greeter"))?;
    charts.commit("Add the chart")?;
    Ok((rig, charts))
}

fn manifest(name: &str, url: &str) -> String {
    format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata:\n  name: {name}\nspec:\n  \
         releaseName: {name}\n  chart:\n    git: {url}\n    ref: main\n    path: greeter\n---\n"
    )
}

/// From the return of `git push`, with the notice that a webhook would give, to the status with the new commit.
fn push_to_deployed(programs: &Programs, runs: usize) -> Result<Row> {
    println!("push to deployed: {runs} pushes …");
    let plane = ControlPlane::start(Options::default())?;
    let (rig, charts) = rig(&plane, programs)?;
    let namespace = plane.namespace("bench")?;
    rig.apply(&namespace, &manifest("greeter", charts.url()))?;
    rig.wait_until_ready(&namespace, "greeter", LIMIT)?;
    let mut times = Samples::default();
    for run in 0..runs {
        charts.write("greeter/values-extra.txt", run.to_string())?;
        charts.write("greeter/templates/extra.yaml", extra(run))?;
        let commit = charts.commit("Change the chart")?;
        let start = Instant::now();
        rig.daemon.post("/api/v1/sync-git", "")?;
        wait_for_revision(&rig, &namespace, &commit)?;
        times.push(start.elapsed());
    }
    Ok(Row {
        case: "push to deployed".to_owned(),
        stock: None,
        ours: times,
    })
}

fn extra(run: usize) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\ndata:\n  run: \"{run}\"\n")
}

fn wait_for_revision(rig: &Rig<'_>, namespace: &str, commit: &str) -> Result<()> {
    let end = Instant::now() + LIMIT;
    loop {
        let release = rig.release(namespace, "greeter")?;
        if release["status"]["revision"] == commit {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "{commit} is not deployed: {:#}",
            release["status"]
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// From the first object created to the last release ready; and `helm install` two at a time for the same.
fn many_at_once(programs: &Programs, case: String, count: usize) -> Result<Row> {
    println!("{case}: ours …");
    let plane = ControlPlane::start(Options::default())?;
    let (rig, charts) = rig(&plane, programs)?;
    let namespace = plane.namespace("bench")?;
    let mut manifests = String::new();
    for number in 0..count {
        write!(
            manifests,
            "{}",
            manifest(&format!("r{number}"), charts.url())
        )?;
    }
    let start = Instant::now();
    rig.apply(&namespace, &manifests)?;
    let path = format!("/apis/helm.fluxcd.io/v1/namespaces/{namespace}/helmreleases");
    wait_for_all(&plane, &path, count, LIMIT)?;
    let ours = start.elapsed();
    drop(rig);
    println!("{case}: helm install, two at a time …");
    let stock = install_all(&plane, count)?;
    Ok(Row {
        case,
        stock: Some(stock.into()),
        ours: ours.into(),
    })
}

fn install_all(plane: &ControlPlane, count: usize) -> Result<Duration> {
    let namespace = plane.namespace("bench")?;
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let mut helm = plane.helm()?;
            helm.args(["install", &format!("r{number}"), "examples/charts/greeter"]);
            helm.args(["--namespace", &namespace])
                .current_dir(repository());
            let status = helm
                .stdout(Stdio::null())
                .status()
                .context("starting helm")?;
            ensure!(status.success(), "helm install failed with {status}");
        }
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        })
    })?;
    Ok(start.elapsed())
}

//! A fleet of settled releases: what it costs to keep them, to start with them, and to edit one of them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{ControlPlane, DaemonOptions, GitRepository, Options, Rig, is_ready};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(900);
/// Releases in one namespace.
const IN_NAMESPACE: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The binary that is measured: a release build.
    #[arg(long)]
    binary: PathBuf,
    /// How many releases there are.
    #[arg(long, default_value_t = 1000)]
    releases: usize,
    /// How many git repositories their charts come from.
    #[arg(long, default_value_t = 20)]
    repositories: usize,
    /// Seconds of the steady state that are measured.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// How many edits are measured.
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// More flags of the daemon.
    #[arg(long)]
    flag: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let flags: Vec<&str> = arguments.flag.iter().map(String::as_str).collect();
    let options = DaemonOptions::local(&arguments.binary, plane.kubeconfig(), &flags);
    let mut rig = Rig::start_with(&plane, options)?;
    let base = memory(&rig)?;
    println!("base memory: {base} KiB");
    let fleet = Fleet::make(&rig, arguments)?;
    println!(
        "{} releases deployed in {:.1} s",
        arguments.releases,
        fleet.took.as_secs_f64()
    );
    steady(&rig, arguments, base)?;
    edit(&rig, &fleet, arguments)?;
    cold_start(&mut rig, arguments, base)
}

struct Fleet {
    namespaces: Vec<String>,
    repositories: Vec<GitRepository>,
    took: Duration,
}

impl Fleet {
    fn make(rig: &Rig<'_>, arguments: &Arguments) -> Result<Self> {
        let repositories: Vec<GitRepository> = (0..arguments.repositories)
            .map(|number| repository(rig, number))
            .collect::<Result<_>>()?;
        let count = arguments.releases.div_ceil(IN_NAMESPACE);
        let namespaces: Vec<String> = (0..count)
            .map(|_| rig.plane.namespace("fleet"))
            .collect::<Result<_>>()?;
        let start = Instant::now();
        let mut fleet = Self {
            namespaces,
            repositories,
            took: Duration::ZERO,
        };
        for (index, namespace) in fleet.namespaces.iter().enumerate() {
            let first = index * IN_NAMESPACE;
            let last = (first + IN_NAMESPACE).min(arguments.releases);
            let mut manifests = String::new();
            for number in first..last {
                manifests.push_str(&fleet.manifest(number, "good morning")?);
            }
            rig.apply(namespace, &manifests)?;
        }
        fleet.wait_for_all(rig, arguments.releases)?;
        fleet.took = start.elapsed();
        Ok(fleet)
    }

    fn manifest(&self, number: usize, greeting: &str) -> Result<String> {
        let repository = self.repositories.get(number % self.repositories.len());
        let url = repository.context("no repository")?.url();
        let mut text = String::new();
        write!(
            text,
            "---\napiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: r{number}}}\nspec:\n  \
             releaseName: r{number}\n  chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n  \
             values: {{greeting: \"{greeting}\", number: {number}}}\n"
        )?;
        Ok(text)
    }

    fn wait_for_all(&self, rig: &Rig<'_>, count: usize) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let list = rig.plane.get("/apis/helm.fluxcd.io/v1/helmreleases")?;
            let items = list["items"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let ready = items.iter().filter(|release| is_ready(release)).count();
            if ready == count {
                return Ok(());
            }
            let late = items
                .iter()
                .find(|release| !is_ready(release))
                .unwrap_or(&Value::Null);
            ensure!(
                Instant::now() < end,
                "{ready} of {count} are ready; not: {:#}",
                late["status"]
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

fn repository(rig: &Rig<'_>, number: usize) -> Result<GitRepository> {
    let repository = rig.git.repository(&format!("charts-{number}"))?;
    repository.write(
        "charts/hello/Chart.yaml",
        "apiVersion: v2\nname: hello\nversion: 1.0.0\n",
    )?;
    repository.write("charts/hello/values.yaml", "greeting: hello\n")?;
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n\
                    data: {greeting: {{ .Values.greeting | quote }}}\n";
    repository.write("charts/hello/templates/map.yaml", template)?;
    repository.commit("Add the chart")?;
    Ok(repository)
}

/// Resident memory in KiB.
fn memory(rig: &Rig<'_>) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", rig.daemon.process().pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line
        .and_then(|line| line.split_whitespace().next())
        .context("no VmRSS")?;
    Ok(number.parse()?)
}

/// User and system time in seconds.
fn cpu(rig: &Rig<'_>) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", rig.daemon.process().pid()))?;
    let rest = stat.rsplit_once(')').context("no name in stat")?.1;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<f64>);
    let mut next = || {
        fields
            .next()
            .context("no times in stat")?
            .context("no number in stat")
    };
    Ok((next()? + next()?) / 100.0)
}

fn steady(rig: &Rig<'_>, arguments: &Arguments, base: u64) -> Result<()> {
    std::thread::sleep(Duration::from_secs(30));
    let before = (
        rig.plane.request_counts()?,
        cpu(rig)?,
        rig.git.traffic().count(),
    );
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    let after = (
        rig.plane.request_counts()?,
        cpu(rig)?,
        rig.git.traffic().count(),
    );
    let minutes = arguments.seconds as f64 / 60.0;
    let added = after.0.since(&before.0);
    let writes: u64 = added.writes().values().sum();
    let used = after.1 - before.1;
    let now = memory(rig)?;
    println!("steady state, {} s:", arguments.seconds);
    println!("  API writes, leases aside: {writes} {:?}", added.writes());
    println!(
        "  all API requests a minute (with leases and our own look): {:.1}",
        added.total() as f64 / minutes
    );
    println!(
        "  git requests a minute: {:.1}",
        (after.2 - before.2) as f64 / minutes
    );
    println!(
        "  CPU: {:.3} % of a core",
        used / arguments.seconds as f64 * 100.0
    );
    println!("  memory: {}", each_over(base, now, arguments.releases));
    Ok(())
}

/// From the moment that an edit is stored to the moment that the object says so.
fn edit(rig: &Rig<'_>, fleet: &Fleet, arguments: &Arguments) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..arguments.edits {
        let number = (round * 37) % arguments.releases;
        let namespace = fleet
            .namespaces
            .get(number / IN_NAMESPACE)
            .context("no namespace")?;
        let greeting = format!("round {round}");
        rig.apply(namespace, &fleet.manifest(number, &greeting)?)?;
        let start = Instant::now();
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/r{number}");
        loop {
            let map = rig.plane.get(&path)?;
            if map["data"]["greeting"] == greeting.as_str() {
                break;
            }
            ensure!(
                start.elapsed() < Duration::from_secs(60),
                "{path} does not change"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(start.elapsed());
    }
    times.sort();
    let at = |share: usize| {
        times
            .get(times.len() * share / 100)
            .or(times.last())
            .copied()
    };
    println!(
        "one edited among {}: median {:?}, p99 {:?}",
        arguments.releases,
        at(50),
        at(99)
    );
    Ok(())
}

fn cold_start(rig: &mut Rig<'_>, arguments: &Arguments, base: u64) -> Result<()> {
    rig.daemon.terminate()?;
    std::thread::sleep(Duration::from_secs(2));
    let before = rig.plane.request_counts()?;
    let start = Instant::now();
    rig.daemon.spawn_again()?;
    rig.daemon.wait_until_ready()?;
    let ready = start.elapsed();
    loop {
        let (_, metrics) = rig.daemon.get("/metrics")?;
        let verified: f64 = metrics
            .lines()
            .filter(|line| line.starts_with("controller_runtime_reconcile_total"))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        if verified >= arguments.releases as f64 {
            break;
        }
        ensure!(start.elapsed() < LIMIT, "{verified} are verified");
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = start.elapsed();
    std::thread::sleep(Duration::from_secs(15));
    let added = rig.plane.request_counts()?.since(&before);
    println!(
        "cold start: caches filled after {:.2} s, all verified after {:.2} s, {} writes {:?}, {} requests",
        ready.as_secs_f64(),
        took.as_secs_f64(),
        added.writes().values().sum::<u64>(),
        added.writes(),
        added.total()
    );
    println!(
        "  memory after it: {}",
        each_over(base, memory(rig)?, arguments.releases)
    );
    Ok(())
}

fn each_over(base: u64, now: u64, releases: usize) -> String {
    let each = now.saturating_sub(base) as f64 / releases as f64;
    format!("{now} KiB, {each:.1} KiB a release over the base")
}

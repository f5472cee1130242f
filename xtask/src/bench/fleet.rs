//! A fleet of settled releases: what it costs to keep them, to start with them, and to edit one of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{ControlPlane, DaemonOptions, GitRepository, Options, Rig};

use super::ready::wait_for_all;
use super::samples::Samples;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(900);
/// Releases in one namespace.
const IN_NAMESPACE: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The binary that is measured, a release build; it is built if none is named.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many releases there are: edits are measured among ten, a hundred … and all of them.
    #[arg(long, default_value_t = 1000)]
    releases: usize,
    /// How many git repositories their charts come from.
    #[arg(long, default_value_t = 20)]
    repositories: usize,
    /// Seconds of the steady state that are measured.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Seconds that the fleet is left alone before that.
    #[arg(long, default_value_t = 30)]
    settle: u64,
    /// How many edits are measured at each size.
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// More flags of the daemon.
    #[arg(long)]
    flag: Vec<String>,
}

impl Arguments {
    /// A fleet that is measured every day, in about a minute.
    pub(super) fn short(binary: &Path) -> Self {
        Self {
            binary: Some(binary.to_owned()),
            releases: 100,
            repositories: 4,
            seconds: 30,
            settle: 10,
            edits: 30,
            flag: Vec::new(),
        }
    }

    /// Ten, a hundred, a thousand … up to all of them.
    fn sizes(&self) -> Vec<usize> {
        let tens = std::iter::successors(Some(10_usize), |size| size.checked_mul(10));
        let mut sizes: Vec<usize> = tens.take_while(|size| *size < self.releases).collect();
        sizes.push(self.releases);
        sizes
    }
}

/// One figure and what it should be.
struct Figure {
    what: String,
    is: f64,
    unit: &'static str,
    goal: Option<f64>,
}

/// The figures so far.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, what: impl Into<String>, is: f64, unit: &'static str, goal: Option<f64>) {
        let what = what.into();
        println!("  … {what}: {is:.2} {unit}");
        self.0.push(Figure {
            what,
            is,
            unit,
            goal,
        });
    }

    fn print(&self) {
        println!(
            "\n{:<58} {:>10} {:<8} {:>10}",
            "fleet", "measured", "", "goal"
        );
        for Figure {
            what,
            is,
            unit,
            goal,
        } in &self.0
        {
            let goal = goal.map_or(String::new(), |goal| {
                format!("{goal:>10} {}", if *is <= goal { "met" } else { "MISSED" })
            });
            println!("{what:<58} {is:>10.2} {unit:<8} {goal}");
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => super::release_binary()?,
    };
    let options = Options {
        audit: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options)?;
    let flags: Vec<&str> = arguments.flag.iter().map(String::as_str).collect();
    let options = DaemonOptions::local(&binary, plane.kubeconfig(), &flags);
    let mut rig = Rig::start_with(&plane, options)?;
    let mut figures = Figures::default();
    let base = Memory::of(&rig)?;
    figures.add("base memory", mebibytes(base.resident), "MiB", Some(25.0));
    let what = "base memory: heap and stacks";
    figures.add(what, mebibytes(base.anonymous), "MiB", None);
    let mut fleet = Fleet::make(&rig, arguments)?;
    let mut before = (0, base);
    for size in arguments.sizes() {
        before = (fleet.size, Memory::of(&rig)?);
        let took = fleet.grow(&rig, size)?;
        figures.add(
            format!("deploying up to {size} releases"),
            took.as_secs_f64(),
            "s",
            None,
        );
        edit(&rig, &fleet, arguments.edits, &mut figures)?;
    }
    steady(&rig, arguments, base, before, &mut figures)?;
    cold_start(&mut rig, arguments, base, &mut figures)?;
    figures.print();
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

struct Fleet {
    namespaces: Vec<String>,
    repositories: Vec<GitRepository>,
    size: usize,
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
        Ok(Self {
            namespaces,
            repositories,
            size: 0,
        })
    }

    /// Adds releases up to this number, and waits until all are ready.
    fn grow(&mut self, rig: &Rig<'_>, size: usize) -> Result<Duration> {
        let start = Instant::now();
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let first = (index * IN_NAMESPACE).max(self.size);
            let last = ((index + 1) * IN_NAMESPACE).min(size);
            let mut manifests = String::new();
            for number in first..last {
                manifests.push_str(&self.manifest(number, "good morning")?);
            }
            if !manifests.is_empty() {
                rig.apply(namespace, &manifests)?;
            }
        }
        self.size = size;
        wait_for_all(
            rig.plane,
            "/apis/helm.fluxcd.io/v1/helmreleases",
            size,
            LIMIT,
        )?;
        Ok(start.elapsed())
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

/// Memory in KiB.
#[derive(Clone, Copy)]
struct Memory {
    /// All of it. What is not anonymous is mostly code: pages of the binary that have been used.
    resident: u64,
    /// Heap and stacks.
    anonymous: u64,
}

impl Memory {
    fn of(rig: &Rig<'_>) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{}/status", rig.daemon.process().pid()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number
                .with_context(|| format!("no {name}"))?
                .parse::<u64>()
                .context("a size")
        };
        Ok(Self {
            resident: field("VmRSS:")?,
            anonymous: field("RssAnon:")?,
        })
    }

    /// What has come since then, for each of so many releases, in KiB.
    fn each_since(self, before: Self, releases: usize) -> f64 {
        each(self.resident, before.resident, releases)
    }
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

/// Seconds for which threads of the daemon had work and no core: what a loaded machine adds to every time.
fn starved(rig: &Rig<'_>) -> Result<f64> {
    let threads = fs::read_dir(format!("/proc/{}/task", rig.daemon.process().pid()))?;
    let nanoseconds = threads.flatten().filter_map(|thread| {
        // A thread that has ended meanwhile has none.
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<f64>().ok()
    });
    Ok(nanoseconds.sum::<f64>() / 1e9)
}

/// The requests that the daemon has made so far: writes with their paths, and reads. The lease is left out.
fn requests(rig: &Rig<'_>) -> Result<(Vec<String>, usize)> {
    let entries = rig.plane.audit()?;
    let ours = entries.iter().filter(|entry| {
        entry.agent.starts_with("helm-operator/") && !entry.uri.contains("/leases")
    });
    let (reads, writes): (Vec<_>, Vec<_>) =
        ours.partition(|entry| matches!(entry.verb.as_str(), "get" | "list" | "watch"));
    let writes = writes
        .iter()
        .map(|entry| format!("{} {}", entry.verb, entry.uri));
    Ok((writes.collect(), reads.len()))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn steady(
    rig: &Rig<'_>,
    arguments: &Arguments,
    base: Memory,
    before: (usize, Memory),
    figures: &mut Figures,
) -> Result<()> {
    std::thread::sleep(Duration::from_secs(arguments.settle));
    let git = rig.git.traffic().count();
    let (writes, reads) = requests(rig)?;
    let used = cpu(rig)?;
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    let used = cpu(rig)? - used;
    let (now, now_reads) = requests(rig)?;
    let git = rig.git.traffic().count() - git;
    let seconds = arguments.seconds as f64;
    let of = format!(
        "steady, {} releases, {} s",
        arguments.releases, arguments.seconds
    );
    let new = now.get(writes.len()..).unwrap_or_default();
    for write in new.iter().take(10) {
        println!("  a write: {write}");
    }
    figures.add(format!("{of}: API writes"), new.len() as f64, "", Some(0.0));
    let reads = (now_reads - reads) as f64 / seconds * 60.0;
    figures.add(format!("{of}: API reads"), reads, "/min", Some(5.0));
    figures.add(
        format!("{of}: git requests"),
        git as f64 / seconds * 60.0,
        "/min",
        None,
    );
    figures.add(
        format!("{of}: CPU"),
        used / seconds * 100.0,
        "% core",
        Some(0.2),
    );
    tell_memory(rig, &of, arguments, base, figures)?;
    // What comes with the first ones, such as code in use and mirrors, is not in this.
    let (size, memory) = before;
    let more = arguments.releases - size;
    let each = Memory::of(rig)?.each_since(memory, more);
    figures.add(
        format!("{of}: memory of the last {more}"),
        each,
        "KiB each",
        None,
    );
    Ok(())
}

fn tell_memory(
    rig: &Rig<'_>,
    of: &str,
    arguments: &Arguments,
    base: Memory,
    figures: &mut Figures,
) -> Result<()> {
    let now = Memory::of(rig)?;
    let anonymous = each(now.anonymous, base.anonymous, arguments.releases);
    let all = now.each_since(base, arguments.releases);
    figures.add(format!("{of}: memory"), all, "KiB each", Some(8.0));
    figures.add(
        format!("{of}: memory: heap and stacks"),
        anonymous,
        "KiB each",
        None,
    );
    Ok(())
}

/// From the moment that an edit is stored to the moment that its objects are as it says.
fn edit(rig: &Rig<'_>, fleet: &Fleet, edits: usize, figures: &mut Figures) -> Result<()> {
    let mut times = Samples::default();
    for round in 0..edits {
        let number = (round * 37) % fleet.size;
        let namespace = fleet
            .namespaces
            .get(number / IN_NAMESPACE)
            .context("no namespace")?;
        let greeting = format!("round {round} of {}", fleet.size);
        rig.apply(namespace, &fleet.manifest(number, &greeting)?)?;
        let start = Instant::now();
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/r{number}");
        while rig.plane.get(&path)?["data"]["greeting"] != greeting.as_str() {
            ensure!(
                start.elapsed() < Duration::from_secs(60),
                "{path} does not change"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        times.push(start.elapsed());
    }
    let milliseconds = |part| times.quantile(part).as_secs_f64() * 1000.0;
    let of = format!("one edited among {}", fleet.size);
    figures.add(
        format!("{of}: median to deployed"),
        milliseconds(0.5),
        "ms",
        None,
    );
    figures.add(
        format!("{of}: p99 to deployed"),
        milliseconds(0.99),
        "ms",
        Some(150.0),
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn cold_start(
    rig: &mut Rig<'_>,
    arguments: &Arguments,
    base: Memory,
    figures: &mut Figures,
) -> Result<()> {
    rig.daemon.terminate()?;
    let (writes, reads) = requests(rig)?;
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
        // A page of a thousand releases is megabytes of text: asked for more often, it is what is measured.
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = start.elapsed();
    let (used, starved) = (cpu(rig)?, starved(rig)?);
    std::thread::sleep(Duration::from_secs(arguments.settle.min(15)));
    let (now, now_reads) = requests(rig)?;
    let new = now.get(writes.len()..).unwrap_or_default();
    for write in new.iter().take(10) {
        println!("  a write: {write}");
    }
    let of = format!("cold start, {} releases", arguments.releases);
    figures.add(
        format!("{of}: caches filled"),
        ready.as_secs_f64(),
        "s",
        None,
    );
    figures.add(
        format!("{of}: all verified"),
        took.as_secs_f64(),
        "s",
        Some(3.0),
    );
    figures.add(format!("{of}: API writes"), new.len() as f64, "", Some(0.0));
    figures.add(
        format!("{of}: API reads"),
        (now_reads - reads) as f64,
        "",
        None,
    );
    figures.add(format!("{of}: CPU"), used, "s", None);
    figures.add(
        format!("{of}: threads waited for a core"),
        starved,
        "s",
        None,
    );
    tell_memory(rig, &of, arguments, base, figures)
}

/// Memory above another state for each release, in KiB.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn each(now: u64, before: u64, releases: usize) -> f64 {
    now.saturating_sub(before) as f64 / releases.max(1) as f64
}

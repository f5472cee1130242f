//! One chart found in a large index: time, and memory over that of a tiny index.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{ChartServer, ScratchDir, chart_archive};

use super::process::peak;
use super::samples::{Row, Samples};
use super::{Arguments, Programs};

/// Megabytes of the indexes; the second is the size of the largest public one.
const SIZES: [usize; 3] = [10, 44, 100];
/// Most runs of each: the stock helm takes half a minute for the largest.
const RUNS: usize = 5;
/// The chart that is asked for, in the middle of the index.
const CHART: &str = "wanted";
const VERSION: &str = "1.2.3";

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for megabytes in SIZES {
        let case = format!("pull from an index of {megabytes} MB");
        if arguments.wants(&case) {
            rows.push(compare(
                programs,
                case,
                megabytes,
                arguments.runs.min(RUNS),
            )?);
        }
    }
    Ok(rows)
}

fn compare(programs: &Programs, case: String, megabytes: usize, runs: usize) -> Result<Row> {
    let archive = chart_archive(CHART, VERSION, &[])?;
    let servers = [serve(0, &archive)?, serve(megabytes << 20, &archive)?];
    let [tiny, large] = &servers;
    let sides = [programs.tools.path("helm")?, programs.ours.clone()];
    let [stock, ours] = sides.map(|program| Side {
        program,
        archive: archive.clone(),
    });
    println!("{case}: {runs} runs each …");
    let (mut stock_times, mut our_times) = (Samples::default(), Samples::default());
    let mut over_base = [0_u64; 2];
    for _ in 0..runs {
        for (at, side, times) in [(0, &stock, &mut stock_times), (1, &ours, &mut our_times)] {
            let base = side.pull(tiny)?;
            let found = side.pull(large)?;
            times.push(found.time);
            let over = found.peak_kib.saturating_sub(base.peak_kib);
            if let Some(most) = over_base.get_mut(at) {
                *most = over.max(*most);
            }
        }
    }
    let [stock_kib, our_kib] = over_base;
    println!(
        "{case}: memory over that of a tiny index, at most: helm {:.1} MiB, ours {:.1} MiB",
        mebi(stock_kib),
        mebi(our_kib)
    );
    Ok(Row {
        case,
        stock: Some(stock_times),
        ours: our_times,
    })
}

fn mebi(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

struct Side {
    program: PathBuf,
    archive: Vec<u8>,
}

/// What one run took.
struct Run {
    time: Duration,
    peak_kib: u64,
}

impl Side {
    /// Pulls the chart with nothing in any cache; what arrives has to be the chart.
    fn pull(&self, server: &ChartServer) -> Result<Run> {
        let home = ScratchDir::new("pull")?;
        let mut command = Command::new(&self.program);
        command
            .args(["pull", CHART, "--version", VERSION, "--repo"])
            .arg(server.url())
            .arg("--destination")
            .arg(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("HOME", home.path());
        for variable in [
            "XDG_CACHE_HOME",
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
        ] {
            command.env(variable, home.join("helm"));
        }
        let run = watch(&mut command)?;
        let pulled = fs::read(home.join(format!("{CHART}-{VERSION}.tgz")))?;
        ensure!(
            pulled == self.archive,
            "{} pulled another chart",
            self.program.display()
        );
        Ok(run)
    }
}

/// Runs a command, and reads how much memory it has had at most until it is gone.
fn watch(command: &mut Command) -> Result<Run> {
    let start = Instant::now();
    let mut child = command.spawn().context("starting a program")?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_kib = 0;
    let ended = loop {
        peak_kib = peak(&status).unwrap_or(0).max(peak_kib);
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    ensure!(ended.success(), "a program failed with {ended}");
    Ok(Run {
        time: start.elapsed(),
        peak_kib,
    })
}

/// A repository whose index has about this many bytes, in the shape of a public one: charts with
/// dozens of versions, each with a description, keywords, maintainers and a digest.
fn serve(bytes: usize, archive: &[u8]) -> Result<ChartServer> {
    let server = ChartServer::start()?;
    let digest = server.add_chart(CHART, VERSION, archive.to_vec());
    let mut index = "apiVersion: v1\nentries:\n".to_owned();
    let mut number = 0_usize;
    let mut is_listed = false;
    while index.len() < bytes || !is_listed {
        if !is_listed && index.len() >= bytes / 2 {
            writeln!(index, "  {CHART}:")?;
            version(&mut index, CHART, VERSION, &digest)?;
            is_listed = true;
        }
        if index.len() < bytes {
            writeln!(index, "  chart-{number:05}:")?;
            for patch in (0..40).rev() {
                let digest = format!("{:064x}", number * 64 + patch);
                version(
                    &mut index,
                    &format!("chart-{number:05}"),
                    &format!("1.{number}.{patch}"),
                    &digest,
                )?;
            }
        }
        number += 1;
    }
    index.push_str("generated: \"2026-01-01T00:00:00.000000001Z\"\n");
    server.put("/index.yaml", index.into_bytes());
    Ok(server)
}

fn version(index: &mut String, name: &str, version: &str, digest: &str) -> Result<()> {
    let digest = digest.trim_start_matches("sha256:");
    write!(
        index,
        "  - annotations:\n      category: Database\n      licenses: Apache-2.0\n    apiVersion: v2\n    \
         appVersion: {version}\n    created: \"2026-01-01T00:00:00.123456789Z\"\n    dependencies:\n    \
         - name: common\n      repository: https://charts.example.com\n      tags:\n      - common\n      version: 2.x.x\n    \
         description: A chart that sets up {name} on Kubernetes, with replicas and\n      backups. Two lines are what most have.\n    \
         digest: {digest}\n    home: https://example.com/{name}\n    icon: https://example.com/{name}.svg\n    keywords:\n    \
         - {name}\n    - database\n    - sql\n    maintainers:\n    - email: team@example.com\n      name: The team\n    \
         name: {name}\n    sources:\n    - https://example.com/{name}/source\n    urls:\n    - {name}-{version}.tgz\n    \
         version: {version}\n"
    )?;
    Ok(())
}

//! `template` as a process: ours and the stock helm's, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::samples::{Row, Samples};
use super::{Arguments, Programs};
use crate::cargo::root;

/// Charts that many know, from the corpus beside the clone; and our own, which are always there.
const CHARTS: [(&str, &str); 4] = [
    (
        "podinfo",
        "../shared/corpus/charts/stefanprodan-podinfo.tgz",
    ),
    (
        "ingress-nginx",
        "../shared/corpus/charts/kubernetes-ingress-nginx.tgz",
    ),
    ("helm-operator", "charts/helm-operator"),
    ("greeter", "examples/charts/greeter"),
];

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, path) in CHARTS {
        let case = format!("template {name}");
        let chart = root().join(path);
        if !arguments.wants(&case) {
            continue;
        }
        if !chart.exists() {
            println!("skipped: {case}: {} is not there", chart.display());
            continue;
        }
        rows.push(compare(programs, case, &chart, arguments.runs)?);
    }
    Ok(rows)
}

fn compare(programs: &Programs, case: String, chart: &Path, runs: usize) -> Result<Row> {
    let stock = Side::new(programs.tools.path("helm")?, chart);
    let ours = Side::new(programs.ours.clone(), chart);
    // The first runs fill the file cache and show that both print the same.
    let (expected, again, printed) = (stock.output()?, stock.output()?, ours.output()?);
    ensure!(
        same_but_random(&expected, &again, &printed),
        "{case}: the output differs from the stock helm's, its speed says nothing"
    );
    println!(
        "{case}: {} bytes, the same from both; {runs} runs each …",
        expected.len()
    );
    let (mut stock_times, mut our_times) = (Samples::default(), Samples::default());
    for run in 0..runs {
        // In turns, and the order in turns too, so that a drift of the machine hits both.
        if run % 2 == 0 {
            stock_times.push(stock.time()?);
            our_times.push(ours.time()?);
        } else {
            our_times.push(ours.time()?);
            stock_times.push(stock.time()?);
        }
    }
    Ok(Row {
        case,
        stock: Some(stock_times),
        ours: our_times,
    })
}

/// Whether the output is the expected one, but for lines that differ from run to run of the stock helm: charts make
/// passwords and names at random.
fn same_but_random(expected: &str, again: &str, printed: &str) -> bool {
    let count = |text: &str| text.lines().count();
    let random = |(one, two): (&str, &str)| one != two;
    let lines = expected.lines().zip(again.lines());
    count(expected) == count(printed)
        && count(expected) == count(again)
        && lines
            .zip(printed.lines())
            .all(|(pair, line)| random(pair) || pair.0 == line)
}

struct Side {
    program: PathBuf,
    chart: PathBuf,
}

impl Side {
    fn new(program: PathBuf, chart: &Path) -> Self {
        Self {
            program,
            chart: chart.to_owned(),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["template", "bench"])
            .arg(&self.chart)
            .stdin(Stdio::null());
        command
    }

    fn output(&self) -> Result<String> {
        let output = self.command().output().context("starting a program")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{} failed: {stderr}",
            self.program.display()
        );
        String::from_utf8(output.stdout).context("the output is no text")
    }

    /// The wall time of one run, its output going to /dev/null.
    fn time(&self) -> Result<Duration> {
        let mut command = self.command();
        command.stdout(fs::File::create("/dev/null")?);
        let start = Instant::now();
        let status = command.status().context("starting a program")?;
        ensure!(
            status.success(),
            "{} failed with {status}",
            self.program.display()
        );
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_random_lines_may_differ() {
        let same = |printed: &str| same_but_random("a\nkey: 1\nb\n", "a\nkey: 2\nb\n", printed);
        assert!(same("a\nkey: 3\nb\n"));
        assert!(!same("a\nkey: 3\nc\n"));
        assert!(!same("a\nkey: 3\nb\nc\n"));
    }
}

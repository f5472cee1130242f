//! The engine as a library, warm: the chart is loaded, each run changes a value and renders. Against Helm's own engine
//! in `benches/go-engine`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::ScratchDir;

use super::Arguments;
use super::samples::Row;
use crate::cargo::{self, root};

const CORPUS: &str = "../shared/corpus";
const CHARTS: usize = 10;

pub(super) fn run(arguments: &Arguments) -> Result<Vec<Row>> {
    let charts: Vec<(String, PathBuf)> = largest_charts()?
        .into_iter()
        .map(|(name, path)| (format!("engine, warm: {name}"), path))
        .filter(|(case, _)| arguments.wants(case))
        .collect();
    if charts.is_empty() {
        println!("skipped: engine, warm: no charts in {CORPUS}, or not wanted");
        return Ok(Vec::new());
    }
    println!("engine, warm: building both sides …");
    let folder = ScratchDir::new("engine")?;
    let theirs = folder.join("go-engine");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&theirs).arg(".");
    testkit::run(go.current_dir(root().join("benches/go-engine")))?;
    let ours = build_ours()?;
    let runs = arguments.runs.to_string();
    let mut rows = Vec::new();
    for (case, chart) in charts {
        println!("{case}: {runs} runs each …");
        let printed = folder.join("printed.json");
        // The other side compares what it renders with what this one wrote.
        let stock = time(&theirs, &chart, &runs, &printed)?;
        let ours = time(&ours, &chart, &runs, &printed).with_context(|| case.clone())?;
        rows.push(Row {
            case,
            stock: Some(stock.into()),
            ours: ours.into(),
        });
    }
    Ok(rows)
}

/// Those that render the same in every run, with their own values.
fn largest_charts() -> Result<Vec<(String, PathBuf)>> {
    let corpus = root().join(CORPUS);
    if !corpus.exists() {
        return Ok(Vec::new());
    }
    let list = fs::read_to_string(corpus.join("cases.tsv")).context("reading the cases")?;
    let mut charts = Vec::new();
    for line in list.lines() {
        if let [name, chart, "", "ok"] = line.split('\t').collect::<Vec<_>>().as_slice() {
            let path = corpus.join(chart);
            charts.push((fs::metadata(&path)?.len(), (*name).to_owned(), path));
        }
    }
    charts.sort();
    charts.reverse();
    charts.truncate(CHARTS);
    Ok(charts
        .into_iter()
        .map(|(_, name, path)| (name, path))
        .collect())
}

fn build_ours() -> Result<PathBuf> {
    let built = cargo::build(&[
        "build",
        "--release",
        "--package=helm-engine",
        "--example=warm",
    ])?;
    let warm = built.into_iter().find(|it| it.name == "warm");
    Ok(warm.context("cargo has built no example warm")?.path)
}

/// The median of the runs, as the program reports it.
fn time(program: &Path, chart: &Path, runs: &str, printed: &Path) -> Result<Duration> {
    let mut command = Command::new(program);
    command.arg(chart).arg("-").arg(runs).arg(printed);
    let answer = testkit::run(&mut command)?;
    let nanoseconds = answer.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(
        nanoseconds
            .trim()
            .parse()
            .with_context(|| format!("reading {answer:?} of {}", program.display()))?,
    ))
}

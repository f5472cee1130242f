//! `template` as a process over known charts: ours and the stock helm's, in turns.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::process::{Process, same_but_random};
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

/// Times `template` of one chart by both, after both have printed the same.
pub(super) fn compare(programs: &Programs, case: String, chart: &Path, runs: usize) -> Result<Row> {
    let chart = chart.to_str().context("a path that is no text")?;
    let process = |program: &Path| Process::new(program, root(), &["template", "bench", chart]);
    let (stock, ours) = (
        process(&programs.tools.path("helm")?),
        process(&programs.ours),
    );
    // The first runs fill the file cache and show that both print the same.
    let (expected, again) = (stock.success()?, stock.success()?);
    ensure!(
        same_but_random(&expected, &again, &ours.success()?),
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

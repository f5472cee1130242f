//! `make bench`: speed against the stock helm, in one run, output equal first.

mod corpus;
mod deploy;
mod engine;
pub(crate) mod fleet;
mod index;
mod podinfo;
mod process;
mod ready;
mod render;
mod samples;
mod umbrella;

use std::path::PathBuf;

use anyhow::{Context, Result};
use testkit::{ToolSet, Tools};

use crate::cargo;
use samples::Row;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs of each program and case; the table shows medians.
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Releases that are deployed at once.
    #[arg(long, default_value_t = 100)]
    releases: usize,
    /// Only the cases whose name holds this text.
    #[arg(long, default_value = "")]
    only: String,
}

impl Arguments {
    fn wants(&self, case: &str) -> bool {
        case.contains(&self.only)
    }
}

/// What is compared.
struct Programs {
    tools: Tools,
    ours: PathBuf,
}

/// Builds the release binary.
fn release_binary() -> Result<PathBuf> {
    println!("building the release binary (first time about 10 minutes) …");
    let built = cargo::build(&[
        "build",
        "--release",
        "--package=helm-operator",
        "--bin=helm-operator",
    ])?;
    let ours = built.into_iter().find(|it| it.name == "helm-operator");
    Ok(ours.context("cargo has built no helm-operator")?.path)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let ours = release_binary()?;
    let programs = Programs {
        tools: Tools::locate(ToolSet::Base)?,
        ours,
    };
    let mut rows = render::run(&programs, arguments)?;
    rows.extend(corpus::run(&programs, arguments)?);
    rows.extend(umbrella::run(&programs, arguments)?);
    rows.extend(engine::run(arguments)?);
    rows.extend(index::run(&programs, arguments)?);
    rows.extend(deploy::run(&programs, arguments)?);
    rows.extend(podinfo::run(&programs, arguments)?);
    print(&rows);
    if arguments.wants("fleet") {
        fleet::run(&fleet::Arguments::short(&programs.ours))?;
    }
    Ok(())
}

fn print(rows: &[Row]) {
    println!(
        "\n{:<44} {:>12} {:>12} {:>8}  spread",
        "median of the runs", "helm", "ours", "ratio"
    );
    for row in rows {
        println!("{row}");
    }
    let (kernel, cores) = (
        kernel(),
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    println!("\n{cores} cores, {kernel}; etcd without fsync; ratio: how many times faster ours is");
}

fn kernel() -> String {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", version.trim())
}

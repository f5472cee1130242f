//! Tasks of the project. `cargo xtask --help` lists them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod bench;
mod cargo;
mod cluster;
mod demo;
mod fuzz;
mod generated;
mod golden;
mod oracle;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::Parser;

/// Tasks of the project.
#[derive(Parser)]
enum Task {
    /// Checks the habits that no compiler holds: import direction, sizes, names, licence.
    Tidy,
    /// Runs all tests and counts unit, golden and real-API-server tests apart.
    Test(test::Arguments),
    /// Writes the files that are made from the Rust types and the chart.
    Crd,
    /// Writes docs/cli.md from what the binary says about itself.
    Docs,
    /// Writes tests/golden/expected from what the stock helm does with tests/golden/cases.
    Golden(golden::Arguments),
    /// Compares the YAML of random documents with Go's, or writes Go's answers into the golden tables.
    Oracle(oracle::Arguments),
    /// Tries mutated inputs on everything that reads what others wrote.
    Fuzz(fuzz::Arguments),
    /// Starts a throw-away cluster and keeps it until stdin ends or Ctrl-C.
    Cluster,
    /// Shows an install and an upgrade in a throw-away cluster, or in that of $KUBECONFIG.
    Demo,
    /// Measures rendering and deploying against the stock helm.
    Bench(bench::Arguments),
    /// Measures what a fleet of settled releases costs.
    Fleet(bench::fleet::Arguments),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Tidy => tidy::run(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Crd => generated::crd(),
        Task::Docs => generated::docs(),
        Task::Golden(arguments) => golden::run(&arguments),
        Task::Oracle(arguments) => oracle::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Cluster => cluster::run(),
        Task::Demo => demo::run(),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Fleet(arguments) => bench::fleet::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `template` alone, without the rest of the operator: quick to build, for measuring and profiling.

#[path = "../../../src/cli/chart.rs"]
mod chart;
#[path = "../../../src/cli/lint.rs"]
mod lint;
#[path = "../../../src/cli/output.rs"]
mod output;
#[path = "../../../src/cli/package.rs"]
mod package;
#[path = "../../../src/cli/show.rs"]
mod show;
#[path = "../../../src/cli/template.rs"]
mod template;
#[path = "../../../src/cli/values.rs"]
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Template(Box<template::Arguments>),
    Lint(lint::Arguments),
    Show(show::Arguments),
    Package(package::Arguments),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Template(arguments) => template::run(&arguments),
        Verb::Lint(arguments) => lint::run(&arguments),
        Verb::Show(arguments) => show::run(&arguments),
        Verb::Package(arguments) => package::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

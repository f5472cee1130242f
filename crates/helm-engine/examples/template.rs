//! `template` alone, without the rest of the operator: quick to build, for measuring and profiling.

#[path = "../../../src/cli/chart.rs"]
mod chart;
#[path = "../../../src/cli/output.rs"]
mod output;
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
}

fn main() -> ExitCode {
    let Verb::Template(arguments) = Cli::parse().verb;
    match template::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

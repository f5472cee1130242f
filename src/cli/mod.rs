//! The command line: one file per verb.
//!
//! Verbs that need no cluster start no runtime, no client and no TLS: `template` is over before
//! those would be set up.

mod chart;
mod lint;
mod output;
mod package;
mod show;
mod template;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Keeps Helm releases in a Kubernetes cluster equal to what git says.
#[derive(Debug, Parser)]
#[command(name = "helm-operator", version)]
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

/// Runs the verb that the command line names. Whatever fails is said on standard error behind
/// `Error: `, and the exit code is 1, as with helm.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be said if the terminal is gone.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let done = match cli.verb {
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

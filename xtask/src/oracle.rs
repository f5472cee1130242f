//! `cargo xtask oracle`: what the YAML crate makes of a text, against what Go's libraries make of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, root};

/// The program that asks Go's libraries.
const PROGRAM: &str = "crates/goyaml/oracle";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write Go's answers into the golden tables, instead of comparing random documents
    #[arg(long)]
    bless: bool,

    /// How many random documents are compared
    #[arg(long, default_value_t = 20_000)]
    rounds: u64,

    /// Where chance begins; another number makes other documents
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds the program, and runs the tests that need it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the oracle")?;
    let program = folder.path().join("oracle");
    build(&program)?;
    let test = if arguments.bless {
        "golden"
    } else {
        "differential"
    };
    let mut command = cargo::cargo();
    command
        .args(["test", "--locked", "--package", "goyaml", "--test", test])
        .args(["--", "--ignored"])
        .env("GOYAML_ORACLE", program)
        .env("GOYAML_ROUNDS", arguments.rounds.to_string())
        .env("GOYAML_SEED", arguments.seed.to_string());
    succeed(&mut command, "cargo")
}

fn build(program: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(program).arg(".");
    succeed(go.current_dir(root().join(PROGRAM)), "go")
}

fn succeed(command: &mut Command, name: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{name} failed, see above");
    Ok(())
}

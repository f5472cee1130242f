//! `cargo xtask fuzz`: the targets of `tests/fuzz`, optimised, one after the other.

use anyhow::{Context, Result, ensure};

use crate::cargo;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only targets whose names contain this, such as `templates` or `yaml`
    target: Option<String>,

    /// How long each of them runs
    #[arg(long, default_value_t = 600)]
    seconds: u64,

    /// Where chance begins; another number tries other inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Each target says how many inputs it tried, and where the input is that it stopped at.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = cargo::cargo();
    command
        .args([
            "test",
            "--release",
            "--locked",
            "--package",
            "helm-operator",
        ])
        .args(["--test", "fuzz", "--", "--test-threads=1", "--nocapture"])
        .args(&arguments.target)
        .env("FUZZ_SECONDS", arguments.seconds.to_string())
        .env("FUZZ_SEED", arguments.seed.to_string());
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "a target stopped, see above");
    Ok(())
}

//! Asking cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    testkit::repository()
}

/// `cargo`, the one that runs us, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The packages of the workspace, from `cargo metadata`.
pub(crate) fn packages() -> Result<Vec<Value>> {
    let arguments = [
        "metadata",
        "--no-deps",
        "--format-version=1",
        "--locked",
        "--offline",
    ];
    let mut metadata: Value = serde_json::from_str(&testkit::run(cargo().args(arguments))?)
        .context("reading cargo metadata")?;
    let packages = metadata["packages"].take();
    serde_json::from_value(packages).context("reading the packages of cargo metadata")
}

/// An executable that cargo has built.
#[derive(Debug)]
pub(crate) struct Executable {
    /// The directory of its package.
    pub(crate) package: PathBuf,
    /// `lib`, `bin`, `test`, `example` …
    pub(crate) kind: String,
    /// Whether it is a test harness, and not a program that tests run.
    pub(crate) is_test: bool,
    /// The name of the target, such as `cluster_install`.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// Runs `cargo ARGUMENTS` with its progress on our terminal and returns the executables that it reports.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<Executable>> {
    let output = cargo()
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(
        output.status.success(),
        "`cargo {}` failed, see above",
        arguments.join(" ")
    );
    let text = String::from_utf8(output.stdout).context("reading the messages of cargo")?;
    text.lines()
        .map(executable)
        .filter_map(Result::transpose)
        .collect()
}

fn executable(line: &str) -> Result<Option<Executable>> {
    let message: Value = serde_json::from_str(line).context("reading a message of cargo")?;
    let text = |pointer: &str| {
        message
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (Some(path), Some(manifest)) = (text("/executable"), text("/manifest_path")) else {
        return Ok(None);
    };
    Ok(Some(Executable {
        package: Path::new(&manifest).parent().unwrap_or(root()).to_owned(),
        kind: text("/target/kind/0").unwrap_or_default(),
        is_test: message.pointer("/profile/test") == Some(&Value::Bool(true)),
        name: text("/target/name").unwrap_or_default(),
        path: PathBuf::from(path),
    }))
}

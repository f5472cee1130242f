//! All tests, counted by kind.
//!
//! The kind of a test is the name of its executable: `tests/golden*.rs` compares with what the stock programs print,
//! `tests/cluster*.rs` runs on a real API server, everything else is a unit test. `cargo xtask tidy` holds the names.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo::{self, Executable, root};

/// One executable that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only one kind: unit, golden or cluster.
    #[arg(long)]
    only: Option<Kind>,
    /// Only tests whose name holds this text.
    filter: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
enum Kind {
    Unit,
    Golden,
    Cluster,
}

impl Kind {
    fn of(executable: &Executable) -> Self {
        match executable.name.as_str() {
            name if executable.kind == "test" && name.starts_with("golden") => Self::Golden,
            name if executable.kind == "test" && name.starts_with("cluster") => Self::Cluster,
            _ => Self::Unit,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Unit => "unit tests",
            Self::Golden => "golden tests",
            Self::Cluster => "real API server tests",
        }
    }
}

/// What the test harness counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Count {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Adds up the lines `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn parse(output: &str) -> Self {
        let mut count = Self::default();
        for line in output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: "))
        {
            let words: Vec<&str> = line.split([' ', ';']).collect();
            for pair in words.windows(2) {
                let [number, word] = pair else { continue };
                let Ok(number) = number.parse::<u32>() else {
                    continue;
                };
                match *word {
                    "passed" => count.passed += number,
                    "failed" => count.failed += number,
                    "ignored" => count.ignored += number,
                    _ => {}
                }
            }
        }
        count
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} ignored",
            self.passed, self.failed, self.ignored
        )
    }
}

#[derive(Debug, Default)]
struct Totals {
    counts: BTreeMap<Kind, Count>,
    /// What the tests did not look at, in their own words.
    skipped: Vec<String>,
    broken: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut executables = cargo::build(&["test", "--workspace", "--locked", "--no-run"])?;
    executables.retain(|executable| executable.is_test);
    let mut totals = Totals::default();
    for kind in [Kind::Unit, Kind::Golden, Kind::Cluster] {
        if arguments.only.is_none_or(|only| only == kind) {
            totals.counts.insert(kind, Count::default());
            for executable in executables.iter().filter(|it| Kind::of(it) == kind) {
                totals.run(
                    kind,
                    &describe(executable),
                    &mut command(executable, arguments),
                )?;
            }
        }
    }
    if totals.counts.contains_key(&Kind::Unit) {
        let mut documentation = cargo::cargo();
        documentation
            .args(["test", "--workspace", "--doc", "--quiet"])
            .args(&arguments.filter);
        totals.run(
            Kind::Unit,
            "examples in the documentation",
            &mut documentation,
        )?;
    }
    totals.report()
}

fn command(executable: &Executable, arguments: &Arguments) -> Command {
    let mut command = Command::new(&executable.path);
    command.arg("--show-output").args(&arguments.filter);
    command
        .current_dir(&executable.package)
        .env("CARGO_MANIFEST_DIR", &executable.package);
    command
}

fn describe(executable: &Executable) -> String {
    let package = executable
        .package
        .strip_prefix(root())
        .unwrap_or(Path::new(""));
    match executable.kind.as_str() {
        "test" => package
            .join("tests")
            .join(&executable.name)
            .display()
            .to_string(),
        _ => package.join("src").display().to_string(),
    }
}

impl Totals {
    /// Runs one executable; its output is shown only when it fails.
    fn run(&mut self, kind: Kind, label: &str, command: &mut Command) -> Result<()> {
        let start = Instant::now();
        let (text, status) =
            watch(command).with_context(|| format!("running the tests of {label}"))?;
        let count = Count::parse(&text);
        let skipped = text.lines().filter(|line| line.starts_with("skipped: "));
        self.skipped.extend(skipped.map(str::to_owned));
        self.counts.entry(kind).or_default().add(count);
        if count != Count::default() {
            println!("{label}: {count} ({:.1} s)", start.elapsed().as_secs_f32());
        }
        if !status.is_some_and(|status| status.success()) {
            println!("{}", failures(&text));
            match status {
                Some(status) => println!("{label}: {status}"),
                None => println!("{label}: killed after {LIMIT:?}"),
            }
            self.broken.push(label.to_owned());
        }
        Ok(())
    }

    fn report(mut self) -> Result<()> {
        self.skipped.sort();
        self.skipped.dedup();
        println!();
        for line in &self.skipped {
            println!("{line}");
        }
        for (kind, count) in &self.counts {
            println!("{}: {count}", kind.label());
        }
        if !self.broken.is_empty() {
            bail!("tests failed in: {}", self.broken.join(", "));
        }
        Ok(())
    }
}

/// Runs a program to its end: its output, and its status if it ended in time.
fn watch(command: &mut Command) -> Result<(String, Option<ExitStatus>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdout = child.stdout.take().context("the program has no stdout")?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is shown as well.
        let _ = stdout.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let end = Instant::now() + LIMIT;
    let mut status = child.try_wait()?;
    while status.is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
        status = child.try_wait()?;
    }
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let text = reader.join().unwrap_or_default();
    Ok((text, status))
}

/// The part of a harness's output that speaks of failures; all of it from a harness of another kind.
fn failures(text: &str) -> &str {
    text.find("\nfailures:\n")
        .map_or(text, |start| &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_harnesses_are_added() {
        let output = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.00s\n\
            test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.5s\n";
        let wanted = Count {
            passed: 6,
            failed: 2,
            ignored: 1,
        };
        assert_eq!(Count::parse(output), wanted);
    }

    #[test]
    fn kind_is_told_by_the_name_of_the_executable() {
        let executable = |kind: &str, name: &str| Executable {
            package: "crates/a".into(),
            kind: kind.into(),
            is_test: true,
            name: name.into(),
            path: "a".into(),
        };
        for (kind, name, wanted) in [
            ("lib", "golden_ratio", Kind::Unit),
            ("test", "golden", Kind::Golden),
            ("test", "golden_corpus", Kind::Golden),
            ("test", "cluster_install", Kind::Cluster),
            ("test", "lexer", Kind::Unit),
        ] {
            assert_eq!(Kind::of(&executable(kind, name)), wanted, "{kind} {name}");
        }
    }
}

//! One program with its arguments: what it prints, how long it takes, how much memory it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// A command line that can be run again and again.
pub(super) struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
}

/// What a run printed, and whether it succeeded.
#[derive(PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) success: bool,
    pub(super) text: String,
}

impl Process {
    pub(super) fn new(program: &Path, directory: &Path, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            directory: directory.to_owned(),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    pub(super) fn output(&self) -> Result<Printed> {
        let output = self.command().output().context("starting a program")?;
        Ok(Printed {
            success: output.status.success(),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
    }

    /// As [`output`](Self::output), of a run that has to succeed.
    pub(super) fn success(&self) -> Result<String> {
        let printed = self.output()?;
        ensure!(
            printed.success,
            "{} {} failed",
            self.program.display(),
            self.arguments.join(" ")
        );
        Ok(printed.text)
    }

    /// The wall time of one run, its output going to /dev/null.
    pub(super) fn time(&self) -> Result<Duration> {
        let mut command = self.silent();
        let start = Instant::now();
        command.status().context("starting a program")?;
        Ok(start.elapsed())
    }

    fn silent(&self) -> Command {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The most memory that a run has had, in KiB, as the kernel tells it until the program is gone.
    pub(super) fn peak_kib(&self) -> Result<u64> {
        let mut child = self.silent().spawn().context("starting a program")?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut most = 0;
        // Without a pause: ours is gone after a few milliseconds.
        loop {
            most = peak(&status).unwrap_or(0).max(most);
            if child.try_wait()?.is_some() {
                return Ok(most);
            }
            std::thread::yield_now();
        }
    }
}

/// `VmHWM` of a process.
pub(super) fn peak(status: &Path) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse().ok()
}

/// Whether the output is the expected one, but for lines that differ from run to run of the stock helm: charts make
/// passwords and names at random.
pub(super) fn same_but_random(expected: &str, again: &str, printed: &str) -> bool {
    let count = |text: &str| text.lines().count();
    let random = |(one, two): (&str, &str)| one != two;
    let lines = expected.lines().zip(again.lines());
    count(expected) == count(printed)
        && count(expected) == count(again)
        && lines
            .zip(printed.lines())
            .all(|(pair, line)| random(pair) || pair.0 == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_random_lines_may_differ() {
        let same = |printed: &str| same_but_random("a\nkey: 1\nb\n", "a\nkey: 2\nb\n", printed);
        assert!(same("a\nkey: 3\nb\n"));
        assert!(!same("a\nkey: 3\nc\n"));
        assert!(!same("a\nkey: 3\nb\nc\n"));
    }

    #[test]
    fn peak_is_read_while_the_program_runs() {
        let sleeper = Process::new(Path::new("sleep"), Path::new("/"), &["0.05"]);
        assert!(sleeper.peak_kib().unwrap() > 100);
    }
}

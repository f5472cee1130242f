//! Running a program to its end.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs `command` and returns what it printed on stdout.
///
/// # Errors
/// When it cannot be started, or fails: then with the command line and everything that it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command
        .output()
        .with_context(|| format!("starting `{line}`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed with {}:\n{stdout}{stderr}", output.status);
    }
    Ok(stdout)
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy()),
    );
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_shows_the_command_and_its_output() {
        let error = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 4"]))
            .unwrap_err()
            .to_string();
        for part in ["exit 4` failed", "out\n", "err\n"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn success_gives_stdout() {
        assert_eq!(
            run(Command::new("sh").args(["-c", "echo out"])).unwrap(),
            "out\n"
        );
    }
}

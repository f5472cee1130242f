//! What verbs print besides their result.

use std::io::Write;

use anyhow::Context;
use helm_engine::LogLine;

/// Says on standard error what the engine has to say, in the form of helm's log.
pub(crate) fn log(lines: &[LogLine]) {
    let mut stderr = std::io::stderr().lock();
    for line in lines {
        // A line that cannot be printed is no reason to fail.
        let _ = writeln!(stderr, "{}", line.as_slog());
    }
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // A note that cannot be printed is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes to standard output, where nothing else is written.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// [`print`] for what need not be UTF-8.
pub(crate) fn print_bytes(text: &[u8]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text)
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

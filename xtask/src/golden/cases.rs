//! Golden cases: small charts in one text, each with what helm does with it.
//!
//! A topic is two files: `tests/golden/cases/TOPIC.txt` and `tests/golden/expected/TOPIC.txt`.
//! Cases:
//!
//!     --- values.yaml                 files before the first case belong to all cases
//!     name: world
//!     === greets                      a case
//!     hello {{ .Values.name }}        a snippet: printed as a JSON string, whatever it holds
//!     === greets from a file
//!     args: --set name=you            more arguments (split at blanks; '…' holds blanks together)
//!     --- templates/a.yaml            files of this case: they replace those of all cases
//!     kind: {{ .Values.name }}
//!     === lists
//!     run: show values c              instead of `template demo c --namespace apps`
//!     log:                            the log lines are compared too, each once: helm repeats some
//!
//! The chart is the folder `c`; without a `Chart.yaml` it gets one of version 1.0.0.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A case.
pub(crate) struct Case {
    /// Unique in its topic.
    pub(crate) name: String,
    /// Arguments of the command.
    pub(crate) arguments: Vec<String>,
    /// Whether the log lines belong to what the command does.
    pub(crate) logs: bool,
    /// Files by their paths, the chart's below `c/`.
    pub(crate) files: BTreeMap<String, String>,
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether it succeeded.
    pub(crate) success: bool,
    /// Standard output; of a command that failed, also standard error behind it.
    pub(crate) text: String,
}

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\nappVersion: \"2.0\"\n";
const SNIPPET: &str = "out: {{ include \"case\" . | toJson }}\n";

/// The cases of a topic's text.
pub(crate) fn parse(text: &str) -> Vec<Case> {
    let mut parts = sections(text, "=== ").into_iter();
    let shared = match parts.next() {
        Some((_, body)) => sections(body, "--- "),
        None => Vec::new(),
    };
    let cases: Vec<Case> = parts
        .map(|(name, body)| case(name, body, &shared))
        .collect();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(
        names.len(),
        cases.len(),
        "two cases of one topic have the same name"
    );
    cases
}

fn case(name: &str, body: &str, shared: &[(&str, &str)]) -> Case {
    let mut files = BTreeMap::from([("c/Chart.yaml".to_owned(), CHART.to_owned())]);
    let mut parts = sections(body, "--- ").into_iter();
    let mut head = parts.next().map_or("", |(_, head)| head);
    let mut arguments = words("template demo c --namespace apps");
    let mut logs = false;
    while let Some((line, rest)) = head.split_once('\n') {
        if let Some(more) = line.strip_prefix("args: ") {
            arguments.extend(words(more));
        } else if let Some(run) = line.strip_prefix("run: ") {
            arguments = words(run);
        } else if line == "log:" {
            logs = true;
        } else {
            break;
        }
        head = rest;
    }
    for (path, content) in shared.iter().skip(1).copied().chain(parts) {
        let path = path
            .strip_prefix("../")
            .map_or_else(|| format!("c/{path}"), str::to_owned);
        files.insert(path, content.to_owned());
    }
    if !head.trim().is_empty() {
        let snippet = head.strip_suffix('\n').unwrap_or(head);
        let helper = format!("{{{{define \"case\"}}}}{snippet}{{{{end}}}}");
        files.insert("c/templates/_case.tpl".to_owned(), helper);
        files.insert("c/templates/case.yaml".to_owned(), SNIPPET.to_owned());
    }
    Case {
        name: name.to_owned(),
        arguments,
        logs,
        files,
    }
}

/// Splits at lines that begin with a mark: what stands before the first one, under an empty title,
/// and then the rest of each such line with what follows it.
fn sections<'a>(text: &'a str, mark: &str) -> Vec<(&'a str, &'a str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(mark) {
            starts.push((at, at + line.len()));
        }
        at += line.len();
    }
    let first = starts.first().map_or(text.len(), |(start, _)| *start);
    let mut found = vec![("", &text[..first])];
    for (index, (start, body)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(text.len(), |(next, _)| *next);
        let title = text[start + mark.len()..*body].trim_end();
        found.push((title, &text[*body..end]));
    }
    found
}

/// Splits at blanks outside of single quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Writes the files of a case below a folder.
fn write(case: &Case, folder: &Path) -> std::io::Result<()> {
    for (path, content) in &case.files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}

/// Runs a case in a folder of its own.
pub(crate) fn execute(program: &Path, case: &Case) -> std::io::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    write(case, folder.path())?;
    let output = Command::new(program)
        .args(&case.arguments)
        .current_dir(folder.path())
        .env("TZ", "UTC")
        .env("HOME", folder.path())
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env_remove("KUBECONFIG")
        .env_remove("HELM_NAMESPACE")
        .env_remove("HELM_DEBUG")
        .output()?;
    let mut outcome = outcome(output.status.success(), &output.stdout, &output.stderr);
    if case.logs {
        outcome.text.push_str(&log_lines(&output.stderr));
    }
    // Packages and charts are named by absolute paths in some messages.
    let here = folder.path().to_string_lossy().into_owned();
    outcome.text = outcome.text.replace(&here, "DIR");
    Ok(outcome)
}

/// What a command did, without log lines.
fn outcome(success: bool, stdout: &[u8], stderr: &[u8]) -> Outcome {
    if success {
        let text = String::from_utf8_lossy(stdout).into_owned();
        return Outcome { success, text };
    }
    let mut all = String::from_utf8_lossy(stdout).into_owned();
    let text = String::from_utf8_lossy(stderr);
    let kept = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("level="));
    all.extend(kept);
    Outcome { success, text: all }
}

/// The log lines, each once.
fn log_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut seen = BTreeSet::new();
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| line.starts_with("level=") && seen.insert(*line))
        .collect()
}

/// Outcomes from the file that `cargo xtask golden` writes, by the names of their cases.
pub(crate) fn read(text: &str) -> BTreeMap<String, Outcome> {
    let parts = sections(text, "=== ").into_iter().skip(1);
    parts
        .map(|(name, body)| {
            let (verdict, body) = body.split_once('\n').unwrap_or((body, ""));
            let mut text = String::new();
            for line in body.split_inclusive('\n') {
                match line.strip_prefix('|') {
                    Some(line) => text.push_str(line),
                    None => {
                        text.pop();
                    }
                }
            }
            let success = verdict == "ok";
            (name.to_owned(), Outcome { success, text })
        })
        .collect()
}

/// Violations of one level of a schema come in random order from helm: compare them sorted.
pub(crate) fn comparable(outcome: &Outcome) -> String {
    if !outcome
        .text
        .contains("values don't meet the specifications")
    {
        return outcome.text.clone();
    }
    let mut lines: Vec<&str> = outcome.text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

//! Rows that Go 1.26's text/template has answered. A row is `MISSINGKEY TEXT STATUS ANSWER`, with
//! tabs between, and after a nested error the texts of the errors that it wraps. `TEXT` may hold
//! several templates, with U+001E between. `tests/oracle` is the program that answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a row that cannot be read is a failed test"
)]

mod common;

use std::path::Path;

use common::{run, unquote};
use gotmpl::Budget;

fn show(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(600).collect()
}

/// What is wrong with a row, if anything.
fn check(row: &str) -> Option<String> {
    let columns: Vec<&str> = row.split('\t').collect();
    let [mode, text, status, answer, levels @ ..] = &*columns else {
        panic!("not a row: {row}");
    };
    let source = unquote(text);
    let texts: Vec<&[u8]> = source.split(|&byte| byte == 0x1E).collect();
    let outcome = run(mode, &texts, &mut Budget::default());
    let answer = unquote(answer);
    let levels: Vec<_> = levels
        .iter()
        .map(|level| String::from_utf8_lossy(&unquote(level)).into_owned())
        .collect();
    let same_levels = outcome.status != "exec" || outcome.levels == levels;
    if outcome.status == *status && outcome.text == answer && same_levels {
        return None;
    }
    Some(format!(
        "{mode} {text}\n   want {status} {}\n    got {} {}\n  want levels {levels:#?}\n  got levels {:#?}",
        show(&answer),
        outcome.status,
        show(&outcome.text),
        outcome.levels
    ))
}

fn check_file(path: &Path) {
    let rows = std::fs::read_to_string(path).unwrap();
    let rows = rows
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'));
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows {
        count += 1;
        wrong.extend(check(row));
    }
    assert!(count > 0, "{} has no rows", path.display());
    let shown = wrong
        .iter()
        .take(12)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} of {count} rows of {} differ:\n{shown}",
        wrong.len(),
        path.display()
    );
}

fn golden(name: &str) {
    let folder = Path::new("tests/golden");
    check_file(&folder.join(name).with_extension("tsv"));
}

#[test]
fn templates_execute_as_in_go() {
    golden("exec");
}

#[test]
fn texts_are_parsed_as_in_go() {
    golden("parse");
}

#[test]
fn values_are_printed_as_in_go() {
    golden("fmt");
}

#[test]
fn nested_executions_fail_as_in_go() {
    golden("nested");
}

#[test]
fn random_templates_execute_as_in_go() {
    golden("random");
}

/// Rows of one's own, made by the same program.
#[test]
fn rows_named_by_the_environment_match() {
    if let Some(path) = std::env::var_os("GOTMPL_ROWS") {
        check_file(Path::new(&path));
    }
}

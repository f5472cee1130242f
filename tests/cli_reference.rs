//! `docs/cli.md` is what the binary says about itself.

#![cfg(test)]

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use testkit::{repository, run};

const HEAD: &str = "# Command line\n\nWhat `helm-operator --help` and the help of each verb print. Made by `cargo xtask docs`.\n";

fn help(verb: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    // Flags have defaults from the environment, which the help would show.
    command.env_clear().env("COLUMNS", "100");
    run(command.args(verb).arg("--help")).unwrap()
}

/// The names below `Commands:`, one a line and indented, up to the empty line.
fn verbs(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn chapter(text: &mut String, verb: &[&str]) {
    let help = help(verb);
    let name = [["helm-operator"].as_slice(), verb].concat().join(" ");
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(
        text,
        "\n## `{name}`\n\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    )
    .unwrap();
    for below in verbs(&help) {
        chapter(text, &[verb, &[below.as_str()]].concat());
    }
}

/// With `UPDATE_GOLDEN=1` the file is written instead; `cargo xtask docs` does it.
#[test]
fn command_line_reference_is_up_to_date() {
    let mut wanted = HEAD.to_owned();
    chapter(&mut wanted, &[]);
    assert!(wanted.contains("## `helm-operator run`"), "{wanted}");
    let file = repository().join("docs/cli.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &wanted).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/cli.md is stale: run `cargo xtask docs`"
    );
}

#[test]
fn wrong_flags_of_diff_are_told_from_a_difference() {
    for (arguments, code) in [
        (["diff", "--nope"], 2),
        (["run", "--nope"], 2),
        (["sources", "--nope"], 1),
        (["diff", "--help"], 0),
    ] {
        let mut ours = std::process::Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        let output = ours.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

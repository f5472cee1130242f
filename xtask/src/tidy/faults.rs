//! The tests that `docs/faults.md` names are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Complaint;

/// The table, relative to the root.
const TABLE: &str = "docs/faults.md";

/// Complains of every test that the table names and that its file does not have.
pub(super) fn check(root: &Path) -> Vec<Complaint> {
    let table = fs::read_to_string(root.join(TABLE)).unwrap_or_default();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (line, file, name) in named(&table) {
        let tests = known.entry(file.to_owned()).or_insert_with(|| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            functions(&text)
        });
        if !tests.contains(name) {
            complaints.push(Complaint {
                file: PathBuf::from(TABLE),
                line,
                text: format!("{file} has no test {name}"),
            });
        }
    }
    complaints
}

/// The tests that a table names as `` `file.rs: name` ``, each with its line, from 1.
fn named(table: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (index, line) in table.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        let tests = quoted.filter_map(|text| text.split_once(": "));
        let tests = tests.filter(|(file, _)| file.ends_with(".rs"));
        found.extend(tests.map(|(file, name)| (index + 1, file, name)));
    }
    found
}

/// The names of all functions of a file.
fn functions(text: &str) -> BTreeSet<String> {
    let starts = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("async ")
            .unwrap_or(line)
            .strip_prefix("fn ")
    });
    let ends = |character: char| !character.is_alphanumeric() && character != '_';
    starts
        .filter_map(|rest| rest.split(ends).next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_the_table() {
        let table = "| S-01 | `..` | `tests/a.rs: stays_inside`, `tests/b/c.rs: is_refused` |\n";
        let wanted = vec![
            (1, "tests/a.rs", "stays_inside"),
            (1, "tests/b/c.rs", "is_refused"),
        ];
        assert_eq!(named(table), wanted);
    }

    #[test]
    fn a_test_that_is_gone_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            TABLE,
            "# Faults\n| `tests/a.rs: here` | `tests/a.rs: gone` |\n",
        );
        write(
            "tests/a.rs",
            "#[tokio::test]\nasync fn here() {}\nfn gone_too() {}\n",
        );
        let complaints = check(folder.path());
        let told: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["docs/faults.md:2: tests/a.rs has no test gone"]);
    }
}

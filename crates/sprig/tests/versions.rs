//! Versions and ranges against what Masterminds/semver 3.5.0 printed, in `tables/constraints.tsv`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::Path;

use sprig::semver::{Constraints, Version, VersionError};

fn table() -> String {
    let path = Path::new("tests/tables/constraints.tsv");
    std::fs::read_to_string(path).unwrap()
}

fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap()
}

#[test]
fn ranges_hold_the_versions_that_they_hold_in_the_original() {
    let table = table();
    let header = table.lines().next().unwrap();
    let versions = header.strip_prefix("# versions: ").unwrap();
    let versions: Vec<Version> = versions
        .split(' ')
        .map(|version| Version::parse(version).unwrap())
        .collect();
    let mut report = String::new();
    let mut checked = 0;
    for row in table.lines().filter(|row| row.starts_with('"')) {
        let cells: Vec<&str> = row.split('\t').collect();
        let range = Constraints::parse(&text(cells[0])).map_err(|error| error.to_string());
        let ours = match (&range, cells[1]) {
            (Err(error), _) => error.clone(),
            (Ok(range), "?") => range
                .mismatches(&Version::parse(cells[2]).unwrap())
                .join("\n"),
            (Ok(range), _) => versions
                .iter()
                .map(|version| if range.check(version) { '1' } else { '0' })
                .collect(),
        };
        let theirs = match cells[1] {
            "=" => cells[2].to_owned(),
            "!" => text(cells[2]),
            _ => text(cells[3]),
        };
        checked += 1;
        if ours != theirs {
            writeln!(report, "{row}\n  ours: {ours}").unwrap();
        }
    }
    assert!(checked > 700, "only {checked} rows");
    assert!(report.is_empty(), "{report}");
}

#[test]
fn versions_are_ordered_by_precedence() {
    let mut checked = 0;
    for row in table()
        .lines()
        .filter(|row| row.starts_with(|first: char| first.is_ascii_digit()))
    {
        let cells: Vec<&str> = row.split('\t').collect();
        let parse = |text: &str| Version::parse(text).unwrap();
        let order = parse(cells[0]).cmp(&parse(cells[1])) as i32;
        assert_eq!(order.to_string(), cells[2], "{row}");
        checked += 1;
    }
    assert_eq!(checked, 400);
}

#[test]
fn versions_are_read_leniently_or_strictly() {
    let mut checked = 0;
    for row in table().lines().filter(|row| row.starts_with('@')) {
        let cells: Vec<&str> = row.split('\t').collect();
        let read: fn(&str) -> Result<Version, VersionError> = match cells[0] {
            "@strict" => Version::parse_strict,
            _ => Version::parse,
        };
        let ours = match read(&text(cells[1])) {
            Ok(version) => format!(
                "{version}|{}|{}|{}",
                version.prerelease(),
                version.metadata(),
                version.original()
            ),
            Err(error) => error.to_string(),
        };
        assert_eq!(ours, text(cells[3]), "{row}");
        checked += 1;
    }
    assert!(checked > 60);
}

#[test]
fn a_range_prints_as_it_was_given() {
    for given in [">=1.2 <2 || ~>3.x", "=>1", "1.2.3-rc.1+meta"] {
        assert_eq!(Constraints::parse(given).unwrap().to_string(), given);
    }
    let hyphen: Constraints = "1 - 2".parse().unwrap();
    assert_eq!(hyphen.to_string(), ">=1 <=2");
}

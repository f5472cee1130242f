use std::io::Cursor;

use super::*;

const USUAL: &str = "\
apiVersion: v1
entries:
  alpha:
  - apiVersion: v2
    appVersion: \"1.0\"
    description: |-
      alpha:
        - not a key
    name: alpha
    urls:
    - alpha-1.0.0.tgz
    version: 1.0.0
  - name: alpha
    digest: 0011
    urls: [https://other.example/alpha-1.2.0.tgz]
    version: 1.2.0
  \"beta\":
  - name: beta
    version: 0.1.0-rc.1
    urls:
      - beta.tgz
  # a comment
  empty: []
generated: \"2026-01-01T00:00:00Z\"
serverInfo: {}
";

fn found(index: &str, name: &str) -> Vec<(String, String)> {
    let layout = scan(Cursor::new(index)).unwrap();
    let found = versions(Cursor::new(index), &layout, name)
        .unwrap()
        .unwrap();
    let row = |entry: ChartVersion| {
        let url = entry.urls.first().cloned().unwrap_or_default();
        (entry.version.original().to_owned(), url)
    };
    found.into_iter().map(row).collect()
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[test]
fn the_usual_index_is_read_newest_first() {
    let layout = scan(Cursor::new(USUAL)).unwrap();
    assert_eq!(
        layout.charts.keys().collect::<Vec<_>>(),
        ["alpha", "beta", "empty"]
    );
    assert_eq!(
        found(USUAL, "alpha"),
        pairs(&[
            ("1.2.0", "https://other.example/alpha-1.2.0.tgz"),
            ("1.0.0", "alpha-1.0.0.tgz")
        ])
    );
    assert_eq!(found(USUAL, "beta"), pairs(&[("0.1.0-rc.1", "beta.tgz")]));
    assert_eq!(found(USUAL, "empty"), pairs(&[]));
}

#[test]
fn line_ends_marks_and_deeper_lists_do_not_matter() {
    let windows = USUAL.replace('\n', "\r\n");
    assert_eq!(found(&windows, "alpha").len(), 2);
    let marked = format!("\u{feff}---\n{USUAL}");
    assert_eq!(found(&marked, "alpha").len(), 2);
    let deeper = "apiVersion: v1\nentries:\n    a:\n        - name: a\n          version: 1.0.0\n          keywords:\n            - x\n        - name: a\n          version: 2.0.0\n";
    assert_eq!(found(deeper, "a"), pairs(&[("2.0.0", ""), ("1.0.0", "")]));
}

#[test]
fn entries_in_front_of_the_api_version_are_read() {
    let index = "entries:\n  a:\n  - version: 1.0.0\n    name: a\napiVersion: v1\n";
    assert_eq!(found(index, "a"), pairs(&[("1.0.0", "")]));
}

#[test]
fn a_json_index_is_read_too() {
    let index = r#" {"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0","urls":["a \"}]{.tgz"]},null,
        {"name":"a","version":"1.1.0"}],"b":[]},"generated":"x"}"#;
    assert_eq!(
        found(index, "a"),
        pairs(&[("1.1.0", ""), ("1.0.0", "a \"}]{.tgz")])
    );
    assert_eq!(found(index, "b"), pairs(&[]));
}

#[test]
fn entries_that_are_no_chart_are_left_out() {
    let index = "apiVersion: v1\nentries:\n  a:\n  - null\n  - version: not a version\n    name: a\n  - version: 1.0.0\n    name: other\n  - version: 1.0.0\n    name: a\n  - []\n";
    assert_eq!(found(index, "a"), pairs(&[("1.0.0", "")]));
}

#[test]
fn what_is_no_index_is_an_error_with_its_line() {
    for (index, expected) in [
        ("", "empty index.yaml file"),
        ("\n\n", "empty index.yaml file"),
        ("# only a comment\n", "empty index.yaml file"),
        ("entries: {}\n", "no API version specified"),
        ("{\"entries\":{}}", "no API version specified"),
        (
            "apiVersion: v1\nentries:\n  a:\n  b:\n  a:\n",
            "the chart \"a\" is listed twice",
        ),
        (
            "{\"apiVersion\":\"v1\",\"entries\":{\"a\":[],\"a\":[]}}",
            "the chart \"a\" is listed twice",
        ),
        (
            "apiVersion: v1\nentries: {a: []}\n",
            "line 2: entries is not written as a block",
        ),
        (
            "apiVersion: v1\nentries:\n- a\n",
            "line 3: entries is a list: a map of chart names is expected",
        ),
        (
            "apiVersion: v1\nentries:\n  a: [{version: 1.0.0}]\n",
            "line 3: the versions of a chart are not written as a block",
        ),
        (
            "apiVersion: v1\nentries:\n  what is this\n",
            "line 3: a chart name with a colon is expected",
        ),
        (
            "{\"apiVersion\":\"v1\",\"entries\":{\"a\":[",
            "line 0: it ends too early",
        ),
        ("<html>", "no API version specified"),
    ] {
        assert_eq!(
            scan(Cursor::new(index)).unwrap_err().to_string(),
            expected,
            "{index:?}"
        );
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_is_held() {
    let index = format!("apiVersion: v1\nentries:\n  a{}", "x".repeat(MAX_LINE + 10));
    assert!(matches!(
        scan(Cursor::new(index)),
        Err(IndexError::TooLarge(_))
    ));
    let nested = format!("{{\"a\":{}", "[".repeat(1000));
    assert!(matches!(
        scan(Cursor::new(nested)),
        Err(IndexError::TooLarge(_))
    ));
}

#[test]
fn the_version_is_chosen_as_helm_chooses() {
    let texts = [
        "2.0.0-beta.1",
        "1.10.0",
        "1.2.0+build",
        "1.2.0",
        "1.1.0",
        "0.9.0",
    ];
    let parsed: Vec<_> = texts
        .iter()
        .map(|text| sprig::semver::Version::parse(text).unwrap())
        .collect();
    let versions: Vec<_> = parsed.iter().collect();
    for (wanted, expected) in [
        (None, Some("1.10.0")),
        (Some(""), Some("1.10.0")),
        (Some("*"), Some("1.10.0")),
        (Some("1.2.0"), Some("1.2.0")),
        (Some("1.2.0+build"), Some("1.2.0+build")),
        (Some("2.0.0-beta.1"), Some("2.0.0-beta.1")),
        (Some(">1.0.0-0"), Some("2.0.0-beta.1")),
        (Some("~1.2"), Some("1.2.0+build")),
        (Some("^0.9"), Some("0.9.0")),
        (Some("<1.1.0 || 1.1.x"), Some("1.1.0")),
        (Some(">= 3"), None),
    ] {
        let found = match select(&versions, wanted) {
            Selection::Found(at) => Some(texts[at]),
            _ => None,
        };
        assert_eq!(found, expected, "{wanted:?}");
    }
}

#[test]
fn a_miss_names_the_versions_that_come_near() {
    let texts = ["2.1.0", "2.0.0", "1.3.1", "1.3.0", "1.2.9", "1.0.0"];
    let parsed: Vec<_> = texts
        .iter()
        .map(|text| sprig::semver::Version::parse(text).unwrap())
        .collect();
    let versions: Vec<_> = parsed.iter().collect();
    for (wanted, expected) in [
        ("1.3.7", vec!["1.3.1", "1.3.0"]),
        ("9.9.9", vec!["2.1.0", "2.0.0", "1.3.1"]),
        ("=1.9.0", vec!["1.3.1", "1.3.0", "1.2.9"]),
    ] {
        let Selection::None(near) = select(&versions, Some(wanted)) else {
            panic!("{wanted} was found");
        };
        let near: Vec<_> = near.into_iter().map(|at| texts[at]).collect();
        assert_eq!(near, expected, "{wanted}");
    }
    assert!(matches!(
        select(&versions, Some("nonsense")),
        Selection::NotARange(_)
    ));
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest_ones() {
    let names = [
        "nginx",
        "nginx-ingress",
        "ingress-nginx",
        "redis",
        "postgresql",
    ];
    for (wanted, expected) in [
        ("ngnix", vec!["nginx"]),
        ("nginx-ingres", vec!["nginx-ingress"]),
        ("postgres", vec!["postgresql"]),
        ("zzzzzzzz", vec![]),
    ] {
        let near = nearest(names.into_iter(), wanted);
        assert_eq!(near.first(), expected.first(), "{wanted}: {near:?}");
    }
    assert!(nearest(names.into_iter(), &"x".repeat(1 << 20)).is_empty());
}

//! Template snippets and what Helm's functions make of them.
//!
//! Each file in `tables/` holds one snippet a line, `=` and the output or `!` and the error, as a
//! JSON string. The expectations were printed by the function map of Helm 4.3.1, in the zone
//! Europe/Berlin, on the data of `values.yaml`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fmt::Write as _;
use std::path::Path;

use gotmpl::{Budget, Functions, Map};
use sprig::Environment;
use sprig::helm::RenderHost;

fn functions() -> Functions {
    sprig::functions(&Environment {
        time_zone: jiff::tz::TimeZone::get("Europe/Berlin").unwrap().into(),
        ..Environment::default()
    })
}

fn run(text: &str, functions: &Functions, data: &Map) -> Result<String, String> {
    let (mut host, mut budget) = (RenderHost::default(), Budget::default());
    let printed = common::run_with(text, functions, data, &mut host, &mut budget)?;
    Ok(common::lossy(&printed))
}

/// Runs the rows of a table and reports all that differ.
fn check(table: &str) {
    let folder = Path::new("tests/tables");
    let values = std::fs::read(folder.join("values.yaml")).unwrap();
    let rows = std::fs::read_to_string(folder.join(table).with_extension("tsv")).unwrap();
    let functions = functions();
    let mut report = String::new();
    let mut count = 0;
    for row in rows
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        let [snippet, sign, expected] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("malformed row: {row}");
        };
        let expected: String = serde_json::from_str(expected).unwrap();
        let expected = match sign {
            "=" => Ok(expected),
            _ => Err(expected),
        };
        let data = goyaml::read_map_value(&values).unwrap();
        let got = run(snippet, &functions, &data);
        count += 1;
        if got != expected {
            writeln!(report, "{snippet}\n  helm: {expected:?}\n  ours: {got:?}").unwrap();
        }
    }
    assert!(count > 5, "the table {table} is nearly empty");
    assert!(report.is_empty(), "{report}");
}

macro_rules! tables {
    ($($name:ident: $table:literal,)*) => {
        $(
            #[test]
            fn $name() {
                check($table);
            }
        )*
    };
}

tables! {
    strings_are_cut_cased_and_laid_out_as_in_helm: "strings",
    lists_behave_as_in_helm: "lists",
    dicts_behave_and_merge_as_in_helm: "dicts",
    numbers_convert_and_compute_as_in_helm: "math",
    defaults_choose_as_in_helm: "defaults",
    types_and_kinds_have_go_names: "reflection",
    base64_and_base32_decode_with_go_errors: "encoding",
    paths_are_cleaned_as_in_go: "paths",
    urls_are_parsed_and_joined_as_in_go: "url",
    regular_expressions_have_go_syntax_and_errors: "regex",
    versions_and_ranges_follow_masterminds: "semver",
    toml_is_written_as_burntsushi_writes_it: "toml",
    helm_functions_behave_as_in_helm: "helm",
    dates_have_go_layouts: "dates",
    hashes_keys_and_passwords_match_go: "crypto",
    random_snippets_print_what_helm_prints: "random",
}

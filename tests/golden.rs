//! What the stock helm does with small charts, the binary does too.
//!
//! The cases are in `golden/cases`, what helm did in `golden/expected`, written by
//! `cargo xtask golden`. Each case is one test.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test with a harness of its own"
)]

#[path = "../xtask/src/golden/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cases::{Case, Outcome};

fn main() -> ExitCode {
    let filter = env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let program = env::var_os("HELM_OPERATOR")
        .map_or_else(|| env!("CARGO_BIN_EXE_helm-operator").into(), PathBuf::from);
    let (mut passed, mut failed) = (0, 0);
    for topic in topics() {
        let expected = expected(&topic);
        for case in cases::parse(&fs::read_to_string(&topic).unwrap()) {
            let name = format!("{}::{}", topic.file_stem().unwrap().display(), case.name);
            if filter
                .as_ref()
                .is_some_and(|filter| !name.contains(filter.as_str()))
            {
                continue;
            }
            match check(&program, &case, expected.get(&case.name)) {
                Ok(()) => passed += 1,
                Err(difference) => {
                    failed += 1;
                    println!("test {name} ... FAILED\n{difference}");
                }
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    ExitCode::from(u8::from(failed > 0))
}

fn topics() -> Vec<PathBuf> {
    let folder = Path::new("tests/golden/cases");
    let mut topics: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    topics.sort();
    topics
}

fn expected(topic: &Path) -> BTreeMap<String, Outcome> {
    let name = topic.file_name().unwrap();
    let path = topic
        .parent()
        .unwrap()
        .with_file_name("expected")
        .join(name);
    cases::read(&fs::read_to_string(path).unwrap())
}

fn check(program: &Path, case: &Case, want: Option<&Outcome>) -> Result<(), String> {
    let Some(want) = want else {
        return Err("no golden; run cargo xtask golden".to_owned());
    };
    let got = cases::execute(program, case).map_err(|error| error.to_string())?;
    if want.success == got.success && cases::comparable(want) == cases::comparable(&got) {
        return Ok(());
    }
    Err(format!("  helm: {want:?}\n  got:  {got:?}"))
}

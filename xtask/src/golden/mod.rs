//! `cargo xtask golden`: asks the stock helm what each golden case gives, and writes it down.

mod cases;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use cases::Outcome;
use clap::Args;

/// Where the cases are.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only topics whose names contain this
    topic: Option<String>,

    /// Compare this program with what is written down, and write nothing
    #[arg(long, value_name = "PROGRAM")]
    check: Option<PathBuf>,
}

const FOLDER: &str = "tests/golden";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let program = match &arguments.check {
        Some(program) => fs::canonicalize(program)?,
        None => helm()?,
    };
    let mut differing = 0;
    for path in topics(arguments.topic.as_deref())? {
        let cases = cases::parse(&fs::read_to_string(&path)?);
        let outcomes = cases
            .iter()
            .map(|case| Ok((case.name.as_str(), cases::execute(&program, case)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let expected = expected(&path)?;
        if arguments.check.is_some() {
            differing += compare(&path, &expected, &outcomes)?;
        } else {
            let outcomes = outcomes.iter().map(|(name, outcome)| (*name, outcome));
            fs::write(&expected, print(outcomes))?;
            println!("{}: {} cases", expected.display(), cases.len());
        }
    }
    if differing > 0 {
        bail!("{differing} cases differ from helm");
    }
    Ok(())
}

fn topics(filter: Option<&str>) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(Path::new(FOLDER).join("cases"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if filter.is_none_or(|filter| name.contains(filter)) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn expected(path: &Path) -> anyhow::Result<PathBuf> {
    let name = path.file_name().context("a topic without a name")?;
    Ok(Path::new(FOLDER).join("expected").join(name))
}

fn compare(topic: &Path, expected: &Path, outcomes: &[(&str, Outcome)]) -> anyhow::Result<usize> {
    let wanted = cases::read(&fs::read_to_string(expected)?);
    let mut differing = 0;
    for (name, got) in outcomes {
        let Some(want) = wanted.get(*name) else {
            bail!(
                "{}: {name} has no golden; run cargo xtask golden",
                topic.display()
            );
        };
        if want.success != got.success || cases::comparable(want) != cases::comparable(got) {
            differing += 1;
            println!(
                "{}: {name}\n  want {want:?}\n  got  {got:?}",
                topic.display()
            );
        }
    }
    Ok(differing)
}

/// The stock helm: `$HELM`, or that of the test cluster.
fn helm() -> anyhow::Result<PathBuf> {
    if let Some(helm) = env::var_os("HELM") {
        return Ok(helm.into());
    }
    let output = Command::new("hack/controlplane/ensure.sh").output()?;
    let folders = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let found = folders
        .split(':')
        .map(|folder| Path::new(folder).join("helm"))
        .find(|helm| helm.exists());
    found.with_context(|| format!("no helm in {folders}; set HELM to the stock helm"))
}

/// Outcomes as a file holds them. Every line begins with a bar, so that none looks like a mark.
fn print<'a>(outcomes: impl IntoIterator<Item = (&'a str, &'a Outcome)>) -> String {
    let mut out = String::new();
    for (name, outcome) in outcomes {
        out.push_str("=== ");
        out.push_str(name);
        out.push_str(if outcome.success {
            "\nok\n"
        } else {
            "\nfailed\n"
        });
        for line in outcome.text.split_inclusive('\n') {
            out.push('|');
            out.push_str(line);
        }
        if !outcome.text.ends_with('\n') {
            out.push_str("\n\\ no newline at the end\n");
        }
    }
    out
}

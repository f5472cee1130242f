//! `helm-operator search`: the versions of a chart, or the charts of a repository.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sprig::semver::Constraints;

use super::charts::{ChartFlags, block_on, place};
use super::output::print;
use crate::source::{ChartPlace, Listed};

/// List the versions of a chart in a repository or a registry, newest first; without a chart, the
/// charts of a repository.
///
/// Examples:
///   helm-operator search podinfo --repo https://charts.example.com --versions
///   helm-operator search oci://registry.example.com/charts/podinfo -o json
#[derive(Args, Clone, Debug)]
#[command(disable_version_flag = true, verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// `NAME` with --repo, `ALIAS/NAME`, or `oci://…`
    chart: Option<String>,

    #[command(flatten)]
    flags: ChartFlags,

    /// show all versions, not just the newest
    #[arg(short = 'l', long)]
    versions: bool,

    /// format of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Prints what there is.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    block_on(async {
        match &arguments.chart {
            Some(chart) => versions(arguments, chart).await,
            None => names(arguments).await,
        }
    })
}

async fn versions(arguments: &Arguments, chart: &str) -> Result<()> {
    let repository = arguments.flags.repo.as_deref();
    let charts = arguments
        .flags
        .login
        .charts(&[repository.unwrap_or_default(), chart])?;
    let (place, name) = place(&charts, repository, chart)?;
    let access = arguments.flags.login.access(&charts, &place)?;
    let range = Constraints::parse(arguments.flags.wanted().unwrap_or("*"))?;
    let listed = charts.list(&place, &access, &name).await?;
    let matches = |entry: &Listed| {
        sprig::semver::Version::parse(&entry.version).is_ok_and(|version| range.check(&version))
    };
    let count = if arguments.versions { usize::MAX } else { 1 };
    let found: Vec<Listed> = listed.into_iter().filter(matches).take(count).collect();
    if found.is_empty() {
        bail!(
            "{name} has no version that satisfies {:?}",
            arguments.flags.wanted().unwrap_or("*")
        );
    }
    show(arguments.output, &name, &found)
}

async fn names(arguments: &Arguments) -> Result<()> {
    let Some(repository) = arguments.flags.repo.as_deref() else {
        bail!("nothing to search: give a chart, or a repository with --repo");
    };
    let charts = arguments.flags.login.charts(&[repository])?;
    let place = charts.place(repository, "")?;
    let ChartPlace::Repository(url) = &place else {
        bail!("a registry does not list its charts: give one as oci://host/path/name");
    };
    let access = arguments.flags.login.access(&charts, &place)?;
    let names = charts.names(url, &access).await?;
    match arguments.output {
        Format::Json => print(&format!("{}\n", serde_json::to_string(&names)?)),
        Format::Table => print(&format!("NAME\n{}\n", names.join("\n"))),
    }
}

fn show(output: Format, name: &str, found: &[Listed]) -> Result<()> {
    if output == Format::Json {
        return print(&format!("{}\n", serde_json::to_string(found)?));
    }
    let width = found
        .iter()
        .map(|entry| entry.version.len())
        .max()
        .unwrap_or(0)
        .max(13);
    let app = found
        .iter()
        .map(|entry| entry.app_version.len())
        .max()
        .unwrap_or(0)
        .max(11);
    let mut text = format!(
        "{:<width$}\t{:<app$}\tDESCRIPTION\n",
        "CHART VERSION", "APP VERSION"
    );
    for entry in found {
        let note = if entry.deprecated { "DEPRECATED " } else { "" };
        let line = format!(
            "{:<width$}\t{:<app$}\t{note}{}",
            entry.version, entry.app_version, entry.description
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    print(&format!("{name}\n{text}"))
}

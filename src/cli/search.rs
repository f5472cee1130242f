//! `helm-operator search`: the versions of a chart, or the charts of a repository.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sprig::semver::Constraints;

use super::charts::{ChartFlags, block_on, place};
use super::output::print;
use super::table::cut_table;
use crate::source::{ChartPlace, Listed};

/// List the versions of a chart, newest first, or the charts of a repository.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::SEARCH, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// `NAME` with --repo, `ALIAS/NAME`, or `oci://…`
    chart: Option<String>,

    #[command(flatten)]
    flags: ChartFlags,

    /// show all versions, not just the newest
    #[arg(short = 'l', long)]
    versions: bool,

    /// maximum column width for output table
    #[arg(long, default_value = "50")]
    max_col_width: usize,

    /// format of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
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
    let newest: Vec<String> = listed.iter().take(5).map(|it| it.version.clone()).collect();
    let count = if arguments.versions { usize::MAX } else { 1 };
    let found: Vec<Listed> = listed.into_iter().filter(matches).take(count).collect();
    if found.is_empty() {
        bail!(
            "{name} has no version that satisfies {:?}: the newest are {}",
            arguments.flags.wanted().unwrap_or("*"),
            newest.join(", ")
        );
    }
    // As it was written: with the alias of its repository, as helm shows it.
    show(arguments, chart, &found)
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
        Format::Json | Format::Yaml => encoded(arguments.output, &serde_json::to_string(&names)?),
        Format::Table => print(&format!("NAME\n{}\n", names.join("\n"))),
    }
}

/// A version as `helm search repo` shows it.
#[derive(serde::Serialize)]
struct Row<'a> {
    name: &'a str,
    version: &'a str,
    app_version: &'a str,
    description: &'a str,
}

fn show(arguments: &Arguments, name: &str, found: &[Listed]) -> Result<()> {
    let row = |entry: &Listed| {
        let Listed {
            version,
            app_version,
            description,
            ..
        } = entry.clone();
        [name.to_owned(), version, app_version, description]
    };
    match arguments.output {
        Format::Table => {
            let head = ["NAME", "CHART VERSION", "APP VERSION", "DESCRIPTION"].map(str::to_owned);
            let rows: Vec<[String; 4]> =
                std::iter::once(head).chain(found.iter().map(row)).collect();
            print(&cut_table(&rows, arguments.max_col_width))
        }
        Format::Json | Format::Yaml => {
            let rows: Vec<Row<'_>> = found
                .iter()
                .map(|entry| Row {
                    name,
                    version: &entry.version,
                    app_version: &entry.app_version,
                    description: &entry.description,
                })
                .collect();
            encoded(arguments.output, &serde_json::to_string(&rows)?)
        }
    }
}

fn encoded(output: Format, json: &str) -> Result<()> {
    match output {
        Format::Yaml => {
            let tree = goyaml::read(json.as_bytes())?;
            print(&String::from_utf8(goyaml::to_yaml_tree(&tree)?)?)
        }
        Format::Json | Format::Table => print(&format!("{json}\n")),
    }
}

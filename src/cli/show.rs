//! `helm-operator show`: what is in a chart, as `helm show`.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use helm_engine::jsonpath::{ExecError, JsonPath};
use helm_engine::{Chart, metadata_yaml};

use super::chart::SourceFlags;
use super::ignored::{ClientFlags, Ignored};
use super::output::{log, print_bytes};

/// Show information of a chart.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::SHOW)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Clone, Debug)]
enum Part {
    /// show all information of the chart
    All(Box<ChartName>),
    /// show the chart's definition
    Chart(Box<ChartName>),
    /// show the chart's values
    Values(Box<Values>),
    /// show the chart's README
    Readme(Box<ChartName>),
    /// show the chart's CRDs
    Crds(Box<ChartName>),
}

#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, disable_version_flag = true)]
struct ChartName {
    /// A directory, a packed chart, its URL, `oci://…`, `ALIAS/NAME`, or a name with --repo
    #[arg(value_name = "CHART")]
    name: String,

    #[arg(long, hide = true)]
    debug: bool,

    #[arg(short, long, hide = true)]
    namespace: Option<Ignored>,

    #[command(flatten)]
    source: SourceFlags,

    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
struct Values {
    #[command(flatten)]
    chart: ChartName,

    /// supply a JSONPath expression to filter the output
    #[arg(long, default_value_t, hide_default_value = true)]
    jsonpath: String,
}

impl Part {
    fn chart(&self) -> &ChartName {
        match self {
            Self::All(chart) | Self::Chart(chart) | Self::Readme(chart) | Self::Crds(chart) => {
                chart
            }
            Self::Values(values) => &values.chart,
        }
    }
}

/// Loads the chart and prints the part.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let chart = arguments.part.chart();
    let loaded = chart.source.locate(&chart.name)?.load_of_any_version()?;
    log(&loaded.warnings);
    match &arguments.part {
        Part::Values(values) if !values.jsonpath.is_empty() => {
            print_bytes(&find(&values.jsonpath, &loaded.chart)?)
        }
        part => print_bytes(&show(part, &loaded.chart)?),
    }
}

/// What a JSONPath finds in the values. An expression that finds no such thing prints nothing and is no error, as with
/// helm, which drops what its library says.
fn find(path: &str, chart: &Chart) -> anyhow::Result<Vec<u8>> {
    let Some(values) = &chart.values else {
        return Ok(Vec::new());
    };
    let parsed = JsonPath::parse(path).with_context(|| format!("error parsing jsonpath {path}"))?;
    match parsed.execute(values) {
        Err(ExecError::Data(_)) => Ok(Vec::new()),
        done => Ok(done?),
    }
}

fn show(part: &Part, chart: &Chart) -> anyhow::Result<Vec<u8>> {
    let all = matches!(part, Part::All(_));
    let mut out = Vec::new();
    if all || matches!(part, Part::Chart(_)) {
        let yaml = metadata_yaml(&chart.metadata);
        if yaml.is_empty() {
            bail!("cannot write Chart.yaml");
        }
        line(&mut out, &yaml)?;
    }
    if all || matches!(part, Part::Values(_)) {
        for file in chart.raw.iter().filter(|file| file.name == "values.yaml") {
            separator(&mut out, all);
            line(&mut out, &file.data)?;
        }
    }
    if (all || matches!(part, Part::Readme(_)))
        && let Some(readme) = readme(chart)
    {
        separator(&mut out, all);
        line(&mut out, readme)?;
    }
    if all || matches!(part, Part::Crds(_)) {
        for crd in chart.crds() {
            separator(&mut out, !crd.data.starts_with(b"---"));
            line(&mut out, &crd.data)?;
        }
    }
    Ok(out)
}

/// A file as it is, with a newline behind it.
fn line(out: &mut Vec<u8>, content: &[u8]) -> std::io::Result<()> {
    out.write_all(content)?;
    out.write_all(b"\n")
}

fn separator(out: &mut Vec<u8>, wanted: bool) {
    if wanted {
        out.extend_from_slice(b"---\n");
    }
}

/// The first file that is called a README.
fn readme(chart: &Chart) -> Option<&[u8]> {
    let is_readme = |name: &str| {
        ["readme.md", "readme.txt", "readme"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    let file = chart.files.iter().find(|file| is_readme(&file.name))?;
    Some(&file.data)
}

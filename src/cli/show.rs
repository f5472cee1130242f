//! `helm-operator show`: what is in a chart, as `helm show`.

use std::fmt::Write;

use anyhow::bail;
use clap::{Args, Subcommand};
use helm_engine::{Chart, Limits, load, metadata_yaml};

use super::chart::locate;
use super::output::{print, warn};

/// Show information of a chart.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Clone, Debug)]
enum Part {
    /// show all information of the chart
    All(ChartName),
    /// show the chart's definition
    Chart(ChartName),
    /// show the chart's values
    Values(ChartName),
    /// show the chart's README
    Readme(ChartName),
    /// show the chart's CRDs
    Crds(ChartName),
}

#[derive(Args, Clone, Debug)]
struct ChartName {
    /// A directory or a packed chart
    #[arg(value_name = "CHART")]
    name: String,
}

/// Loads the chart and prints the part.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (Part::All(chart)
    | Part::Chart(chart)
    | Part::Values(chart)
    | Part::Readme(chart)
    | Part::Crds(chart)) = &arguments.part;
    let loaded = load(&locate(&chart.name)?, &Limits::default())?;
    warn("INFO", &loaded.warnings);
    print(&show(&arguments.part, &loaded.chart)?)
}

fn show(part: &Part, chart: &Chart) -> anyhow::Result<String> {
    let all = matches!(part, Part::All(_));
    let mut out = String::new();
    if all || matches!(part, Part::Chart(_)) {
        let yaml = metadata_yaml(&chart.metadata);
        if yaml.is_empty() {
            bail!("cannot write Chart.yaml");
        }
        writeln!(out, "{}", String::from_utf8_lossy(&yaml))?;
    }
    if all || matches!(part, Part::Values(_)) {
        for file in chart.raw.iter().filter(|file| file.name == "values.yaml") {
            separator(&mut out, all);
            writeln!(out, "{}", file.data.to_text())?;
        }
    }
    if (all || matches!(part, Part::Readme(_)))
        && let Some(readme) = readme(chart)
    {
        separator(&mut out, all);
        writeln!(out, "{readme}")?;
    }
    if all || matches!(part, Part::Crds(_)) {
        for crd in chart.crds() {
            separator(&mut out, !crd.data.starts_with(b"---"));
            writeln!(out, "{}", crd.data.to_text())?;
        }
    }
    Ok(out)
}

fn separator(out: &mut String, wanted: bool) {
    if wanted {
        out.push_str("---\n");
    }
}

/// The first file that is called a README.
fn readme(chart: &Chart) -> Option<std::borrow::Cow<'_, str>> {
    let is_readme = |name: &str| {
        ["readme.md", "readme.txt", "readme"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    let file = chart.files.iter().find(|file| is_readme(&file.name))?;
    Some(file.data.to_text())
}

//! `helm-operator lint`: looks for faults in charts, as `helm lint`.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use helm_engine::lint::{Finding, LintOptions, Severity, Subject, lint};
use helm_engine::{
    ChartFile, KubeVersion, Limits, LoadError, go_io_error, load_chart_files, load_of_any_version,
};

use super::ignored::{ClientFlags, Ignored};
use super::output::print;
use super::values::ValuesFlags;

/// Examine a chart for possible issues.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::LINT, args_override_self = true)]
pub(crate) struct Arguments {
    /// Directories or archives of charts
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    #[command(flatten)]
    values: ValuesFlags,

    /// fail on lint warnings
    #[arg(long)]
    strict: bool,

    /// lint dependent charts
    #[arg(long)]
    with_subcharts: bool,

    /// print only warnings and errors
    #[arg(long)]
    quiet: bool,

    /// if set, disables JSON schema validation
    #[arg(long)]
    skip_schema_validation: bool,

    /// Kubernetes version used for capabilities and deprecation checks
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    /// namespace scope for this request
    #[arg(short, long, env = "HELM_NAMESPACE")]
    namespace: Option<String>,

    #[arg(long, hide = true)]
    debug: bool,

    #[arg(long, hide = true)]
    repository_config: Option<Ignored>,

    #[command(flatten)]
    client: ClientFlags,
}

/// Lints each chart and prints what was found.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = arguments.options()?;
    let mut paths = arguments.paths.clone();
    if arguments.with_subcharts {
        for path in &arguments.paths {
            collect_subcharts(&Path::new(path).join("charts"), &mut paths);
        }
    }
    let mut out = String::new();
    let (mut failed, mut noted) = (0, 0);
    for path in &paths {
        let found = findings(path, &options);
        let fails = arguments.fails(&found);
        let is_quiet = match &found {
            Ok(found) => found
                .iter()
                .all(|finding| finding.severity == Severity::Info),
            Err(_) => false,
        };
        noted += usize::from(!is_quiet);
        failed += usize::from(fails);
        if !(arguments.quiet && is_quiet) {
            arguments.report(path, &found, &mut out);
        }
    }
    let summary = format!("{} chart(s) linted, {failed} chart(s) failed", paths.len());
    if failed > 0 {
        print(&out)?;
        bail!(summary);
    }
    if !arguments.quiet || noted > 0 {
        writeln!(out, "{summary}")?;
    }
    print(&out)
}

type Found = Result<Vec<Finding>, String>;

impl Arguments {
    fn options(&self) -> anyhow::Result<LintOptions> {
        let version = self.kube_version.as_deref().filter(|text| !text.is_empty());
        let kube_version = version
            .map(|text| {
                KubeVersion::parse(text).with_context(|| format!("invalid kube version '{text}'"))
            })
            .transpose()?;
        Ok(LintOptions {
            namespace: self
                .namespace
                .clone()
                .unwrap_or_else(|| "default".to_owned()),
            values: self.values.merge()?,
            kube_version,
            skip_schema: self.skip_schema_validation,
        })
    }

    fn fails(&self, found: &Found) -> bool {
        let tolerance = if self.strict {
            Severity::Warning
        } else {
            Severity::Error
        };
        match found {
            Ok(found) => found.iter().any(|finding| finding.severity >= tolerance),
            Err(_) => true,
        }
    }

    fn report(&self, path: &str, found: &Found, out: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "==> Linting {path}");
        match found {
            Err(error) => {
                let _ = writeln!(out, "Error {error}");
            }
            Ok(found) => {
                let is_shown =
                    |finding: &&Finding| !self.quiet || finding.severity > Severity::Info;
                for finding in found.iter().filter(is_shown) {
                    let _ = writeln!(out, "{finding}");
                }
            }
        }
        out.push('\n');
    }
}

fn findings(path: &str, options: &LintOptions) -> Found {
    let limits = Limits::default();
    let chart_file = Path::new(path).join("Chart.yaml");
    let is_archive = path.ends_with(".tgz") || path.ends_with(".tar.gz");
    if !is_archive && let Err(error) = std::fs::metadata(&chart_file) {
        return Err(format!(
            "unable to check Chart.yaml file in chart: stat {}: {}",
            chart_file.display(),
            go_io_error(&error)
        ));
    }
    let fault = |error: LoadError| format!("unable to extract tarball: {error}");
    let files = match load_chart_files(Path::new(path), &limits) {
        Err(_) if !is_archive => files_by_name(Path::new(path), &limits),
        files => files.map_err(fault)?,
    };
    let loaded = load_of_any_version(Path::new(path), &limits);
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let subject = Subject {
        folder: &folder.to_string_lossy(),
        files: &files,
        chart: loaded.as_ref().map(|loaded| &loaded.chart),
    };
    Ok(lint(&subject, options))
}

/// What the rules look at by its name, of a folder that cannot be read as a whole.
fn files_by_name(folder: &Path, limits: &Limits) -> Vec<ChartFile> {
    let read = |name: &&str| {
        let file = std::fs::File::open(folder.join(name)).ok()?;
        let mut data = Vec::new();
        file.take(limits.file_bytes).read_to_end(&mut data).ok()?;
        Some(ChartFile::new(*name, data))
    };
    let files = ["Chart.yaml", "values.yaml", "values.schema.json"];
    let folders = ["templates/", "crds/"];
    let is_there = |name: &&str| folder.join(name).is_dir();
    let folders = folders.iter().filter(|name| is_there(name));
    files
        .iter()
        .filter_map(read)
        .chain(folders.map(|name| ChartFile::new(*name, Vec::new())))
        .collect()
}

/// Charts below a folder, in the order of their paths.
fn collect_subcharts(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            collect_subcharts(&path, found);
        } else if name == "Chart.yaml" {
            found.push(folder.to_string_lossy().into_owned());
        } else if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

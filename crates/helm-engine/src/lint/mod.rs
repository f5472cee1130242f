//! `helm lint`: what is wrong with a chart, or not as it should be.

mod chart_file;
mod deprecated;
mod names;
mod templates;

use std::fmt;

use goyaml::Tree;

use crate::capabilities::KubeVersion;
use crate::chart::{Chart, ChartFile};
use crate::coalesce::{Coalescing, Mode, tree_to_map};
use crate::load::LoadError;
use crate::schema;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Against convention, but it will work.
    Warning,
    /// It will not work.
    Error,
}

/// A finding. It prints as helm prints it: `[ERROR] Chart.yaml: name is required`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which part of the chart it is about.
    pub path: String,
    /// What it is.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// A chart to lint: its files, and what loading made of them.
pub struct Subject<'a> {
    /// The chart's folder, as messages name it.
    pub folder: &'a str,
    /// The files of the chart, `Chart.yaml` among them.
    pub files: &'a [ChartFile],
    /// The loaded chart, or why it could not be loaded.
    pub chart: Result<&'a Chart, &'a LoadError>,
}

/// What linting depends on besides the chart.
#[derive(Clone, Debug, Default)]
pub struct LintOptions {
    /// The namespace that templates see.
    pub namespace: String,
    /// The user's values, a map.
    pub values: Tree,
    /// The version of Kubernetes; `None` is the default one.
    pub kube_version: Option<KubeVersion>,
    /// Do not check values against schemas.
    pub skip_schema: bool,
}

/// Everything that helm would find, in its order.
#[must_use]
pub fn lint(subject: &Subject<'_>, options: &LintOptions) -> Vec<Finding> {
    let mut findings = Findings::default();
    chart_file::check(subject, &mut findings);
    values(subject, options, &mut findings);
    templates::check(subject, options, &mut findings);
    dependencies(subject, &mut findings);
    crds(subject, &mut findings);
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, path: &str, text: impl Into<String>) {
        self.0.push(Finding {
            severity,
            path: path.to_owned(),
            text: text.into(),
        });
    }

    /// Notes an error; `false` if there is one.
    fn check<E: fmt::Display>(
        &mut self,
        severity: Severity,
        path: &str,
        done: Result<(), E>,
    ) -> bool {
        match done {
            Ok(()) => true,
            Err(error) => {
                self.add(severity, path, error.to_string());
                false
            }
        }
    }
}

impl Subject<'_> {
    fn file(&self, name: &str) -> Option<&ChartFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Whether there is something below this folder of the chart.
    fn has_folder(&self, folder: &str) -> bool {
        self.files.iter().any(|file| file.name.starts_with(folder))
    }
}

fn values(subject: &Subject<'_>, options: &LintOptions, findings: &mut Findings) {
    const FILE: &str = "values.yaml";
    let Some(file) = subject.file(FILE) else {
        findings.add(Severity::Info, FILE, "file does not exist");
        return;
    };
    let defaults = match goyaml::read_map(&file.data) {
        Ok(defaults) => Tree::Map(defaults),
        Err(error) => {
            findings.add(
                Severity::Error,
                FILE,
                format!("unable to parse YAML: {error}").replace(
                    "of type map[string]interface {}",
                    // Helm reads them into a type of its own here.
                    "of type common.Values",
                ),
            );
            return;
        }
    };
    let Some(schema) = subject.file("values.schema.json") else {
        return;
    };
    if options.skip_schema || schema.data.is_empty() {
        return;
    }
    let values = tree_to_map(Some(&options.values));
    let mode = Mode::Coalesce;
    let warnings = &mut Vec::new();
    Coalescing { mode, warnings }.tables(&values, &tree_to_map(Some(&defaults)), "", mode);
    let checked = schema::validate_single(&schema.data, &values);
    findings.check(Severity::Error, FILE, checked);
}

fn dependencies(subject: &Subject<'_>, findings: &mut Findings) {
    let chart = match subject.chart {
        Ok(chart) => chart,
        Err(error) => {
            let text = format!("unable to load chart\n\t{error}");
            findings.add(Severity::Error, "", text);
            return;
        }
    };
    let wanted = || chart.metadata.dependencies.iter().flatten().flatten();
    let unnamed: Vec<&str> = chart
        .dependencies
        .iter()
        .map(|subchart| subchart.name())
        .filter(|name| wanted().all(|dependency| dependency.name != *name))
        .collect();
    if !unnamed.is_empty() {
        let text = format!(
            "chart metadata is missing these dependencies: {}",
            unnamed.join(",")
        );
        findings.add(Severity::Error, subject.folder, text);
    }
    let mut seen = std::collections::HashSet::new();
    let doubled: Vec<&str> = wanted()
        .map(|dependency| dependency.effective_name())
        .filter(|name| !seen.insert(*name))
        .collect();
    if !doubled.is_empty() {
        let text = format!(
            "multiple dependencies with name or alias: {}",
            doubled.join(",")
        );
        findings.add(Severity::Error, subject.folder, text);
    }
    let missing = chart.missing_dependencies();
    if !missing.is_empty() {
        let text = format!(
            "chart directory is missing these dependencies: {}",
            missing.join(",")
        );
        findings.add(Severity::Warning, subject.folder, text);
    }
}

fn crds(subject: &Subject<'_>, findings: &mut Findings) {
    if !subject.has_folder("crds/") {
        return;
    }
    let chart = match subject.chart {
        Ok(chart) => chart,
        Err(error) => {
            findings.add(Severity::Error, "crds/", error.to_string());
            return;
        }
    };
    for crd in chart.crds() {
        let name = crd.path.split_once("/crds/").map_or("", |(_, name)| name);
        let path = format!("crds/{name}");
        for head in templates::heads(&crd.data.to_text()) {
            let head = match head {
                Ok(head) => head,
                Err(text) => {
                    findings.add(Severity::Error, &path, text);
                    return;
                }
            };
            if !head.api_version.starts_with(b"apiextensions.k8s.io") {
                let text = "apiVersion is not in 'apiextensions.k8s.io'";
                findings.add(Severity::Error, &path, text);
            }
            if &head.kind[..] != b"CustomResourceDefinition" {
                let text = "object kind is not 'CustomResourceDefinition'";
                findings.add(Severity::Error, &path, text);
            }
        }
    }
}

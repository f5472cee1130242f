//! The rules for templates and what they print.

use std::collections::BTreeMap;

use goyaml::Tree;

use super::{Findings, LintOptions, Severity, Subject, deprecated, names};
use crate::capabilities::Capabilities;
use crate::chart::Chart;
use crate::render::{RenderOptions, render_files};
use crate::text::quote;

const FOLDER: &str = "templates/";

pub(super) fn check(subject: &Subject<'_>, options: &LintOptions, findings: &mut Findings) {
    if !subject.has_folder(FOLDER) {
        if subject.file("templates").is_some() {
            findings.add(Severity::Error, FOLDER, "not a directory");
        } else {
            findings.add(Severity::Warning, FOLDER, "directory does not exist");
        }
        return;
    }
    let chart = match subject.chart {
        Ok(chart) => chart,
        Err(error) => {
            findings.add(Severity::Error, FOLDER, error.to_string());
            return;
        }
    };
    let mut capabilities = Capabilities::default();
    if let Some(version) = &options.kube_version {
        capabilities.kube_version = version.clone();
    }
    let version = kube_version(&capabilities);
    let render = RenderOptions {
        release_name: "test-release".to_owned(),
        namespace: options.namespace.clone(),
        revision: 0,
        is_install: false,
        capabilities,
        skip_schema: options.skip_schema,
        lint: true,
        ..RenderOptions::default()
    };
    match render_files(chart, &options.values, &render) {
        Ok(Some(files)) => check_files(chart, &files, version, findings),
        Ok(None) => {}
        Err(error) => findings.add(Severity::Error, FOLDER, error.to_string()),
    }
}

fn kube_version(capabilities: &Capabilities) -> (u32, u32) {
    let version = &capabilities.kube_version;
    let number = |text: &str| text.parse().unwrap_or(0);
    (number(&version.major), number(&version.minor))
}

fn check_files(
    chart: &Chart,
    files: &BTreeMap<String, String>,
    version: (u32, u32),
    findings: &mut Findings,
) {
    for template in &chart.templates {
        let name = &template.name;
        let base = name.rsplit('/').next().unwrap_or(name);
        let extension = base
            .rfind('.')
            .and_then(|dot| base.get(dot..))
            .unwrap_or("");
        if !matches!(extension, ".yaml" | ".yml" | ".tpl" | ".txt") {
            let text = format!(
                "file extension '{extension}' not valid. Valid extensions are .yaml, .yml, .tpl, \
                 or .txt"
            );
            findings.add(Severity::Error, name, text);
        }
        if !matches!(extension.to_lowercase().as_str(), ".yaml" | ".yml") {
            continue;
        }
        let content = files.get(&format!("{}/{name}", chart.name()));
        let content = content.map_or("", String::as_str);
        if content.trim().is_empty() {
            continue;
        }
        findings.check(Severity::Warning, name, top_indent(content));
        if !check_documents(name, content, version, findings) {
            return;
        }
    }
}

/// `false` if a document is no YAML: helm looks no further then.
fn check_documents(
    name: &str,
    content: &str,
    version: (u32, u32),
    findings: &mut Findings,
) -> bool {
    for document in documents(content) {
        let head = match goyaml::read_head(document.as_bytes()) {
            Ok(head) => head,
            Err(error) => {
                let text = format!("unable to parse YAML: {error}");
                findings.add(Severity::Error, name, text);
                return false;
            }
        };
        if is_null(document) {
            continue;
        }
        let [kind, object, api_version] =
            [&head.kind, &head.name, &head.api_version].map(|text| text.to_text().into_owned());
        findings.check(Severity::Warning, name, names::check(&kind, &object));
        if let Some(text) = deprecated::warning(&api_version, &kind, version) {
            findings.add(Severity::Warning, name, text);
        }
        findings.check(Severity::Error, name, selector(&kind, &object, content));
        findings.check(Severity::Error, name, list_annotations(&kind, content));
    }
    true
}

fn top_indent(content: &str) -> Result<(), String> {
    let first = content.lines().find(|line| !line.trim().is_empty());
    match first {
        Some(line) if line.starts_with([' ', '\t']) => Err(format!(
            "document starts with an illegal indent: {}, which may cause parsing problems",
            quote(line)
        )),
        _ => Ok(()),
    }
}

fn selector(kind: &str, name: &str, content: &str) -> Result<(), String> {
    let needs = matches!(
        kind,
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet"
    );
    if !needs || content.contains("matchLabels") || content.contains("matchExpressions") {
        return Ok(());
    }
    Err(format!(
        "a {kind} must contain matchLabels or matchExpressions, and {} does not",
        quote(name)
    ))
}

fn list_annotations(kind: &str, content: &str) -> Result<(), String> {
    if kind != "List" {
        return Ok(());
    }
    let tree = goyaml::read(content.as_bytes())
        .map_err(|error| format!("unable to parse YAML: {error}"))?;
    let items = tree
        .get("items")
        .and_then(Tree::as_list)
        .unwrap_or_default();
    let kept = items.iter().any(|item| {
        item.path(&["metadata", "annotations", "helm.sh/resource-policy"])
            .is_some()
    });
    if kept {
        return Err(
            "annotation 'helm.sh/resource-policy' within List objects are ignored".to_owned(),
        );
    }
    Ok(())
}

/// Whether a document holds nothing.
pub(super) fn is_null(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---" || line == "null"
    })
}

/// The documents of a stream as Kubernetes' decoder splits them: at lines that begin with `---`,
/// of which the rest is dropped.
pub(super) fn documents(stream: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(stream);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = text.find("\n---") else {
            rest = None;
            return Some(text);
        };
        let (document, tail) = text.split_at(at);
        let tail = tail.get("\n---".len()..).unwrap_or_default();
        rest = tail.split_once('\n').map(|(_, tail)| tail);
        Some(document)
    })
    .filter(|document| !document.trim().is_empty())
}

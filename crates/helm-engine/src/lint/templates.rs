//! The rules for templates and what they print.

use goyaml::{Head, Tree};

use super::{Findings, LintOptions, Severity, Subject, deprecated, names};
use crate::capabilities::Capabilities;
use crate::chart::Chart;
use crate::manifest::fault_of_bytes;
use crate::render::{Printed, RenderOptions, render_files};
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
        Ok(Some(printed)) => check_files(chart, &printed, version, findings),
        Ok(None) => {}
        Err(error) => findings.add(Severity::Error, FOLDER, error.to_string()),
    }
}

fn kube_version(capabilities: &Capabilities) -> (u32, u32) {
    let version = &capabilities.kube_version;
    let number = |text: &str| text.parse().unwrap_or(0);
    (number(&version.major), number(&version.minor))
}

fn check_files(chart: &Chart, printed: &Printed, version: (u32, u32), findings: &mut Findings) {
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
        let path = format!("{}/{name}", chart.name());
        let content = printed.files.get(&path).map_or("", String::as_str);
        if content.trim().is_empty() {
            continue;
        }
        findings.check(Severity::Warning, name, top_indent(content));
        let broken = printed.broken.get(&path);
        if let Some(error) = broken.and_then(|bytes| fault_of_bytes(bytes)) {
            findings.add(
                Severity::Error,
                name,
                format!("unable to parse YAML: {error}"),
            );
            return;
        }
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
    for head in heads(content) {
        let head = match head {
            Ok(head) => head,
            Err(text) => {
                findings.add(Severity::Error, name, text);
                return false;
            }
        };
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
fn is_null(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with("---") || line == "null"
    })
}

/// The documents of a stream as Kubernetes' decoder reads them: up to lines that begin with `---`,
/// behind which there may be a comment. The error says what else there is, and nothing follows it.
fn documents(stream: &str) -> impl Iterator<Item = Result<&str, String>> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            if let Some(behind) = line.strip_prefix("---").map(str::trim) {
                if !behind.is_empty() && !behind.starts_with('#') {
                    rest = "";
                    let text = format!("invalid Yaml document separator: {behind}");
                    return Some(Err(text));
                }
                if end > 0 {
                    let (document, tail) = rest.split_at_checked(end)?;
                    rest = tail.get(line.len()..)?;
                    return Some(Ok(document));
                }
            }
            end += line.len();
        }
        Some(Ok(std::mem::take(&mut rest)))
    })
}

/// The heads of the documents of a stream that hold something, up to the first that cannot be read.
pub(super) fn heads(stream: &str) -> impl Iterator<Item = Result<Head, String>> {
    let of = move |(index, document): (usize, Result<&str, String>)| {
        let head = head(document).map_err(|error| {
            // Kubernetes' decoder takes what begins with a brace for JSON first.
            let json = json_fault(stream).filter(|_| index == 0);
            format!("unable to parse YAML: {}", json.unwrap_or(error))
        });
        head.transpose()
    };
    documents(stream).enumerate().filter_map(of)
}

/// The head of a document; `None` for a document that holds nothing.
fn head(document: Result<&str, String>) -> Result<Option<Head>, String> {
    let document = document?;
    let head = goyaml::read_head(document.as_bytes()).map_err(|error| error.to_string())?;
    Ok((!is_null(document)).then_some(head))
}

/// What is wrong with the JSON that a stream begins with, and behind how many bytes.
fn json_fault(stream: &str) -> Option<String> {
    if !stream.trim_start().starts_with('{') {
        return None;
    }
    let text = stream.as_bytes();
    let fault = |length: usize| goyaml::read_json_prefix(text.get(..length)?).err();
    let error = fault(text.len())?.to_string();
    // The shortest beginning that is wrong in the same way ends with the byte that is wrong.
    let (mut good, mut bad) = (0, text.len());
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        match fault(middle) {
            Some(found) if found.to_string() == error => bad = middle,
            _ => good = middle,
        }
    }
    Some(format!("json: offset {bad}: {error}"))
}

//! From rendered files to manifests and hooks: splitting, heads, kind order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gotmpl::Str;
use goyaml::Head;

use crate::log::LogLine;
use crate::record::{Hook, HookEvent, HookExecution};

/// A document of a rendered chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The template that it comes from, `CHART/templates/x.yaml`.
    pub path: String,
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`; empty for a document that is no object (a lone comment).
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
    /// The text, without what stood before its first character, with its trailing newlines.
    pub content: String,
}

/// Splits a stream into its documents: at every line that begins with `---`. Blank documents are
/// dropped, leading white space goes, trailing newlines stay.
pub fn split_manifests(stream: &str) -> impl Iterator<Item = &str> {
    Documents {
        rest: Some(stream.trim_start()),
        at_line_start: true,
    }
    .map(str::trim_start)
    .filter(|document| !document.is_empty())
}

struct Documents<'a> {
    rest: Option<&'a str>,
    at_line_start: bool,
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.take()?;
        let first_of_line = std::mem::replace(&mut self.at_line_start, false);
        let at = if first_of_line && text.starts_with("---") {
            Some(0)
        } else {
            text.find("\n---").map(|at| at + 1)
        };
        let Some((document, tail)) = at.and_then(|at| text.split_at_checked(at)) else {
            return Some(text);
        };
        let tail = tail.strip_prefix("---").unwrap_or(tail);
        self.rest = Some(tail.trim_start_matches([' ', '\t']));
        Some(document)
    }
}

/// The order in which kinds are installed; kinds that are not listed come last, by name.
pub const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The order in which kinds are uninstalled; kinds that are not listed come last, by name. It is
/// not the reverse of the other.
pub const UNINSTALL_ORDER: &[&str] = &[
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// Compares two kinds in one of the orders above.
#[must_use]
pub fn compare_kinds(order: &[&str], left: &str, right: &str) -> Ordering {
    let rank = |kind: &str| order.iter().position(|known| *known == kind);
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Splits rendered files into manifests and hooks, each in the given kind order; inside one kind
/// by path and then by place in the file.
///
/// Files whose names begin with `_` and blank files are skipped. A hook with an unknown event
/// vanishes, as in Helm; `render` has a line about it.
///
/// # Errors
/// A document is no YAML, or its head has fields of other types.
pub fn sort_manifests(
    files: &BTreeMap<String, String>,
    order: &[&str],
) -> Result<(Vec<Hook>, Vec<Manifest>), ManifestError> {
    sort_manifests_of(files, &BTreeMap::new(), order, &mut Vec::new())
}

/// [`sort_manifests`] with the bytes of those files that are no UTF-8, which are no YAML either.
pub(crate) fn sort_manifests_of(
    files: &BTreeMap<String, String>,
    broken: &BTreeMap<String, Vec<u8>>,
    order: &[&str],
    warnings: &mut Vec<LogLine>,
) -> Result<(Vec<Hook>, Vec<Manifest>), ManifestError> {
    let mut hooks = Vec::new();
    let mut manifests = Vec::new();
    let mut unknown = |events| {
        let line = LogLine::info("skipping unknown hooks");
        warnings.push(line.with("hookTypes", events));
    };
    for (path, content) in files {
        if base_name(path).starts_with('_') {
            continue;
        }
        if let Some(cause) = broken.get(path).and_then(|bytes| fault_of_bytes(bytes)) {
            let path = path.clone();
            return Err(ManifestError { path, cause });
        }
        for document in split_manifests(content) {
            sort_document(path, document, &mut hooks, &mut manifests, &mut unknown)?;
        }
    }
    hooks.sort_by(|left: &Hook, right| compare_kinds(order, &left.kind, &right.kind));
    manifests.sort_by(|left: &Manifest, right| compare_kinds(order, &left.kind, &right.kind));
    Ok((hooks, manifests))
}

/// What is wrong with the first document that cannot be read, of bytes that are no UTF-8.
pub(crate) fn fault_of_bytes(bytes: &[u8]) -> Option<goyaml::Error> {
    // What splits documents is ASCII: each byte may as well be the character of its number.
    let text: String = bytes.iter().copied().map(char::from).collect();
    split_manifests(&text)
        .find_map(|document| {
            let bytes: Vec<u8> = document.chars().flat_map(u8::try_from).collect();
            goyaml::read_head(&bytes).err()
        })
        .or_else(|| goyaml::read_head(bytes).err())
}

/// A rendered document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}: {cause}")]
pub struct ManifestError {
    /// The template that printed it.
    pub path: String,
    /// Go's text for what is wrong.
    pub cause: goyaml::Error,
}

fn sort_document(
    path: &str,
    document: &str,
    hooks: &mut Vec<Hook>,
    manifests: &mut Vec<Manifest>,
    unknown: &mut dyn FnMut(String),
) -> Result<(), ManifestError> {
    let head = goyaml::read_head(document.as_bytes()).map_err(|cause| ManifestError {
        path: path.to_owned(),
        cause,
    })?;
    if let Some(events) = annotation(&head, "helm.sh/hook") {
        match hook(path, document, &head, &events) {
            Some(hook) => hooks.push(hook),
            None => unknown(events),
        }
    } else {
        manifests.push(Manifest {
            path: path.to_owned(),
            api_version: string(&head.api_version),
            kind: string(&head.kind),
            name: string(&head.name),
            content: document.to_owned(),
        });
    }
    Ok(())
}

fn string(text: &Str) -> String {
    text.to_text().into_owned()
}

fn annotation(head: &Head, name: &str) -> Option<String> {
    let annotations = head.annotations.as_ref()?;
    annotations.get(name.as_bytes()).map(string)
}

/// A hook; `None` if one of its events is unknown.
fn hook(path: &str, document: &str, head: &Head, events: &str) -> Option<Hook> {
    let events = words(events)
        .map(|word| HookEvent::parse(&word))
        .collect::<Option<Vec<_>>>()?;
    let policies = |name| {
        let policies = annotation(head, name);
        policies.iter().flat_map(|text| words(text)).collect()
    };
    let weight = annotation(head, "helm.sh/hook-weight").and_then(|text| text.parse().ok());
    Some(Hook {
        events,
        weight: weight.unwrap_or(0),
        delete_policies: policies("helm.sh/hook-delete-policy"),
        output_log_policies: policies("helm.sh/hook-output-log-policy"),
        path: path.to_owned(),
        manifest: document.to_owned(),
        last_run: HookExecution::default(),
        name: string(&head.name),
        kind: string(&head.kind),
    })
}

/// The lower-cased words of a comma-separated annotation.
fn words(annotation: &str) -> impl Iterator<Item = String> {
    annotation.split(',').map(|word| word.trim().to_lowercase())
}

pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

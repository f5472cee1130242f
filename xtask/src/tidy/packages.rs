//! Which crate may depend on which, and what every manifest holds.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Complaint;
use crate::cargo::root;

/// The crates from left to right: each may depend on those before it.
const ORDER: [&str; 6] = [
    "gotmpl",
    "goyaml",
    "sprig",
    "helm-engine",
    "helm-kube",
    "helm-operator",
];

/// What the crates left of `helm-kube` are kept free of, so that a template engine is tested in seconds.
const HEAVY: [&str; 4] = ["kube", "k8s-openapi", "tokio", "reqwest"];

pub(super) fn check(packages: &[Value]) -> Vec<Complaint> {
    packages.iter().flat_map(complaints).collect()
}

fn complaints(package: &Value) -> Vec<Complaint> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = text("name");
    let manifest = Path::new(text("manifest_path"));
    let mut texts = depends(name, &dependencies(package));
    if text("license") != "Apache-2.0" {
        texts.push("the licence is not Apache-2.0: write `license.workspace = true`".to_owned());
    }
    let content = fs::read_to_string(manifest).unwrap_or_default();
    if !content.contains("[lints]\nworkspace = true") {
        texts.push(
            "the lints of the workspace are not taken: write `[lints]`, `workspace = true`".into(),
        );
    }
    let file = manifest
        .strip_prefix(root())
        .map_or_else(|_| manifest.into(), PathBuf::from);
    texts
        .into_iter()
        .map(|text| Complaint {
            file: file.clone(),
            line: 0,
            text,
        })
        .collect()
}

/// The normal dependencies; tests may use more.
fn dependencies(package: &Value) -> Vec<&str> {
    let all = package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let normal = all.iter().filter(|dependency| dependency["kind"].is_null());
    normal
        .filter_map(|dependency| dependency["name"].as_str())
        .collect()
}

fn depends(name: &str, dependencies: &[&str]) -> Vec<String> {
    let rank = |name: &str| ORDER.iter().position(|&other| other == name);
    let Some(own) = rank(name) else {
        return Vec::new();
    };
    let right = dependencies
        .iter()
        .filter(|&&other| rank(other).is_some_and(|other| other >= own));
    let mut texts: Vec<String> = right
        .map(|other| format!("{name} depends on {other}, which is to the right of it"))
        .collect();
    if dependencies.contains(&"testkit") {
        texts.push(format!("{name} depends on testkit outside of its tests"));
    }
    if Some(own) < rank("helm-kube") {
        let heavy = dependencies.iter().filter(|&other| HEAVY.contains(other));
        texts.extend(heavy.map(|other| format!("{name} depends on {other}: it does no requests")));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_point_left_only() {
        for (name, dependencies, complaints) in [
            ("sprig", vec!["gotmpl", "goyaml", "regex"], 0),
            ("gotmpl", vec!["sprig"], 1),
            ("helm-engine", vec!["kube", "tokio"], 2),
            ("helm-kube", vec!["kube", "tokio", "helm-engine"], 0),
            ("helm-kube", vec!["helm-operator"], 1),
            ("helm-operator", vec!["testkit"], 1),
            ("xtask", vec!["testkit", "tokio"], 0),
        ] {
            assert_eq!(
                depends(name, &dependencies).len(),
                complaints,
                "{name} {dependencies:?}"
            );
        }
    }
}

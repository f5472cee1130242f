//! The digest of a release's inputs: equal digests mean that there is nothing to do.

use goyaml::Tree;
use sha2::{Digest as _, Sha256};

use crate::api::HelmRelease;

/// What a render depends on besides chart, values and options. It changes when the engine prints other
/// bytes for the same inputs, and then every release is upgraded once.
const ENGINE: &str = "1";

/// Digest of all inputs: the chart's content, the composed values, and the options that change what is
/// deployed. Times, waits, hooks' timeouts, history and rollback settings are no part of it: a release need
/// not be upgraded because its timeout changes.
#[must_use]
pub fn input_digest(release: &HelmRelease, chart: &str, values: &str) -> String {
    let spec = &release.spec;
    let key = release.release_key();
    let options = [
        ("engine", ENGINE.to_owned()),
        ("chart", chart.to_owned()),
        ("values", values.to_owned()),
        ("namespace", key.namespace.to_string()),
        ("name", key.name.to_string()),
        ("reuse", (!spec.reset_values()).to_string()),
        (
            "validate",
            (!spec.disable_open_api_validation.unwrap_or(false)).to_string(),
        ),
        ("crds", format!("{:?}", spec.crd_policy())),
    ];
    let mut hasher = Sha256::new();
    for (name, value) in options {
        write_text(&mut hasher, name.as_bytes());
        write_text(&mut hasher, value.as_bytes());
    }
    finish(hasher)
}

/// Digest of a tree of values: equal for equal trees, whatever text they came from.
#[must_use]
pub fn values_digest(values: &Tree) -> String {
    let mut hasher = Sha256::new();
    write_tree(&mut hasher, values);
    finish(hasher)
}

/// Each part with its kind and length, so that no two trees write the same bytes.
fn write_tree(hasher: &mut Sha256, tree: &Tree) {
    match tree {
        Tree::Null => hasher.update(b"n"),
        Tree::Bool(value) => hasher.update(if *value { b"t" } else { b"f" }),
        Tree::Int64(value) => {
            hasher.update(b"i");
            hasher.update(value.to_be_bytes());
        }
        Tree::Float64(value) => {
            hasher.update(b"d");
            hasher.update(value.to_bits().to_be_bytes());
        }
        Tree::String(text) => {
            hasher.update(b"s");
            write_text(hasher, text.as_bytes());
        }
        Tree::List(items) => {
            hasher.update(b"l");
            hasher.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| write_tree(hasher, item));
        }
        Tree::Map(entries) => {
            hasher.update(b"m");
            hasher.update((entries.len() as u64).to_be_bytes());
            for (key, value) in entries {
                write_text(hasher, key.as_bytes());
                write_tree(hasher, value);
            }
        }
    }
}

fn write_text(hasher: &mut Sha256, text: &[u8]) {
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text);
}

fn finish(hasher: Sha256) -> String {
    let hex: String = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(spec: serde_json::Value) -> HelmRelease {
        let mut release = HelmRelease::new("web", serde_json::from_value(spec).unwrap());
        release.metadata.namespace = Some("demo".into());
        release
    }

    fn tree(yaml: &str) -> Tree {
        goyaml::read(yaml.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_deployed_changes_the_digest_and_how_it_is_deployed_does_not() {
        let base = input_digest(&release(serde_json::json!({"chart": {}})), "c", "v");
        let same = [
            serde_json::json!({"chart": {}, "timeout": 5, "maxHistory": 2, "wait": true}),
            serde_json::json!({"chart": {"git": "x"}, "rollback": {"enable": true}, "resetValues": true}),
            serde_json::json!({"chart": {}, "suspend": false, "gates": [], "retry": {"limit": 3}}),
            serde_json::json!({"chart": {}, "disableSchemaValidation": true}),
        ];
        for spec in same {
            assert_eq!(
                input_digest(&release(spec.clone()), "c", "v"),
                base,
                "{spec}"
            );
        }
        let different = [
            serde_json::json!({"chart": {}, "releaseName": "other"}),
            serde_json::json!({"chart": {}, "targetNamespace": "other"}),
            serde_json::json!({"chart": {}, "resetValues": false}),
            serde_json::json!({"chart": {}, "skipCRDs": true}),
            serde_json::json!({"chart": {}, "disableOpenAPIValidation": true}),
        ];
        for spec in different {
            assert_ne!(
                input_digest(&release(spec.clone()), "c", "v"),
                base,
                "{spec}"
            );
        }
        let plain = release(serde_json::json!({"chart": {}}));
        assert_ne!(input_digest(&plain, "c2", "v"), base);
        assert_ne!(input_digest(&plain, "c", "v2"), base);
    }

    #[test]
    fn values_that_mean_the_same_have_one_digest() {
        assert_eq!(
            values_digest(&tree("{a: 1, b: [x]}")),
            values_digest(&tree("b:\n- x\na: 1\n"))
        );
        let all: std::collections::BTreeSet<_> = [
            "{}",
            "a: null",
            "a: ''",
            "a: 1",
            "a: '1'",
            "a: true",
            "a: [1]",
            "a: {b: 1}",
            "a: []",
            "[]",
            "null",
            "a: b\nc: d",
            "ab: ''\nc: d",
        ]
        .iter()
        .map(|yaml| values_digest(&tree(yaml)))
        .collect();
        assert_eq!(all.len(), 13);
    }
}

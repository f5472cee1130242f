//! Two manifests as a unified diff, object by object, with the data of Secrets masked.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use helm_engine::Hook;
use helm_kube::{Object, parse_manifest};
use serde_json::{Map, Value};
use similar::TextDiff;

/// A manifest with its hooks, as one stream.
pub(super) fn stream(manifest: &str, hooks: &[Hook]) -> String {
    let mut text = manifest.to_owned();
    for hook in hooks {
        text.push_str("\n---\n");
        text.push_str(&hook.manifest);
    }
    text
}

/// The unified diff of two streams; empty if their objects are equal. The order of objects, and
/// how they are written, does not matter.
pub(super) fn diff(
    old: &str,
    new: &str,
    old_name: &str,
    new_name: &str,
    context: usize,
) -> Result<String> {
    let (mut old, mut new) = (objects(old)?, objects(new)?);
    let keys: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let mut text = String::new();
    for key in keys {
        let (mut left, mut right) = (old.remove(&key), new.remove(&key));
        if left == right {
            continue;
        }
        mask(&mut left, &mut right);
        let (left, right) = (yaml(left)?, yaml(right)?);
        let diff = TextDiff::from_lines(&left, &right);
        let mut unified = diff.unified_diff();
        unified.context_radius(context);
        unified.header(&format!("{key} {old_name}"), &format!("{key} {new_name}"));
        text.push_str(&unified.to_string());
    }
    Ok(text)
}

fn objects(stream: &str) -> Result<BTreeMap<String, Value>> {
    let objects = parse_manifest(stream)?;
    Ok(objects
        .into_iter()
        .map(|object| (key(&object), Value::Object(object.content)))
        .collect())
}

fn key(object: &Object) -> String {
    let (namespace, name) = (object.metadata("namespace"), object.metadata("name"));
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    };
    format!("{} {} {place}{name}", object.api_version(), object.kind())
}

/// Masks the data of Secrets; where they differ, the masks do, too.
fn mask(left: &mut Option<Value>, right: &mut Option<Value>) {
    for place in ["data", "stringData"] {
        let old = data(left.as_ref(), place);
        let new = data(right.as_ref(), place);
        hide(left.as_mut(), place, &new, "*** (before)");
        hide(right.as_mut(), place, &old, "*** (after)");
    }
}

fn data(object: Option<&Value>, place: &str) -> Map<String, Value> {
    let data = object
        .and_then(|object| object.get(place))
        .and_then(Value::as_object);
    data.cloned().unwrap_or_default()
}

fn hide(object: Option<&mut Value>, place: &str, other: &Map<String, Value>, changed: &str) {
    let Some(object) = object.filter(|object| object.get("kind") == Some(&"Secret".into())) else {
        return;
    };
    match object.get_mut(place) {
        Some(Value::Object(data)) => {
            for (key, value) in data {
                let is_same = other.get(key).is_none_or(|other| other == value);
                *value = if is_same { "***" } else { changed }.into();
            }
        }
        Some(odd) if !odd.is_null() => *odd = "***".into(),
        _ => {}
    }
}

fn yaml(object: Option<Value>) -> Result<String> {
    let Some(object) = object else {
        return Ok(String::new());
    };
    let tree = goyaml::read_json(object.to_string().as_bytes())?;
    Ok(String::from_utf8_lossy(&goyaml::to_yaml_tree(&tree)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', z: '2'}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {same: SECRET, other: SECRET}\nstringData: {text: SECRET}\n";

    fn diff_of(old: &str, new: &str) -> String {
        diff(old, new, "old", "new", 3).unwrap()
    }

    #[test]
    fn the_same_objects_have_no_difference() {
        let (first, second) = OLD.split_once("---\n").unwrap();
        let reordered = format!("{second}---\n{first}");
        assert_eq!(diff_of(OLD, &reordered), "");
        assert_eq!(diff_of("", "# a comment\n"), "");
    }

    #[test]
    fn changes_are_shown_by_object() {
        let new = OLD.replace("z: '2'", "z: '3'");
        let expected = "--- v1 ConfigMap a old\n+++ v1 ConfigMap a new\n@@ -1,7 +1,7 @@\n apiVersion: v1\n data:\n   x: \"1\"\n-  z: \"2\"\n+  z: \"3\"\n kind: ConfigMap\n metadata:\n   name: a\n";
        assert_eq!(diff_of(OLD, &new), expected);
    }

    #[test]
    fn secrets_are_masked_wherever_they_are() {
        let changed = OLD
            .replace("other: SECRET", "other: CHANGED")
            .replace("text: SECRET", "new: CHANGED");
        let odd = OLD.replace("data: {same: SECRET, other: SECRET}", "data: [SECRET]");
        for (old, new) in [
            (OLD, changed.as_str()),
            (OLD, ""),
            ("", OLD),
            (OLD, odd.as_str()),
        ] {
            let text = diff_of(old, new);
            assert!(!text.is_empty());
            assert!(
                !text.contains("SECRET") && !text.contains("CHANGED"),
                "{text}"
            );
        }
        let text = diff_of(OLD, &changed);
        assert!(
            text.contains("-  other: '*** (before)'\n+  other: '*** (after)'\n"),
            "{text}"
        );
        assert!(text.contains("   same: '***'\n"), "{text}");
    }
}

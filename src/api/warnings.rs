//! Input that is odd and accepted: what is done with it, in words for one Warning Event.

use kube::ResourceExt;

use super::spec::{HelmRelease, HelmReleaseSpec};

/// Everything odd about a HelmRelease, one sentence each. Empty for most. What 1.4 made of a field is told of an object
/// that is new to us (`is_new`), and not again at each of its changes.
#[must_use]
pub fn odd_input(release: &HelmRelease, is_new: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    chart_warnings(&release.spec, &mut warnings);
    number_warnings(&release.spec, &mut warnings);
    values_warnings(&release.spec, &mut warnings);
    drift_warnings(&release.spec, &mut warnings);
    field_warnings(&release.spec, &mut warnings);
    if is_new {
        new_warnings(&release.spec, &mut warnings);
    }
    if release
        .annotations()
        .contains_key(super::MIGRATE_ANNOTATION)
    {
        warnings.push(format!(
            "annotation {} has no effect: Helm 2 releases are not migrated",
            super::MIGRATE_ANNOTATION
        ));
    }
    warnings
}

fn chart_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    let complete = [
        ("git", spec.chart.git_choice().is_some()),
        ("repository", spec.chart.repository_choice().is_some()),
        ("oci", spec.chart.oci_choice().is_some()),
    ];
    let complete: Vec<&str> = complete
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    if let [used, others @ ..] = complete.as_slice()
        && !others.is_empty()
    {
        warnings.push(format!(
            "spec.chart has more than one complete source: {used} is used, {} is not",
            others.join(" and ")
        ));
    }
}

fn number_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    let mut note = |field: &str, value: Option<i64>, odd: fn(i64) -> bool, done: &str| {
        if let Some(value) = value.filter(|value| odd(*value)) {
            warnings.push(format!("spec.{field} is {value}: {done}"));
        }
    };
    let rollback = spec.rollback.clone().unwrap_or_default();
    note(
        "maxHistory",
        spec.max_history,
        |n| n < 0,
        "all revisions are kept, as with 0",
    );
    note("timeout", spec.timeout, |n| n <= 0, "300 seconds are used");
    note(
        "rollback.timeout",
        rollback.timeout,
        |n| n <= 0,
        "300 seconds are used",
    );
    note(
        "rollback.maxRetries",
        rollback.max_retries,
        |n| n < 0,
        "a failed upgrade is never retried",
    );
    note(
        "test.timeout",
        spec.test().timeout,
        |n| n <= 0,
        "300 seconds are used",
    );
    note(
        "retry.limit",
        spec.retry_limit(),
        |n| n < 0,
        "a failed action is never retried",
    );
}

fn values_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    let entries = spec
        .values_from
        .as_deref()
        .unwrap_or_default()
        .iter()
        .enumerate();
    for (index, entry) in entries {
        match entry.source_count() {
            0 => warnings.push(format!(
                "spec.valuesFrom[{index}] names no source: it adds nothing"
            )),
            1 => {}
            _ => warnings.push(format!(
                "spec.valuesFrom[{index}] names more than one source: only the first of \
                 configMapKeyRef, secretKeyRef, externalSourceRef, chartFileRef is used"
            )),
        }
    }
    let inline = spec.values.as_ref().map(|values| &values.0);
    if inline.is_some_and(|values| !values.is_object() && !values.is_null()) {
        warnings.push("spec.values is no map: it counts as empty".to_owned());
    }
}

/// Rules that ignore nothing, because they cannot be read.
fn drift_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    for (index, rule) in spec.drift_rules().iter().enumerate() {
        let told = rule.selector().err().map(|error| error.to_string());
        let bad = rule.paths.iter().find(|path| !is_json_pointer(path));
        let path =
            bad.map(|path| format!("path {path:?} is no JSON pointer, as /spec/replicas is"));
        warnings.extend(told.or(path).map(|why| {
            format!("spec.driftDetection.ignore[{index}]: {why}: as long as that is so, the rule ignores nothing")
        }));
    }
}

/// RFC 6901: reference tokens behind slashes, `~` only in `~0` and `~1`.
#[must_use]
pub(crate) fn is_json_pointer(path: &str) -> bool {
    let mut escapes = path.split('~').skip(1);
    path.starts_with('/') && escapes.all(|rest| rest.starts_with(['0', '1']))
}

/// Pairs that exclude each other.
fn field_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    if spec.skip_crds == Some(true)
        && spec
            .crds
            .is_some_and(|policy| policy != super::CrdPolicy::Skip)
    {
        warnings.push("spec.skipCRDs is true: spec.crds has no effect".to_owned());
    }
}

/// Fields that 1.4 dropped in silence, where that makes a difference.
fn new_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    let has_target_path = spec
        .values_from
        .iter()
        .flatten()
        .any(|entry| entry.target_path.is_some());
    let added = [
        ("suspend", spec.suspended()),
        ("interval", spec.interval.is_some()),
        ("dependsOn", spec.depends_on.is_some()),
        ("valuesFrom[].targetPath", has_target_path),
    ];
    let names: Vec<&str> = added
        .iter()
        .filter(|(_, set)| *set)
        .map(|(name, _)| *name)
        .collect();
    if !names.is_empty() {
        warnings.push(format!(
            "spec.{} had no effect in version 1.4 and has one now",
            names.join(", spec.")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(spec: serde_json::Value) -> Vec<String> {
        told(spec, true)
    }

    fn told(spec: serde_json::Value, is_new: bool) -> Vec<String> {
        let spec = serde_json::from_value(spec).unwrap();
        odd_input(&HelmRelease::new("web", spec), is_new)
    }

    #[test]
    fn what_1_4_dropped_is_told_once_and_where_it_matters() {
        let spec = |suspend: bool| serde_json::json!({"chart": {"git": "https://git.example.com/a", "path": "."}, "suspend": suspend});
        assert_eq!(told(spec(true), true).len(), 1);
        assert_eq!(told(spec(true), false), Vec::<String>::new());
        assert_eq!(told(spec(false), true), Vec::<String>::new());
    }

    #[test]
    fn ordinary_input_gives_no_warning() {
        let usual = serde_json::json!({"chart": {"git": "https://git.example.com/a", "path": ".",
            "ref": "main"}, "maxHistory": 0, "timeout": 30, "rollback": {"maxRetries": 0},
            "values": {"a": 1}, "valuesFrom": [{"secretKeyRef": {"name": "s"}}]});
        assert_eq!(warnings(usual), Vec::<String>::new());
    }

    #[test]
    fn each_odd_input_is_named_with_what_is_done_about_it() {
        let repository = serde_json::json!({"repository": "https://charts.example.com", "name": "a",
            "version": "1.0.0"});
        let both = serde_json::json!({"repository": "https://charts.example.com", "name": "a",
            "version": "1.0.0", "git": "https://git.example.com/a", "path": "."});
        let cases = [
            (
                serde_json::json!({"chart": both}),
                "git is used, repository is not",
            ),
            (
                serde_json::json!({"chart": repository, "maxHistory": -1}),
                "spec.maxHistory is -1: all revisions",
            ),
            (
                serde_json::json!({"chart": repository, "timeout": 0}),
                "spec.timeout is 0: 300 seconds",
            ),
            (
                serde_json::json!({"chart": repository, "rollback": {"maxRetries": -1}}),
                "never retried",
            ),
            (
                serde_json::json!({"chart": repository, "valuesFrom": [{}]}),
                "valuesFrom[0] names no source",
            ),
            (
                serde_json::json!({"chart": repository, "valuesFrom": [
                    {"configMapKeyRef": {"name": "c"}, "secretKeyRef": {"name": "s"}}]}),
                "valuesFrom[0] names more than one source",
            ),
            (
                serde_json::json!({"chart": repository, "values": [1]}),
                "spec.values is no map",
            ),
            (
                serde_json::json!({"chart": repository, "suspend": true}),
                "spec.suspend had no effect",
            ),
            (
                serde_json::json!({"chart": repository, "driftDetection": {"ignore": [
                    {"paths": ["/a"]}, {"paths": ["/a"], "target": {"labelSelector": "a b"}}]}}),
                "ignore[1]: label selector has no meaning at \"a b\"",
            ),
            (
                serde_json::json!({"chart": repository, "driftDetection": {"ignore": [{"paths": ["a"]}]}}),
                "ignore[0]: path \"a\" is no JSON pointer",
            ),
            (
                serde_json::json!({"chart": repository, "skipCRDs": true, "crds": "Create"}),
                "spec.crds has no effect",
            ),
        ];
        for (spec, expected) in cases {
            let found = warnings(spec.clone());
            assert!(
                found.len() == 1 && found[0].contains(expected),
                "{spec}: {found:?}"
            );
        }
    }
}

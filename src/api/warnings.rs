//! Input that is odd and accepted: what is done with it, in words for one Warning Event.

use kube::ResourceExt;

use super::spec::{HelmRelease, HelmReleaseSpec};

/// Everything odd about a HelmRelease, one sentence each. Empty for most.
#[must_use]
pub fn odd_input(release: &HelmRelease) -> Vec<String> {
    let mut warnings = Vec::new();
    chart_warnings(&release.spec, &mut warnings);
    number_warnings(&release.spec, &mut warnings);
    values_warnings(&release.spec, &mut warnings);
    field_warnings(&release.spec, &mut warnings);
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
    let limit = spec.retry.as_ref().and_then(|retry| retry.limit);
    note(
        "retry.limit",
        limit,
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

/// Fields that 1.4 dropped in silence, and pairs that exclude each other.
fn field_warnings(spec: &HelmReleaseSpec, warnings: &mut Vec<String>) {
    if spec.skip_crds == Some(true)
        && spec
            .crds
            .is_some_and(|policy| policy != super::CrdPolicy::Skip)
    {
        warnings.push("spec.skipCRDs is true: spec.crds has no effect".to_owned());
    }
    let has_target_path = spec
        .values_from
        .iter()
        .flatten()
        .any(|entry| entry.target_path.is_some());
    let added = [
        ("suspend", spec.suspend.is_some()),
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
        odd_input(&HelmRelease::new(
            "web",
            serde_json::from_value(spec).unwrap(),
        ))
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
                serde_json::json!({"chart": repository, "suspend": false}),
                "spec.suspend had no effect",
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

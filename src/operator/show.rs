//! The status of a HelmRelease in the metrics.

use std::collections::HashSet;

use super::context::Context;
use crate::api::{ConditionStatus, HelmReleaseStatus, NamespacedName};
use crate::telemetry::ReleaseInfo;

/// Shows the conditions and what is deployed; what is no more so is no more shown.
pub(super) fn show(
    context: &Context,
    key: &NamespacedName,
    target: &NamespacedName,
    status: &HelmReleaseStatus,
) {
    let info = info_of(status);
    let conditions: HashSet<String> = status
        .conditions
        .iter()
        .flatten()
        .map(|c| c.condition_type.clone())
        .collect();
    let (old_info, old_conditions, old_target) = context.remember(key, |memory| {
        (
            memory.info.replace(info.clone()),
            std::mem::replace(&mut memory.conditions, conditions.clone()),
            memory.target.replace(target.clone()),
        )
    });
    if let Some(old) = old_target.filter(|old| old != target) {
        // The release has another name now: its old series would stay for ever.
        context
            .metrics
            .forget(key, &old, None, old_conditions.iter().map(String::as_str));
    }
    for gone in old_conditions.difference(&conditions) {
        context.metrics.remove_condition(target, gone);
    }
    for condition in status.conditions.iter().flatten() {
        context
            .metrics
            .set_condition(target, &condition.condition_type, condition.status);
    }
    context.metrics.set_info(key, old_info.as_ref(), &info);
}

/// Drops the series of a HelmRelease that is gone.
pub(super) fn hide(context: &Context, key: &NamespacedName) {
    let memory = {
        let mut all = context
            .memory
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.remove(key)
    };
    let Some(memory) = memory else { return };
    if let Some(target) = &memory.target {
        let conditions = memory.conditions.iter().map(String::as_str);
        context
            .metrics
            .forget(key, target, memory.info.as_ref(), conditions);
    }
}

fn info_of(status: &HelmReleaseStatus) -> ReleaseInfo {
    let ready = status.condition("Ready");
    let chart = status.chart.as_deref().unwrap_or_default();
    let (chart, version) = split_chart(chart);
    ReleaseInfo {
        chart: chart.to_owned(),
        version: version.to_owned(),
        revision: status.revision.clone().unwrap_or_default(),
        ready: format!(
            "{:?}",
            ready.map_or(ConditionStatus::Unknown, |ready| ready.status)
        ),
        reason: ready
            .and_then(|ready| ready.reason.clone())
            .unwrap_or_default(),
    }
}

/// `hello-world-1.2.3-rc.1` → `hello-world`, `1.2.3-rc.1`: the version begins at the first part that is a
/// number with dots.
fn split_chart(chart: &str) -> (&str, &str) {
    let starts = chart.match_indices('-').map(|(at, _)| at);
    for at in starts {
        let version = chart.get(at + 1..).unwrap_or_default();
        if semver::Version::parse(version.trim_start_matches('v')).is_ok() {
            return (chart.get(..at).unwrap_or_default(), version);
        }
    }
    (chart, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_and_version_are_told_apart() {
        let cases = [
            ("hello-1.2.3", ("hello", "1.2.3")),
            ("hello-world-1.2.3-rc.1", ("hello-world", "1.2.3-rc.1")),
            ("kube-2048-v0.1.0", ("kube-2048", "v0.1.0")),
            ("hello", ("hello", "")),
            ("", ("", "")),
        ];
        for (chart, expected) in cases {
            assert_eq!(split_chart(chart), expected);
        }
    }
}

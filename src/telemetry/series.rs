//! The series of each release, kept small: a fleet has thousands of releases, and each has dozens of
//! series. They become text only when they are scraped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::actions::Action;
use crate::api::{ConditionStatus, HelmReleaseStatus, NamespacedName};

/// 1.4's buckets, for all its histograms.
const BUCKETS: [f64; 10] = [
    1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0,
];

/// What is shown of a HelmRelease.
#[derive(Debug)]
struct Shown {
    /// The Helm release.
    target: NamespacedName,
    story: Arc<Story>,
}

/// How a release is. Most of those that are made of one chart are alike.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Story {
    conditions: Box<[(Box<str>, i8)]>,
    chart: Box<str>,
    version: Box<str>,
    revision: Box<str>,
    ready: ConditionStatus,
    reason: Box<str>,
    drifted: bool,
}

impl Story {
    fn of(status: &HelmReleaseStatus) -> Self {
        let conditions = status.conditions.iter().flatten();
        let conditions = conditions.map(|condition| {
            let name = condition.condition_type.as_str();
            (name.into(), condition.status.gauge())
        });
        let ready = status.condition("Ready");
        let reason = ready.and_then(|ready| ready.reason.as_deref());
        let (chart, version) = split_chart(status.chart.as_deref().unwrap_or_default());
        Self {
            conditions: conditions.collect(),
            chart: chart.into(),
            version: version.into(),
            revision: status.revision.as_deref().unwrap_or_default().into(),
            ready: ready.map_or(ConditionStatus::Unknown, |ready| ready.status),
            reason: reason.unwrap_or_default().into(),
            drifted: status.has_drifted(),
        }
    }
}

/// One histogram: how often and how long.
#[derive(Clone, Debug, Default)]
struct Durations {
    sum: f64,
    /// One for each bucket, and one for what is longer.
    counts: [u32; BUCKETS.len() + 1],
}

#[derive(Debug, Default)]
struct Inner {
    shown: HashMap<NamespacedName, Shown>,
    durations: BTreeMap<(NamespacedName, Action, bool), Box<Durations>>,
    /// Each story once.
    stories: HashSet<Arc<Story>>,
}

impl Inner {
    fn share(&mut self, story: Story) -> Arc<Story> {
        if let Some(known) = self.stories.get(&story) {
            return Arc::clone(known);
        }
        let story = Arc::new(story);
        self.stories.insert(Arc::clone(&story));
        story
    }

    /// Drops what only the set itself still knows.
    fn tidy(&mut self) {
        self.stories.retain(|story| Arc::strong_count(story) > 1);
    }
}

/// The series of all releases.
#[derive(Debug, Default)]
pub(super) struct Series(Mutex<Inner>);

impl Series {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An action on a Helm release took so long.
    pub(super) fn observe(
        &self,
        action: Action,
        release: &NamespacedName,
        success: bool,
        took: Duration,
    ) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BUCKETS.len());
        let mut inner = self.lock();
        let durations = inner
            .durations
            .entry((release.clone(), action, success))
            .or_default();
        durations.sum += seconds;
        if let Some(count) = durations.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
    }

    /// Shows the status of a HelmRelease whose Helm release is `target`, instead of what was shown before.
    pub(super) fn show(
        &self,
        object: &NamespacedName,
        target: &NamespacedName,
        status: &HelmReleaseStatus,
    ) {
        let story = Story::of(status);
        let mut inner = self.lock();
        let shown = Shown {
            target: target.clone(),
            story: inner.share(story),
        };
        let old = inner.shown.insert(object.clone(), shown);
        if inner.stories.len() > 2 * inner.shown.len() {
            inner.tidy();
        }
        if let Some(old) = old.filter(|old| old.target != *target) {
            forget_durations(&mut inner, &old.target);
        }
    }

    /// Drops every series of a HelmRelease that is gone.
    pub(super) fn forget(&self, object: &NamespacedName) {
        let mut inner = self.lock();
        if let Some(shown) = inner.shown.remove(object) {
            forget_durations(&mut inner, &shown.target);
        }
        inner.tidy();
    }
}

fn forget_durations(inner: &mut Inner, target: &NamespacedName) {
    for action in Action::ALL {
        for success in [true, false] {
            inner.durations.remove(&(target.clone(), action, success));
        }
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

/// The names and labels of one of 1.4's histograms.
struct Histogram {
    name: &'static str,
    help: &'static str,
    /// Whether it has an action as a label, and which ones it counts.
    with_action: bool,
    counts: fn(Action) -> bool,
    namespace: &'static str,
}

const HISTOGRAMS: [Histogram; 3] = [
    Histogram {
        name: "flux_helm_operator_release_action_duration_seconds",
        help: "Duration of release sync actions in seconds",
        with_action: true,
        counts: |_| true,
        namespace: "target_namespace",
    },
    Histogram {
        name: "flux_helm_operator_release_duration_seconds",
        help: "Duration of release syncs in seconds (deprecated)",
        with_action: false,
        counts: |action| matches!(action, Action::Sync),
        namespace: "namespace",
    },
    Histogram {
        name: "flux_helm_operator_release_phase_duration_seconds",
        help: "Duration of release sync phases in seconds (deprecated)",
        with_action: true,
        counts: |action| !matches!(action, Action::Sync),
        namespace: "namespace",
    },
];

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let inner = self.lock();
        for histogram in &HISTOGRAMS {
            encode_histogram(&inner, histogram, &mut encoder)?;
        }
        encode_conditions(&inner, &mut encoder)?;
        encode_drift(&inner, &mut encoder)?;
        encode_info(&inner, &mut encoder)
    }
}

fn encode_histogram(
    inner: &Inner,
    histogram: &Histogram,
    encoder: &mut DescriptorEncoder,
) -> Result<(), fmt::Error> {
    let Histogram { name, help, .. } = histogram;
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let counted = inner
        .durations
        .iter()
        .filter(|((_, action, _), _)| (histogram.counts)(*action));
    for ((release, action, success), durations) in counted {
        let success = if *success { "true" } else { "false" };
        let mut labels = vec![
            ("success", success),
            (histogram.namespace, &*release.namespace),
            ("release_name", &*release.name),
        ];
        if histogram.with_action {
            labels.insert(0, ("action", action.label()));
        }
        let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds
            .zip(durations.counts.iter().map(|count| u64::from(*count)))
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(durations.sum, count, &buckets, None)?;
    }
    Ok(())
}

fn encode_conditions(inner: &Inner, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
    let name = "flux_helm_operator_release_condition_info";
    let help = "Status of release conditions: -1 False, 0 Unknown, 1 True";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for shown in inner.shown.values() {
        for (condition, value) in &shown.story.conditions {
            let labels = [
                ("target_namespace", &*shown.target.namespace),
                ("release_name", &*shown.target.name),
                ("condition", &**condition),
            ];
            ConstGauge::new(i64::from(*value)).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_drift(inner: &Inner, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
    let name = "helm_operator_release_drifted";
    let help = "Whether live objects were found to differ from their HelmRelease: 1 or 0";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (object, shown) in &inner.shown {
        let labels = [("namespace", &*object.namespace), ("name", &*object.name)];
        let drifted = ConstGauge::new(i64::from(shown.story.drifted));
        drifted.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_info(inner: &Inner, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
    let name = "helm_operator_release_info";
    let help = "What is deployed for each HelmRelease; always 1";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (object, shown) in &inner.shown {
        let labels = [
            ("namespace", &*object.namespace),
            ("name", &*object.name),
            ("chart", &*shown.story.chart),
            ("version", &*shown.story.version),
            ("revision", &*shown.story.revision),
            ("ready", shown.story.ready.as_str()),
            ("reason", &*shown.story.reason),
        ];
        ConstGauge::new(1_i64).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
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

    #[test]
    fn what_many_releases_have_in_common_is_kept_once_and_as_long_as_one_has_it() {
        let series = Series::default();
        let key = |number: u32| NamespacedName::new("demo", format!("r{number}"));
        let status = |ready: &str| -> HelmReleaseStatus {
            serde_json::from_value(serde_json::json!({
                "chart": "hello-1.0.0", "revision": "abc",
                "conditions": [{"type": "Ready", "status": ready, "reason": "UpToDate"}]
            }))
            .unwrap()
        };
        for number in 0..20 {
            for ready in ["Unknown", "False", "True"] {
                series.show(&key(number), &key(number), &status(ready));
            }
        }
        series.show(&key(0), &key(0), &status("False"));
        series.forget(&key(1));
        assert_eq!(series.lock().stories.len(), 2);
        (0..20).for_each(|number| series.forget(&key(number)));
        assert!(series.lock().stories.is_empty());
    }
}

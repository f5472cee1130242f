//! How long actions take: 1.4's histograms, and totals per action.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Metrics;
use crate::api::NamespacedName;

/// What is timed; the labels are 1.4's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A whole reconciliation.
    Sync,
    /// An install.
    Install,
    /// An upgrade.
    Upgrade,
    /// A rollback.
    Rollback,
    /// An uninstall.
    Uninstall,
    /// A comparison of a release that we did not record with what is wanted.
    DryRunCompare,
    /// Writing the antecedent annotation; it is part of every apply here, and never timed alone.
    Annotate,
    /// The tests of a chart.
    Test,
    /// A migration from Helm 2; never done.
    Migrate,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Sync,
        Self::Install,
        Self::Upgrade,
        Self::Rollback,
        Self::Uninstall,
        Self::DryRunCompare,
        Self::Annotate,
        Self::Test,
        Self::Migrate,
    ];

    /// The value of the label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Uninstall => "uninstall",
            Self::DryRunCompare => "dry-run-compare",
            Self::Annotate => "annotate",
            Self::Test => "test",
            Self::Migrate => "migrate",
        }
    }
}

/// Times one action. Dropped without [`ActionTimer::succeeded`], it counts as failed.
#[must_use]
#[derive(Debug)]
pub struct ActionTimer<'a> {
    metrics: &'a Metrics,
    action: Action,
    release: NamespacedName,
    started: Instant,
    success: bool,
}

impl<'a> ActionTimer<'a> {
    pub(super) fn start(metrics: &'a Metrics, action: Action, release: NamespacedName) -> Self {
        Self {
            metrics,
            action,
            release,
            started: Instant::now(),
            success: false,
        }
    }

    /// The action went well.
    pub fn succeeded(mut self) {
        self.success = true;
    }

    /// The action ended so.
    pub fn ended(mut self, success: bool) {
        self.success = success;
    }
}

impl Drop for ActionTimer<'_> {
    fn drop(&mut self) {
        self.metrics.record_action(
            self.action,
            &self.release,
            self.success,
            self.started.elapsed(),
        );
    }
}

/// Totals per action over all releases: count, succeeded, failed, and the shortest, mean and longest
/// duration.
#[derive(Default)]
pub(super) struct Totals(Mutex<BTreeMap<Action, Total>>);

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    succeeded: u64,
    failed: u64,
    sum: Duration,
    shortest: Duration,
    longest: Duration,
}

impl Total {
    fn count(self) -> u64 {
        self.succeeded + self.failed
    }

    fn mean(self) -> f64 {
        // Counts this large would need centuries to lose a digit.
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let count = self.count() as f64;
        if count > 0.0 {
            self.sum.as_secs_f64() / count
        } else {
            0.0
        }
    }
}

impl Totals {
    pub(super) fn add(&self, action: Action, success: bool, took: Duration) {
        let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total = totals.entry(action).or_default();
        let first = total.count() == 0;
        *(if success {
            &mut total.succeeded
        } else {
            &mut total.failed
        }) += 1;
        total.sum += took;
        total.shortest = if first {
            took
        } else {
            total.shortest.min(took)
        };
        total.longest = total.longest.max(took);
    }

    fn snapshot(&self) -> BTreeMap<Action, Total> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Totals").field(&self.snapshot()).finish()
    }
}

impl Collector for Totals {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let totals = self.snapshot();
        let mut counts = encoder.encode_descriptor(
            "helm_operator_actions",
            "Actions that ended, by outcome.",
            None,
            prometheus_client::metrics::MetricType::Counter,
        )?;
        for (action, total) in &totals {
            for (outcome, count) in [("succeeded", total.succeeded), ("failed", total.failed)] {
                let labels = [("action", action.label()), ("outcome", outcome)];
                ConstCounter::new(count).encode(counts.encode_family(&labels)?)?;
            }
        }
        type Row = (&'static str, &'static str, fn(Total) -> f64);
        let durations: [Row; 3] = [
            (
                "helm_operator_action_duration_min_seconds",
                "Shortest",
                |total| total.shortest.as_secs_f64(),
            ),
            (
                "helm_operator_action_duration_mean_seconds",
                "Mean",
                Total::mean,
            ),
            (
                "helm_operator_action_duration_max_seconds",
                "Longest",
                |total| total.longest.as_secs_f64(),
            ),
        ];
        for (name, help, value) in durations {
            let mut gauge = encoder.encode_descriptor(
                name,
                &format!("{help} duration of an action since the start."),
                None,
                prometheus_client::metrics::MetricType::Gauge,
            )?;
            for (action, total) in &totals {
                let labels = [("action", action.label())];
                ConstGauge::new(value(*total)).encode(gauge.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

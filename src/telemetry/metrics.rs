//! Every metric of 1.4, those that operator dashboards look for, and our own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::actions::{Action, ActionTimer, Totals};
use super::process::Process;
use super::series::Series;
use crate::api::{HelmReleaseStatus, NamespacedName};

/// The usual buckets of reconcile times and queue waits.
const FINE_BUCKETS: [f64; 14] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// The value of `controller` and `name` labels.
const CONTROLLER: &str = "helmrelease";

/// Names and values of labels. The names are fixed for each family.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Labels(Vec<(&'static str, String)>);

impl Labels {
    fn new<const N: usize>(pairs: [(&'static str, &str); N]) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
        )
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), fmt::Error> {
        use prometheus_client::encoding::{EncodeLabelKey, EncodeLabelValue};
        for (name, value) in &self.0 {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            EncodeLabelKey::encode(name, &mut key)?;
            let mut encoder: LabelValueEncoder<'_> = key.encode_label_value()?;
            EncodeLabelValue::encode(value, &mut encoder)?;
            encoder.finish()?;
        }
        Ok(())
    }
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;
type Gauges = Family<Labels, Gauge>;
type FloatGauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// What is told of one git mirror.
#[derive(Clone, Debug, Default)]
pub struct MirrorMetrics {
    /// The remote, without credentials.
    pub url: String,
    /// Whether the last exchange went well.
    pub ready: bool,
    /// How long the last exchange took.
    pub fetch_seconds: f64,
    /// Seconds since the remote last answered.
    pub age_seconds: f64,
    /// Requests since the start.
    pub requests: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

/// All metrics. Cloning gives another handle to the same numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    totals: Arc<Totals>,
    series: Arc<Series>,
    release_count: Gauge,
    queue_length: Gauge,
    git_ready: Gauge,
    reconciles: Counters,
    reconcile_errors: Counters,
    reconcile_seconds: Histograms,
    active_workers: Gauges,
    queue_depth: Gauges,
    queue_retries: Counters,
    queue_seconds: Histograms,
    mirror_gauges: FloatGauges,
    mirror_age: FloatGauges,
    mirror_ready: Gauges,
    mirror_requests: Gauges,
    mirror_received: Gauges,
    cache_bytes: Gauges,
    leader: Gauges,
    reviews: Counters,
    webhook_certificate: Gauges,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn fine() -> Histogram {
    Histogram::new(FINE_BUCKETS)
}

fn histograms(make: fn() -> Histogram) -> Histograms {
    Family::new_with_constructor(make)
}

impl Metrics {
    /// Fresh metrics, all registered.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            totals: Arc::default(),
            series: Arc::default(),
            release_count: Gauge::default(),
            queue_length: Gauge::default(),
            git_ready: Gauge::default(),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_seconds: histograms(fine),
            active_workers: Family::default(),
            queue_depth: Family::default(),
            queue_retries: Family::default(),
            queue_seconds: histograms(fine),
            mirror_gauges: Family::default(),
            mirror_age: Family::default(),
            mirror_ready: Family::default(),
            mirror_requests: Family::default(),
            mirror_received: Family::default(),
            cache_bytes: Family::default(),
            leader: Family::default(),
            reviews: Family::default(),
            webhook_certificate: Family::default(),
        };
        let mut registry = Registry::default();
        metrics.register_1_4(&mut registry);
        metrics.register_controller(&mut registry);
        metrics.register_own(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// The names of 1.4, unsuffixed: its dashboard and alerts ask for exactly these.
    fn register_1_4(&self, registry: &mut Registry) {
        registry.register(
            "flux_helm_operator_release_count",
            "Count of releases managed by the operator",
            self.release_count.clone(),
        );
        registry.register(
            "flux_helm_operator_release_queue_length_count",
            "Count of release jobs waiting in the queue to be processed",
            self.queue_length.clone(),
        );
        registry.register(
            "flux_git_ready",
            "Whether the git mirrors are ready: 1 when all of them are",
            self.git_ready.clone(),
        );
    }

    /// What the usual operator dashboards look for.
    fn register_controller(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_reconcile",
            "Reconciliations per controller, by result",
            self.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciliations per controller that failed",
            self.reconcile_errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation",
            self.reconcile_seconds.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Workers that are busy",
            self.active_workers.clone(),
        );
        registry.register(
            "workqueue_depth",
            "Current depth of the queue",
            self.queue_depth.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Retries handled by the queue",
            self.queue_retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long an item stays in the queue before it is worked on",
            self.queue_seconds.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "Whether this process is the leader: 1 or 0",
            self.leader.clone(),
        );
    }

    fn register_own(&self, registry: &mut Registry) {
        registry.register(
            "helm_operator_git_fetch_seconds",
            "Duration of the last exchange with a git remote",
            self.mirror_gauges.clone(),
        );
        registry.register(
            "helm_operator_git_mirror_age_seconds",
            "Time since a git remote last answered",
            self.mirror_age.clone(),
        );
        registry.register(
            "helm_operator_git_mirror_ready",
            "Whether the last exchange with a git remote went well: 1 or 0",
            self.mirror_ready.clone(),
        );
        registry.register(
            "helm_operator_git_requests",
            "Requests to a git remote since the start",
            self.mirror_requests.clone(),
        );
        registry.register(
            "helm_operator_git_received_bytes",
            "Bytes received from a git remote since the start",
            self.mirror_received.clone(),
        );
        registry.register(
            "helm_operator_cache_bytes",
            "Bytes on disk, by cache",
            self.cache_bytes.clone(),
        );
        registry.register(
            "helm_operator_webhook_reviews",
            "HelmReleases that the validating webhook was asked about, by answer",
            self.reviews.clone(),
        );
        registry.register(
            "helm_operator_webhook_certificate_not_after_timestamp_seconds",
            "When the certificate of the validating webhook ends",
            self.webhook_certificate.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&self.series)));
        registry.register_collector(Box::new(Arc::clone(&self.totals)));
        registry.register_collector(Box::new(Process::new()));
    }

    /// The metrics in the text format of OpenMetrics, which is also read as the older text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        encode(&mut text, &self.registry).ok();
        text
    }

    /// Starts timing an action on a Helm release.
    pub fn time(&self, action: Action, release: NamespacedName) -> ActionTimer<'_> {
        ActionTimer::start(self, action, release)
    }

    pub(super) fn record_action(
        &self,
        action: Action,
        release: &NamespacedName,
        success: bool,
        took: Duration,
    ) {
        self.totals.add(action, success, took);
        self.series.observe(action, release, success, took);
    }

    /// Shows the status of a HelmRelease whose Helm release is `target`, instead of what was shown before.
    pub fn show(
        &self,
        object: &NamespacedName,
        target: &NamespacedName,
        status: &HelmReleaseStatus,
    ) {
        self.series.show(object, target, status);
    }

    /// Drops every series of a HelmRelease that is gone.
    pub fn forget(&self, object: &NamespacedName) {
        self.series.forget(object);
    }

    /// How many HelmReleases there are.
    pub fn set_release_count(&self, count: usize) {
        self.release_count
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// How many keys wait in the queue.
    pub fn set_queue_length(&self, length: usize) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        self.queue_length.set(length);
        self.queue_depth
            .get_or_create(&Labels::new([("name", CONTROLLER)]))
            .set(length);
    }

    /// A key was put back after a failure.
    pub fn count_retry(&self) {
        self.queue_retries
            .get_or_create(&Labels::new([("name", CONTROLLER)]))
            .inc();
    }

    /// A key waited this long in the queue.
    pub fn observe_queue_wait(&self, waited: Duration) {
        let labels = Labels::new([("name", CONTROLLER)]);
        self.queue_seconds
            .get_or_create(&labels)
            .observe(waited.as_secs_f64());
    }

    /// A reconciliation ended: `result` is `success`, `error`, `requeue` or `requeue_after`.
    pub fn observe_reconcile(&self, result: &str, took: Duration) {
        let controller = Labels::new([("controller", CONTROLLER)]);
        let labels = Labels::new([("controller", CONTROLLER), ("result", result)]);
        self.reconciles.get_or_create(&labels).inc();
        self.reconcile_seconds
            .get_or_create(&controller)
            .observe(took.as_secs_f64());
        if result == "error" {
            self.reconcile_errors.get_or_create(&controller).inc();
        }
    }

    /// How many workers are busy.
    pub fn set_active_workers(&self, count: usize) {
        let labels = Labels::new([("controller", CONTROLLER)]);
        self.active_workers
            .get_or_create(&labels)
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.leader
            .get_or_create(&Labels::new([("name", "helm-operator")]))
            .set(leads.into());
    }

    /// The webhook was asked about a HelmRelease.
    pub fn count_review(&self, allowed: bool) {
        let answer = if allowed { "allowed" } else { "refused" };
        self.reviews
            .get_or_create(&Labels::new([("answer", answer)]))
            .inc();
    }

    /// When the certificate of the webhook ends, in seconds since 1970.
    pub fn set_webhook_certificate(&self, not_after: i64) {
        self.webhook_certificate
            .get_or_create(&Labels::new([]))
            .set(not_after);
    }

    /// Shows the git mirrors, and drops the series of those that are gone.
    pub fn set_mirrors(&self, mirrors: &[MirrorMetrics]) {
        let families = [
            &self.mirror_ready,
            &self.mirror_requests,
            &self.mirror_received,
        ];
        families.iter().for_each(|family| family.clear());
        [&self.mirror_gauges, &self.mirror_age]
            .iter()
            .for_each(|family| family.clear());
        for (url, mirror) in by_url(mirrors) {
            let labels = Labels::new([("url", url)]);
            self.mirror_ready
                .get_or_create(&labels)
                .set(mirror.ready.into());
            self.mirror_gauges
                .get_or_create(&labels)
                .set(mirror.fetch_seconds);
            self.mirror_age
                .get_or_create(&labels)
                .set(mirror.age_seconds);
            self.mirror_requests
                .get_or_create(&labels)
                .set(bounded(mirror.requests));
            self.mirror_received
                .get_or_create(&labels)
                .set(bounded(mirror.received_bytes));
        }
        self.git_ready
            .set(mirrors.iter().all(|mirror| mirror.ready).into());
        self.set_cache_bytes("git", mirrors.iter().map(|mirror| mirror.disk_bytes).sum());
    }

    /// How many bytes a cache has on disk.
    pub fn set_cache_bytes(&self, cache: &str, bytes: u64) {
        self.cache_bytes
            .get_or_create(&Labels::new([("kind", cache)]))
            .set(bounded(bytes));
    }
}

/// Mirrors of one remote with different credentials as one: the sum of what they cost, the worst of how they are.
fn by_url(mirrors: &[MirrorMetrics]) -> BTreeMap<&str, MirrorMetrics> {
    let mut merged: BTreeMap<&str, MirrorMetrics> = BTreeMap::new();
    for mirror in mirrors {
        let Some(known) = merged.get_mut(mirror.url.as_str()) else {
            merged.insert(&mirror.url, mirror.clone());
            continue;
        };
        known.ready &= mirror.ready;
        known.fetch_seconds = known.fetch_seconds.max(mirror.fetch_seconds);
        // One that was never answered has a negative age.
        known.age_seconds = match known.age_seconds.min(mirror.age_seconds) {
            least if least < 0.0 => least,
            _ => known.age_seconds.max(mirror.age_seconds),
        };
        known.requests += mirror.requests;
        known.received_bytes += mirror.received_bytes;
        known.disk_bytes += mirror.disk_bytes;
    }
    merged
}

fn bounded(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> NamespacedName {
        NamespacedName::new("apps", "web")
    }

    /// Every series of 1.4 as its dashboard and alerts write it.
    #[test]
    fn names_and_labels_of_1_4_come_out_unsuffixed() {
        let metrics = Metrics::new();
        metrics.set_release_count(3);
        metrics.set_queue_length(2);
        metrics.show(
            &NamespacedName::new("demo", "web-object"),
            &release(),
            &status("Released", "False"),
        );
        metrics.time(Action::Sync, release()).succeeded();
        drop(metrics.time(Action::Upgrade, release()));
        let text = metrics.text();
        for line in [
            "flux_helm_operator_release_count 3\n",
            "flux_helm_operator_release_queue_length_count 2\n",
            "flux_helm_operator_release_condition_info{target_namespace=\"apps\",release_name=\"web\",condition=\"Released\"} -1\n",
            "flux_helm_operator_release_action_duration_seconds_count{action=\"sync\",success=\"true\",target_namespace=\"apps\",release_name=\"web\"} 1\n",
            "flux_helm_operator_release_action_duration_seconds_bucket{le=\"1800.0\",action=\"upgrade\",success=\"false\",target_namespace=\"apps\",release_name=\"web\"} 1\n",
            "flux_helm_operator_release_duration_seconds_count{success=\"true\",namespace=\"apps\",release_name=\"web\"} 1\n",
            "flux_helm_operator_release_phase_duration_seconds_count{action=\"upgrade\",success=\"false\",namespace=\"apps\",release_name=\"web\"} 1\n",
            "# TYPE flux_helm_operator_release_action_duration_seconds histogram\n",
            "flux_git_ready ",
            "workqueue_depth{name=\"helmrelease\"} 2\n",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn operator_dashboards_find_their_series() {
        let metrics = Metrics::new();
        metrics.observe_reconcile("success", Duration::from_millis(3));
        metrics.observe_reconcile("error", Duration::from_millis(3));
        metrics.count_retry();
        metrics.observe_queue_wait(Duration::from_millis(1));
        metrics.time(Action::Install, release()).succeeded();
        let text = metrics.text();
        for line in [
            "controller_runtime_reconcile_total{controller=\"helmrelease\",result=\"success\"} 1\n",
            "controller_runtime_reconcile_errors_total{controller=\"helmrelease\"} 1\n",
            "controller_runtime_reconcile_time_seconds_count{controller=\"helmrelease\"} 2\n",
            "workqueue_retries_total{name=\"helmrelease\"} 1\n",
            "workqueue_queue_duration_seconds_count{name=\"helmrelease\"} 1\n",
            "helm_operator_actions_total{action=\"install\",outcome=\"succeeded\"} 1\n",
            "helm_operator_action_duration_max_seconds{action=\"install\"} ",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }

    fn status(condition: &str, status: &str) -> HelmReleaseStatus {
        let conditions = serde_json::json!([{"type": condition, "status": status}]);
        serde_json::from_value(
            serde_json::json!({"chart": "hello-1.0.0", "conditions": conditions}),
        )
        .unwrap()
    }

    #[test]
    fn the_series_of_a_deleted_object_go_with_it() {
        let metrics = Metrics::new();
        let object = NamespacedName::new("demo", "web-object");
        for action in Action::ALL {
            metrics.time(action, release()).succeeded();
        }
        metrics.show(&object, &release(), &status("Reconciling", "True"));
        metrics.show(&object, &release(), &status("Ready", "True"));
        let text = metrics.text();
        assert_eq!(text.matches("web-object").count(), 2);
        assert!(
            text.contains(
                "helm_operator_release_drifted{namespace=\"demo\",name=\"web-object\"} 0\n"
            ),
            "{text}"
        );
        assert!(text.contains("helm_operator_release_info{namespace=\"demo\",name=\"web-object\",chart=\"hello\",version=\"1.0.0\",revision=\"\",ready=\"True\",reason=\"\"} 1\n"), "{text}");
        assert!(!text.contains("Reconciling"));
        metrics.forget(&object);
        let text = metrics.text();
        assert!(
            !text.contains("\"web\"") && !text.contains("web-object"),
            "{text}"
        );
    }

    #[test]
    fn a_release_that_is_renamed_leaves_no_series_of_its_old_name() {
        let metrics = Metrics::new();
        let object = NamespacedName::new("demo", "web-object");
        metrics.time(Action::Install, release()).succeeded();
        metrics.show(&object, &release(), &status("Ready", "True"));
        metrics.show(
            &object,
            &NamespacedName::new("apps", "other"),
            &status("Ready", "True"),
        );
        assert!(!metrics.text().contains("\"web\""));
    }

    #[test]
    fn mirrors_of_one_remote_are_one_series_that_shows_the_worst() {
        let metrics = Metrics::new();
        let mirror = |ready, age_seconds| MirrorMetrics {
            url: "https://git.example.com/a".into(),
            ready,
            age_seconds,
            requests: 2,
            ..Default::default()
        };
        metrics.set_mirrors(&[mirror(true, 10.0), mirror(false, 5.0)]);
        let text = metrics.text();
        for line in [
            "git_mirror_ready{url=\"https://git.example.com/a\"} 0\n",
            "git_mirror_age_seconds{url=\"https://git.example.com/a\"} 10.0\n",
            "git_requests{url=\"https://git.example.com/a\"} 4\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        metrics.set_mirrors(&[mirror(true, 10.0), mirror(true, -1.0)]);
        assert!(metrics.text().contains("a\"} -1.0\n"));
    }

    #[test]
    fn mirrors_that_are_gone_are_not_shown() {
        let metrics = Metrics::new();
        let mirror = MirrorMetrics {
            url: "https://git.example.com/a".into(),
            ..Default::default()
        };
        metrics.set_mirrors(&[mirror]);
        assert!(metrics.text().contains("flux_git_ready 0\n"));
        metrics.set_mirrors(&[]);
        assert!(!metrics.text().contains("git.example.com"));
    }
}

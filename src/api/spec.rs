//! `HelmRelease` and its `spec`.

use std::time::Duration as StdDuration;

use helm_kube::{LabelSelector, SelectorError};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chart::ChartSource;
use super::duration::Duration;
use super::gates::{DependsOn, Gate};
use super::redact::InlineValues;
use super::status::HelmReleaseStatus;
use super::values::ValuesFrom;

/// What a release should be: a chart, values, and how to install and upgrade it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "helm.fluxcd.io",
    version = "v1",
    kind = "HelmRelease",
    plural = "helmreleases",
    singular = "helmrelease",
    shortname = "hr",
    shortname = "hrs",
    namespaced,
    status = "HelmReleaseStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "HelmRelease is a Helm release that is kept equal to a chart and values",
    printcolumn(
        name = "Release",
        type_ = "string",
        description = "Name of the Helm release, as the daemon sees it in the cluster.",
        json_path = ".status.releaseName"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        description = "What the last sync did, or is doing.",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "ReleaseStatus",
        type_ = "string",
        description = "Status of the newest revision of the Helm release.",
        json_path = ".status.releaseStatus"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        description = "Message of the Released condition.",
        json_path = ".status.conditions[?(@.type==\"Released\")].message"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        description = "Time since the HelmRelease was created.",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the release is deployed as the spec wants it.",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Chart",
        type_ = "string",
        description = "Name and version of the chart that is deployed.",
        json_path = ".status.chart",
        priority = "1"
    ),
    printcolumn(
        name = "Revision",
        type_ = "string",
        description = "Commit or chart version that is deployed.",
        json_path = ".status.revision",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.gates) || self.gates.all(gate, self.gates.exists_one(other, other.name == gate.name))"
).message("two gates have the same name; each needs a name of its own"))]
pub struct HelmReleaseSpec {
    /// Helm version of the release. Only `v3` is served; `v2` is accepted and fails at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_version: Option<HelmVersion>,
    /// Where the chart comes from.
    pub chart: ChartSource,
    /// Name of the Helm release; `<namespace>-<name>`, or `<namespace>-<targetNamespace>-<name>`, when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_name: Option<String>,
    /// Namespace of the Helm release and its records; that of the HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// Number of revisions to keep; 10 when absent, 0 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_history: Option<i64>,
    /// Seconds that an install, an upgrade or an uninstall may take; 300 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Wait until the objects are ready; when absent, wait if rollback or tests are enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// Forget the values of the previous release on upgrade; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_values: Option<bool>,
    /// Replace objects that cannot be updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_upgrade: Option<bool>,
    /// Do not install the objects of the chart's `crds/`.
    #[serde(rename = "skipCRDs", skip_serializing_if = "Option::is_none")]
    pub skip_crds: Option<bool>,
    /// Do not validate objects against the schema of the cluster.
    #[serde(
        rename = "disableOpenAPIValidation",
        skip_serializing_if = "Option::is_none"
    )]
    pub disable_open_api_validation: Option<bool>,
    /// Do not check the values against `values.schema.json` of the chart and of its subcharts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_schema_validation: Option<bool>,
    /// Deprecated: Secrets whose `values.yaml` is merged before `valuesFrom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_file_secrets: Option<Vec<LocalName>>,
    /// More sources of values, merged in order, the later one wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_from: Option<Vec<ValuesFrom>>,
    /// Values that win over all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<InlineValues>,
    /// What happens after a failed upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Whether and how the tests of the chart are run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,

    /// No sync while true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How often this release is verified in full, instead of `--charts-sync-interval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// HelmReleases that must be ready first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub depends_on: Option<Vec<DependsOn>>,
    /// Checks that must pass before an install or an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub gates: Option<Vec<Gate>>,
    /// Create `targetNamespace` if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_namespace: Option<bool>,
    /// ServiceAccount of the HelmRelease's namespace that every request for this release is made as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Deploy to the cluster of this kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigRef>,
    /// Whether the live objects are compared with the release; by default only inputs are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// What is done with the objects of the chart's `crds/`; `Create` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdPolicy>,
    /// What a failed action does next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What deletion does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
}

/// A Helm version of the 1.4 API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HelmVersion {
    /// Helm 2 with Tiller: accepted, not served.
    V2,
    /// Helm 3 and later.
    V3,
}

/// A named object of the HelmRelease's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalName {
    /// Name of the object.
    pub name: String,
}

/// What happens after a failed upgrade, or after failed tests of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Roll back; makes `wait` default to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Try the upgrade again after a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// How often it is tried again; 5 when absent, 0 is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i64>,
    /// Replace objects that cannot be updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Restart the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recreate: Option<bool>,
    /// Do not run rollback hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_hooks: Option<bool>,
    /// Seconds that the rollback may take; 300 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Wait until the objects are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

/// Whether and how the tests of the chart are run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// Run the tests after each install and upgrade; makes `wait` default to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// A failed test does not fail the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_failures: Option<bool>,
    /// Seconds that the tests may take; 300 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Helm 2 only: delete test pods. Later versions follow the delete policies of the hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<bool>,
}

/// Another cluster to deploy to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeConfigRef {
    /// The Secret that holds the kubeconfig.
    pub secret_ref: KubeConfigSecretRef,
}

/// A Secret of the HelmRelease's namespace with a kubeconfig; exec and auth-provider entries are
/// refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeConfigSecretRef {
    /// Name of the Secret.
    pub name: String,
    /// Key in its data; `value` or `value.yaml` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Whether the live objects are compared with the release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftDetection {
    /// `disabled` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
    /// What is no drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ignore: Option<Vec<DriftIgnore>>,
}

/// What is done about drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// As 1.4: only inputs are compared.
    #[default]
    Disabled,
    /// Drift is reported.
    Warn,
    /// Drift is reported and corrected.
    Enabled,
}

/// Paths that are no drift, on all objects or on those of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new(
    "self.paths.all(path, path.matches('^(/([^~/]|~[01])*)+$'))"
).message("one of the paths is no JSON pointer: write it as /spec/replicas"))]
pub struct DriftIgnore {
    /// JSON pointers.
    #[schemars(length(max = 64), inner(length(max = 512)))]
    pub paths: Vec<String>,
    /// The objects meant; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<DriftTarget>,
}

impl DriftIgnore {
    /// The labels of the objects meant.
    ///
    /// # Errors
    /// The selector has no meaning.
    pub fn selector(&self) -> Result<LabelSelector, SelectorError> {
        let target = self.target.as_ref();
        let selector = target.and_then(|target| target.label_selector.as_deref());
        selector.unwrap_or_default().parse()
    }
}

/// Selects objects; what is absent matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.labelSelector) || self.labelSelector.matches('^ *((!? *[A-Za-z0-9._/-]+|[A-Za-z0-9._/-]+ *(==|=|!=) *[A-Za-z0-9._/-]*|[A-Za-z0-9._/-]+ +(in|notin) *[(] *[A-Za-z0-9._/-]*( *, *[A-Za-z0-9._/-]*)* *[)]) *(, *|$))*$')"
).message("labelSelector has no meaning: write it as app=web,tier!=cache"))]
pub struct DriftTarget {
    /// API group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Label selector, such as `app=web,tier!=cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub label_selector: Option<String>,
}

/// What is done with the objects of the chart's `crds/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CrdPolicy {
    /// Nothing.
    Skip,
    /// Missing ones are created on install.
    #[default]
    Create,
    /// They are created and updated, never deleted.
    CreateReplace,
}

/// What a failed action does next. A transient failure never exhausts the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often the same inputs are tried again after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Pause before the first retry, doubled for each one after it; 5s when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
    /// Longest pause; 10m when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_backoff: Option<Duration>,
}

/// What deletion of the HelmRelease does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// Keep the records of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_history: Option<bool>,
    /// Wait until the objects are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// How long it may take; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Do not run delete hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_hooks: Option<bool>,
}

/// Seconds that an action may take when nothing else is said.
const DEFAULT_TIMEOUT: i64 = 300;
/// Revisions that are kept when nothing else is said.
const DEFAULT_MAX_HISTORY: i64 = 10;
/// Retries after a rollback when nothing else is said.
const DEFAULT_MAX_RETRIES: i64 = 5;

/// A timeout in seconds: the default when absent, zero or negative; a year at most.
fn seconds(timeout: Option<i64>) -> StdDuration {
    let seconds = timeout
        .filter(|seconds| *seconds > 0)
        .unwrap_or(DEFAULT_TIMEOUT);
    StdDuration::from_secs(seconds.unsigned_abs().min(366 * 24 * 3600))
}

impl HelmReleaseSpec {
    /// How long an install, an upgrade or an uninstall may take.
    #[must_use]
    pub fn timeout(&self) -> StdDuration {
        seconds(self.timeout)
    }

    /// How many revisions are kept; 0 keeps all. A negative number counts as 0.
    #[must_use]
    pub fn max_history(&self) -> usize {
        usize::try_from(self.max_history.unwrap_or(DEFAULT_MAX_HISTORY)).unwrap_or(0)
    }

    /// Whether to wait for readiness: as said, else if rollback or tests are enabled.
    #[must_use]
    pub fn wait(&self) -> bool {
        self.wait
            .unwrap_or_else(|| self.rollback().enable() || self.test().enable())
    }

    /// Whether the values of the previous release are forgotten on upgrade.
    #[must_use]
    pub fn reset_values(&self) -> bool {
        self.reset_values.unwrap_or(true)
    }

    /// What is no drift.
    #[must_use]
    pub fn drift_rules(&self) -> &[DriftIgnore] {
        let drift = self.drift_detection.as_ref();
        drift
            .and_then(|drift| drift.ignore.as_deref())
            .unwrap_or_default()
    }

    /// Whether nothing is to be synced.
    #[must_use]
    pub fn suspended(&self) -> bool {
        self.suspend.unwrap_or(false)
    }

    /// What happens after a failed upgrade.
    #[must_use]
    pub fn rollback(&self) -> Rollback {
        self.rollback.clone().unwrap_or_default()
    }

    /// Whether and how tests are run.
    #[must_use]
    pub fn test(&self) -> Test {
        self.test.clone().unwrap_or_default()
    }

    /// Whether the values are to be checked against the schemas of the chart: they are, when nothing is said.
    #[must_use]
    pub fn checks_schemas(&self) -> bool {
        self.disable_schema_validation != Some(true)
    }

    /// What is done with the objects of the chart's `crds/`: `skipCRDs` wins over `crds`.
    #[must_use]
    pub fn crd_policy(&self) -> CrdPolicy {
        if self.skip_crds == Some(true) {
            CrdPolicy::Skip
        } else {
            self.crds.unwrap_or_default()
        }
    }

    /// How often an action that failed by its inputs is tried again; `None` is never.
    #[must_use]
    pub fn retry_limit(&self) -> Option<i64> {
        self.retry.as_ref().and_then(|retry| retry.limit)
    }

    /// Whether and how drift is looked for.
    #[must_use]
    pub fn drift_mode(&self) -> DriftMode {
        self.drift_detection
            .as_ref()
            .and_then(|drift| drift.mode)
            .unwrap_or_default()
    }

    /// All value sources in merge order: the deprecated Secrets first, then `valuesFrom`.
    #[must_use]
    pub fn value_sources(&self) -> Vec<ValuesFrom> {
        let legacy = self
            .value_file_secrets
            .iter()
            .flatten()
            .map(|secret| ValuesFrom {
                secret_key_ref: Some(super::KeyRef {
                    name: secret.name.clone(),
                    ..Default::default()
                }),
                ..Default::default()
            });
        legacy
            .chain(self.values_from.iter().flatten().cloned())
            .collect()
    }
}

impl Rollback {
    /// Whether to roll back.
    #[must_use]
    pub fn enable(&self) -> bool {
        self.enable.unwrap_or(false)
    }

    /// How long the rollback may take.
    #[must_use]
    pub fn timeout(&self) -> StdDuration {
        seconds(self.timeout)
    }

    /// Whether, after `count` rollbacks, the same upgrade is tried again: 1.4's rule, which allows
    /// one retry more than `maxRetries` says.
    #[must_use]
    pub fn allows_retry(&self, count: i64) -> bool {
        let limit = self.max_retries.unwrap_or(DEFAULT_MAX_RETRIES);
        self.retry.unwrap_or(false) && (limit == 0 || count <= limit)
    }
}

impl Test {
    /// Whether tests are run.
    #[must_use]
    pub fn enable(&self) -> bool {
        self.enable.unwrap_or(false)
    }

    /// Whether a failed test is passed over.
    #[must_use]
    pub fn ignore_failures(&self) -> bool {
        self.ignore_failures.unwrap_or(false)
    }

    /// How long the tests may take.
    #[must_use]
    pub fn timeout(&self) -> StdDuration {
        seconds(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> HelmReleaseSpec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn absent_null_and_odd_fields_take_the_defaults_of_1_4() {
        let cases = [
            serde_json::json!({"chart": {}}),
            serde_json::json!({"chart": {}, "timeout": null, "maxHistory": null, "wait": null,
                "resetValues": null, "rollback": null, "test": {}, "valuesFrom": null, "values": null}),
            serde_json::json!({"chart": {}, "timeout": 0, "skipDepUpdate": true, "unknown": [1]}),
            serde_json::json!({"chart": {}, "timeout": -1}),
        ];
        for case in cases {
            let spec = spec(case);
            assert_eq!(spec.timeout(), StdDuration::from_secs(300));
            assert_eq!(spec.max_history(), 10);
            assert!(!spec.wait() && spec.reset_values() && !spec.suspended());
            assert_eq!(spec.rollback().timeout(), StdDuration::from_secs(300));
            assert_eq!(spec.crd_policy(), CrdPolicy::Create);
            assert_eq!(spec.drift_mode(), DriftMode::Disabled);
        }
        assert_eq!(
            spec(serde_json::json!({"chart": {}, "maxHistory": -1})).max_history(),
            0
        );
    }

    #[test]
    fn wait_follows_rollback_and_tests_unless_it_is_said() {
        let cases = [
            (
                serde_json::json!({"chart": {}, "rollback": {"enable": true}}),
                true,
            ),
            (
                serde_json::json!({"chart": {}, "test": {"enable": true}}),
                true,
            ),
            (
                serde_json::json!({"chart": {}, "wait": false, "test": {"enable": true}}),
                false,
            ),
            (serde_json::json!({"chart": {}, "wait": true}), true),
        ];
        for (json, waits) in cases {
            assert_eq!(spec(json.clone()).wait(), waits, "{json}");
        }
    }

    #[test]
    fn retries_after_rollbacks_are_counted_as_in_1_4() {
        let rollback = |retry, limit| Rollback {
            retry,
            max_retries: limit,
            ..Default::default()
        };
        assert!(!rollback(None, None).allows_retry(0));
        assert!(rollback(Some(true), None).allows_retry(5));
        assert!(!rollback(Some(true), None).allows_retry(6));
        assert!(rollback(Some(true), Some(0)).allows_retry(1_000));
        assert!(rollback(Some(true), Some(1)).allows_retry(1));
        assert!(!rollback(Some(true), Some(1)).allows_retry(2));
        assert!(!rollback(Some(true), Some(-1)).allows_retry(0));
    }

    #[test]
    fn deprecated_value_secrets_come_before_values_from() {
        let spec = spec(serde_json::json!({"chart": {},
            "valueFileSecrets": [{"name": "old"}],
            "valuesFrom": [{"configMapKeyRef": {"name": "new"}}]}));
        let names: Vec<_> = spec
            .value_sources()
            .iter()
            .filter_map(|entry| {
                entry
                    .secret_key_ref
                    .clone()
                    .or(entry.config_map_key_ref.clone())
            })
            .map(|key| (key.name.clone(), key.key().to_owned()))
            .collect();
        assert_eq!(
            names,
            [
                ("old".into(), "values.yaml".into()),
                ("new".into(), "values.yaml".into())
            ]
        );
    }
}

//! `HelmRelease.status`: phases, conditions and reasons.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What the daemon knows about the release. Written by the status writer alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Generation that the last sync looked at.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// What the last sync did, or is doing.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<Phase>,
    /// Name of the Helm release.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub release_name: Option<String>,
    /// Status of the newest revision of the Helm release, in Helm's words.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub release_status: Option<String>,
    /// Commit or chart version that was last deployed.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<String>,
    /// Commit or chart version that was last attempted.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_attempted_revision: Option<String>,
    /// Rollbacks since the last success.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub rollback_count: Option<i64>,
    /// Observations, one per type.
    #[serde(
        default,
        deserialize_with = "readable_conditions",
        skip_serializing_if = "Option::is_none"
    )]
    pub conditions: Option<Vec<Condition>>,
    /// Name and version of the chart that is deployed.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub chart: Option<String>,
    /// Digest of the inputs that are deployed.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub digest: Option<String>,
    /// Digest of the inputs that were last attempted.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_attempted_digest: Option<String>,
    /// Failed attempts at `lastAttemptedDigest` in a row.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub failures: Option<i64>,
    /// Digest of the inputs that wait for a gate.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub waiting_digest: Option<String>,
    /// Value of the annotation `helm.fluxcd.io/reconcile-at` that was last acted on.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_handled_reconcile_at: Option<String>,
}

/// A field of the status that another daemon may have written in another way: what cannot be read is absent. It must
/// not make the object unreadable.
fn readable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// The same for each condition.
fn readable_conditions<'de, D>(deserializer: D) -> Result<Option<Vec<Condition>>, D::Error>
where
    D: Deserializer<'de>,
{
    let Value::Array(items) = Value::deserialize(deserializer)? else {
        return Ok(None);
    };
    let conditions = items
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok());
    Ok(Some(conditions.collect()))
}

/// The phases of 1.4, and `Pending` and `Suspended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "the names are the documentation: they are those of 1.4"
)]
pub enum Phase {
    ChartFetched,
    ChartFetchFailed,
    Installing,
    Upgrading,
    Deployed,
    DeployFailed,
    Testing,
    TestFailed,
    Tested,
    Succeeded,
    Failed,
    RollingBack,
    RolledBack,
    RollbackFailed,
    /// A gate holds the release back.
    Pending,
    /// `spec.suspend` holds the release back.
    Suspended,
    /// The release is being uninstalled.
    Uninstalling,
    /// The release could not be uninstalled; it is tried again.
    UninstallFailed,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is observed: a [`ConditionType`], or `Gate-<name>`.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last written, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// When its status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Generation that it was observed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is being found out.
    Unknown,
}

impl ConditionStatus {
    /// The number that 1.4's gauge shows: 1, -1 and 0.
    #[must_use]
    pub const fn gauge(self) -> i8 {
        match self {
            Self::True => 1,
            Self::False => -1,
            Self::Unknown => 0,
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The types of conditions, gates aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// The chart was fetched (1.4).
    ChartFetched,
    /// The last install or upgrade succeeded (1.4).
    Deployed,
    /// The release is as wanted (1.4).
    Released,
    /// The last upgrade was rolled back (1.4).
    RolledBack,
    /// The tests passed (1.4).
    Tested,
    /// The release is as wanted at this generation (kstatus).
    Ready,
    /// Work is under way (kstatus); absent otherwise.
    Reconciling,
    /// No progress without a change from outside (kstatus); absent otherwise.
    Stalled,
    /// A deployed release serves.
    Available,
    /// An action is under way.
    Progressing,
    /// The last action failed, or the live objects differ.
    Degraded,
    /// Every mandatory gate passes.
    AllGatesPassed,
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why something happened: the reasons of conditions that are the operator's own. Those of sources are in
/// [`source::Reason`](crate::source::Reason), those of the cluster in [`helm_kube::Reason`]; `docs/conditions.md` has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "the names are the documentation; each is one word of a condition"
)]
pub enum Reason {
    // Chart sources.
    IncompleteChartSource,
    SourceInvalid,
    ChartInvalid,
    // Values.
    ValuesNotFound,
    ValuesInvalid,
    ValuesFailed,
    // Rendering.
    RenderFailed,
    SchemaInvalid,
    // Decisions.
    HelmV2Unsupported,
    InvalidReleaseName,
    InvalidSpec,
    OwnedByOther,
    CrossNamespaceDenied,
    KubeConfigInvalid,
    KubeConfigNotFound,
    ServerUnavailable,
    // Actions.
    InstallSucceeded,
    UpgradeSucceeded,
    UpgradeFailed,
    RollbackFailed,
    UninstallFailed,
    TestFailed,
    TestSucceeded,
    DriftDetected,
    DriftCorrected,
    Panicked,
    // States.
    GatePassed,
    GateNotPassed,
    GateCheckFailed,
    DependencyCycle,
    UpToDate,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The type of the condition of a gate.
#[must_use]
pub fn gate_condition(gate: &str) -> String {
    format!("Gate-{gate}")
}

/// The most bytes of a message in a condition or an Event.
pub const MESSAGE_LIMIT: usize = 1024;

/// Cuts a message to [`MESSAGE_LIMIT`] bytes between characters: its head, where the cause is, and an
/// ellipsis.
#[must_use]
pub fn cut_message(message: &str) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if message.len() <= MESSAGE_LIMIT {
        return Cow::Borrowed(message);
    }
    let end = message.floor_char_boundary(MESSAGE_LIMIT - ELLIPSIS.len());
    Cow::Owned(format!(
        "{}{ELLIPSIS}",
        message.get(..end).unwrap_or_default()
    ))
}

impl HelmReleaseStatus {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .flatten()
            .find(|condition| condition.condition_type == condition_type)
    }

    /// Whether the condition of this type is `True`.
    #[must_use]
    pub fn is_true(&self, condition_type: ConditionType) -> bool {
        self.condition(&condition_type.to_string())
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether live objects were found to differ from the release, and nobody has mended it yet.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        let drift = Reason::DriftDetected.to_string();
        self.condition("Degraded").is_some_and(|degraded| {
            degraded.status == ConditionStatus::True && degraded.reason.as_ref() == Some(&drift)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_another_daemon_wrote_is_read_as_far_as_it_can_be() {
        let status: HelmReleaseStatus = serde_json::from_value(serde_json::json!({
            "phase": "Migrating", "revision": 7, "releaseName": "web", "rollbackCount": null,
            "observedGeneration": 3, "valuesChecksum": "old",
            "conditions": [{"type": "Released", "status": "True"}, {"type": "Odd", "status": "Maybe"}, 7]
        }))
        .unwrap();
        assert_eq!((status.phase, status.revision.as_deref()), (None, None));
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(status.release_name.as_deref(), Some("web"));
        assert_eq!(status.conditions.map(|found| found.len()), Some(1));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let short = "x".repeat(MESSAGE_LIMIT);
        assert_eq!(cut_message(&short), short);
        for wide in ["é", "绿", "😀", "ab"] {
            let cut = cut_message(&wide.repeat(MESSAGE_LIMIT)).into_owned();
            assert!(
                cut.len() <= MESSAGE_LIMIT && cut.len() > MESSAGE_LIMIT - 8,
                "{}",
                cut.len()
            );
            assert!(cut.trim_end_matches('…').chars().all(|c| wide.contains(c)));
        }
    }

    #[test]
    fn phases_and_condition_types_are_written_as_1_4_wrote_them() {
        assert_eq!(
            serde_json::to_string(&Phase::ChartFetchFailed).unwrap(),
            "\"ChartFetchFailed\""
        );
        assert_eq!(Phase::RollingBack.to_string(), "RollingBack");
        assert_eq!(ConditionType::RolledBack.to_string(), "RolledBack");
        assert_eq!(Reason::HelmV2Unsupported.to_string(), "HelmV2Unsupported");
        assert_eq!(gate_condition("ops"), "Gate-ops");
    }

    #[test]
    fn a_status_of_1_4_is_read() {
        let status: HelmReleaseStatus = serde_json::from_value(serde_json::json!({
            "observedGeneration": 3, "phase": "Succeeded", "releaseName": "demo-a",
            "releaseStatus": "deployed", "revision": "1.2.3", "lastAttemptedRevision": "1.2.3",
            "conditions": [{"type": "Released", "status": "True", "reason": "Succeeded",
                "message": "m", "lastUpdateTime": "2021-02-03T04:05:06Z",
                "lastTransitionTime": "2021-02-03T04:05:06Z"}]
        }))
        .unwrap();
        assert!(status.is_true(ConditionType::Released));
        assert!(!status.is_true(ConditionType::Ready));
    }
}

//! How the status follows from what happened: pure, from one status to the next.

use helm_engine::Status;
use jiff::Timestamp;

use crate::api::{
    Condition, ConditionStatus, ConditionType, HelmReleaseStatus, NamespacedName, Phase, Reason,
    cut_message,
};

/// Why a sync did not reach its end: the reason of conditions and Events, and what to expect next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, in one word.
    pub reason: String,
    /// The cause, in a sentence without secrets.
    pub message: String,
    /// Whether it is tried again without a change from outside.
    pub retried: bool,
}

impl Failure {
    /// A failure that only a change from outside ends.
    pub fn stalled(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_string(),
            message: message.into(),
            retried: false,
        }
    }

    /// A failure that is tried again.
    pub fn retried(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_string(),
            message: message.into(),
            retried: true,
        }
    }
}

/// A long action that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// An install.
    Installing,
    /// An upgrade.
    Upgrading,
    /// The tests of the chart.
    Testing,
    /// A rollback.
    RollingBack,
    /// An uninstall.
    Uninstalling,
}

impl Progress {
    const fn phase(self) -> Phase {
        match self {
            Self::Installing => Phase::Installing,
            Self::Upgrading => Phase::Upgrading,
            Self::Testing => Phase::Testing,
            Self::RollingBack => Phase::RollingBack,
            Self::Uninstalling => Phase::Uninstalling,
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Installing => "install",
            Self::Upgrading => "upgrade",
            Self::Testing => "test",
            Self::RollingBack => "rollback",
            Self::Uninstalling => "uninstall",
        }
    }
}

/// How a message ends that tells of a source which cannot be asked for news.
const STALE: &str = "the last good commit stays in use";

/// Whether a status says that its source cannot be asked for news, in which words.
#[must_use]
pub fn stale_source(status: &HelmReleaseStatus) -> Option<&str> {
    let fetched = status.condition(&ConditionType::ChartFetched.to_string())?;
    let message = fetched.message.as_deref()?;
    (fetched.status == ConditionStatus::False && message.ends_with(STALE)).then_some(message)
}

/// A status on its way to the next one. The times of a condition change only with its content, so that
/// equal statuses are equal.
#[derive(Clone, Debug)]
pub struct StatusEdit {
    status: HelmReleaseStatus,
    release: NamespacedName,
    generation: i64,
    now: String,
}

impl StatusEdit {
    /// Starts from the present status of the HelmRelease at `generation`, whose Helm release is
    /// `release`.
    #[must_use]
    pub fn new(
        status: HelmReleaseStatus,
        release: NamespacedName,
        generation: i64,
        now: Timestamp,
    ) -> Self {
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self {
            status,
            release,
            generation,
            now,
        }
    }

    /// The status so far.
    #[must_use]
    pub fn status(&self) -> &HelmReleaseStatus {
        &self.status
    }

    /// The status so far, to set single fields.
    pub fn fields(&mut self) -> &mut HelmReleaseStatus {
        &mut self.status
    }

    /// Name and status of the Helm release, as its newest record tells. Without a record what was said stands, as in
    /// 1.4, unless it was of something under way: that has been taken back.
    pub fn record(&mut self, name: &str, newest: Option<Status>) {
        let fields = self.fields();
        if let Some(status) = newest {
            fields.release_name = Some(name.to_owned());
            fields.release_status = Some(status.to_string());
        } else if fields
            .release_status
            .as_ref()
            .is_some_and(|said| said.starts_with("pending"))
        {
            fields.release_status = None;
        }
    }

    /// Ends a sync: what was observed is the generation that it started with, never an older one.
    #[must_use]
    pub fn finish(mut self) -> HelmReleaseStatus {
        let seen = self.status.observed_generation.unwrap_or(0);
        self.status.observed_generation = Some(seen.max(self.generation));
        self.into_status()
    }

    /// The status as it is, in the middle of a sync.
    #[must_use]
    pub fn into_status(mut self) -> HelmReleaseStatus {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.sort_by_key(|condition| rank(&condition.condition_type));
        }
        self.status
    }

    /// A long action begins; it is said before its first request.
    pub fn begin(&mut self, progress: Progress, timeout: std::time::Duration) {
        use ConditionType as Type;
        let of = self.of();
        let (condition, sentence) = match progress {
            Progress::Installing => (Type::Deployed, format!("Running installation for {of}.")),
            Progress::Upgrading => (Type::Deployed, format!("Running upgrade for {of}.")),
            Progress::Testing => (Type::Tested, format!("Testing {of}.")),
            Progress::RollingBack => (Type::RolledBack, format!("Rolling back {of}.")),
            Progress::Uninstalling => (Type::Released, format!("Uninstalling {of}.")),
        };
        let phase = progress.phase();
        self.status.phase = Some(phase);
        if self.says_that_it_waits() {
            self.legacy(Type::Released, ConditionStatus::Unknown, phase, &sentence);
        }
        self.legacy(condition, ConditionStatus::Unknown, phase, &sentence);
        let seconds = crate::api::Duration::from_secs(timeout.as_secs());
        let running = format!("running '{}' with a timeout of {seconds}", progress.verb());
        self.set(
            Type::Ready,
            ConditionStatus::Unknown,
            "Progressing",
            &running,
        );
        self.set(
            Type::Reconciling,
            ConditionStatus::True,
            "Progressing",
            &running,
        );
        self.set(
            Type::Progressing,
            ConditionStatus::True,
            "Progressing",
            &running,
        );
        self.remove(Type::Stalled);
    }

    /// The chart was fetched.
    pub fn chart_fetched(&mut self) {
        let sentence = format!("Chart fetch was successful for {}.", self.of());
        let phase = Phase::ChartFetched;
        self.legacy(
            ConditionType::ChartFetched,
            ConditionStatus::True,
            phase,
            &sentence,
        );
    }

    /// The source cannot be asked for news; what it gave before stays in use, so nothing else has failed.
    pub fn source_stale(&mut self, reason: &str, message: &str) {
        let of = self.of();
        let sentence = format!("Chart fetch failed for {of}: {reason}: {message}; {STALE}");
        self.legacy(
            ConditionType::ChartFetched,
            ConditionStatus::False,
            Phase::ChartFetchFailed,
            &sentence,
        );
    }

    /// The source answers.
    pub fn source_fresh(&mut self) {
        self.heal(
            ConditionType::ChartFetched,
            Phase::ChartFetched,
            "Chart fetch was successful",
        );
    }

    /// The chart cannot be had.
    pub fn chart_fetch_failed(&mut self, failure: &Failure) {
        let phase = Phase::ChartFetchFailed;
        self.fail_legacy(
            &[ConditionType::ChartFetched],
            phase,
            "Chart fetch failed",
            failure,
        );
        self.not_ready(failure);
    }

    /// The source is being fetched for the first time: nothing has failed.
    pub fn source_pending(&mut self, reason: &str, message: &str) {
        if self.status.phase.is_none() {
            self.set(
                ConditionType::Ready,
                ConditionStatus::Unknown,
                reason,
                message,
            );
        }
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            reason,
            message,
        );
        self.remove(ConditionType::Stalled);
    }

    /// The install or upgrade went well.
    pub fn deployed(&mut self) {
        let sentence = format!("Installation or upgrade succeeded for {}.", self.of());
        let phase = Phase::Deployed;
        self.status.phase = Some(phase);
        self.legacy(
            ConditionType::Deployed,
            ConditionStatus::True,
            phase,
            &sentence,
        );
    }

    /// The install or upgrade failed.
    pub fn deploy_failed(&mut self, failure: &Failure) {
        let phase = Phase::DeployFailed;
        let what = "Installation or upgrade failed";
        self.fail_legacy(&[ConditionType::Deployed], phase, what, failure);
        self.not_ready(failure);
    }

    /// The tests went well.
    pub fn tested(&mut self) {
        let sentence = format!("Tested {}.", self.of());
        self.status.phase = Some(Phase::Tested);
        self.legacy(
            ConditionType::Tested,
            ConditionStatus::True,
            Phase::Tested,
            &sentence,
        );
    }

    /// The tests failed; unless that is to be ignored, so did the release.
    pub fn test_failed(&mut self, failure: &Failure, ignored: bool) {
        let phase = Phase::TestFailed;
        self.status.phase = Some(phase);
        let sentence = format!("Test failed for {}: {}", self.of(), failure.message);
        self.legacy(
            ConditionType::Tested,
            ConditionStatus::False,
            phase,
            &sentence,
        );
        if !ignored {
            self.legacy(
                ConditionType::Released,
                ConditionStatus::False,
                phase,
                &sentence,
            );
            self.not_ready(failure);
        }
    }

    /// The rollback went well; the release is as it was before the upgrade that failed.
    pub fn rolled_back(&mut self, failure: &Failure) {
        let phase = Phase::RolledBack;
        self.status.phase = Some(phase);
        let sentence = format!("Rolled back {}.", self.of());
        self.legacy(
            ConditionType::RolledBack,
            ConditionStatus::True,
            phase,
            &sentence,
        );
        self.status.rollback_count = Some(self.status.rollback_count.unwrap_or(0) + 1);
        self.not_ready(failure);
    }

    /// The rollback failed.
    pub fn rollback_failed(&mut self, failure: &Failure) {
        let phase = Phase::RollbackFailed;
        self.status.phase = Some(phase);
        let sentence = format!("Rollback failed for {}: {}", self.of(), failure.message);
        self.legacy(
            ConditionType::RolledBack,
            ConditionStatus::False,
            phase,
            &sentence,
        );
        self.not_ready(failure);
    }

    /// The release is as wanted. Earlier failures are over, whatever they were.
    pub fn succeeded(&mut self, reason: Reason, message: &str) {
        use ConditionType as Type;
        let phase = Phase::Succeeded;
        self.status.phase = Some(phase);
        let sentence = format!("Release was successful for {}.", self.of());
        self.legacy(Type::Released, ConditionStatus::True, phase, &sentence);
        self.heal(
            Type::ChartFetched,
            Phase::ChartFetched,
            "Chart fetch was successful",
        );
        self.heal(
            Type::Deployed,
            Phase::Deployed,
            "Installation or upgrade succeeded",
        );
        self.remove(Type::RolledBack);
        self.status.rollback_count = None;
        self.status.failures = None;
        self.status.waiting_digest = None;
        let reason = reason.to_string();
        self.set(Type::Ready, ConditionStatus::True, &reason, message);
        self.set(
            Type::Available,
            ConditionStatus::True,
            "Deployed",
            "the release is deployed",
        );
        self.settle(&reason, "no action is under way");
        self.set(
            Type::Degraded,
            ConditionStatus::False,
            &reason,
            "the release is as wanted",
        );
        self.remove(Type::Stalled);
    }

    /// The sync failed before an action began.
    pub fn failed(&mut self, failure: &Failure) {
        self.fail_legacy(&[], Phase::Failed, "Release failed", failure);
        self.not_ready(failure);
    }

    /// An earlier daemon left the release failed: its phase and conditions stay, and ours are added.
    pub fn inherited(&mut self, failure: &Failure) {
        self.not_ready(failure);
    }

    /// The uninstall failed; it is tried again.
    pub fn uninstall_failed(&mut self, failure: &Failure) {
        self.fail_legacy(&[], Phase::UninstallFailed, "Uninstall failed", failure);
        self.not_ready(failure);
    }

    /// `spec.suspend` holds the release back.
    pub fn suspended(&mut self) {
        let message = "spec.suspend is true: nothing is synced";
        let phase = Phase::Suspended;
        self.status.phase = Some(phase);
        let released = ConditionType::Released;
        let is_first = self.status.condition(&released.to_string()).is_none();
        if is_first || self.says_that_it_waits() {
            self.legacy(released, ConditionStatus::Unknown, phase, message);
        }
        self.settle("Suspended", message);
        self.remove(ConditionType::Stalled);
    }

    /// Gates hold the release back.
    pub fn pending(&mut self, reason: &str, message: &str) {
        use ConditionType as Type;
        let phase = Phase::Pending;
        self.status.phase = Some(phase);
        // What `kubectl get` shows.
        let sentence = format!("{} waits: {message}", self.of());
        self.legacy(Type::Released, ConditionStatus::Unknown, phase, &sentence);
        self.set(Type::Ready, ConditionStatus::False, reason, message);
        self.set(Type::Reconciling, ConditionStatus::True, reason, message);
        self.set(Type::Progressing, ConditionStatus::False, reason, message);
        self.remove(Type::Stalled);
    }

    /// Whether a deployed release serves, as far as the records tell.
    pub fn available(&mut self, available: bool, message: &str) {
        let reason = if available { "Deployed" } else { "NotDeployed" };
        self.set(ConditionType::Available, available.into(), reason, message);
    }

    /// Live objects differ from the release, or are as it says again.
    pub fn drift(&mut self, reason: Reason, degraded: bool, message: &str) {
        let reason = reason.to_string();
        self.set(ConditionType::Degraded, degraded.into(), &reason, message);
    }

    /// Leaves said what an earlier status said of drift.
    pub fn keep_drift(&mut self, before: &HelmReleaseStatus) {
        if let Some(old) = before
            .condition("Degraded")
            .filter(|_| before.has_drifted())
        {
            let message = old.message.clone().unwrap_or_default();
            self.drift(Reason::DriftDetected, true, &message);
        }
    }

    /// Sets a condition of any type.
    pub fn set_named(&mut self, name: &str, status: ConditionStatus, reason: &str, message: &str) {
        let message = cut_message(message).into_owned();
        let conditions = self.status.conditions.get_or_insert_default();
        let found = conditions
            .iter_mut()
            .find(|condition| condition.condition_type == name);
        let Some(condition) = found else {
            conditions.push(Condition {
                condition_type: name.to_owned(),
                status,
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_update_time: Some(self.now.clone()),
                last_transition_time: Some(self.now.clone()),
                observed_generation: Some(self.generation),
            });
            return;
        };
        let unchanged = condition.status == status
            && condition.reason.as_deref() == Some(reason)
            && condition.message.as_deref() == Some(message.as_str())
            && condition.observed_generation == Some(self.generation);
        if unchanged {
            return;
        }
        if condition.status != status || condition.last_transition_time.is_none() {
            condition.last_transition_time = Some(self.now.clone());
        }
        condition.status = status;
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message);
        condition.last_update_time = Some(self.now.clone());
        condition.observed_generation = Some(self.generation);
    }

    /// Removes the conditions that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| keep(&condition.condition_type));
        }
    }

    fn of(&self) -> String {
        format!(
            "Helm release '{}' in '{}'",
            self.release.name, self.release.namespace
        )
    }

    fn set(&mut self, of: ConditionType, status: ConditionStatus, reason: &str, message: &str) {
        self.set_named(&of.to_string(), status, reason, message);
    }

    fn remove(&mut self, of: ConditionType) {
        let name = of.to_string();
        self.retain(|condition| condition != name);
    }

    /// One of 1.4's five: its reason is the phase, as it was.
    fn legacy(&mut self, of: ConditionType, status: ConditionStatus, phase: Phase, message: &str) {
        self.set(of, status, &phase.to_string(), message);
    }

    /// Sets `conditions` and `Released` to False: 1.4's sentence, and then the cause.
    fn fail_legacy(
        &mut self,
        conditions: &[ConditionType],
        phase: Phase,
        what: &str,
        failure: &Failure,
    ) {
        self.status.phase = Some(phase);
        let sentence = format!("{what} for {}: {}", self.of(), failure.message);
        for condition in conditions.iter().chain([&ConditionType::Released]) {
            self.legacy(*condition, ConditionStatus::False, phase, &sentence);
        }
    }

    /// Whether `Released` still tells of gates or of a suspension, which are over.
    fn says_that_it_waits(&self) -> bool {
        let released = self.status.condition(&ConditionType::Released.to_string());
        let reason = released.and_then(|released| released.reason.as_deref());
        [Phase::Pending, Phase::Suspended]
            .iter()
            .any(|phase| reason == Some(&phase.to_string()))
    }

    /// A condition that an earlier failure left False is put right by a success.
    fn heal(&mut self, of: ConditionType, phase: Phase, what: &str) {
        let found = self.status.condition(&of.to_string());
        if found.is_some_and(|condition| condition.status != ConditionStatus::True) {
            let sentence = format!("{what} for {}.", self.of());
            self.legacy(of, ConditionStatus::True, phase, &sentence);
        }
    }

    fn not_ready(&mut self, failure: &Failure) {
        use ConditionType as Type;
        let (reason, message) = (failure.reason.as_str(), failure.message.as_str());
        self.set(Type::Ready, ConditionStatus::False, reason, message);
        self.set(Type::Degraded, ConditionStatus::True, reason, message);
        self.set(Type::Progressing, ConditionStatus::False, reason, message);
        if failure.retried {
            self.set(
                Type::Reconciling,
                ConditionStatus::True,
                "ProgressingWithRetry",
                message,
            );
            self.remove(Type::Stalled);
        } else {
            self.set(Type::Stalled, ConditionStatus::True, reason, message);
            self.remove(Type::Reconciling);
        }
    }

    /// No action is under way.
    fn settle(&mut self, reason: &str, message: &str) {
        self.set(
            ConditionType::Progressing,
            ConditionStatus::False,
            reason,
            message,
        );
        self.remove(ConditionType::Reconciling);
    }
}

/// The order in which conditions are listed: readiness first, then 1.4's, then gates.
fn rank(name: &str) -> (usize, String) {
    const ORDER: [&str; 12] = [
        "Ready",
        "Reconciling",
        "Stalled",
        "ChartFetched",
        "Deployed",
        "Tested",
        "Released",
        "RolledBack",
        "Available",
        "Progressing",
        "Degraded",
        "AllGatesPassed",
    ];
    let place = ORDER
        .iter()
        .position(|known| *known == name)
        .unwrap_or(ORDER.len());
    (place, name.to_owned())
}

#[cfg(test)]
mod tests;

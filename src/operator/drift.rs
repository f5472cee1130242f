//! Live objects that are no longer as their release says: reported, and mended if the spec asks for it.
//!
//! They are compared when a release is otherwise as wanted, or deployed and waiting at a gate: once per interval, after a
//! change of the spec, on request and after a restart. What cannot be mended is tried again after growing pauses, and so is what drifts again and
//! again because someone else wants it otherwise.

use std::time::Duration;

use helm_kube::{Drift, DriftCheck, History, IgnoreRule, IgnoreTarget};
use tokio::time::Instant;

use super::act::{Abandoned, carry_out};
use super::backoff::Backoff;
use super::reconcile::Sync;
use crate::api::{DriftIgnore, DriftMode, HelmReleaseSpec, HelmReleaseStatus, Reason};
use crate::status::EventNote;

/// The most objects, and the most differences of each, that a message tells.
const TOLD: usize = 10;

/// What comes of a look.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything is as the release says.
    Clean,
    /// Something differs, and is left alone.
    Drifted(String),
    /// Something differed.
    Mended(String),
    /// Something differs and cannot be mended.
    Stuck(String),
}

impl Sync<'_> {
    /// Compares the live objects with the deployed revision, if it is time to.
    pub(super) async fn look_for_drift(&mut self, history: History) -> Result<(), Abandoned> {
        let mode = self.release.spec.drift_mode();
        if mode == DriftMode::Disabled || !self.is_drift_due() {
            return Ok(());
        }
        let check = DriftCheck {
            release: self.release_key(),
            history,
            ignore: rules(&self.release.spec),
            correct: mode == DriftMode::Enabled,
            options: super::options::deploy(&self.release, &self.context.settings),
        };
        let machine = helm_kube::drift(check);
        let looked = carry_out(&self.cluster, machine, self.slot, &self.context.shutdown).await?;
        match looked {
            Ok(drifts) => {
                let verdict = verdict(&drifts, mode);
                self.tell_of_drift(&verdict);
                self.plan_drift(&verdict);
            }
            Err(error) => {
                // Whether something has drifted is not known: what was said of it stands.
                tracing::warn!(release = %self.key, %error, "live objects cannot be compared with the release");
                self.edit.keep_drift(&self.before);
                self.pause_drift(true);
            }
        }
        Ok(())
    }

    /// The time to the next look, once one is planned.
    pub(super) fn drift_due_in(&self) -> Option<Duration> {
        let at = self.context.remember(&self.key, |memory| memory.drift_at);
        let is_compared = self.release.spec.drift_mode() != DriftMode::Disabled;
        let left = at?.saturating_duration_since(Instant::now());
        is_compared.then_some(left.max(Duration::from_secs(1)))
    }

    /// A sync that has just told otherwise, or is asked for by a person, does not wait.
    fn is_drift_due(&self) -> bool {
        let at = self.context.remember(&self.key, |memory| memory.drift_at);
        let degraded = |status: &HelmReleaseStatus| status.condition("Degraded").cloned();
        at.is_none_or(|at| at <= Instant::now())
            || self.attempt().renewed
            || degraded(self.edit.status()) != degraded(&self.before)
    }

    /// Condition, and an Event when it begins and when it ends.
    fn tell_of_drift(&mut self, verdict: &Verdict) {
        let had_drifted = self.before.has_drifted();
        let rounds = self.context.remember(&self.key, |memory| memory.drifts);
        match verdict {
            Verdict::Clean if had_drifted => {
                let message = "the live objects are as the release says again";
                self.edit.drift(Reason::DriftCorrected, false, message);
                self.events
                    .push(EventNote::normal("DriftCorrected", message));
            }
            Verdict::Clean => {}
            Verdict::Drifted(message) | Verdict::Stuck(message) => {
                self.edit.drift(Reason::DriftDetected, true, message);
                if !had_drifted {
                    self.events
                        .push(EventNote::warning("DriftDetected", message.clone()));
                }
            }
            Verdict::Mended(message) => {
                self.edit.drift(Reason::DriftCorrected, false, message);
                if had_drifted || rounds == 0 {
                    self.events
                        .push(EventNote::normal("DriftCorrected", message.clone()));
                }
            }
        }
    }

    fn plan_drift(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Clean | Verdict::Drifted(_) => {
                let pause = super::report::interval(&self.release, &self.context.settings);
                self.context.remember(&self.key, |memory| {
                    memory.drifts = 0;
                    memory.drift_at = Some(Instant::now() + pause);
                });
            }
            Verdict::Mended(_) => self.pause_drift(false),
            Verdict::Stuck(_) => self.pause_drift(true),
        }
    }

    /// Counts a look that did not leave things in order for sure, and plans the next one.
    fn pause_drift(&mut self, is_stuck: bool) {
        let interval = super::report::interval(&self.release, &self.context.settings);
        let backoff = Backoff::of(&self.release.spec);
        let key = self.key.to_string();
        let pause = self.context.remember(&self.key, |memory| {
            memory.drifts = memory.drifts.saturating_add(1);
            let pause = pause(backoff.jittered(memory.drifts, &key), interval, is_stuck);
            memory.drift_at = Some(Instant::now() + pause);
            pause
        });
        self.again = Some(pause);
    }
}

/// What is in order for now has time until the interval is over; what is not is tried again earlier.
fn pause(backoff: Duration, interval: Duration, is_stuck: bool) -> Duration {
    if is_stuck {
        backoff
    } else {
        backoff.max(interval)
    }
}

fn verdict(drifts: &[Drift], mode: DriftMode) -> Verdict {
    if drifts.is_empty() {
        return Verdict::Clean;
    }
    let stuck: Vec<_> = drifts.iter().filter(|drift| !drift.is_corrected).collect();
    if mode != DriftMode::Enabled {
        return Verdict::Drifted(told("differs from the release", &stuck));
    }
    if stuck.is_empty() {
        let all: Vec<_> = drifts.iter().collect();
        return Verdict::Mended(told("mended, as the release says", &all));
    }
    Verdict::Stuck(told(
        "differs from the release and cannot be mended",
        &stuck,
    ))
}

/// Objects and places, and no values: they may be secret.
fn told(what: &str, drifts: &[&Drift]) -> String {
    let objects: Vec<_> = drifts.iter().take(TOLD).map(|drift| one(drift)).collect();
    let more = drifts.len().saturating_sub(TOLD);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{what}: {}{more}", objects.join("; "))
}

fn one(drift: &Drift) -> String {
    let mut details: Vec<String> = if drift.is_missing {
        vec!["missing".to_owned()]
    } else {
        let differences = drift.differences.iter().take(TOLD);
        differences.map(ToString::to_string).collect()
    };
    details.extend(drift.trouble.as_ref().map(ToString::to_string));
    format!("{} ({})", drift.object, details.join(", "))
}

fn rules(spec: &HelmReleaseSpec) -> Vec<IgnoreRule> {
    spec.drift_rules().iter().filter_map(rule).collect()
}

/// A rule whose selector has no meaning ignores nothing. The CRD and the webhook refuse it, and an Event tells of one
/// that an older CRD let pass.
fn rule(ignore: &DriftIgnore) -> Option<IgnoreRule> {
    let target = ignore.target.clone().unwrap_or_default();
    Some(IgnoreRule {
        paths: ignore.paths.clone(),
        target: IgnoreTarget {
            group: target.group,
            version: target.version,
            kind: target.kind,
            name: target.name,
            namespace: target.namespace,
            labels: ignore.selector().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use helm_kube::{ActionError, ObjectKey};

    use super::*;

    fn missing(name: &str, is_corrected: bool, trouble: Option<ActionError>) -> Drift {
        Drift {
            object: ObjectKey {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                namespace: "demo".into(),
                name: name.into(),
            },
            differences: Vec::new(),
            is_missing: true,
            is_corrected,
            trouble,
        }
    }

    #[test]
    fn the_verdict_tells_what_is_left_to_do() {
        let trouble = ActionError::new(helm_kube::Reason::Forbidden, "no right");
        let drifts = [missing("a", true, None), missing("b", false, Some(trouble))];
        let (warn, enabled) = (DriftMode::Warn, DriftMode::Enabled);
        assert_eq!(verdict(&[], enabled), Verdict::Clean);
        assert_eq!(
            verdict(&[missing("a", false, None)], warn),
            Verdict::Drifted("differs from the release: ConfigMap demo/a (missing)".into())
        );
        assert_eq!(
            verdict(&drifts[..1], enabled),
            Verdict::Mended("mended, as the release says: ConfigMap demo/a (missing)".into())
        );
        let stuck =
            "differs from the release and cannot be mended: ConfigMap demo/b (missing, no right)";
        assert_eq!(verdict(&drifts, enabled), Verdict::Stuck(stuck.into()));
    }

    #[test]
    fn a_message_tells_of_a_few_objects() {
        let drifts: Vec<_> = (0..12)
            .map(|n| missing(&format!("m{n}"), false, None))
            .collect();
        let Verdict::Drifted(message) = verdict(&drifts, DriftMode::Warn) else {
            panic!("not drifted");
        };
        assert!(message.ends_with("ConfigMap demo/m9 (missing) and 2 more"));
    }

    #[test]
    fn what_is_mended_waits_for_the_interval_and_what_is_not_does_not() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(seconds(5), seconds(180), false), seconds(180));
        assert_eq!(pause(seconds(600), seconds(180), false), seconds(600));
        assert_eq!(pause(seconds(5), seconds(180), true), seconds(5));
    }
}

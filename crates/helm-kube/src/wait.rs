//! Waiting: for objects to become ready, to end, or to go away.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::calls;
use crate::cluster::ApiResource;
use crate::error::{ActionError, Reason};
use crate::machine::{Port, Wait, WaitReason};
use crate::object::ObjectKey;
use crate::readiness::{Readiness, State, is_current_at_once, readiness, run_status};
use crate::request::{Accept, Reply};

/// The first pause between two looks; it grows to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An object that is waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject {
    /// What it is.
    pub(crate) key: ObjectKey,
    /// Where it is.
    pub(crate) api: ApiResource,
}

/// When a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The object is ready by the rules of its kind.
    Ready,
    /// The same, and Jobs have completed.
    ReadyAndJobsDone,
    /// A hook or a test has run.
    Run,
    /// A definition of kinds is served.
    Established,
}

impl Goal {
    fn status(self, object: &Value, now: Timestamp) -> Readiness {
        let is_job = object.get("kind").and_then(Value::as_str) == Some("Job");
        match self {
            Self::Ready | Self::Established => readiness(object, now),
            Self::ReadyAndJobsDone if is_job => run_status(object),
            Self::ReadyAndJobsDone => readiness(object, now),
            Self::Run => run_status(object),
        }
    }

    fn reason(self) -> WaitReason {
        match self {
            Self::Ready | Self::ReadyAndJobsDone => WaitReason::Readiness,
            Self::Run => WaitReason::Hook,
            Self::Established => WaitReason::Established,
        }
    }

    fn needs_no_look(self, key: &ObjectKey) -> bool {
        match self {
            Self::Ready | Self::ReadyAndJobsDone => is_current_at_once(key.group(), &key.kind),
            Self::Established => false,
            Self::Run => !matches!(
                (key.group(), key.kind.as_str()),
                ("batch", "Job") | ("", "Pod")
            ),
        }
    }
}

/// Waits until all objects have reached the goal. An object that has failed is not waited for any
/// longer; it is reported when the others are done.
pub(crate) async fn until_reached(
    port: &Port,
    subjects: Vec<Subject>,
    goal: Goal,
    deadline: Timestamp,
) -> Result<(), ActionError> {
    let mut failed = Vec::new();
    let mut open: Vec<_> = subjects
        .into_iter()
        .filter(|subject| !goal.needs_no_look(&subject.key))
        .collect();
    let mut pause = FIRST_PAUSE;
    loop {
        let mut still = Vec::new();
        for subject in open {
            let found = look(port, &subject, goal).await?;
            match found.state {
                State::Current => {}
                State::Failed => failed.push((subject.key, found)),
                _ => still.push((subject, found)),
            }
        }
        if still.is_empty() {
            return if failed.is_empty() {
                Ok(())
            } else {
                Err(not_reached(&failed, false))
            };
        }
        if port.now() >= deadline {
            failed.extend(
                still
                    .into_iter()
                    .map(|(subject, found)| (subject.key, found)),
            );
            return Err(not_reached(&failed, true));
        }
        open = still.into_iter().map(|(subject, _)| subject).collect();
        port.wait(Wait {
            reason: goal.reason(),
            objects: open.iter().map(|subject| subject.key.clone()).collect(),
            after: pause_until(pause, port.now(), deadline),
            deadline,
        })
        .await;
        pause = longer(pause);
    }
}

async fn look(port: &Port, subject: &Subject, goal: Goal) -> Result<Readiness, ActionError> {
    let call = calls::get(&subject.api, &subject.key, Accept::Full);
    let what = call.what.clone();
    match port.try_call(call).await {
        Ok(Reply::Object { body, .. }) => Ok(goal.status(&body, port.now())),
        Ok(_) => Ok(Readiness::new(State::Unknown, "no object in the answer")),
        Err(failure) if failure.is_not_found() => {
            Ok(Readiness::new(State::NotFound, "Resource not found"))
        }
        // An outage in the middle of a wait is waited out, as long as the deadline allows.
        Err(failure) => {
            let error = ActionError::from_failure(&what, &failure);
            if error.is_outage() {
                Ok(Readiness::new(State::Unknown, error.message))
            } else {
                Err(error)
            }
        }
    }
}

fn not_reached(objects: &[(ObjectKey, Readiness)], timed_out: bool) -> ActionError {
    let mut lines: Vec<_> = objects
        .iter()
        .take(20)
        .map(|(key, found)| {
            format!(
                "resource {}/{}/{} not ready. status: {}, message: {}",
                key.kind,
                key.namespace,
                key.name,
                found.state.as_str(),
                found.message
            )
        })
        .collect();
    if objects.len() > 20 {
        lines.push(format!("and {} more", objects.len() - 20));
    }
    if timed_out {
        lines.push("context deadline exceeded".to_owned());
    }
    let reason = if timed_out {
        Reason::WaitTimeout
    } else {
        Reason::ObjectFailed
    };
    ActionError::new(reason, lines.join("\n"))
}

/// Waits until all objects are gone, or have been replaced by others of the same name (another
/// `uid`), where their `uid` is known.
pub(crate) async fn until_gone(
    port: &Port,
    subjects: Vec<(Subject, Option<String>)>,
    deadline: Timestamp,
) -> Result<(), ActionError> {
    let mut open = subjects;
    let mut pause = FIRST_PAUSE;
    loop {
        let mut still = Vec::new();
        for (subject, uid) in open {
            if exists(port, &subject, uid.as_deref()).await? {
                still.push((subject, uid));
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        if port.now() >= deadline {
            return Err(still_there(&still));
        }
        open = still;
        port.wait(Wait {
            reason: WaitReason::Deletion,
            objects: open
                .iter()
                .map(|(subject, _)| subject.key.clone())
                .collect(),
            after: pause_until(pause, port.now(), deadline),
            deadline,
        })
        .await;
        pause = longer(pause);
    }
}

async fn exists(port: &Port, subject: &Subject, uid: Option<&str>) -> Result<bool, ActionError> {
    let call = calls::get(&subject.api, &subject.key, Accept::Metadata);
    let what = call.what.clone();
    match port.try_call(call).await {
        Ok(Reply::Object { body, .. }) => {
            let found = body
                .get("metadata")
                .and_then(|metadata| metadata.get("uid"));
            Ok(uid.is_none() || found.and_then(Value::as_str) == uid)
        }
        Ok(_) => Ok(true),
        Err(failure) if failure.is_not_found() => Ok(false),
        Err(failure) => {
            let error = ActionError::from_failure(&what, &failure);
            if error.is_outage() {
                Ok(true)
            } else {
                Err(error)
            }
        }
    }
}

fn still_there(objects: &[(Subject, Option<String>)]) -> ActionError {
    let mut lines: Vec<_> = objects
        .iter()
        .take(20)
        .map(|(Subject { key, .. }, _)| {
            format!(
                "resource {}/{}/{} still exists",
                key.kind, key.namespace, key.name
            )
        })
        .collect();
    lines.push("context deadline exceeded: look at the finalizers of these objects".to_owned());
    ActionError::new(Reason::WaitTimeout, lines.join("\n"))
}

fn pause_until(pause: Duration, now: Timestamp, deadline: Timestamp) -> Duration {
    let left = deadline
        .duration_since(now)
        .max(SignedDuration::from_millis(1));
    pause.min(left.unsigned_abs())
}

fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(LONGEST_PAUSE)
}

/// The time at which something that takes at most `timeout` is over.
pub(crate) fn deadline(now: Timestamp, timeout: Duration) -> Timestamp {
    now.checked_add(timeout).unwrap_or(Timestamp::MAX)
}

//! Hooks and tests: run one after the other, each waited for, their state kept in the record.
//!
//! A hook is noted as running before its object is created, and as succeeded before the next step,
//! so that after a crash those that have succeeded are not run again, and one that was running is
//! waited for rather than started anew.

use helm_engine::{Hook, HookEvent, HookExecution, HookPhase};
use jiff::Timestamp;

use crate::apply::{Expect, subject};
use crate::error::{ActionError, Reason};
use crate::object::{self, Resource};
use crate::outcome::HookRun;
use crate::session::Session;
use crate::storage::Stored;
use crate::wait::{self, Goal, Subject};

/// The policy of hooks that have none: delete the object of the last run before the next one.
const BEFORE_CREATION: &str = "before-hook-creation";
const SUCCEEDED: &str = "hook-succeeded";
const FAILED: &str = "hook-failed";

/// Which hooks of an event are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookFilter {
    /// Only those of these names; empty means all.
    pub include: Vec<String>,
    /// None of these names.
    pub exclude: Vec<String>,
}

impl HookFilter {
    fn allows(&self, hook: &Hook) -> bool {
        (self.include.is_empty() || self.include.contains(&hook.name))
            && !self.exclude.contains(&hook.name)
    }
}

/// The hooks of an event in the order in which they run: by weight, then by name.
#[must_use]
pub fn hook_order(hooks: &[Hook], event: HookEvent, filter: &HookFilter) -> Vec<usize> {
    let mut order: Vec<_> = hooks
        .iter()
        .enumerate()
        .filter(|(_, hook)| hook.events.contains(&event) && filter.allows(hook))
        .collect();
    order.sort_by(|(_, left), (_, right)| {
        (left.weight, &left.name).cmp(&(right.weight, &right.name))
    });
    order.into_iter().map(|(at, _)| at).collect()
}

/// Forgets former runs: a new action begins.
pub(crate) fn reset_runs(hooks: &mut [Hook]) {
    for hook in hooks {
        hook.last_run = HookExecution::default();
    }
}

impl Session {
    /// Runs the hooks of an event. `since` is when the action began: runs noted before belong to
    /// an earlier one.
    pub(crate) async fn run_hooks(
        &mut self,
        record: &mut Stored,
        event: HookEvent,
        since: Timestamp,
        filter: &HookFilter,
    ) -> Result<(), ActionError> {
        let order = hook_order(&record.release.hooks, event, filter);
        let mut has_run = false;
        for (place, at) in order.iter().enumerate() {
            if run_state(record, *at, since) == HookPhase::Succeeded {
                continue;
            }
            has_run = true;
            if let Err(error) = self.run_hook(record, *at, event, since).await {
                if !error.is_outage() {
                    self.clean_up_failed(record, &order, place).await?;
                }
                return Err(error);
            }
        }
        if has_run {
            self.storage.update(&self.port, record).await?;
        }
        for at in order.iter().rev() {
            self.delete_by_policy(record, *at, SUCCEEDED).await?;
        }
        Ok(())
    }

    async fn run_hook(
        &mut self,
        record: &mut Stored,
        at: usize,
        event: HookEvent,
        since: Timestamp,
    ) -> Result<(), ActionError> {
        let is_resumed = run_state(record, at, since) == HookPhase::Running
            || (event == HookEvent::Test && self.is_interrupted(record, at));
        let Some(hook) = record.release.hooks.get_mut(at) else {
            return Ok(());
        };
        if hook.delete_policies.is_empty() {
            hook.delete_policies.push(BEFORE_CREATION.to_owned());
        }
        let resources = self.place_hook(record, at).await?;
        if !is_resumed {
            self.delete_by_policy(record, at, BEFORE_CREATION).await?;
            start_run(record, at, self.port.now());
            self.storage.update(&self.port, record).await?;
        }
        let result = self.execute(record, at, &resources).await;
        if result.as_ref().is_err_and(ActionError::is_outage) {
            return result;
        }
        let phase = if result.is_ok() {
            HookPhase::Succeeded
        } else {
            HookPhase::Failed
        };
        self.end_run(record, at, event, phase).await;
        result.map_err(|error| hook_failed(record, at, event, error))
    }

    /// Whether a test was running when its client was killed, and has time left. It is waited
    /// for: controllers do not like Jobs that are deleted and made anew in the same moment.
    fn is_interrupted(&self, record: &Stored, at: usize) -> bool {
        let run = record.release.hooks.get(at).map(|hook| &hook.last_run);
        run.filter(|run| run.phase == HookPhase::Running)
            .and_then(|run| run.started_at)
            .is_some_and(|started| wait::deadline(started, self.options.timeout) > self.port.now())
    }

    async fn place_hook(
        &mut self,
        record: &Stored,
        at: usize,
    ) -> Result<Vec<Resource>, ActionError> {
        let manifest = record
            .release
            .hooks
            .get(at)
            .map_or("", |hook| hook.manifest.as_str());
        let mut resources = Vec::new();
        for object in object::parse(manifest)? {
            resources.push(self.locate(object).await?);
        }
        Ok(resources)
    }

    async fn execute(
        &mut self,
        record: &Stored,
        at: usize,
        resources: &[Resource],
    ) -> Result<(), ActionError> {
        let changes = self.report.changes.len();
        let subjects = self.apply_hook(resources).await;
        // Objects of hooks are no objects of the release.
        self.report.changes.truncate(changes);
        let subjects = subjects?;
        let started = record
            .release
            .hooks
            .get(at)
            .and_then(|hook| hook.last_run.started_at);
        let started = started.unwrap_or_else(|| self.port.now());
        let deadline = wait::deadline(started, self.options.timeout);
        wait::until_reached(&self.port, subjects, Goal::Run, deadline).await
    }

    async fn apply_hook(&mut self, resources: &[Resource]) -> Result<Vec<Subject>, ActionError> {
        let mut subjects = Vec::new();
        for resource in resources {
            let created = self
                .apply(resource, Expect::Ours { migrate: false })
                .await?;
            let mut subject = subject(resource);
            if let Some(created) = created {
                created.name().clone_into(&mut subject.key.name);
            }
            subjects.push(subject);
        }
        Ok(subjects)
    }

    async fn end_run(
        &mut self,
        record: &mut Stored,
        at: usize,
        event: HookEvent,
        phase: HookPhase,
    ) {
        let now = self.port.now();
        let Some(hook) = record.release.hooks.get_mut(at) else {
            return;
        };
        hook.last_run.phase = phase;
        hook.last_run.completed_at = Some(now);
        let hook = hook.clone();
        let logs = if wants_logs(&hook, phase) {
            self.logs(&hook).await
        } else {
            Vec::new()
        };
        self.report.hooks.push(HookRun {
            name: hook.name,
            kind: hook.kind,
            path: hook.path,
            event,
            phase,
            logs,
        });
    }

    /// After a hook has failed: its own policy, and that of those that had succeeded before it.
    async fn clean_up_failed(
        &mut self,
        record: &Stored,
        order: &[usize],
        place: usize,
    ) -> Result<(), ActionError> {
        for (earlier, at) in order.iter().enumerate().take(place + 1) {
            let policy = if earlier == place { FAILED } else { SUCCEEDED };
            self.delete_by_policy(record, *at, policy).await?;
        }
        Ok(())
    }

    /// Deletes a hook's objects if it has that policy, and waits until they are gone. Definitions
    /// of kinds are never deleted: their objects would go with them.
    async fn delete_by_policy(
        &mut self,
        record: &Stored,
        at: usize,
        policy: &str,
    ) -> Result<(), ActionError> {
        let Some(hook) = record.release.hooks.get(at) else {
            return Ok(());
        };
        let applies = hook.delete_policies.iter().any(|word| word == policy);
        if !applies || hook.kind == "CustomResourceDefinition" {
            return Ok(());
        }
        let mut gone = Vec::new();
        for resource in self.place_hook(record, at).await? {
            if resource.has_generated_name() {
                continue;
            }
            if self.delete_and_see(&resource).await? {
                gone.push((subject(&resource), None));
            }
        }
        wait::until_gone(&self.port, gone, self.deadline()).await
    }
}

fn start_run(record: &mut Stored, at: usize, now: Timestamp) {
    if let Some(hook) = record.release.hooks.get_mut(at) {
        hook.last_run = HookExecution {
            started_at: Some(now),
            completed_at: None,
            phase: HookPhase::Running,
        };
    }
}

/// The phase of a hook in this action; a run of an earlier one does not count.
fn run_state(record: &Stored, at: usize, since: Timestamp) -> HookPhase {
    record
        .release
        .hooks
        .get(at)
        .filter(|hook| {
            hook.last_run
                .started_at
                .is_some_and(|started| started >= since)
        })
        .map_or(HookPhase::None, |hook| hook.last_run.phase)
}

fn wants_logs(hook: &Hook, phase: HookPhase) -> bool {
    let policy = if phase == HookPhase::Succeeded {
        SUCCEEDED
    } else {
        FAILED
    };
    phase == HookPhase::Failed || hook.output_log_policies.iter().any(|word| word == policy)
}

fn hook_failed(record: &Stored, at: usize, event: HookEvent, error: ActionError) -> ActionError {
    let path = record
        .release
        .hooks
        .get(at)
        .map_or("", |hook| hook.path.as_str());
    let reason = match error.reason {
        Reason::WaitTimeout | Reason::ObjectFailed if event == HookEvent::Test => {
            Reason::TestFailed
        }
        Reason::WaitTimeout | Reason::ObjectFailed => Reason::HookFailed,
        other => other,
    };
    ActionError {
        reason,
        message: format!("hook {} {path} failed: {}", event.as_str(), error.message),
        ..error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(name: &str, weight: i64, events: &[HookEvent]) -> Hook {
        Hook {
            name: name.to_owned(),
            weight,
            events: events.to_vec(),
            ..Hook::default()
        }
    }

    #[test]
    fn hooks_run_by_weight_and_then_by_name() {
        use HookEvent::{PostInstall, PreInstall};
        let hooks = [
            hook("b", 0, &[PreInstall]),
            hook("z", -5, &[PreInstall, PostInstall]),
            hook("a", 0, &[PreInstall]),
            hook("c", -9, &[PostInstall]),
        ];
        let all = HookFilter::default();
        assert_eq!(hook_order(&hooks, PreInstall, &all), [1, 2, 0]);
        assert_eq!(hook_order(&hooks, PostInstall, &all), [3, 1]);
        let filter = HookFilter {
            include: vec!["a".to_owned(), "z".to_owned()],
            exclude: vec!["z".to_owned()],
        };
        assert_eq!(hook_order(&hooks, PreInstall, &filter), [2]);
    }

    #[test]
    fn runs_of_an_earlier_action_do_not_count() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let mut record = Stored {
            release: helm_engine::Release {
                hooks: vec![hook("a", 0, &[])],
                ..helm_engine::Release::default()
            },
            annotations: std::collections::BTreeMap::new(),
            version: crate::storage::ObjectVersion::default(),
        };
        assert_eq!(run_state(&record, 0, second(0)), HookPhase::None);
        start_run(&mut record, 0, second(10));
        assert_eq!(run_state(&record, 0, second(10)), HookPhase::Running);
        assert_eq!(run_state(&record, 0, second(11)), HookPhase::None);
    }
}

//! What follows a failure: rollback, tests and their consequences, and going on with what was interrupted.

use std::collections::BTreeMap;
use std::time::Duration;

use helm_kube::{
    ActionError, Class, History, HookFilter, Interrupted, RecoveryPlan, Resume, Rollback, Test,
};

use super::reconcile::{End, Inputs, Sync};
use crate::api::{ANTECEDENT_ANNOTATION, Reason};
use crate::status::{Failure, Progress};
use crate::telemetry::Action as Timed;

impl Sync<'_> {
    /// Rolls back to the last good revision. The failure stays the failure of the upgrade.
    pub(super) async fn roll_back(
        &mut self,
        failure: Failure,
        inputs: &Inputs,
    ) -> Result<End, End> {
        let history = self.fresh_history().await?;
        let newest = history.newest().map_or(0, |newest| newest.revision);
        let Some(target) = history.last_good_before(newest) else {
            // An upgrade over a failed install has nothing to go back to: its failure is all there is.
            return Ok(End::Failed(failure, None));
        };
        let digest = super::decide::digest_of(target).map(str::to_owned);
        self.begin(Progress::RollingBack, inputs).await?;
        let owner = crate::api::resource_id(&self.key);
        let mut annotations = BTreeMap::from([(ANTECEDENT_ANNOTATION.to_owned(), owner)]);
        annotations.extend(digest.map(|digest| (helm_kube::DIGEST.to_owned(), digest)));
        let rollback = Rollback {
            release: self.release_key(),
            plan: self.plan(&history, None),
            history,
            to: None,
            description: None,
            annotations,
            options: super::options::rollback(&self.release, &self.context.settings),
        };
        let machine = helm_kube::rollback(rollback);
        let result = self.carry_out(Timed::Rollback, machine).await?;
        match result {
            Ok(_) => Ok(self.rolled_back(failure)),
            Err(error) => Ok(self.rollback_failed(&error)),
        }
    }

    fn rolled_back(&mut self, failure: Failure) -> End {
        tracing::info!(release = %self.key, "rollback succeeded");
        let rollbacks = self.edit.status().rollback_count;
        let count = rollbacks.unwrap_or(0).saturating_add(1);
        let retried = self.release.spec.rollback().allows_retry(count);
        let failure = Failure { retried, ..failure };
        self.edit.rolled_back(&failure);
        End::Failed(failure, None)
    }

    fn rollback_failed(&mut self, error: &ActionError) -> End {
        let failure = Failure {
            reason: Reason::RollbackFailed.to_string(),
            message: format!("rollback failed: {}", error.message),
            // A release between two revisions is not left there.
            retried: true,
        };
        self.edit.rollback_failed(&failure);
        End::Failed(failure, error.retry_after)
    }

    /// A rollback that did not happen, or failed, after a failure that is known.
    pub(super) async fn roll_back_again(&mut self, inputs: &Inputs) -> Result<End, End> {
        let failure = self.known_failure();
        self.roll_back(failure, inputs).await
    }

    /// The failure that the status tells.
    fn known_failure(&self) -> Failure {
        let ready = self.before.condition("Ready");
        let reason = ready.and_then(|ready| ready.reason.clone());
        let message = ready.and_then(|ready| ready.message.clone());
        Failure {
            reason: reason.unwrap_or_else(|| Reason::UpgradeFailed.to_string()),
            message: message.unwrap_or_else(|| "upgrade failed".to_owned()),
            retried: false,
        }
    }

    /// Goes on with what a crash or a restart has interrupted.
    pub(super) async fn resume(
        &mut self,
        interrupted: Interrupted,
        plan: RecoveryPlan,
        history: History,
        inputs: Inputs,
    ) -> Result<End, End> {
        let (progress, timed) = match interrupted {
            Interrupted::Install => (Progress::Installing, Timed::Install),
            Interrupted::Upgrade => (Progress::Upgrading, Timed::Upgrade),
            Interrupted::Rollback => (Progress::RollingBack, Timed::Rollback),
        };
        tracing::info!(release = %self.key, "going on with an interrupted {progress:?}");
        let failure = self.known_failure();
        let is_of_these = self.before.last_attempted_digest.as_deref() == Some(&inputs.digest);
        self.begin(progress, &inputs).await?;
        let settings = &self.context.settings;
        let options = match interrupted {
            Interrupted::Rollback => super::options::rollback(&self.release, settings),
            _ => super::options::deploy(&self.release, settings),
        };
        let resume = Resume {
            release: self.release_key(),
            history,
            plan,
            options,
        };
        let machine = helm_kube::resume(resume);
        let result = self.carry_out(timed, machine).await?;
        match (interrupted, result) {
            // Other inputs have come meanwhile: that those before them failed says nothing about them.
            (Interrupted::Rollback, Ok(_)) if !is_of_these => Ok(End::Waiting(Duration::ZERO)),
            (Interrupted::Rollback, Ok(_)) => Ok(self.rolled_back(failure)),
            (Interrupted::Rollback, Err(error)) => Ok(self.rollback_failed(&error)),
            (interrupted, result) => {
                let is_install = interrupted == Interrupted::Install;
                self.after_deploy(result, is_install, inputs).await
            }
        }
    }

    /// Runs the tests of what is deployed, which a crash has kept from being run.
    pub(super) async fn test(&mut self, history: History, inputs: &Inputs) -> Result<End, End> {
        let newest = history.newest().map_or(0, |newest| newest.revision);
        let is_first = history.last_good_before(newest).is_none();
        self.test_after(history, inputs, is_first).await
    }

    /// Runs the tests after an install or an upgrade, and draws the consequences.
    pub(super) async fn test_after(
        &mut self,
        history: History,
        inputs: &Inputs,
        is_install: bool,
    ) -> Result<End, End> {
        self.begin(Progress::Testing, inputs).await?;
        let machine = helm_kube::test(Test {
            release: self.release_key(),
            history,
            filter: HookFilter::default(),
            options: super::options::test(&self.release, &self.context.settings),
        });
        let result = self.carry_out(Timed::Test, machine).await?;
        if let Err(error) = result {
            return self.test_failed(error, inputs, is_install).await;
        }
        tracing::info!(release = %self.key, "test succeeded");
        self.edit.tested();
        Ok(self.settle(inputs, Reason::TestSucceeded))
    }

    async fn test_failed(
        &mut self,
        error: ActionError,
        inputs: &Inputs,
        is_install: bool,
    ) -> Result<End, End> {
        tracing::warn!(release = %self.key, "test failed: {error}");
        let message = format!("test failed: {}", error.message);
        let ignored = self.release.spec.test().ignore_failures();
        // Only what the tests themselves say has consequences; an API server that is away says nothing.
        if error.resumable || error.class() == Class::Transient {
            let failure = Failure {
                reason: error.reason.to_string(),
                message,
                retried: true,
            };
            self.edit.test_failed(&failure, ignored);
            return Ok(End::Failed(failure, error.retry_after));
        }
        let mut failure = Failure {
            reason: Reason::TestFailed.to_string(),
            message,
            retried: false,
        };
        if ignored {
            tracing::info!(release = %self.key, "test failed - ignoring failures");
            self.edit.test_failed(&failure, true);
            return Ok(self.settle(inputs, Reason::TestFailed));
        }
        let failures = self.count_failure(inputs);
        failure.retried = failures <= self.release.spec.retry_limit().unwrap_or(0);
        self.edit.test_failed(&failure, false);
        self.publish().await;
        if is_install {
            if let Err(error) = self.uninstall_again().await? {
                return Ok(self.not_taken_back(&error));
            }
        } else if self.release.spec.rollback().enable() {
            return self.roll_back(failure, inputs).await;
        }
        Ok(End::Failed(failure, None))
    }

    /// Goes on with taking back an install whose tests failed.
    pub(super) async fn take_back(&mut self) -> Result<End, End> {
        match self.uninstall_again().await? {
            Ok(()) => Ok(End::Held),
            Err(error) => Ok(self.not_taken_back(&error)),
        }
    }

    /// A release is not left half way: it is tried again.
    fn not_taken_back(&mut self, error: &ActionError) -> End {
        let failure = Failure {
            reason: error.reason.to_string(),
            message: format!("uninstall failed: {}", error.message),
            retried: true,
        };
        self.edit.uninstall_failed(&failure);
        End::Failed(failure, error.retry_after)
    }

    /// Takes back an install whose tests failed, as 1.4 did.
    async fn uninstall_again(&mut self) -> Result<Result<(), ActionError>, End> {
        tracing::info!(release = %self.key, "running uninstall");
        let history = self.fresh_history().await?;
        let machine = helm_kube::uninstall(helm_kube::Uninstall {
            release: self.release_key(),
            plan: self.plan(&history, None),
            history,
            keep_history: false,
            description: None,
            options: super::options::deploy(&self.release, &self.context.settings),
        });
        self.note_written(None);
        let result = self.time(Timed::Uninstall, machine).await?;
        if let Err(error) = &result {
            tracing::warn!(release = %self.key, "uninstall failed: {error}");
        }
        Ok(result.map(|_| ()))
    }
}

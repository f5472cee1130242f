//! What the steps of one action share.

use std::sync::Arc;

use helm_engine::Status;
use jiff::Timestamp;

use crate::cluster::Catalog;
use crate::error::{ActionError, Reason};
use crate::machine::{Port, unexpected};
use crate::object::{Object, ObjectKey, Resource};
use crate::options::Options;
use crate::outcome::{Change, ChangeKind, Report};
use crate::recover::RecoveryPlan;
use crate::release::ReleaseKey;
use crate::request::{Reply, Request};
use crate::storage::{History, Storage, Stored};
use crate::wait;

/// What the steps of one action share.
pub(crate) struct Session {
    pub(crate) port: Port,
    pub(crate) release: ReleaseKey,
    pub(crate) options: Options,
    pub(crate) storage: Storage,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) report: Report,
}

impl Session {
    /// Starts an action: what the cluster serves is found out first.
    pub(crate) async fn open(
        port: Port,
        release: ReleaseKey,
        options: Options,
    ) -> Result<Self, ActionError> {
        let catalog = discover(&port, false).await?;
        let storage = Storage::new(options.driver, release.clone());
        Ok(Self {
            port,
            release,
            options,
            storage,
            catalog,
            report: Report::default(),
        })
    }

    /// The end of a wait that begins now.
    pub(crate) fn deadline(&self) -> Timestamp {
        wait::deadline(self.port.now(), self.options.timeout)
    }

    pub(crate) fn note(&mut self, object: &ObjectKey, kind: ChangeKind) {
        self.report.changes.push(Change {
            object: object.clone(),
            kind,
        });
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.report.warnings.push(warning);
    }

    /// Asks again what the cluster serves.
    pub(crate) async fn rediscover(&mut self) -> Result<(), ActionError> {
        self.catalog = discover(&self.port, true).await?;
        Ok(())
    }

    /// Finds the place of an object; if its kind is not known, discovery is asked again, once.
    pub(crate) async fn locate(&mut self, object: Object) -> Result<Resource, ActionError> {
        if self
            .catalog
            .find(object.api_version(), object.kind())
            .is_none()
        {
            self.rediscover().await?;
        }
        Resource::locate(object, &self.catalog, &self.release.namespace)
    }

    /// Mends what a crash has left in the history: abandoned revisions are marked as failed,
    /// doubly deployed ones as superseded.
    pub(crate) async fn mend(
        &mut self,
        history: &mut History,
        plan: &RecoveryPlan,
    ) -> Result<(), ActionError> {
        for revision in &plan.abandon {
            let description = "Interrupted: the client that worked on it is gone";
            self.mark(history, *revision, Status::Failed, Some(description))
                .await?;
        }
        for revision in &plan.supersede {
            self.mark(history, *revision, Status::Superseded, None)
                .await?;
        }
        Ok(())
    }

    async fn mark(
        &mut self,
        history: &mut History,
        revision: i64,
        status: Status,
        description: Option<&str>,
    ) -> Result<(), ActionError> {
        let marked = match self.storage.get(&self.port, revision).await {
            Ok(stored) if history.is_behind(&stored) => Err(self.storage.changed(revision)),
            Ok(mut stored) => {
                let storage = &self.storage;
                storage
                    .settle(&self.port, &mut stored, status, description)
                    .await
            }
            Err(error) if error.reason == Reason::InvalidRecord => {
                let storage = &self.storage;
                storage
                    .set_status(&self.port, revision, status, description)
                    .await
            }
            Err(error) => Err(error),
        };
        match marked {
            Ok(()) => {}
            // Somebody has removed it: nothing is left to mend.
            Err(error) if error.reason == Reason::ReleaseNotFound => {}
            Err(error) => return Err(error),
        }
        history.set_status(revision, status);
        Ok(())
    }

    /// Reads the record of a revision, or warns that it cannot be read.
    pub(crate) async fn readable(&mut self, revision: i64) -> Result<Option<Stored>, ActionError> {
        match self.storage.get(&self.port, revision).await {
            Ok(stored) => Ok(Some(stored)),
            Err(error) if error.reason == Reason::InvalidRecord => {
                self.warn(error.message);
                Ok(None)
            }
            // It was there when the history was read.
            Err(error) if error.reason == Reason::ReleaseNotFound => {
                Err(self.storage.changed(revision))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes revisions so that one more fits.
    pub(crate) async fn prune(
        &mut self,
        history: &mut History,
        keep: &[i64],
    ) -> Result<(), ActionError> {
        for revision in history.surplus(self.options.max_history, keep) {
            self.storage.delete(&self.port, revision).await?;
            history.remove(revision);
        }
        Ok(())
    }
}

/// Asks what the cluster serves.
pub(crate) async fn discover(port: &Port, fresh: bool) -> Result<Arc<Catalog>, ActionError> {
    let what = "discover what is served";
    match port.send(Request::Discover { fresh }).await {
        Ok(Reply::Catalog(catalog)) => Ok(catalog),
        Ok(_) => Err(unexpected(what)),
        Err(failure) => Err(ActionError::from_failure(what, &failure)),
    }
}

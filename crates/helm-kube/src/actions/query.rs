//! What is recorded and what is live: history, records, status. Nothing is written.

use helm_engine::Release;

use crate::calls;
use crate::error::{ActionError, Reason};
use crate::machine::Machine;
use crate::object::{self, ObjectKey, Resource};
use crate::options::Options;
use crate::readiness::{Readiness, State, readiness};
use crate::release::ReleaseKey;
use crate::request::{Accept, Reply};
use crate::session::Session;
use crate::storage::{Driver, History, Storage, Stored};

/// Reads the history of a release: one request, metadata only.
#[must_use]
pub fn history(release: ReleaseKey, driver: Driver) -> Machine<Result<History, ActionError>> {
    Machine::new(move |port| async move { Storage::new(driver, release).history(&port).await })
}

/// Reads all records of a release, oldest first, with their content.
#[must_use]
pub fn records(release: ReleaseKey, driver: Driver) -> Machine<Result<Vec<Stored>, ActionError>> {
    Machine::new(move |port| async move { Storage::new(driver, release).records(&port).await })
}

/// Reads the record of a revision; `None` means the newest.
#[must_use]
pub fn get(
    release: ReleaseKey,
    driver: Driver,
    revision: Option<i64>,
) -> Machine<Result<Stored, ActionError>> {
    Machine::new(move |port| async move {
        let storage = Storage::new(driver, release.clone());
        let revision = match revision {
            Some(revision) => revision,
            None => newest(&storage.history(&port).await?, &release)?,
        };
        storage.get(&port, revision).await
    })
}

/// A release and its live objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseStatus {
    /// The record.
    pub release: Release,
    /// Its objects, in the order of the manifest.
    pub objects: Vec<ObjectStatus>,
}

/// A live object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStatus {
    /// The object.
    pub object: ObjectKey,
    /// Its state.
    pub readiness: Readiness,
}

/// Reads a revision (`None`: the newest), and looks at each of its objects.
#[must_use]
pub fn status(
    release: ReleaseKey,
    options: Options,
    revision: Option<i64>,
) -> Machine<Result<ReleaseStatus, ActionError>> {
    Machine::new(move |port| async move {
        let session = Session::open(port, release, options).await?;
        let revision = match revision {
            Some(revision) => revision,
            None => newest(
                &session.storage.history(&session.port).await?,
                &session.release,
            )?,
        };
        let stored = session.storage.get(&session.port, revision).await?;
        let mut objects = Vec::new();
        for object in object::parse(&stored.release.manifest)? {
            let key = session.key_of(&object);
            let found = Resource::locate(object, &session.catalog, &session.release.namespace);
            let readiness = match found {
                Ok(resource) => look(&session, &resource).await?,
                Err(error) => Readiness::new(State::Unknown, error.message),
            };
            objects.push(ObjectStatus {
                object: key,
                readiness,
            });
        }
        Ok(ReleaseStatus {
            release: stored.release,
            objects,
        })
    })
}

fn newest(history: &History, release: &ReleaseKey) -> Result<i64, ActionError> {
    history
        .newest()
        .map(|newest| newest.revision)
        .ok_or_else(|| {
            ActionError::new(
                Reason::ReleaseNotFound,
                format!("release: not found: {release}"),
            )
        })
}

async fn look(session: &Session, resource: &Resource) -> Result<Readiness, ActionError> {
    let call = calls::get(&resource.api, &resource.key, Accept::Full);
    let what = call.what.clone();
    match session.port.try_call(call).await {
        Ok(Reply::Object { body, .. }) => Ok(readiness(&body, session.port.now())),
        Ok(_) => Ok(Readiness::new(State::Unknown, "no object in the answer")),
        Err(failure) if failure.is_not_found() => {
            Ok(Readiness::new(State::NotFound, "Resource not found"))
        }
        Err(failure) => Err(ActionError::from_failure(&what, &failure)),
    }
}

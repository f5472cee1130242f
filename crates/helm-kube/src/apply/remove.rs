//! Takes objects out of the cluster.

use helm_engine::{UNINSTALL_ORDER, compare_kinds};
use serde_json::Value;

use super::refusal::busy;
use super::{Created, TRIES, join, metadata_text};
use crate::calls;
use crate::cluster::ApiResource;
use crate::error::ActionError;
use crate::object::{Object, ObjectKey, RESOURCE_POLICY, Resource, is_keep};
use crate::outcome::ChangeKind;
use crate::ownership;
use crate::request::{Failure, Reply};
use crate::session::Session;
use crate::wait::Subject;

impl Session {
    /// Deletes an object; one that is gone, or is another one by now, is fine.
    pub(crate) async fn delete(
        &self,
        api: &ApiResource,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<(), ActionError> {
        for _ in 0..TRIES {
            let call = calls::delete(api, key, uid, self.options.propagation);
            let what = call.what.clone();
            match self.port.try_call(call).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.is_not_found() => return Ok(()),
                // It is another one by now, is on its way out already, or has just changed.
                Err(Failure::Status(status)) if status.is_stale() => {
                    if !self.is_there(api, key, uid).await? {
                        return Ok(());
                    }
                }
                Err(failure) => return Err(ActionError::from_failure(&what, &failure)),
            }
        }
        Err(busy(key))
    }

    /// Whether the very object is there, and nobody has asked for its deletion.
    async fn is_there(
        &self,
        api: &ApiResource,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<bool, ActionError> {
        let live = self.live_metadata(api, key).await?;
        Ok(live.is_some_and(|live| {
            metadata_text(&live, "deletionTimestamp").is_empty()
                && uid.is_none_or(|uid| metadata_text(&live, "uid") == uid)
        }))
    }

    /// Deletes an object and tells whether it may still be there for a while.
    pub(crate) async fn delete_and_see(&self, resource: &Resource) -> Result<bool, ActionError> {
        let call = calls::delete(&resource.api, &resource.key, None, self.options.propagation);
        let what = call.what.clone();
        match self.port.try_call(call).await {
            // An object that is gone at once is answered with a `Status`, one that has to end
            // first with itself.
            Ok(Reply::Object { body, .. }) => {
                Ok(body.get("kind").and_then(Value::as_str) != Some("Status"))
            }
            Ok(_) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }

    /// Deletes what this action has created, newest first.
    pub(crate) async fn undo(&mut self, created: Vec<Created>) -> Result<(), ActionError> {
        for Created { key, api, uid } in created.into_iter().rev() {
            self.delete(&api, &key, Some(&uid)).await?;
            self.note(&key, ChangeKind::Deleted);
        }
        Ok(())
    }

    /// Deletes objects of a release that are no longer wanted, in uninstall order. Those with the
    /// resource policy `keep` stay, and those that belong to something else.
    pub(crate) async fn remove(
        &mut self,
        objects: Vec<Object>,
        owned_only: bool,
    ) -> Result<Vec<(Subject, Option<String>)>, ActionError> {
        let mut objects = objects;
        objects.sort_by(|left, right| compare_kinds(UNINSTALL_ORDER, left.kind(), right.kind()));
        let mut deleted = Vec::new();
        let mut failures = Vec::new();
        for object in objects {
            match self.remove_one(object, owned_only).await {
                Ok(Some(gone)) => deleted.push(gone),
                Ok(None) => {}
                Err(error) if error.is_outage() => return Err(error),
                Err(error) => failures.push(error),
            }
        }
        match join(failures) {
            None => Ok(deleted),
            Some(error) => Err(error),
        }
    }

    async fn remove_one(
        &mut self,
        object: Object,
        owned_only: bool,
    ) -> Result<Option<(Subject, Option<String>)>, ActionError> {
        let is_kept = object.is_kept();
        let Some(resource) = self.place_removed(object) else {
            return Ok(None);
        };
        let Resource { key, api, .. } = resource;
        if is_kept {
            self.note(&key, ChangeKind::Kept);
            return Ok(None);
        }
        let Some(live) = self.live_metadata(&api, &key).await? else {
            return Ok(None);
        };
        if let Some(stays) = self.reason_to_stay(&live, owned_only) {
            self.note(&key, stays);
            return Ok(None);
        }
        let uid = metadata_text(&live, "uid").to_owned();
        self.delete(&api, &key, Some(&uid)).await?;
        self.note(&key, ChangeKind::Deleted);
        Ok(Some((Subject { key, api }, Some(uid))))
    }

    /// The place of an object of an old manifest. Its version may have been removed from the
    /// cluster: then it is looked for in the versions that are left. If there are none, the
    /// cluster cannot hold such an object.
    fn place_removed(&mut self, mut object: Object) -> Option<Resource> {
        if object.metadata("name").is_empty() {
            return None;
        }
        if self
            .catalog
            .find(object.api_version(), object.kind())
            .is_none()
        {
            let group = object
                .api_version()
                .split_once('/')
                .map_or("", |(group, _)| group);
            match self.catalog.find_any_version(group, object.kind()) {
                Some(api) => {
                    let version = api.api_version();
                    object
                        .content
                        .insert("apiVersion".to_owned(), version.into());
                }
                None => {
                    self.warn(format!(
                        "{} {} of {} is no longer served: taken as gone",
                        object.kind(),
                        object.metadata("name"),
                        object.api_version()
                    ));
                    return None;
                }
            }
        }
        Resource::locate(object, &self.catalog, &self.release.namespace).ok()
    }

    fn reason_to_stay(&self, live: &Value, owned_only: bool) -> Option<ChangeKind> {
        let annotations = live
            .get("metadata")
            .and_then(|metadata| metadata.get("annotations"));
        let policy = annotations.and_then(|annotations| annotations.get(RESOURCE_POLICY));
        if policy.and_then(Value::as_str).is_some_and(is_keep) {
            return Some(ChangeKind::Kept);
        }
        let is_foreign = match ownership::owner(live) {
            Some(owner) => owner != self.release,
            None => owned_only,
        };
        let is_unowned = owned_only && !ownership::is_owned(live, &self.release);
        (is_foreign || is_unowned).then_some(ChangeKind::NotOwned)
    }
}

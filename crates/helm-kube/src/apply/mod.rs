//! Brings objects into the cluster, and takes them out of it.

mod refusal;
mod remove;

use serde_json::Value;

use crate::calls::{self, ApplyMode};
use crate::cluster::ApiResource;
use crate::error::{ActionError, Reason, reason_of};
use crate::migrate::migration;
use crate::object::{KeySet, Object, ObjectKey, Resource, edit_map};
use crate::outcome::ChangeKind;
use crate::ownership;
use crate::request::{Accept, ApiStatus, Failure, Reply};
use crate::session::Session;
use crate::wait::{self, Subject};
use refusal::{busy, refused};

/// An object of the release on its way to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// Its place is known.
    Placed(Resource),
    /// Its kind will be there once a definition of the same manifest is.
    Later(Object),
}

/// What is known about the live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It should not exist; if it does, it must be ours.
    Absent,
    /// It is one of ours.
    Ours {
        /// It may have been made by client-side updates.
        migrate: bool,
    },
}

/// An object that this very action has created.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    key: ObjectKey,
    api: ApiResource,
    uid: String,
}

impl Created {
    /// The object's name, as the API server knows it.
    pub(crate) fn name(&self) -> &str {
        &self.key.name
    }
}

/// No object ever has this version: revision 1 of etcd is that of the empty store. An apply with
/// it creates what is missing, and is refused (409) for what exists.
const NEVER: &str = "1";

/// How often an apply is tried again when the object keeps changing under it.
const TRIES: usize = 5;

impl Session {
    /// Finds the places of a manifest's objects and marks them as the release's.
    pub(crate) async fn place(&mut self, objects: Vec<Object>) -> Result<Vec<Target>, ActionError> {
        let is_known = |session: &Self, object: &Object| {
            session
                .catalog
                .find(object.api_version(), object.kind())
                .is_some()
        };
        if !objects
            .iter()
            .all(|object| is_known(self, object) || is_defined_in(object, &objects))
        {
            self.rediscover().await?;
        }
        let mut targets = Vec::with_capacity(objects.len());
        for object in &objects {
            if !is_known(self, object) && is_defined_in(object, &objects) {
                targets.push(Target::Later(object.clone()));
                continue;
            }
            let resource =
                Resource::locate(object.clone(), &self.catalog, &self.release.namespace)?;
            check_name(&resource, object)?;
            targets.push(Target::Placed(self.stamped(resource)));
        }
        Ok(targets)
    }

    /// Marks an object as the release's.
    pub(crate) fn stamped(&self, mut resource: Resource) -> Resource {
        ownership::stamp(&mut resource.content, &self.release);
        if !self.options.annotations.is_empty() {
            ownership::annotate(&mut resource.content, &self.options.annotations);
        }
        resource
    }

    /// Applies all objects in their order. The first outage ends it; other failures are collected
    /// if `go_on` is set, so that all of them can be told at once.
    pub(crate) async fn apply_all(
        &mut self,
        targets: Vec<Target>,
        expect: impl Fn(&ObjectKey) -> Expect,
        go_on: bool,
    ) -> Result<Vec<Resource>, Interruption> {
        let mut applied = Vec::with_capacity(targets.len());
        let mut created = Vec::new();
        let mut failures: Vec<ActionError> = Vec::new();
        for target in targets {
            let result = self
                .apply_target(target, &expect, &mut applied, &mut created)
                .await;
            if let Err(error) = result {
                let is_end = error.is_outage() || !go_on;
                failures.push(error);
                if is_end {
                    break;
                }
            }
        }
        match join(failures) {
            None => Ok(applied),
            Some(error) => Err(Interruption { error, created }),
        }
    }

    async fn apply_target(
        &mut self,
        target: Target,
        expect: &impl Fn(&ObjectKey) -> Expect,
        applied: &mut Vec<Resource>,
        created: &mut Vec<Created>,
    ) -> Result<(), ActionError> {
        let resource = match target {
            Target::Placed(resource) => resource,
            Target::Later(object) => {
                self.await_definitions(applied).await?;
                let resource = self.locate(object).await?;
                self.stamped(resource)
            }
        };
        let expectation = expect(&resource.key);
        if let Some(new) = self.apply(&resource, expectation).await? {
            created.push(new);
        }
        applied.push(resource);
        Ok(())
    }

    /// Waits until the definitions among the applied objects are served.
    async fn await_definitions(&mut self, applied: &[Resource]) -> Result<(), ActionError> {
        let definitions = applied
            .iter()
            .filter(|resource| is_definition(&resource.key));
        self.await_established(definitions.map(subject).collect())
            .await
    }

    /// Applies one object.
    pub(crate) async fn apply(
        &mut self,
        resource: &Resource,
        expect: Expect,
    ) -> Result<Option<Created>, ActionError> {
        if resource.has_generated_name() {
            return self.create(resource).await.map(Some);
        }
        match expect {
            Expect::Absent => self.apply_new(resource).await,
            Expect::Ours { migrate } => {
                if migrate {
                    self.migrate(resource).await?;
                }
                self.apply_over(resource, ChangeKind::Applied).await
            }
        }
    }

    async fn create(&mut self, resource: &Resource) -> Result<Created, ActionError> {
        let reply = self
            .port
            .call(calls::create(resource, self.options.strict))
            .await?;
        let body = match reply {
            Reply::Object { body, .. } => body,
            _ => Value::Null,
        };
        let created = Created {
            key: ObjectKey {
                name: metadata_text(&body, "name").to_owned(),
                ..resource.key.clone()
            },
            api: resource.api.clone(),
            uid: metadata_text(&body, "uid").to_owned(),
        };
        self.note(&created.key, ChangeKind::Created);
        Ok(created)
    }

    /// Creates an object by an apply that does not touch an existing one. If there is one after
    /// all, it is looked at, and taken over if it is ours.
    async fn apply_new(&mut self, resource: &Resource) -> Result<Option<Created>, ActionError> {
        let mut guarded = resource.clone();
        edit_map(&mut guarded.content, "metadata", |metadata| {
            metadata.insert("resourceVersion".to_owned(), NEVER.into());
        });
        // With force there is one way only in which an existing object stands in the way.
        let mode = ApplyMode {
            force: true,
            ..self.mode()
        };
        for _ in 0..TRIES {
            let call = calls::apply(&guarded, mode, Accept::Metadata);
            match self.port.try_call(call).await {
                Ok(Reply::Object { body, .. }) => {
                    self.note(&resource.key, ChangeKind::Created);
                    return Ok(Some(Created {
                        key: resource.key.clone(),
                        api: resource.api.clone(),
                        uid: metadata_text(&body, "uid").to_owned(),
                    }));
                }
                Ok(_) => return Ok(None),
                Err(Failure::Status(status)) if status.is_stale() => {
                    if self.adopt(resource).await? {
                        return self.apply_over(resource, ChangeKind::Adopted).await;
                    }
                }
                Err(failure) => return Err(refused(resource, &failure)),
            }
        }
        Err(busy(&resource.key))
    }

    /// Looks at an existing object that is to become the release's: whether it may, and whose
    /// fields it has. `false` if there is none.
    pub(crate) async fn adopt(&mut self, resource: &Resource) -> Result<bool, ActionError> {
        let Some(live) = self.live_metadata(&resource.api, &resource.key).await? else {
            return Ok(false);
        };
        if !self.options.take_ownership {
            ownership::check(&live, &resource.key, &self.release)?;
        }
        self.migrate_live(resource, live).await?;
        Ok(true)
    }

    async fn migrate(&mut self, resource: &Resource) -> Result<(), ActionError> {
        match self.live_metadata(&resource.api, &resource.key).await? {
            Some(live) => self.migrate_live(resource, live).await,
            None => Ok(()),
        }
    }

    async fn migrate_live(
        &mut self,
        resource: &Resource,
        mut live: Value,
    ) -> Result<(), ActionError> {
        for _ in 0..TRIES {
            let Some(patch) = migration(&live) else {
                return Ok(());
            };
            let call = calls::json_patch(&resource.api, &resource.key, &patch);
            match self.port.try_call(call).await {
                Ok(_) => return Ok(()),
                Err(Failure::Status(status)) if status.is_stale() => {}
                Err(failure) if failure.is_not_found() => return Ok(()),
                Err(failure) => return Err(refused(resource, &failure)),
            }
            match self.live_metadata(&resource.api, &resource.key).await? {
                Some(fresh) => live = fresh,
                None => return Ok(()),
            }
        }
        Err(busy(&resource.key))
    }

    /// Reads the metadata of an object; `None` if there is none.
    pub(crate) async fn live_metadata(
        &self,
        api: &ApiResource,
        key: &ObjectKey,
    ) -> Result<Option<Value>, ActionError> {
        let call = calls::get(api, key, Accept::Metadata);
        let what = call.what.clone();
        match self.port.try_call(call).await {
            Ok(Reply::Object { body, .. }) => Ok(Some(body)),
            Ok(_) => Ok(None),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }

    /// Applies an object over what is there.
    async fn apply_over(
        &mut self,
        resource: &Resource,
        kind: ChangeKind,
    ) -> Result<Option<Created>, ActionError> {
        let mut kind = kind;
        for _ in 0..TRIES {
            let call = calls::apply(resource, self.mode(), Accept::Metadata);
            let (code, body) = match self.port.try_call(call).await {
                Ok(Reply::Object { code, body }) => (code, body),
                Ok(_) => return Ok(None),
                Err(Failure::Status(status)) if status.is_stale() => continue,
                Err(Failure::Status(status)) if self.is_to_recreate(resource, &status) => {
                    self.remove_for_good(resource).await?;
                    kind = ChangeKind::Recreated;
                    continue;
                }
                Err(failure) => return Err(refused(resource, &failure)),
            };
            let uid = metadata_text(&body, "uid").to_owned();
            if !metadata_text(&body, "deletionTimestamp").is_empty() {
                // It was on its way out, and is let go first.
                let gone = (subject(resource), Some(uid));
                wait::until_gone(&self.port, vec![gone], self.deadline()).await?;
                continue;
            }
            if code != 201 || kind == ChangeKind::Recreated {
                self.note(&resource.key, kind);
                return Ok(None);
            }
            self.note(&resource.key, ChangeKind::Created);
            return Ok(Some(Created {
                key: resource.key.clone(),
                api: resource.api.clone(),
                uid,
            }));
        }
        Err(busy(&resource.key))
    }

    fn mode(&self) -> ApplyMode {
        ApplyMode {
            force: self.options.force_conflicts,
            strict: self.options.strict,
            dry_run: false,
        }
    }

    fn is_to_recreate(&self, resource: &Resource, status: &ApiStatus) -> bool {
        reason_of(status) == Reason::ImmutableField && self.options.may_recreate(&resource.key.kind)
    }

    async fn remove_for_good(&mut self, resource: &Resource) -> Result<(), ActionError> {
        let Some(live) = self.live_metadata(&resource.api, &resource.key).await? else {
            return Ok(());
        };
        let uid = metadata_text(&live, "uid").to_owned();
        self.delete(&resource.api, &resource.key, Some(&uid))
            .await?;
        let gone = vec![(subject(resource), Some(uid))];
        wait::until_gone(&self.port, gone, self.deadline()).await
    }

    /// Keys of objects as they would be placed, to compare manifests.
    pub(crate) fn keys(&self, objects: &[Object]) -> KeySet {
        objects.iter().map(|object| self.key_of(object)).collect()
    }

    /// The key of an object as it would be placed.
    pub(crate) fn key_of(&self, object: &Object) -> ObjectKey {
        let is_namespaced = self
            .catalog
            .find(object.api_version(), object.kind())
            .is_none_or(|api| api.namespaced);
        let namespace = match object.metadata("namespace") {
            _ if !is_namespaced => "",
            "" => self.release.namespace.as_str(),
            own => own,
        };
        ObjectKey {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: namespace.to_owned(),
            name: object.metadata("name").to_owned(),
        }
    }
}

/// Why applying ended, and what had been created until then.
pub(crate) struct Interruption {
    pub(crate) error: ActionError,
    pub(crate) created: Vec<Created>,
}

/// The wait subject of a resource.
pub(crate) fn subject(resource: &Resource) -> Subject {
    Subject {
        key: resource.key.clone(),
        api: resource.api.clone(),
    }
}

/// Whether an object defines kinds.
pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.kind == "CustomResourceDefinition" && key.group() == "apiextensions.k8s.io"
}

fn is_defined_in(object: &Object, objects: &[Object]) -> bool {
    let group = object
        .api_version()
        .split_once('/')
        .map_or("", |(group, _)| group);
    objects.iter().any(|candidate| {
        let spec = candidate.content.get("spec");
        let text = |path: &[&str]| {
            let found = path.iter().try_fold(spec?, |value, key| value.get(*key));
            found.and_then(Value::as_str)
        };
        candidate.kind() == "CustomResourceDefinition"
            && text(&["group"]) == Some(group)
            && text(&["names", "kind"]) == Some(object.kind())
    })
}

fn check_name(resource: &Resource, object: &Object) -> Result<(), ActionError> {
    let has_name = !resource.key.name.is_empty();
    let has_prefix = !object.metadata("generateName").is_empty();
    let fault = match (has_name, has_prefix) {
        (true, false) | (false, true) => return Ok(()),
        (true, true) => "metadata.name and metadata.generateName cannot both be set",
        (false, false) => "metadata.name is missing",
    };
    Err(ActionError::new(
        Reason::InvalidManifest,
        format!("{fault}: {} in {}", resource.key.kind, object.source),
    ))
}

fn metadata_text<'a>(object: &'a Value, key: &str) -> &'a str {
    let metadata = object.get("metadata");
    metadata
        .and_then(|metadata| metadata.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// One failure of many: the first one's reason, all texts.
fn join(failures: Vec<ActionError>) -> Option<ActionError> {
    let mut failures = failures.into_iter();
    let mut first = failures.next()?;
    for other in failures {
        if other.is_outage() && !first.is_outage() {
            first.reason = other.reason;
        }
        if first.message.len() < 4096 {
            first.message.push_str(" && ");
            first.message.push_str(&other.message);
        }
    }
    Some(first)
}

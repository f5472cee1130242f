//! Release records: where they are kept, in Helm's form, and how they are read and written.

mod history;
mod size;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helm_engine::{Release, Status};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use history::{History, Revision};
pub use size::{MAX_RECORD_SIZE, fit};

use crate::calls::{FIELD_MANAGER, escape};
use crate::error::{ActionError, Reason};
use crate::machine::{Port, unexpected};
use crate::release::ReleaseKey;
use crate::request::{Accept, Call, Content, Failure, Reply, Verb};

/// Labels that Helm keeps on each record.
pub const SYSTEM_LABELS: [&str; 6] = [
    "name",
    "owner",
    "status",
    "version",
    "createdAt",
    "modifiedAt",
];

/// The annotation that says who runs the action of a pending record.
pub const HOLDER: &str = "helm.fluxcd.io/holder";
/// The annotation with the digest of the inputs that a revision was made of.
pub const DIGEST: &str = "helm.fluxcd.io/digest";

/// The kind of object that holds records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Secrets of type `helm.sh/release.v1`: Helm's default.
    #[default]
    Secret,
    /// ConfigMaps.
    ConfigMap,
}

impl Driver {
    /// The plural in paths.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// The records of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    driver: Driver,
    release: ReleaseKey,
}

/// What tells one state of an object from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.uid`
    pub uid: String,
}

impl ObjectVersion {
    /// Reads it from an object.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |key: &str| {
            let value = object
                .get("metadata")
                .and_then(|metadata| metadata.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Self {
            resource_version: text("resourceVersion"),
            uid: text("uid"),
        }
    }
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The record.
    pub release: Release,
    /// Annotations of its object.
    pub annotations: BTreeMap<String, String>,
    /// The version of its object.
    pub version: ObjectVersion,
}

impl Stored {
    /// Reads an object.
    ///
    /// # Errors
    /// It holds no record.
    pub fn from_object(driver: Driver, object: &Value) -> Result<Self, ActionError> {
        let name = object
            .get("metadata")
            .and_then(|metadata| metadata.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let invalid = |cause: String| {
            ActionError::new(
                Reason::InvalidRecord,
                format!(
                    "{cause}: {} {name} holds no release record: delete it, or restore it from a backup",
                    driver.kind()
                ),
            )
        };
        let text =
            payload(object).ok_or_else(|| invalid("no data under \"release\"".to_owned()))?;
        let decoded = match driver {
            Driver::Secret => STANDARD
                .decode(text)
                .map_err(|error| error.to_string())
                .and_then(|text| Release::decode(text).map_err(|error| error.to_string())),
            Driver::ConfigMap => Release::decode(text).map_err(|error| error.to_string()),
        };
        let mut release = decoded.map_err(invalid)?;
        let revision = Revision::from_object(object);
        if let Some(revision) = &revision {
            release.labels.clone_from(&revision.labels);
        }
        Ok(Self {
            release,
            annotations: revision
                .map(|revision| revision.annotations)
                .unwrap_or_default(),
            version: ObjectVersion::of(object),
        })
    }
}

fn payload(object: &Value) -> Option<&str> {
    object.get("data")?.get("release")?.as_str()
}

/// How often a record is written that keeps changing.
const TRIES: usize = 3;

impl Storage {
    /// The records of a release.
    #[must_use]
    pub fn new(driver: Driver, release: ReleaseKey) -> Self {
        Self { driver, release }
    }

    /// The name of the object of a revision: `sh.helm.release.v1.NAME.vREVISION`.
    #[must_use]
    pub fn object_name(&self, revision: i64) -> String {
        format!("sh.helm.release.v1.{}.v{revision}", self.release.name)
    }

    fn collection(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/{}",
            escape(&self.release.namespace),
            self.driver.plural()
        )
    }

    fn path(&self, revision: i64) -> String {
        format!(
            "{}/{}",
            self.collection(),
            escape(&self.object_name(revision))
        )
    }

    fn call(&self, verb: Verb, uri: String, what: String) -> Call {
        Call {
            verb,
            uri,
            accept: Accept::Metadata,
            body: None,
            what: format!("{what} of release {}", self.release),
        }
    }

    fn list(&self, accept: Accept) -> Call {
        let uri = format!(
            "{}?labelSelector=name%3D{}%2Cowner%3Dhelm",
            self.collection(),
            escape(&self.release.name)
        );
        Call {
            accept,
            ..self.call(Verb::Get, uri, "list the records".to_owned())
        }
    }

    /// Reads the history.
    pub(crate) async fn history(&self, port: &Port) -> Result<History, ActionError> {
        let body = object_of(port.call(self.list(Accept::Metadata)).await?)?;
        Ok(History::from_objects(items(&body)))
    }

    /// Reads all records, oldest first; those that cannot be read are left out, as in Helm.
    pub(crate) async fn records(&self, port: &Port) -> Result<Vec<Stored>, ActionError> {
        let body = object_of(port.call(self.list(Accept::Full)).await?)?;
        let mut records: Vec<_> = items(&body)
            .filter_map(|object| Stored::from_object(self.driver, object).ok())
            .collect();
        records.sort_by_key(|stored| stored.release.revision);
        Ok(records)
    }

    /// Reads the record of a revision.
    pub(crate) async fn get(&self, port: &Port, revision: i64) -> Result<Stored, ActionError> {
        match port.try_call(self.get_call(revision)).await {
            Ok(reply) => Stored::from_object(self.driver, &object_of(reply)?),
            Err(failure) if failure.is_not_found() => Err(ActionError::new(
                Reason::ReleaseNotFound,
                format!(
                    "release: not found: {} has no revision {revision}",
                    self.release
                ),
            )),
            Err(failure) => Err(ActionError::from_failure(
                &self.get_call(revision).what,
                &failure,
            )),
        }
    }

    fn get_call(&self, revision: i64) -> Call {
        let what = format!("get revision {revision}");
        Call {
            accept: Accept::Full,
            ..self.call(Verb::Get, self.path(revision), what)
        }
    }

    /// Creates a record; that it is not there yet is the fence against a second writer. A record
    /// that is there and equals this one is ours: the answer to the first try was lost.
    pub(crate) async fn create(&self, port: &Port, stored: &mut Stored) -> Result<(), Failure> {
        let encoded = encode(&stored.release)?;
        let revision = stored.release.revision;
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.collection());
        let call = Call {
            body: Some((Content::Json, self.body(port, stored, &encoded, true))),
            ..self.call(Verb::Create, uri, format!("create revision {revision}"))
        };
        match port.try_call(call).await {
            Ok(Reply::Object { body, .. }) => stored.version = ObjectVersion::of(&body),
            Ok(_) => return Err(confused()),
            Err(Failure::Status(status)) if status.is_already_exists() => {
                let is_same = self.adopt(port, stored, &encoded).await?;
                if !is_same {
                    return Err(Failure::Status(status));
                }
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Replaces a record, if nobody else has changed it since it was read.
    pub(crate) async fn update(&self, port: &Port, stored: &mut Stored) -> Result<(), ActionError> {
        let encoded = encode(&stored.release)
            .map_err(|failure| ActionError::from_failure("encode a record", &failure))?;
        let revision = stored.release.revision;
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.path(revision));
        let call = Call {
            body: Some((Content::Json, self.body(port, stored, &encoded, false))),
            ..self.call(Verb::Replace, uri, format!("update revision {revision}"))
        };
        let what = call.what.clone();
        match port.try_call(call).await {
            Ok(Reply::Object { body, .. }) => stored.version = ObjectVersion::of(&body),
            Ok(_) => return Err(unexpected(&what)),
            Err(Failure::Status(status)) if status.is_stale() => {
                let same = self.adopt(port, stored, &encoded).await;
                if !same.map_err(|failure| ActionError::from_failure(&what, &failure))? {
                    return Err(self.changed(revision));
                }
            }
            Err(failure) if failure.is_not_found() => return Err(self.changed(revision)),
            Err(failure) => return Err(ActionError::from_failure(&what, &failure)),
        }
        Ok(())
    }

    /// The failure of a create or update that met another writer.
    pub(crate) fn changed(&self, revision: i64) -> ActionError {
        ActionError::new(
            Reason::ConcurrentChange,
            format!(
                "revision {revision} of release {} was changed by another client: it is looked at again",
                self.release
            ),
        )
    }

    /// Whether the stored record is what was to be written; its version is taken over then.
    async fn adopt(
        &self,
        port: &Port,
        stored: &mut Stored,
        encoded: &str,
    ) -> Result<bool, Failure> {
        let Reply::Object { body, .. } = port
            .try_call(self.get_call(stored.release.revision))
            .await?
        else {
            return Err(confused());
        };
        let found = match self.driver {
            Driver::Secret => payload(&body).and_then(|text| STANDARD.decode(text).ok()),
            Driver::ConfigMap => payload(&body).map(|text| text.as_bytes().to_vec()),
        };
        let is_same = found.as_deref() == Some(encoded.as_bytes());
        if is_same {
            stored.version = ObjectVersion::of(&body);
        }
        Ok(is_same)
    }

    /// Deletes the record of a revision; one that is gone is fine.
    pub(crate) async fn delete(&self, port: &Port, revision: i64) -> Result<(), ActionError> {
        let what = format!("delete revision {revision}");
        let call = self.call(Verb::Delete, self.path(revision), what);
        let what = call.what.clone();
        match port.try_call(call).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }

    fn body(&self, port: &Port, stored: &Stored, encoded: &str, is_new: bool) -> Vec<u8> {
        let object = RecordObject {
            api_version: "v1",
            kind: self.driver.kind(),
            metadata: RecordMetadata {
                name: self.object_name(stored.release.revision),
                namespace: &self.release.namespace,
                labels: self.labels(&stored.release, port.now(), is_new),
                annotations: &stored.annotations,
                resource_version: (!is_new).then_some(&stored.version.resource_version),
                uid: (!is_new).then_some(&stored.version.uid),
            },
            kind_of_secret: (self.driver == Driver::Secret).then_some("helm.sh/release.v1"),
            string_data: (self.driver == Driver::Secret).then_some(Payload { release: encoded }),
            data: (self.driver == Driver::ConfigMap).then_some(Payload { release: encoded }),
        };
        // Texts and maps of texts always have a JSON form.
        serde_json::to_vec(&object).unwrap_or_default()
    }

    fn labels(&self, release: &Release, now: Timestamp, is_new: bool) -> BTreeMap<String, String> {
        let mut labels = release.labels.clone();
        let stamp = if is_new { "createdAt" } else { "modifiedAt" };
        for (key, value) in [
            ("name", self.release.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", release.info.status.as_str().to_owned()),
            ("version", release.revision.to_string()),
            (stamp, now.as_second().to_string()),
        ] {
            labels.insert(key.to_owned(), value);
        }
        labels
    }

    /// Writes another status and description into the record of a revision. Of a record that
    /// cannot be read, the label is written: it is what histories are made of.
    pub(crate) async fn set_status(
        &self,
        port: &Port,
        revision: i64,
        status: Status,
        description: Option<&str>,
    ) -> Result<(), ActionError> {
        let mut tries = 1..TRIES;
        loop {
            let result = match self.get(port, revision).await {
                Ok(mut stored) => self.settle(port, &mut stored, status, description).await,
                Err(error) if error.reason == Reason::InvalidRecord => {
                    self.relabel(port, revision, status).await
                }
                Err(error) => Err(error),
            };
            let has_changed =
                matches!(&result, Err(error) if error.reason == Reason::ConcurrentChange);
            if !has_changed || tries.next().is_none() {
                return result;
            }
        }
    }

    async fn relabel(&self, port: &Port, revision: i64, status: Status) -> Result<(), ActionError> {
        let patch = serde_json::json!({"metadata": {"labels": {"status": status.as_str()}}});
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.path(revision));
        let call = Call {
            body: Some((Content::MergePatch, patch.to_string().into_bytes())),
            ..self.call(Verb::Patch, uri, format!("label revision {revision}"))
        };
        port.call(call).await.map(|_| ())
    }

    /// Writes another status and description into a record at hand.
    pub(crate) async fn settle(
        &self,
        port: &Port,
        stored: &mut Stored,
        status: Status,
        description: Option<&str>,
    ) -> Result<(), ActionError> {
        stored.release.info.status = status;
        if let Some(description) = description {
            description.clone_into(&mut stored.release.info.description);
        }
        self.update(port, stored).await
    }
}

fn encode(release: &Release) -> Result<String, Failure> {
    release
        .encode()
        .map_err(|error| Failure::Undecodable(error.to_string()))
}

fn confused() -> Failure {
    Failure::Undecodable("an answer of another kind than the request".to_owned())
}

fn object_of(reply: Reply) -> Result<Value, ActionError> {
    match reply {
        Reply::Object { body, .. } => Ok(body),
        _ => Err(unexpected("read a record")),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.get("items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordObject<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: RecordMetadata<'a>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind_of_secret: Option<&'static str>,
    /// The API server does the base64 of Secrets itself: a quarter fewer bytes to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    string_data: Option<Payload<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Payload<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordMetadata<'a> {
    name: String,
    namespace: &'a str,
    labels: BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a String>,
}

#[derive(Serialize)]
struct Payload<'a> {
    release: &'a str,
}

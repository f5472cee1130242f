//! The only writer of `.status`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::{
    Condition, ConditionType, GROUP, HelmRelease, HelmReleaseStatus, NamespacedName, Phase, VERSION,
};

/// The field manager of the status.
const MANAGER: &str = "helm-operator";
/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How often a write is tried: an object may change at the same moment, and what a CRD lacks is learned one
/// field after the other.
const TRIES: usize = 8;

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The status was as wanted: nothing was sent.
    Unchanged,
    /// It was sent.
    Changed,
    /// It was sent, and the object has another spec by now, or is being deleted: what was read of it is old.
    Overtaken,
    /// The object is gone, or is another one of the same name.
    Gone,
}

/// Why a status could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server said no, or could not be reached.
    #[error("{cause}: cannot write the status of {key}")]
    Api {
        /// The HelmRelease.
        key: NamespacedName,
        /// What the API server said.
        cause: kube::Error,
    },
    /// The API server did not answer.
    #[error("no answer within {TIMEOUT:?}: cannot write the status of {0}")]
    Deadline(NamespacedName),
}

/// What the watch has shown last of a HelmRelease. [`StatusWriter::observe`] comes after it is known here.
pub type Newest = Box<dyn Fn(&NamespacedName) -> Option<Arc<HelmRelease>> + Send + Sync>;

/// Writes statuses with server-side apply: only when they changed, whole, and only to the object's own
/// namespace.
pub struct StatusWriter {
    client: Client,
    newest: Newest,
    sent: Mutex<HashMap<NamespacedName, Sent>>,
    /// Whether it was said that the CRD of the cluster is too old.
    old_crd: Mutex<Option<String>>,
    /// What the CRD of the cluster was found not to hold, and when.
    lacks: Mutex<Option<(Lacks, Instant)>>,
}

/// What the CRD of a cluster cannot hold. Server-side apply refuses a status with a field that the schema
/// lacks, so these are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lacks {
    /// Anything that 1.4 did not have.
    additions: bool,
    /// Fields of the status that even 1.4 had.
    fields: BTreeSet<String>,
}

/// How long what a CRD lacks is believed: then someone may have applied the newer one.
const LACKS_AGE: Duration = Duration::from_secs(60);

impl Lacks {
    /// Learns from a refusal; false when there is nothing to learn.
    fn learn(&mut self, error: &WriteError) -> bool {
        let before = self.clone();
        let WriteError::Api {
            cause: kube::Error::Api(status),
            ..
        } = error
        else {
            return false;
        };
        if status.code == 422 {
            self.additions = true;
        }
        // `.status.digest: field not declared in schema`, one or more of them.
        let parts = status.message.split(": field not declared in schema");
        for part in parts.take(status.message.matches(": field not declared").count()) {
            self.additions = true;
            let path = part.rsplit(char::is_whitespace).next().unwrap_or_default();
            let field = path.strip_prefix(".status.").unwrap_or_default();
            if !field.is_empty() && !field.contains('.') {
                self.fields.insert(field.to_owned());
            }
        }
        *self != before
    }

    /// What is left of a status.
    fn keep(&self, status: &HelmReleaseStatus) -> Value {
        let kept = if self.additions {
            as_1_4(status)
        } else {
            status.clone()
        };
        let mut kept = serde_json::to_value(kept).unwrap_or_default();
        if let Value::Object(fields) = &mut kept {
            fields.retain(|field, _| !self.fields.contains(field));
        }
        kept
    }
}

/// The last write of an object, and what came of it.
struct Sent {
    uid: Option<String>,
    version: Option<u64>,
    wanted: HelmReleaseStatus,
    stored: HelmReleaseStatus,
}

/// What the API server answered to a write.
struct Stored {
    status: HelmReleaseStatus,
    version: Option<u64>,
    generation: Option<i64>,
    is_deleted: bool,
}

impl Stored {
    fn has_overtaken(&self, release: &HelmRelease) -> bool {
        self.generation > release.metadata.generation
            || self.is_deleted && release.metadata.deletion_timestamp.is_none()
    }
}

impl From<HelmRelease> for Stored {
    fn from(object: HelmRelease) -> Self {
        Self {
            version: version(&object),
            generation: object.metadata.generation,
            is_deleted: object.metadata.deletion_timestamp.is_some(),
            status: object.status.unwrap_or_default(),
        }
    }
}

/// Resource versions of one resource are numbers that grow.
fn version(object: &HelmRelease) -> Option<u64> {
    object.metadata.resource_version.as_ref()?.parse().ok()
}

impl std::fmt::Debug for StatusWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusWriter").finish_non_exhaustive()
    }
}

impl StatusWriter {
    /// A writer that uses `client`.
    #[must_use]
    pub fn new(client: Client, newest: Newest) -> Self {
        Self {
            client,
            newest,
            sent: Mutex::default(),
            old_crd: Mutex::default(),
            lacks: Mutex::default(),
        }
    }

    /// What the CRD of the cluster cannot hold, once a write has shown it.
    #[must_use]
    pub fn old_crd(&self) -> Option<String> {
        self.old_crd
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The status that the cluster holds as far as we know: that of our last write until the watch shows it, and
    /// then what the watch shows. `release` may have been read before that, so it is not asked but for its name.
    #[must_use]
    pub fn current(&self, release: &HelmRelease) -> HelmReleaseStatus {
        let key = release.key();
        let is_same = |uid: &Option<String>| *uid == release.metadata.uid;
        {
            let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sent) = sent.get(&key).filter(|sent| is_same(&sent.uid)) {
                return sent.wanted.clone();
            }
        }
        // In this order: what was taken out above is here by now.
        let newest = (self.newest)(&key).filter(|newest| is_same(&newest.metadata.uid));
        let status = newest.map_or_else(|| release.status.clone(), |newest| newest.status.clone());
        status.unwrap_or_default()
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &NamespacedName) {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// Writes the status of `release` if it is not what the cluster holds.
    ///
    /// # Errors
    /// The API server refuses, or does not answer; the caller may try again.
    pub async fn write(
        &self,
        release: &HelmRelease,
        wanted: HelmReleaseStatus,
    ) -> Result<Written, WriteError> {
        if self.current(release) == wanted {
            return Ok(Written::Unchanged);
        }
        let stored = self.apply_what_fits(release, &wanted).await;
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) if code(&error) == Some(404) || is_other_object(&error) => {
                return Ok(Written::Gone);
            }
            Err(error) => return Err(error),
        };
        self.compare(&wanted, &stored.status);
        let written = if stored.has_overtaken(release) {
            Written::Overtaken
        } else {
            Written::Changed
        };
        let uid = release.metadata.uid.clone();
        let sent = Sent {
            uid,
            version: stored.version,
            wanted,
            stored: stored.status,
        };
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(release.key(), sent);
        Ok(written)
    }

    /// Whether `release` is the object that the cluster holds, at its newest generation. What a watch
    /// shows may be older: after a restart an API server may serve its first list from an old cache.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub async fn is_current(&self, release: &HelmRelease) -> Result<bool, WriteError> {
        let key = release.key();
        let api: Api<HelmRelease> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = tokio::time::timeout(TIMEOUT, api.get_metadata_opt(&key.name))
            .await
            .map_err(|_| WriteError::Deadline(key.clone()))?
            .map_err(|cause| WriteError::Api { key, cause })?;
        let mine = &release.metadata;
        Ok(found.is_some_and(|found| {
            found.metadata.uid == mine.uid
                && found.metadata.generation <= mine.generation
                && (found.metadata.deletion_timestamp.is_none()
                    || mine.deletion_timestamp.is_some())
        }))
    }

    /// Tells the writer what a watch shows. A status that is newer than our last write and differs from it
    /// came from elsewhere: what we wrote is not there any more.
    pub fn observe(&self, release: &HelmRelease) {
        let mut all = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let key = release.key();
        let Some(sent) = all.get(&key) else { return };
        let is_same_object = sent.uid == release.metadata.uid;
        let seen = version(release);
        let status = release.status.clone().unwrap_or_default();
        let is_caught_up = seen >= sent.version && status == sent.stored;
        let is_foreign = seen > sent.version && status != sent.stored;
        // What the CRD could not hold is remembered, so that it is not written again and again.
        if !is_same_object || is_foreign || is_caught_up && sent.wanted == sent.stored {
            all.remove(&key);
        }
    }

    /// Applies a status without what the CRD of the cluster cannot hold; an object that changes at the same
    /// moment is tried again.
    async fn apply_what_fits(
        &self,
        release: &HelmRelease,
        wanted: &HelmReleaseStatus,
    ) -> Result<Stored, WriteError> {
        let mut lacks = self.lacks();
        for _ in 1..TRIES {
            match self.apply(release, wanted, lacks.keep(wanted)).await {
                Err(error) if lacks.learn(&error) => {
                    self.note_old_crd("it does not hold all of our status");
                    let mut known = self.lacks.lock().unwrap_or_else(PoisonError::into_inner);
                    *known = Some((lacks.clone(), Instant::now()));
                }
                Err(error) if code(&error) == Some(409) && !is_other_object(&error) => {}
                result => return result,
            }
        }
        self.apply(release, wanted, lacks.keep(wanted)).await
    }

    fn lacks(&self) -> Lacks {
        let known = self.lacks.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known.as_ref().filter(|(_, at)| at.elapsed() < LACKS_AGE);
        fresh.map(|(lacks, _)| lacks.clone()).unwrap_or_default()
    }

    async fn apply(
        &self,
        release: &HelmRelease,
        wanted: &HelmReleaseStatus,
        sent: Value,
    ) -> Result<Stored, WriteError> {
        let key = release.key();
        let api: Api<HelmRelease> = Api::namespaced(self.client.clone(), &key.namespace);
        let body = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "HelmRelease",
            "metadata": {"name": &*key.name, "uid": release.metadata.uid},
            "status": sent,
        });
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&body);
        let apply = api.patch_status(&key.name, &params, &patch);
        let object = tokio::time::timeout(TIMEOUT, apply)
            .await
            .map_err(|_| WriteError::Deadline(key.clone()))?
            .map_err(|cause| WriteError::Api {
                key: key.clone(),
                cause,
            })?;
        let stored = Stored::from(object);
        let left = leftovers(wanted, &stored.status);
        if left.is_empty() {
            return Ok(stored);
        }
        self.remove(&api, release, left)
            .await
            .map_err(|cause| WriteError::Api { key, cause })
    }

    /// Removes fields that an earlier daemon wrote by update: apply leaves what it does not own.
    async fn remove(
        &self,
        api: &Api<HelmRelease>,
        release: &HelmRelease,
        fields: Vec<String>,
    ) -> Result<Stored, kube::Error> {
        let nulls: serde_json::Map<_, _> = fields
            .into_iter()
            .map(|field| (field, Value::Null))
            .collect();
        let body = json!({"metadata": {"uid": release.metadata.uid}, "status": nulls});
        let name = release.key().name;
        let object = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&body))
            .await?;
        Ok(Stored::from(object))
    }

    fn compare(&self, wanted: &HelmReleaseStatus, stored: &HelmReleaseStatus) {
        let lost = leftovers(stored, wanted);
        if !lost.is_empty() {
            self.note_old_crd(&format!("it drops status.{}", lost.join(", status.")));
        }
    }

    fn note_old_crd(&self, what: &str) {
        let mut said = self.old_crd.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none() {
            tracing::warn!(
                "the HelmRelease CRD of this cluster is too old: {what}: apply crds/helmreleases.yaml, which is noticed within a minute"
            );
            *said = Some(what.to_owned());
        }
    }
}

/// Whether the uid in the request is not that of the object of this name, in the API server's words.
fn is_other_object(error: &WriteError) -> bool {
    let WriteError::Api {
        cause: kube::Error::Api(status),
        ..
    } = error
    else {
        return false;
    };
    status.code == 409
        && ["UID in precondition", "uid mismatch"]
            .iter()
            .any(|words| status.message.contains(words))
}

fn code(error: &WriteError) -> Option<u16> {
    match error {
        WriteError::Api {
            cause: kube::Error::Api(status),
            ..
        } => Some(status.code),
        _ => None,
    }
}

/// The fields that `b` has and `a` has not.
fn leftovers(a: &HelmReleaseStatus, b: &HelmReleaseStatus) -> Vec<String> {
    let fields = |status| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = (fields(a), fields(b));
    b.into_iter()
        .map(|(field, _)| field)
        .filter(|field| !a.contains_key(field))
        .collect()
}

/// The part of a status that a CRD of 1.4 holds: its fields, its five conditions and its phases.
fn as_1_4(status: &HelmReleaseStatus) -> HelmReleaseStatus {
    use ConditionType::{ChartFetched, Deployed, Released, RolledBack, Tested};
    let known = [ChartFetched, Deployed, Released, RolledBack, Tested].map(|of| of.to_string());
    let added = [
        Phase::Pending,
        Phase::Suspended,
        Phase::Uninstalling,
        Phase::UninstallFailed,
    ];
    let conditions = status.conditions.as_ref().map(|conditions| {
        let kept = conditions.iter();
        let kept = kept.filter(|condition| known.contains(&condition.condition_type));
        kept.map(|condition| Condition {
            observed_generation: None,
            ..condition.clone()
        })
        .collect()
    });
    HelmReleaseStatus {
        observed_generation: status.observed_generation,
        phase: status.phase.filter(|phase| !added.contains(phase)),
        release_name: status.release_name.clone(),
        release_status: status.release_status.clone(),
        revision: status.revision.clone(),
        last_attempted_revision: status.last_attempted_revision.clone(),
        rollback_count: status.rollback_count,
        conditions,
        ..HelmReleaseStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str, phase: Phase) -> HelmRelease {
        let spec = serde_json::from_value(json!({"chart": {}})).unwrap();
        let mut release = HelmRelease::new("web", spec);
        release.metadata.namespace = Some("demo".to_owned());
        release.metadata.uid = Some("u".to_owned());
        release.metadata.resource_version = Some(version.to_owned());
        release.status = Some(status(phase));
        release
    }

    fn status(phase: Phase) -> HelmReleaseStatus {
        HelmReleaseStatus {
            phase: Some(phase),
            ..HelmReleaseStatus::default()
        }
    }

    /// A sync that reads the cache just before the watch shows the last write must not take the old status for the
    /// newest: it would do again what is done.
    #[tokio::test]
    async fn what_was_read_before_the_watch_caught_up_is_not_believed() {
        let read = release("1", Phase::RollingBack);
        let shown = release("2", Phase::RolledBack);
        let newest = Arc::new(shown.clone());
        let uri = "http://127.0.0.1:1".parse().unwrap();
        let client = Client::try_from(kube::Config::new(uri)).unwrap();
        let writer = StatusWriter::new(client, Box::new(move |_| Some(Arc::clone(&newest))));
        let sent = Sent {
            uid: shown.metadata.uid.clone(),
            version: Some(2),
            wanted: status(Phase::RolledBack),
            stored: status(Phase::RolledBack),
        };
        writer.sent.lock().unwrap().insert(read.key(), sent);
        assert_eq!(writer.current(&read), status(Phase::RolledBack));
        writer.observe(&shown);
        assert!(writer.sent.lock().unwrap().is_empty());
        assert_eq!(writer.current(&read), status(Phase::RolledBack));
        let written = writer
            .write(&read, status(Phase::RolledBack))
            .await
            .unwrap();
        assert_eq!(written, Written::Unchanged);
        let mut other = read.clone();
        other.metadata.uid = Some("other".to_owned());
        assert_eq!(writer.current(&other), status(Phase::RollingBack));
    }

    #[test]
    fn a_crd_of_1_4_gets_its_own_conditions_and_phases() {
        let status: HelmReleaseStatus = serde_json::from_value(json!({
            "phase": "Pending", "releaseName": "web", "digest": "sha256:00", "rollbackCount": 2,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2},
                {"type": "Released", "status": "True", "observedGeneration": 2}]
        }))
        .unwrap();
        let kept = Lacks {
            additions: true,
            ..Lacks::default()
        };
        assert_eq!(
            kept.keep(&status),
            json!({"releaseName": "web", "rollbackCount": 2,
                "conditions": [{"type": "Released", "status": "True"}]})
        );
    }

    #[test]
    fn what_a_crd_lacks_is_learned_from_its_refusals() {
        let refusal = |code: u16, message: &str| {
            let status = kube::core::Status {
                code,
                message: message.to_owned(),
                ..Default::default()
            };
            WriteError::Api {
                key: NamespacedName::new("demo", "web"),
                cause: kube::Error::Api(status.boxed()),
            }
        };
        let start =
            "failed to create typed patch object (/web; helm.fluxcd.io/v1, Kind=HelmRelease): ";
        let rows = [
            (
                422,
                "status.phase: Unsupported value".to_owned(),
                true,
                vec![],
            ),
            (
                500,
                format!("{start}.status.digest: field not declared in schema"),
                true,
                vec!["digest"],
            ),
            (
                500,
                format!(
                    "{start}errors:\n  .status.conditions[0].observedGeneration: field not declared in schema\n  \
                     .status.lastAttemptedRevision: field not declared in schema"
                ),
                true,
                vec!["lastAttemptedRevision"],
            ),
            (
                500,
                "etcdserver: request timed out".to_owned(),
                false,
                vec![],
            ),
            (409, "conflict".to_owned(), false, vec![]),
        ];
        for (code, message, additions, fields) in rows {
            let mut lacks = Lacks::default();
            let error = refusal(code, &message);
            assert_eq!(lacks.learn(&error), additions, "{message}");
            assert_eq!(lacks.additions, additions, "{message}");
            assert_eq!(lacks.fields.iter().collect::<Vec<_>>(), fields, "{message}");
            assert!(!lacks.learn(&error), "learned twice: {message}");
        }
    }

    #[test]
    fn fields_that_one_status_lacks_are_found() {
        let full: HelmReleaseStatus =
            serde_json::from_value(json!({"releaseName": "web", "rollbackCount": 2})).unwrap();
        let part: HelmReleaseStatus =
            serde_json::from_value(json!({"releaseName": "web"})).unwrap();
        assert_eq!(leftovers(&part, &full), ["rollbackCount"]);
        assert_eq!(leftovers(&full, &part), Vec::<String>::new());
    }
}

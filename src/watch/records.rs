//! The release records of the cluster, by release: metadata only, and of that only what decisions need.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use helm_engine::Status;
use helm_kube::{DIGEST, HOLDER, History, ObjectVersion, Revision};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PartialObjectMeta};

use crate::api::{ANTECEDENT_ANNOTATION, NamespacedName};

/// The annotations of a record that are kept.
const KEPT: [&str; 3] = [DIGEST, HOLDER, ANTECEDENT_ANNOTATION];

/// One record. A fleet has tens of thousands of them, so it is small.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    revision: i64,
    status: Status,
    touched_at: Timestamp,
    resource_version: Box<str>,
    uid: Box<str>,
    annotations: [Option<Arc<str>>; KEPT.len()],
}

impl Record {
    fn new(revision: Revision, words: &mut Words) -> Self {
        Self {
            revision: revision.revision,
            status: revision.status,
            touched_at: revision.touched_at,
            resource_version: revision.version.resource_version.into(),
            uid: revision.version.uid.into(),
            annotations: KEPT.map(|key| revision.annotations.get(key).map(|text| words.get(text))),
        }
    }

    fn revision(&self) -> Revision {
        let kept = KEPT.iter().zip(&self.annotations);
        Revision {
            revision: self.revision,
            status: self.status,
            labels: BTreeMap::new(),
            annotations: kept
                .filter_map(|(key, text)| Some(((*key).to_owned(), text.as_deref()?.to_owned())))
                .collect(),
            touched_at: self.touched_at,
            version: self.version(),
        }
    }

    fn version(&self) -> ObjectVersion {
        ObjectVersion {
            resource_version: self.resource_version.to_string(),
            uid: self.uid.to_string(),
        }
    }
}

/// Texts that many records have in common, each once.
#[derive(Debug, Default)]
struct Words(HashSet<Arc<str>>);

impl Words {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let word: Arc<str> = text.into();
        self.0.insert(Arc::clone(&word));
        word
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// By release, in no order.
    releases: HashMap<NamespacedName, Vec<Record>>,
    words: Words,
}

/// Records by release.
#[derive(Debug, Default)]
pub struct Records {
    inner: RwLock<Inner>,
}

impl Records {
    /// The history of a release, as far as the watch has told. Of the annotations it has those that
    /// decisions need.
    #[must_use]
    pub fn history(&self, release: &NamespacedName) -> History {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let records = inner.releases.get(release).into_iter().flatten();
        History::new(records.map(Record::revision).collect())
    }

    /// The version of the newest record of a release.
    #[must_use]
    pub fn newest(&self, release: &NamespacedName) -> Option<ObjectVersion> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let records = inner.releases.get(release)?;
        records
            .iter()
            .max_by_key(|record| record.revision)
            .map(Record::version)
    }

    /// A record was written. Returns its release if that changed what is known.
    pub(super) fn apply(&self, secret: &PartialObjectMeta<Secret>) -> Option<NamespacedName> {
        let release = release_of(&secret.metadata)?;
        let object = serde_json::json!({ "metadata": secret.metadata });
        let revision = Revision::from_object(&object)?;
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let record = Record::new(revision, &mut inner.words);
        let records = inner.releases.entry(release.clone()).or_default();
        match records
            .iter_mut()
            .find(|known| known.revision == record.revision)
        {
            Some(known) if *known == record => return None,
            Some(known) => *known = record,
            None => records.push(record),
        }
        records.shrink_to_fit();
        Some(release)
    }

    /// A record was deleted.
    pub(super) fn delete(&self, secret: &PartialObjectMeta<Secret>) -> Option<NamespacedName> {
        let release = release_of(&secret.metadata)?;
        let object = serde_json::json!({ "metadata": secret.metadata });
        let revision = Revision::from_object(&object)?.revision;
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let records = inner.releases.get_mut(&release)?;
        let before = records.len();
        records.retain(|record| record.revision != revision);
        let changed = records.len() != before;
        if records.is_empty() {
            inner.releases.remove(&release);
        }
        inner.words.0.retain(|word| Arc::strong_count(word) > 1);
        changed.then_some(release)
    }

    /// A list is over: records that it did not hold are gone. Returns their releases.
    pub(super) fn retain(&self, seen: &HashSet<NamespacedName>) -> Vec<NamespacedName> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for (release, records) in &mut inner.releases {
            let before = records.len();
            records.retain(|record| {
                let name = format!("sh.helm.release.v1.{}.v{}", release.name, record.revision);
                seen.contains(&NamespacedName::new(&*release.namespace, name))
            });
            if records.len() != before {
                changed.push(release.clone());
            }
        }
        inner.releases.retain(|_, records| !records.is_empty());
        changed
    }
}

/// The release that an object records; `None` for other Secrets.
fn release_of(metadata: &ObjectMeta) -> Option<NamespacedName> {
    let labels = metadata.labels.as_ref()?;
    if labels.get("owner").map(String::as_str) != Some("helm") {
        return None;
    }
    let (release, revision) = (labels.get("name")?, labels.get("version")?);
    // Helm names records after the release and the revision; anything else only looks like one.
    let is_named = metadata.name.as_deref()? == format!("sh.helm.release.v1.{release}.v{revision}");
    is_named.then(|| {
        NamespacedName::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            &**release,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(release: &str, revision: i64, status: &str) -> PartialObjectMeta<Secret> {
        let object = serde_json::json!({"metadata": {
            "namespace": "demo", "name": format!("sh.helm.release.v1.{release}.v{revision}"),
            "resourceVersion": "7", "uid": "u",
            "labels": {"owner": "helm", "name": release, "status": status,
                "version": revision.to_string()},
            "annotations": {DIGEST: "d", ANTECEDENT_ANNOTATION: "demo:helmrelease/web", "other": "x"}
        }});
        serde_json::from_value(object).unwrap()
    }

    fn demo(release: &str) -> NamespacedName {
        NamespacedName::new("demo", release)
    }

    #[test]
    fn records_come_and_go() {
        let records = Records::default();
        assert_eq!(
            records.apply(&secret("web", 1, "superseded")),
            Some(demo("web"))
        );
        assert_eq!(
            records.apply(&secret("web", 2, "deployed")),
            Some(demo("web"))
        );
        assert_eq!(records.apply(&secret("web", 2, "deployed")), None);
        assert_eq!(records.history(&demo("web")).newest().unwrap().revision, 2);
        assert_eq!(records.newest(&demo("web")).unwrap().uid, "u");
        assert_eq!(
            records.delete(&secret("web", 2, "deployed")),
            Some(demo("web"))
        );
        assert_eq!(records.delete(&secret("web", 2, "deployed")), None);
        assert_eq!(records.history(&demo("web")).newest().unwrap().revision, 1);
        assert!(records.history(&demo("other")).is_empty());
    }

    #[test]
    fn of_a_record_what_decisions_need_is_kept() {
        let records = Records::default();
        records.apply(&secret("web", 3, "pending-upgrade"));
        let history = records.history(&demo("web"));
        let newest = history.newest().unwrap();
        assert_eq!(newest.status, Status::PendingUpgrade);
        assert_eq!(
            newest.annotations.get(DIGEST).map(String::as_str),
            Some("d")
        );
        assert_eq!(newest.annotations.len(), 2);
        assert_eq!(newest.version.resource_version, "7");
    }

    #[test]
    fn a_new_list_drops_what_is_gone() {
        let records = Records::default();
        records.apply(&secret("web", 1, "deployed"));
        records.apply(&secret("api", 1, "deployed"));
        let seen = HashSet::from([demo("sh.helm.release.v1.api.v1")]);
        assert_eq!(records.retain(&seen), [demo("web")]);
        assert!(records.history(&demo("web")).is_empty());
        assert!(!records.history(&demo("api")).is_empty());
    }

    #[test]
    fn other_secrets_are_no_records() {
        let records = Records::default();
        let mut other = secret("web", 1, "deployed");
        other.metadata.name = Some("my-secret".into());
        assert_eq!(records.apply(&other), None);
        other.metadata.labels = None;
        assert_eq!(records.apply(&other), None);
    }

    /// S-35: records of the same releases come and go on eight threads; every history that is read is in order, and the
    /// texts that records share are not lost.
    #[test]
    fn s35_histories_are_in_order_while_records_come_and_go() {
        let records = Records::default();
        std::thread::scope(|scope| {
            for thread in 0..8_i64 {
                let records = &records;
                scope.spawn(move || {
                    for round in 0..1_500_i64 {
                        let release = format!("r{}", (round + thread) % 3);
                        let object = secret(&release, round % 9 + 1, "superseded");
                        if (round + thread) % 3 == 0 {
                            records.delete(&object);
                        } else {
                            records.apply(&object);
                        }
                        let history = records.history(&demo(&release));
                        let seen = history.revisions();
                        assert!(seen.is_sorted_by(|a, b| a.revision < b.revision));
                        assert!(seen.iter().all(|revision| {
                            revision.annotations.get(DIGEST).map(String::as_str) == Some("d")
                        }));
                    }
                });
            }
        });
        (1..=9).for_each(|revision| drop(records.apply(&secret("r0", revision, "deployed"))));
        assert_eq!(records.history(&demo("r0")).revisions().len(), 9);
    }
}

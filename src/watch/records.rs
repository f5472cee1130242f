//! The release records of the cluster, by release: metadata only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

use helm_kube::{History, Revision};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PartialObjectMeta};

use crate::api::NamespacedName;

/// Records by release, each by the name of its object.
#[derive(Debug, Default)]
pub struct Records {
    releases: RwLock<HashMap<NamespacedName, BTreeMap<String, Revision>>>,
}

impl Records {
    /// The history of a release, as far as the watch has told.
    #[must_use]
    pub fn history(&self, release: &NamespacedName) -> History {
        let releases = self.releases.read().unwrap_or_else(PoisonError::into_inner);
        let revisions = releases.get(release).into_iter().flat_map(BTreeMap::values);
        History::new(revisions.cloned().collect())
    }

    /// A record was written. Returns its release if that changed what is known.
    pub(super) fn apply(&self, secret: &PartialObjectMeta<Secret>) -> Option<NamespacedName> {
        let (release, name) = release_of(&secret.metadata)?;
        let object = serde_json::json!({ "metadata": secret.metadata });
        let revision = Revision::from_object(&object)?;
        let mut releases = self
            .releases
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let records = releases.entry(release.clone()).or_default();
        let old = records.insert(name, revision.clone());
        (old.as_ref() != Some(&revision)).then_some(release)
    }

    /// A record was deleted.
    pub(super) fn delete(&self, secret: &PartialObjectMeta<Secret>) -> Option<NamespacedName> {
        let (release, name) = release_of(&secret.metadata)?;
        let mut releases = self
            .releases
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let records = releases.get_mut(&release)?;
        records.remove(&name)?;
        if records.is_empty() {
            releases.remove(&release);
        }
        Some(release)
    }

    /// A list is over: records that it did not hold are gone. Returns their releases.
    pub(super) fn retain(&self, seen: &HashSet<NamespacedName>) -> Vec<NamespacedName> {
        let mut releases = self
            .releases
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for (release, records) in releases.iter_mut() {
            let before = records.len();
            records.retain(|name, _| {
                seen.contains(&NamespacedName::new(
                    release.namespace.as_str(),
                    name.as_str(),
                ))
            });
            if records.len() != before {
                changed.push(release.clone());
            }
        }
        releases.retain(|_, records| !records.is_empty());
        changed
    }
}

/// The release that an object records, and the name of the object; `None` for other Secrets.
fn release_of(metadata: &ObjectMeta) -> Option<(NamespacedName, String)> {
    let labels = metadata.labels.as_ref()?;
    if labels.get("owner").map(String::as_str) != Some("helm") {
        return None;
    }
    let release = labels.get("name")?;
    let name = metadata.name.clone()?;
    // Helm names records after the release and the revision; anything else only looks like one.
    name.strip_prefix("sh.helm.release.v1.")?
        .strip_prefix(release.as_str())?
        .strip_prefix(".v")?;
    Some((
        NamespacedName::new(metadata.namespace.clone()?, release.as_str()),
        name,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(release: &str, revision: i64, status: &str) -> PartialObjectMeta<Secret> {
        let object = serde_json::json!({"metadata": {
            "namespace": "demo", "name": format!("sh.helm.release.v1.{release}.v{revision}"),
            "labels": {"owner": "helm", "name": release, "status": status,
                "version": revision.to_string()}
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
        assert_eq!(
            records.delete(&secret("web", 2, "deployed")),
            Some(demo("web"))
        );
        assert_eq!(records.history(&demo("web")).newest().unwrap().revision, 1);
        assert!(records.history(&demo("other")).is_empty());
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
}

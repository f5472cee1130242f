//! The HelmReleases of the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use crate::api::{HelmRelease, NamespacedName};

/// What the cache holds of one HelmRelease.
#[derive(Clone, Debug)]
pub enum Cached {
    /// The object.
    Good(Arc<HelmRelease>),
    /// An object that cannot be read: an older CRD let something pass.
    Bad(Arc<BadRelease>),
}

/// An object that is no HelmRelease as we know it.
#[derive(Clone, Debug)]
pub struct BadRelease {
    /// What can be read.
    pub metadata: ObjectMeta,
    /// What cannot.
    pub error: String,
}

impl Cached {
    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Good(release) => &release.metadata,
            Self::Bad(bad) => &bad.metadata,
        }
    }

    /// Whether a sync could tell the two apart: everything but the status and the version.
    fn differs(&self, other: &Self) -> bool {
        let (a, b) = (self.metadata(), other.metadata());
        a.uid != b.uid
            || a.generation != b.generation
            || a.deletion_timestamp != b.deletion_timestamp
            || a.finalizers != b.finalizers
            || a.labels != b.labels
            || a.annotations != b.annotations
    }
}

/// All HelmReleases that are watched.
#[derive(Debug, Default)]
pub struct Releases {
    objects: RwLock<HashMap<NamespacedName, Cached>>,
}

impl Releases {
    /// One of them.
    #[must_use]
    pub fn get(&self, key: &NamespacedName) -> Option<Cached> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// All of them that can be read.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<HelmRelease>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .values()
            .filter_map(|cached| match cached {
                Cached::Good(release) => Some(Arc::clone(release)),
                Cached::Bad(_) => None,
            })
            .collect()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an object into the cache. Returns its key, the object, and whether a sync could tell.
    pub(crate) fn apply(
        &self,
        object: DeserializeGuard<HelmRelease>,
    ) -> Option<(NamespacedName, Cached, bool)> {
        let cached = match object.0 {
            Ok(mut release) => {
                trim(&mut release.metadata);
                Cached::Good(Arc::new(release))
            }
            Err(mut invalid) => {
                trim(&mut invalid.metadata);
                let error = invalid.error;
                Cached::Bad(Arc::new(BadRelease {
                    metadata: invalid.metadata,
                    error,
                }))
            }
        };
        let key = key_of(cached.metadata())?;
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let old = objects.insert(key.clone(), cached.clone());
        let changed = old.is_none_or(|old| old.differs(&cached));
        Some((key, cached, changed))
    }

    /// An object is gone.
    pub(super) fn delete(&self, metadata: &ObjectMeta) -> Option<(NamespacedName, Cached)> {
        let key = key_of(metadata)?;
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        Some((key.clone(), objects.remove(&key)?))
    }

    /// A list is over: objects that it did not hold are gone. Returns them.
    pub(super) fn retain(&self, seen: &HashSet<NamespacedName>) -> Vec<(NamespacedName, Cached)> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.extract_if(|key, _| !seen.contains(key)).collect()
    }
}

/// The key of an object.
pub(super) fn key_of(metadata: &ObjectMeta) -> Option<NamespacedName> {
    let namespace = metadata.namespace.clone()?;
    Some(NamespacedName::new(namespace, metadata.name.clone()?))
}

/// Drops what is large and never looked at.
fn trim(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: serde_json::Value) -> DeserializeGuard<HelmRelease> {
        serde_json::from_value(json).unwrap()
    }

    fn demo(generation: i64, status: &str) -> DeserializeGuard<HelmRelease> {
        object(serde_json::json!({
            "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
            "metadata": {"namespace": "demo", "name": "web", "generation": generation,
                "managedFields": [{"manager": "x"}]},
            "spec": {"chart": {}}, "status": {"releaseName": status}
        }))
    }

    #[test]
    fn a_status_write_is_no_change_and_a_new_generation_is() {
        let releases = Releases::default();
        let changed = |object| releases.apply(object).unwrap().2;
        assert!(changed(demo(1, "a")));
        assert!(!changed(demo(1, "b")));
        assert!(changed(demo(2, "b")));
        let key = NamespacedName::new("demo", "web");
        let Some(Cached::Good(release)) = releases.get(&key) else {
            panic!("no release")
        };
        assert_eq!(
            release.status.as_ref().unwrap().release_name.as_deref(),
            Some("b")
        );
        assert_eq!(release.metadata.managed_fields, None);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_kept_apart() {
        let releases = Releases::default();
        releases.apply(demo(1, "a"));
        let bad = object(serde_json::json!({
            "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
            "metadata": {"namespace": "demo", "name": "bad"}, "spec": {"chart": {"ref": 7}}
        }));
        let (_, cached, _) = releases.apply(bad).unwrap();
        let Cached::Bad(bad) = cached else {
            panic!("it can be read")
        };
        assert!(bad.error.contains("string"), "{}", bad.error);
        assert_eq!((releases.len(), releases.all().len()), (2, 1));
    }

    #[test]
    fn a_new_list_tells_what_is_gone() {
        let releases = Releases::default();
        releases.apply(demo(1, "a"));
        assert_eq!(releases.retain(&HashSet::new()).len(), 1);
        assert!(releases.is_empty());
    }
}

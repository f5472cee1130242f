//! The HelmReleases of the cluster.
//!
//! A fleet has thousands of them and looks at few at a time, so they are kept as the JSON that they came
//! as, packed and without what is never looked at, and read when they are asked for.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::pack::{Packed, Packer};
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

/// An object as it is kept.
#[derive(Debug)]
enum Kept {
    Good { json: Packed, print: u64 },
    Bad { bad: Arc<BadRelease>, print: u64 },
}

impl Kept {
    fn print(&self) -> u64 {
        match self {
            Self::Good { print, .. } | Self::Bad { print, .. } => *print,
        }
    }

    fn cached(&self, packer: &Packer) -> Option<Cached> {
        match self {
            // It was written from the type that it is read as.
            Self::Good { json, .. } => {
                let json = packer.unpack(json)?;
                Some(Cached::Good(Arc::new(serde_json::from_slice(&json).ok()?)))
            }
            Self::Bad { bad, .. } => Some(Cached::Bad(Arc::clone(bad))),
        }
    }
}

/// All HelmReleases that are watched.
#[derive(Debug, Default)]
pub struct Releases {
    objects: RwLock<HashMap<NamespacedName, Kept>>,
    packer: Packer,
}

impl Releases {
    /// One of them.
    #[must_use]
    pub fn get(&self, key: &NamespacedName) -> Option<Cached> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)?
            .cached(&self.packer)
    }

    /// The keys of all of them.
    #[must_use]
    pub fn keys(&self) -> Vec<NamespacedName> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
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

    /// Nothing comes in for now: gives back memory that is needed only then.
    pub(crate) fn rest(&self) {
        self.packer.rest();
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
        let json = match &cached {
            Cached::Good(release) => serde_json::to_vec(&**release).ok()?,
            Cached::Bad(_) => Vec::new(),
        };
        let cached = match cached {
            Cached::Good(release) if is_cut(&json) => Cached::Bad(Arc::new(BadRelease {
                metadata: release.metadata.clone(),
                error: "its values are nested more than 100 deep".to_owned(),
            })),
            cached => cached,
        };
        let kept = match &cached {
            Cached::Good(release) => Kept::Good {
                json: self.packer.pack(&json)?,
                print: print(&release.metadata),
            },
            Cached::Bad(bad) => Kept::Bad {
                bad: Arc::clone(bad),
                print: print(&bad.metadata),
            },
        };
        let metadata = match &cached {
            Cached::Good(release) => &release.metadata,
            Cached::Bad(bad) => &bad.metadata,
        };
        let key = key_of(metadata)?;
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let known = objects.get_mut(&key);
        let changed = known
            .as_ref()
            .is_none_or(|known| known.print() != kept.print());
        match known {
            Some(known) => *known = kept,
            None => {
                objects.insert(key.clone(), kept);
            }
        }
        Some((key, cached, changed))
    }

    /// An object is gone. Whether it was known.
    pub(super) fn delete(&self, metadata: &ObjectMeta) -> Option<NamespacedName> {
        let key = key_of(metadata)?;
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&key).map(|_| key)
    }

    /// A list is over: objects that it did not hold are gone. Returns their keys.
    pub(super) fn retain(&self, seen: &HashSet<NamespacedName>) -> Vec<NamespacedName> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects
            .extract_if(|key, _| !seen.contains(key))
            .map(|(key, _)| key)
            .collect()
    }
}

/// Whether a part of the object was too deep to be read, see [`super::depth`].
fn is_cut(json: &[u8]) -> bool {
    // Written by serde, the mark is always spelt the same.
    let mark = serde_json::to_string(super::depth::MARK).unwrap_or_default();
    json.windows(mark.len().max(1))
        .any(|window| window == mark.as_bytes())
}

/// What a sync could tell two states of an object apart by: everything but the status and the version.
/// The generation stands for the spec.
fn print(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    metadata.generation.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    metadata.finalizers.hash(&mut hasher);
    metadata.labels.hash(&mut hasher);
    metadata.annotations.hash(&mut hasher);
    hasher.finish()
}

/// The key of an object.
pub(super) fn key_of(metadata: &ObjectMeta) -> Option<NamespacedName> {
    let namespace = metadata.namespace.as_deref()?;
    Some(NamespacedName::new(namespace, metadata.name.as_deref()?))
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
            "spec": {"chart": {}, "values": {"deep": [1, 2.5, null, {"x": "y"}]}},
            "status": {"releaseName": status}
        }))
    }

    fn good(releases: &Releases) -> Arc<HelmRelease> {
        match releases.get(&NamespacedName::new("demo", "web")) {
            Some(Cached::Good(release)) => release,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_status_write_is_no_change_and_a_new_generation_is() {
        let releases = Releases::default();
        let changed = |object| releases.apply(object).unwrap().2;
        assert!(changed(demo(1, "a")));
        assert!(!changed(demo(1, "b")));
        assert!(changed(demo(2, "b")));
        let release = good(&releases);
        assert_eq!(
            release.status.as_ref().unwrap().release_name.as_deref(),
            Some("b")
        );
        assert_eq!(release.metadata.managed_fields, None);
    }

    #[test]
    fn what_comes_out_is_what_went_in() {
        let releases = Releases::default();
        let Ok(mut expected) = demo(1, "a").0 else {
            panic!("it can be read")
        };
        expected.metadata.managed_fields = None;
        releases.apply(demo(1, "a"));
        assert_eq!(*good(&releases), expected);
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
        assert_eq!(releases.len(), 2);
    }

    #[test]
    fn a_new_list_tells_what_is_gone() {
        let releases = Releases::default();
        releases.apply(demo(1, "a"));
        assert_eq!(releases.retain(&HashSet::new()).len(), 1);
        assert!(releases.is_empty());
    }

    /// S-35: eight threads write, read, list and delete the same objects: what is read is whole, and of the object
    /// that was asked for.
    #[test]
    fn s35_readers_see_whole_objects_while_others_write_and_delete() {
        let releases = Releases::default();
        let name = |number: usize| format!("r{}", number % 12);
        let write = |number: usize| {
            let text = format!("{} {}", name(number), "x".repeat(number % 50));
            releases.apply(object(serde_json::json!({
                "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
                "metadata": {"namespace": "demo", "name": name(number), "generation": number},
                "spec": if number.is_multiple_of(5) { serde_json::json!(7) } else {
                    serde_json::json!({"chart": {}, "releaseName": text})
                }
            })));
        };
        let key = |number: usize| NamespacedName::new("demo", name(number));
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let (releases, write, key) = (&releases, &write, &key);
                scope.spawn(move || {
                    for round in 0..1_500_usize {
                        let number = round * 5 + thread;
                        match (round + thread) % 4 {
                            0 | 1 => write(number),
                            2 => drop(releases.delete(&ObjectMeta {
                                namespace: Some("demo".into()),
                                name: Some(key(number).name.to_string()),
                                ..ObjectMeta::default()
                            })),
                            _ => drop(releases.retain(&releases.keys().into_iter().collect())),
                        }
                        if let Some(Cached::Good(seen)) = releases.get(&key(number)) {
                            let text = seen.spec.release_name.clone().unwrap_or_default();
                            assert!(
                                text.starts_with(&format!("{} ", key(number).name)),
                                "{text}"
                            );
                        }
                    }
                });
            }
        });
        (0..12).for_each(write);
        assert_eq!((releases.len(), releases.keys().len()), (12, 12));
    }
}

//! Who is woken by what: from changes of the caches and the sources to keys in the queue.

use std::sync::Arc;

use super::chart::{repository_of, source_of};
use super::context::{Context, Wakes};
use super::gates::is_ready;
use super::queue::Priority;
use crate::api::{HelmRelease, NamespacedName};
use crate::source::ReleaseKey as SourceKey;
use crate::watch::{CacheEvent, Cached, SourceKind};

/// The key of a HelmRelease among the sources.
pub(super) fn source_key(key: &NamespacedName) -> SourceKey {
    SourceKey {
        namespace: Arc::clone(&key.namespace),
        name: Arc::clone(&key.name),
    }
}

impl Context {
    /// Takes up a change of the caches.
    pub(super) fn take_up(&self, event: CacheEvent) {
        match event {
            CacheEvent::Applied {
                key,
                object,
                changed,
            } => self.applied(&key, &object, changed),
            CacheEvent::Deleted { key } => self.deleted(&key),
            CacheEvent::Recorded(release) => self.recorded(&release),
            CacheEvent::Source(kind, source) => self.source_changed(kind, &source),
        }
    }

    /// Another replica has worked until now. What it has seen of the sources may be newer than what we know of them,
    /// and it may have deployed it: everything is asked for anew before it is used.
    pub(super) fn take_over(&self) {
        tracing::info!("taking over from another replica");
        self.took_over.set(std::time::Instant::now()).ok();
        self.sources.mirrors().refresh_all();
    }

    /// Whether a release is in the shard of this daemon. Another daemon writes to all others.
    pub(super) fn is_ours(&self, key: &NamespacedName) -> bool {
        self.settings.shard.has(key)
    }

    fn applied(&self, key: &NamespacedName, object: &Cached, changed: bool) {
        self.metrics.set_release_count(self.caches.releases.len());
        if let Cached::Good(release) = object {
            self.status.observe(release);
            self.note_readiness(key, release);
        }
        if !changed || !self.is_ours(key) {
            return;
        }
        self.note_renewal(key);
        match object {
            Cached::Good(release) => {
                self.index().insert(key, release);
                self.declare(key, release);
            }
            Cached::Bad(_) => {
                self.index().remove(key);
                self.sources.forget(&source_key(key));
            }
        }
        self.enqueue(key, Priority::Changed);
    }

    /// Tells the sources what a release uses, so that it is fetched before a worker asks for it.
    fn declare(&self, key: &NamespacedName, release: &Arc<HelmRelease>) {
        if let Some(url) = repository_of(release) {
            self.queue.assign(key, url);
        }
        let key = source_key(key);
        match source_of(release, &self.settings) {
            Ok(source) if !release.spec.suspended() => self.sources.declare(&key, &source),
            _ => self.sources.forget(&key),
        }
    }

    /// Wakes those that depend on a release when it becomes ready, or is so no more.
    fn note_readiness(&self, key: &NamespacedName, release: &HelmRelease) {
        let mut index = self.index();
        let changed = if is_ready(release) {
            index.ready.insert(key.clone())
        } else {
            index.ready.remove(key)
        };
        let woken = Wakes::Dependency(key.clone());
        let dependents = if changed {
            index.woken_by(&woken)
        } else {
            Vec::new()
        };
        drop(index);
        for dependent in dependents {
            self.wake(&dependent);
        }
    }

    fn deleted(&self, key: &NamespacedName) {
        self.metrics.set_release_count(self.caches.releases.len());
        let dependents = {
            let mut index = self.index();
            index.remove(key);
            index.changes.remove(key);
            index.renewed.remove(key);
            index.ready.remove(key);
            index.woken_by(&Wakes::Dependency(key.clone()))
        };
        self.sources.forget(&source_key(key));
        self.status.forget(key);
        self.queue.forget(key);
        self.metrics.forget(key);
        self.memory
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(key);
        for dependent in dependents {
            self.wake(&dependent);
        }
    }

    /// Someone wrote a record: we, or a person with helm.
    fn recorded(&self, release: &NamespacedName) {
        let claims = self.index().woken_by(&Wakes::Record(release.clone()));
        let history = self.caches.records.history(release);
        for key in claims {
            // Once the watch has shown what we wrote, whatever it shows is newer.
            self.unseen(&key, &history);
            self.dirty().insert(key.clone());
            self.enqueue(&key, Priority::Changed);
        }
    }

    fn source_changed(&self, kind: SourceKind, source: &NamespacedName) {
        let users = self.index().woken_by(&Wakes::Source(kind, source.clone()));
        for key in users {
            self.wake(&key);
        }
    }

    /// Something that a release is made of has changed.
    pub(super) fn wake(&self, key: &NamespacedName) {
        if self.is_ours(key) {
            self.count_change(key);
            self.enqueue(key, Priority::Changed);
        }
    }

    pub(super) fn enqueue(&self, key: &NamespacedName, priority: Priority) {
        self.queue.add(key.clone(), priority);
        self.metrics.set_queue_length(self.queue.len());
    }
}

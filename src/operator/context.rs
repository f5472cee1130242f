//! What all reconciliations share.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use helm_engine::{Chart, Status};
use helm_kube::{History, ObjectVersion};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::act::Shutdown;
use super::external::ExternalReader;
use super::identity::Clusters;
use super::queue::Queue;
use crate::api::{HelmRelease, NamespacedName, SourceUrl};
use crate::lock::ReleaseLocks;
use crate::source::{Freshness, Sources};
use crate::status::{EventRecorder, StatusWriter};
use crate::telemetry::Metrics;
use crate::watch::{Caches, Scope, SourceKind};

/// What the flags set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many releases are worked on at a time (`--workers`); waits do not count.
    pub workers: usize,
    /// How often a release is verified when nothing tells of a change (`--charts-sync-interval`).
    pub sync_interval: Duration,
    /// How often the status is refreshed from the records (`--status-update-interval`).
    pub status_interval: Duration,
    /// Who we are in pending records: the same after a restart, another for another shard.
    pub holder: String,
    /// Refuse references into other namespaces (`--no-cross-namespace-refs`).
    pub own_namespace_only: bool,
    /// Resolve the dependencies of git charts (`--update-chart-deps`).
    pub update_dependencies: bool,
    /// ServiceAccount of releases that name none (`--default-service-account`).
    pub default_service_account: Option<String>,
    /// Log what differs before an upgrade (`--log-release-diffs`).
    pub log_diffs: bool,
    /// Values may come from this machine (`--git-allow-local`).
    pub allow_local: bool,
    /// How long waits may go on when the daemon is to stop.
    pub grace: Duration,
    /// What is watched.
    pub scope: Scope,
    /// Which part of the releases is ours: the `index`th of `count` shards.
    pub shard: Shard,
    /// The addresses of imported repositories, by their aliases (`--helm-repository-import`).
    pub aliases: Arc<BTreeMap<String, SourceUrl>>,
}

/// A part of all releases, by hash of their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl Shard {
    /// Everything.
    pub const ALL: Self = Self { index: 1, count: 1 };

    /// Whether a release is in this shard. The hash is the same in every process and version.
    #[must_use]
    pub fn has(self, key: &NamespacedName) -> bool {
        use sha2::{Digest, Sha256};
        if self.count <= 1 {
            return true;
        }
        let digest = Sha256::digest(key.to_string().as_bytes());
        let number = digest
            .iter()
            .take(4)
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        number % self.count + 1 == self.index
    }
}

/// What is remembered of a HelmRelease between two reconciliations. All of it can be lost: the records and
/// the status tell it again. What few of them have is boxed: a fleet has thousands, in a table of twice as many.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Failures in a row, for the pauses between tries.
    pub(crate) failures: u32,
    /// Tries in a row that another client overtook.
    pub(crate) overtaken: u32,
    /// When the next try may be, and what for.
    pub(crate) retry: Option<Box<(Instant, Attempted)>>,
    /// The chart can become another one with nothing that tells of it.
    pub(crate) chart_can_move: bool,
    /// Nothing was left to do.
    pub(crate) settled: Option<Settled>,
    /// The record that the last action wrote.
    pub(crate) wrote: Option<Wrote>,
    /// A revision that is not by us was found to be made of these inputs.
    pub(crate) adopted: Option<Box<(ObjectVersion, String)>>,
    /// When live objects are to be compared again.
    pub(crate) drift_at: Option<Instant>,
    /// Looks in a row at which something had drifted that was to be mended.
    pub(crate) drifts: u32,
}

/// A record as an action left it, until the watch shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrote {
    revision: i64,
    status: Status,
    at: Instant,
}

impl Wrote {
    /// How long the watch may be behind: what it does not show by then is gone.
    const LAG: Duration = Duration::from_secs(60);

    pub(crate) fn new(revision: i64, status: Status) -> Self {
        let at = Instant::now();
        Self {
            revision,
            status,
            at,
        }
    }

    /// Whether a history is older than the write. What was written is settled, and does not become pending again.
    fn is_unseen(&self, history: &History) -> bool {
        let is_seen = history.newest().is_some_and(|newest| {
            newest.revision > self.revision
                || newest.revision == self.revision && !newest.status.is_pending()
        });
        !is_seen && self.at.elapsed() < Self::LAG
    }
}

/// What a pause was imposed on: anything else is tried at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempted {
    pub(crate) generation: Option<i64>,
    pub(crate) reconcile_at: Option<String>,
    /// Number of invalidations that had been seen.
    pub(crate) changes: u64,
}

/// The state in which nothing was left to do, in a few bytes: equal states have equal prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled(u64);

impl Settled {
    /// The state of a release: the object, its newest record, and the changes that were counted.
    pub(crate) fn new(
        release: &HelmRelease,
        newest: Option<&ObjectVersion>,
        reconcile_at: Option<&String>,
        changes: u64,
    ) -> Self {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        release.metadata.uid.hash(&mut hasher);
        release.metadata.generation.hash(&mut hasher);
        newest
            .map(|newest| (&newest.uid, &newest.resource_version))
            .hash(&mut hasher);
        reconcile_at.hash(&mut hasher);
        changes.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Something that wakes a HelmRelease when it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wakes {
    /// A ConfigMap or a Secret.
    Source(SourceKind, NamespacedName),
    /// Another HelmRelease becomes ready.
    Dependency(NamespacedName),
    /// A record of the Helm release.
    Record(NamespacedName),
}

/// Who is to be woken by what.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sleepers: HashMap<Wakes, Vec<NamespacedName>>,
    /// What each HelmRelease is in the index under.
    places: HashMap<NamespacedName, Box<[Wakes]>>,
    /// Changes of what a release is made of, counted: a chart that moved, values that changed.
    pub(crate) changes: HashMap<NamespacedName, u64>,
    /// When each HelmRelease was last seen to be new or changed.
    pub(crate) renewed: HashMap<NamespacedName, StdInstant>,
    /// HelmReleases that are ready, to tell when that changes.
    pub(crate) ready: HashSet<NamespacedName>,
}

impl Index {
    /// Whom something wakes.
    pub(crate) fn woken_by(&self, what: &Wakes) -> Vec<NamespacedName> {
        self.sleepers.get(what).cloned().unwrap_or_default()
    }

    /// Takes a HelmRelease out of the index.
    pub(crate) fn remove(&mut self, key: &NamespacedName) {
        for place in self.places.remove(key).into_iter().flatten() {
            let Some(sleepers) = self.sleepers.get_mut(&place) else {
                continue;
            };
            sleepers.retain(|sleeper| sleeper != key);
            if sleepers.is_empty() {
                self.sleepers.remove(&place);
            }
        }
    }

    /// Puts a HelmRelease into the index, instead of what was there of it.
    pub(crate) fn insert(&mut self, key: &NamespacedName, release: &HelmRelease) {
        self.remove(key);
        let maps = super::gates::config_maps(release).into_iter();
        let maps = maps.map(|name| (SourceKind::ConfigMap, name));
        let kubeconfig = super::identity::kubeconfig_of(release);
        let values = super::values::references(release).into_iter();
        let sources = values.chain(maps).chain(kubeconfig);
        let dependencies = super::gates::dependencies(release).into_iter();
        let places: HashSet<Wakes> = sources
            .map(|(kind, name)| Wakes::Source(kind, name))
            .chain(dependencies.map(Wakes::Dependency))
            .chain([Wakes::Record(release.release_key())])
            .collect();
        for place in &places {
            self.sleepers
                .entry(place.clone())
                .or_default()
                .push(key.clone());
        }
        self.places
            .insert(key.clone(), places.into_iter().collect());
    }
}

/// Charts that were loaded lately, by digest: releases of one chart share it, and what was compiled for
/// one is used by the next.
#[derive(Default)]
pub(crate) struct Charts(Mutex<VecDeque<(String, usize, Arc<Chart>)>>);

impl Charts {
    /// The most bytes of chart files that are kept.
    const MOST: usize = 16 << 20;

    pub(crate) fn get(&self, digest: &str) -> Option<Arc<Chart>> {
        let mut charts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = charts.iter().position(|(known, ..)| known == digest)?;
        let entry = charts.remove(at)?;
        let chart = Arc::clone(&entry.2);
        charts.push_front(entry);
        Some(chart)
    }

    pub(crate) fn put(&self, digest: &str, size: usize, chart: &Arc<Chart>) {
        let mut charts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        charts.push_front((digest.to_owned(), size, Arc::clone(chart)));
        let mut total = 0;
        charts.retain(|(_, size, _)| {
            total += size;
            total <= Self::MOST
        });
    }
}

/// What all reconciliations share.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) clusters: Clusters,
    pub(crate) caches: Caches,
    pub(crate) queue: Queue,
    pub(crate) sources: Sources,
    pub(crate) locks: ReleaseLocks,
    pub(crate) status: StatusWriter,
    pub(crate) events: EventRecorder,
    pub(crate) metrics: Metrics,
    pub(crate) external: ExternalReader,
    pub(crate) charts: Charts,
    pub(crate) index: Mutex<Index>,
    pub(crate) memory: Mutex<HashMap<NamespacedName, Memory>>,
    /// HelmReleases whose records have changed since their status was refreshed.
    pub(crate) dirty: Mutex<HashSet<NamespacedName>>,
    pub(crate) slots: Arc<Semaphore>,
    /// Waits for answers of servers that tenants choose, which take no slot.
    pub(crate) aside: Semaphore,
    pub(crate) shutdown: Shutdown,
    /// When work was taken over from another replica, if it was.
    pub(crate) took_over: OnceLock<std::time::Instant>,
}

impl Context {
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dirty(&self) -> MutexGuard<'_, HashSet<NamespacedName>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes what is remembered of a HelmRelease.
    pub(crate) fn remember<T>(
        &self,
        key: &NamespacedName,
        change: impl FnOnce(&mut Memory) -> T,
    ) -> T {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(memory.entry(key.clone()).or_default())
    }

    /// The status of the record that our last action wrote, when the watch, which has told `history`, is behind it.
    pub(crate) fn unseen(&self, key: &NamespacedName, history: &History) -> Option<Status> {
        self.remember(key, |memory| {
            memory.wrote = memory.wrote.filter(|wrote| wrote.is_unseen(history));
            memory.wrote.map(|wrote| wrote.status)
        })
    }

    /// Something that a release is made of has changed.
    pub(crate) fn count_change(&self, key: &NamespacedName) {
        *self.index().changes.entry(key.clone()).or_default() += 1;
    }

    /// A HelmRelease is new, or its spec has changed.
    pub(crate) fn note_renewal(&self, key: &NamespacedName) {
        self.index().renewed.insert(key.clone(), StdInstant::now());
    }

    /// How new the chart of a release has to be: what was published before its spec was written is found.
    pub(crate) fn freshness(&self, key: &NamespacedName) -> Freshness {
        let renewed = self.index().renewed.get(key).copied();
        let since = |at: Option<_>| at.map_or_else(Freshness::by_interval, Freshness::since);
        // What the last leader has seen must not be news to us.
        since(renewed).and(since(self.took_over.get().copied()))
    }

    /// Whether the records of a release are seen by the watch: those of the daemon's own cluster, in what is
    /// watched of it.
    pub(crate) fn is_watched(&self, release: &HelmRelease) -> bool {
        release.spec.kube_config.is_none() && self.settings.scope.covers(release.target_namespace())
    }

    pub(crate) fn changes(&self, key: &NamespacedName) -> u64 {
        self.index().changes.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str, spec: serde_json::Value) -> HelmRelease {
        let mut release = HelmRelease::new(name, serde_json::from_value(spec).unwrap());
        release.metadata.namespace = Some("demo".into());
        release
    }

    #[test]
    fn the_index_follows_the_spec() {
        let mut index = Index::default();
        let key = NamespacedName::new("demo", "web");
        let source = Wakes::Source(SourceKind::Secret, NamespacedName::new("demo", "s"));
        let dependency = Wakes::Dependency(NamespacedName::new("demo", "db"));
        let record = |name: &str| Wakes::Record(NamespacedName::new("demo", name));
        let spec = serde_json::json!({"chart": {}, "dependsOn": [{"name": "db"}],
            "valuesFrom": [{"secretKeyRef": {"name": "s"}}, {"secretKeyRef": {"name": "s"}}]});
        index.insert(&key, &release("web", spec));
        for what in [&source, &dependency, &record("demo-web")] {
            assert_eq!(
                index.woken_by(what),
                *std::slice::from_ref(&key),
                "{what:?}"
            );
        }
        index.insert(
            &key,
            &release("web", serde_json::json!({"chart": {}, "releaseName": "x"})),
        );
        assert_eq!(index.woken_by(&record("x")), *std::slice::from_ref(&key));
        for what in [&source, &dependency, &record("demo-web")] {
            assert_eq!(index.woken_by(what), [], "{what:?}");
        }
        index.remove(&key);
        assert!(index.sleepers.is_empty() && index.places.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_unseen_until_the_watch_shows_it_or_more() {
        let wrote = Wrote::new(2, Status::Failed);
        let shown = |revision, status| {
            History::new(vec![helm_kube::Revision {
                revision,
                status,
                ..Default::default()
            }])
        };
        for behind in [
            History::default(),
            shown(1, Status::Deployed),
            shown(2, Status::PendingUpgrade),
        ] {
            assert!(wrote.is_unseen(&behind), "{behind:?}");
        }
        for seen in [
            shown(2, Status::Failed),
            shown(2, Status::Uninstalled),
            shown(3, Status::PendingUpgrade),
        ] {
            assert!(!wrote.is_unseen(&seen), "{seen:?}");
        }
        tokio::time::advance(Wrote::LAG).await;
        assert!(
            !wrote.is_unseen(&History::default()),
            "it was deleted unseen"
        );
    }

    #[test]
    fn every_release_is_in_exactly_one_shard() {
        let shards: Vec<_> = (1..=3).map(|index| Shard { index, count: 3 }).collect();
        let mut sizes = [0; 3];
        for number in 0..300 {
            let key = NamespacedName::new("demo", format!("r{number}"));
            let homes: Vec<_> = shards.iter().filter(|shard| shard.has(&key)).collect();
            assert_eq!(homes.len(), 1);
            sizes[homes[0].index as usize - 1] += 1;
            assert!(Shard::ALL.has(&key));
        }
        assert!(sizes.iter().all(|size| *size > 60), "{sizes:?}");
    }

    #[test]
    fn charts_are_kept_as_long_as_there_is_room() {
        let charts = Charts::default();
        let chart = Arc::new(Chart::default());
        charts.put("a", 6 << 20, &chart);
        charts.put("b", 6 << 20, &chart);
        assert!(charts.get("a").is_some());
        charts.put("c", 6 << 20, &chart);
        assert!(charts.get("b").is_none() && charts.get("a").is_some());
        charts.put("huge", 32 << 20, &chart);
        assert!(charts.get("huge").is_none());
    }
}

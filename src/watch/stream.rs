//! The watches themselves: they go on through every error.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PartialObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event};
use kube::{Api, Client, Resource};
use tokio::sync::{mpsc, watch};

use super::records::Records;
use super::releases::{Cached, Releases, key_of};
use crate::api::{HelmRelease, NamespacedName};

/// What is watched.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// One namespace (`--allow-namespace`); all when absent.
    pub namespace: Option<String>,
    /// Only HelmReleases with these labels (`--watch-label-selector`).
    pub selector: Option<String>,
    /// How long a watch may stay open (`--watch-timeout`); one whose connection is lost without a word is
    /// given up then. Absent: five minutes.
    pub watch_timeout: Option<Duration>,
}

impl Scope {
    /// A watch of everything.
    fn config(&self) -> Config {
        let paged = Config::default().page_size(PAGE);
        let seconds = self.watch_timeout.map(|timeout| timeout.as_secs().max(1));
        match seconds.and_then(|seconds| u32::try_from(seconds).ok()) {
            Some(seconds) => paged.timeout(seconds),
            None => paged,
        }
    }

    /// Whether changes of objects in that namespace are seen.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|only| only == namespace)
    }
}

/// How many objects are read at once. What a page holds is parsed as a whole, three of them at a time, and memory
/// that was used once is seldom given back.
const PAGE: u32 = 100;

/// The kind of an object that values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Something changed.
#[derive(Clone, Debug)]
pub enum CacheEvent {
    /// A HelmRelease is new or changed; `changed` is false if only its status did.
    Applied {
        /// Its key.
        key: NamespacedName,
        /// The object.
        object: Cached,
        /// Whether a sync could tell.
        changed: bool,
    },
    /// A HelmRelease is gone.
    Deleted {
        /// Its key.
        key: NamespacedName,
    },
    /// The records of a Helm release changed.
    Recorded(NamespacedName),
    /// A ConfigMap or a Secret that is no record changed or is gone.
    Source(SourceKind, NamespacedName),
}

/// The caches, and the stream of what changes in them.
#[derive(Clone, Debug)]
pub struct Caches {
    /// The HelmReleases.
    pub releases: Arc<Releases>,
    /// The release records.
    pub records: Arc<Records>,
    filled: watch::Receiver<bool>,
}

/// One bit for each watch that has ended its first list.
const ALL_FILLED: u8 = 0b111;

/// The sending end of the events, and what is filled.
#[derive(Clone)]
struct Sink {
    events: mpsc::UnboundedSender<CacheEvent>,
    filled: Arc<AtomicU8>,
    all_filled: watch::Sender<bool>,
}

impl Sink {
    fn send(&self, event: CacheEvent) {
        // The receiver lives as long as the daemon.
        self.events.send(event).ok();
    }

    fn fill(&self, bit: u8) {
        let before = self.filled.fetch_or(bit, Ordering::Relaxed);
        if before | bit == ALL_FILLED && before != ALL_FILLED {
            self.all_filled.send_replace(true);
        }
    }
}

impl Caches {
    /// Starts the watches; they end with the runtime.
    #[must_use]
    pub fn start(client: &Client, scope: &Scope) -> (Self, mpsc::UnboundedReceiver<CacheEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let (all_filled, filled) = watch::channel(false);
        let sink = Sink {
            events,
            filled: Arc::default(),
            all_filled,
        };
        let caches = Self {
            releases: Arc::default(),
            records: Arc::default(),
            filled,
        };
        let namespace = scope.namespace.as_deref();
        let every = scope.config();
        let mut selected = scope.config();
        if let Some(selector) = &scope.selector {
            selected = selected.labels(selector);
        }
        let objects: Api<DeserializeGuard<HelmRelease>> = api(client, namespace);
        tokio::spawn(follow_releases(
            move || watcher::watcher(objects.clone(), selected.clone()),
            Arc::clone(&caches.releases),
            sink.clone(),
        ));
        let secrets = api::<PartialObjectMeta<Secret>>(client, namespace);
        let config = every.clone();
        tokio::spawn(follow_secrets(
            move || watcher::watcher(secrets.clone(), config.clone()),
            Arc::clone(&caches.records),
            sink.clone(),
        ));
        let maps = api::<PartialObjectMeta<ConfigMap>>(client, namespace);
        tokio::spawn(follow_config_maps(
            move || watcher::watcher(maps.clone(), every.clone()),
            sink,
        ));
        (caches, receiver)
    }

    /// Returns when every watch has ended its first list.
    pub async fn filled(&self) {
        let mut filled = self.filled.clone();
        if filled.wait_for(|filled| *filled).await.is_err() {
            // The watches are gone and will never tell.
            std::future::pending::<()>().await;
        }
    }
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Follows a watch for ever. After an error it is taken up again after a pause, at most half a minute.
async fn follow<K, S>(what: &str, begin: impl Fn() -> S, mut handle: impl FnMut(Event<K>))
where
    S: Stream<Item = Result<Event<K>, watcher::Error>> + Send,
{
    let mut pauses = DefaultBackoff::default();
    loop {
        let mut stream = std::pin::pin!(begin());
        loop {
            let error = match stream.next().await {
                Some(Ok(event)) => {
                    handle(event);
                    continue;
                }
                Some(Err(error)) => Some(error),
                // A watch never ends by itself; should one do so, it is not spun on.
                None => None,
            };
            let told = error.as_ref().map(|error| describe(error));
            tracing::warn!(what, error = told, "watch interrupted");
            tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            if error.is_none_or(|error| is_out_of_touch(&error)) {
                break;
            }
        }
    }
}

/// The pause when the backoff knows none.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether a list is needed to know what is there. An API server that could not be reached may have been
/// restored from a backup: it counts its versions from an earlier one then, and a watch that goes on from the
/// last one would tell nothing until they have caught up.
fn is_out_of_touch(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_))
}

/// The error with its causes: the outermost one alone says little.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

async fn follow_releases<S>(begin: impl Fn() -> S, releases: Arc<Releases>, sink: Sink)
where
    S: Stream<Item = Result<Event<DeserializeGuard<HelmRelease>>, watcher::Error>> + Send,
{
    let mut seen = HashSet::new();
    follow("HelmReleases", begin, |event| match event {
        Event::Init => seen.clear(),
        Event::InitApply(object) => {
            seen.extend(key_of(object.meta()));
            apply_release(&releases, &sink, object);
        }
        Event::InitDone => {
            for key in releases.retain(&seen) {
                sink.send(CacheEvent::Deleted { key });
            }
            seen = HashSet::new();
            sink.fill(0b001);
        }
        Event::Apply(object) => apply_release(&releases, &sink, object),
        Event::Delete(object) => {
            if let Some(key) = releases.delete(object.meta()) {
                sink.send(CacheEvent::Deleted { key });
            }
        }
    })
    .await;
}

fn apply_release(releases: &Releases, sink: &Sink, object: DeserializeGuard<HelmRelease>) {
    if let Some((key, object, changed)) = releases.apply(object) {
        sink.send(CacheEvent::Applied {
            key,
            object,
            changed,
        });
    }
}

async fn follow_secrets<S>(begin: impl Fn() -> S, records: Arc<Records>, sink: Sink)
where
    S: Stream<Item = Result<Event<PartialObjectMeta<Secret>>, watcher::Error>> + Send,
{
    let mut seen = HashSet::new();
    let is_record = |secret: &PartialObjectMeta<Secret>| {
        let labels = secret.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get("owner"))
            .is_some_and(|owner| owner == "helm")
    };
    let tell =
        |sink: &Sink, secret: &PartialObjectMeta<Secret>, release: Option<NamespacedName>| {
            if let Some(release) = release {
                sink.send(CacheEvent::Recorded(release));
            } else if let Some(key) = key_of(&secret.metadata).filter(|_| !is_record(secret)) {
                sink.send(CacheEvent::Source(SourceKind::Secret, key));
            }
        };
    follow("Secrets", begin, |event| match event {
        Event::Init => seen.clear(),
        Event::InitApply(secret) => {
            if is_record(&secret) {
                seen.extend(key_of(&secret.metadata));
            }
            let release = records.apply(&secret);
            tell(&sink, &secret, release);
        }
        Event::InitDone => {
            for release in records.retain(&seen) {
                sink.send(CacheEvent::Recorded(release));
            }
            seen = HashSet::new();
            sink.fill(0b010);
        }
        Event::Apply(secret) => {
            let release = records.apply(&secret);
            tell(&sink, &secret, release);
        }
        Event::Delete(secret) => {
            let release = records.delete(&secret);
            tell(&sink, &secret, release);
        }
    })
    .await;
}

async fn follow_config_maps<S>(begin: impl Fn() -> S, sink: Sink)
where
    S: Stream<Item = Result<Event<PartialObjectMeta<ConfigMap>>, watcher::Error>> + Send,
{
    follow("ConfigMaps", begin, |event| match event {
        Event::Init => {}
        Event::InitDone => sink.fill(0b100),
        Event::InitApply(map) | Event::Apply(map) | Event::Delete(map) => {
            if let Some(key) = key_of(&map.metadata) {
                sink.send(CacheEvent::Source(SourceKind::ConfigMap, key));
            }
        }
    })
    .await;
}

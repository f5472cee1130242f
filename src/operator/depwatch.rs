//! Watches of single objects that gates wait for and that are no HelmReleases.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use helm_kube::State;
use jiff::Timestamp;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event};
use tokio::task::AbortHandle;

use super::context::Context;
use super::gates::discover;
use crate::api::{Dependency, NamespacedName};

/// How long a kind that is not served is waited for.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(30);

/// An object, and the namespace it is looked for in.
type Subject = (Dependency, String);
/// Who waits for an object.
type Waiting = Arc<Mutex<HashSet<NamespacedName>>>;

/// One watch for each object that a gate waits for.
pub(super) struct DependencyWatches {
    context: Arc<Context>,
    watches: HashMap<Subject, (Waiting, AbortHandle)>,
}

impl DependencyWatches {
    /// No watch yet.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            watches: HashMap::new(),
        }
    }

    /// Says what a HelmRelease waits for from now on, instead of what it waited for before.
    pub(super) fn set(&mut self, key: &NamespacedName, subjects: Vec<Subject>) {
        self.watches.retain(|subject, (waiting, task)| {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if !subjects.contains(subject) {
                waiting.remove(key);
            }
            if waiting.is_empty() {
                task.abort();
            }
            !waiting.is_empty()
        });
        for subject in subjects {
            let context = Arc::clone(&self.context);
            let (waiting, _) = self.watches.entry(subject).or_insert_with_key(|subject| {
                let waiting = Waiting::default();
                let task = tokio::spawn(follow(context, subject.clone(), Arc::clone(&waiting)));
                (waiting, task.abort_handle())
            });
            waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key.clone());
        }
    }
}

impl Drop for DependencyWatches {
    fn drop(&mut self) {
        self.watches.values().for_each(|(_, task)| task.abort());
    }
}

/// Wakes who waits whenever the object becomes ready, or is so no more.
async fn follow(context: Arc<Context>, subject: Subject, waiting: Waiting) {
    let (on, namespace) = &subject;
    let client = context.clusters.own().client();
    let (resource, namespaced) = loop {
        match discover(client, on).await {
            Ok(found) => break found,
            Err(_) => tokio::time::sleep(DISCOVERY_PAUSE).await,
        }
    };
    let api: Api<DynamicObject> = if namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    let only = Config::default().fields(&format!("metadata.name={}", on.name));
    let stream = watcher::watcher(api, only).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut was_ready = None;
    while let Some(event) = stream.next().await {
        let ready = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => Some(is_ready(&object)),
            Ok(Event::Delete(_)) => Some(false),
            // Errors are what the stream's own pauses are for.
            Ok(Event::Init | Event::InitDone) | Err(_) => None,
        };
        if ready.is_some() && ready != was_ready {
            was_ready = ready;
            let keys = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            keys.iter().for_each(|key| context.wake(key));
        }
    }
}

fn is_ready(object: &DynamicObject) -> bool {
    let value = serde_json::to_value(object).unwrap_or_default();
    helm_kube::readiness(&value, Timestamp::now()).state == State::Current
}

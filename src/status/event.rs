//! Events: the story of a HelmRelease, one line for each transition.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};

use crate::api::{HelmRelease, cut_message};

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Someone should look.
    Warning,
}

/// One Event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl EventNote {
    /// Good news.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Bad news.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Records Events on HelmReleases, in their namespaces. What cannot be recorded is logged: an Event never
/// holds a sync up.
#[derive(Clone)]
pub struct EventRecorder {
    client: Client,
    instance: String,
}

impl std::fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRecorder")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// The source of all Events, as in 1.4.
const COMPONENT: &str = "helm-operator";

impl EventRecorder {
    /// A recorder that names `instance` (the pod) as its source.
    pub fn new(client: Client, instance: impl Into<String>) -> Self {
        Self {
            client,
            instance: instance.into(),
        }
    }

    /// Records a note about a HelmRelease.
    pub async fn record(&self, release: &HelmRelease, note: &EventNote) {
        let namespace = release.own_namespace().to_owned();
        let event = self.event(release, note, Timestamp::now());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let create = api.create(&params, &event);
        match tokio::time::timeout(std::time::Duration::from_secs(10), create).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(release = %release.key(), reason = note.reason, %error, "event not recorded");
            }
            Err(_) => {
                tracing::warn!(release = %release.key(), reason = note.reason, "event not recorded in time");
            }
        }
    }

    fn event(&self, release: &HelmRelease, note: &EventNote, now: Timestamp) -> Event {
        let meta = release.meta();
        let name = meta.name.as_deref().unwrap_or_default();
        // The rest of 253 characters is for the suffix, which no other Event of the object has.
        let stem: String = name.chars().take(220).collect();
        let nanoseconds = now.as_nanosecond();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{stem}.{nanoseconds:x}")),
                namespace: meta.namespace.clone(),
                ..Default::default()
            },
            involved_object: ObjectReference {
                api_version: Some(HelmRelease::api_version(&()).into_owned()),
                kind: Some(HelmRelease::kind(&()).into_owned()),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                ..Default::default()
            },
            type_: Some(format!("{:?}", note.severity)),
            reason: Some(note.reason.clone()),
            message: Some(cut_message(&note.message).into_owned()),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(self.instance.clone()),
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            ..Default::default()
        }
    }
}

//! Deletion: uninstall, then let the object go. And the finalizer that makes sure of it.

use std::sync::Arc;
use std::time::Duration;

use helm_kube::{Cluster, Driver, History, RecoverContext, ReleaseKey, recover};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::act::{Slot, carry_out};
use super::backoff::Backoff;
use super::context::{Context, Wakes};
use super::decide::owner_of;
use super::identity::account_of;
use super::reconcile::{End, Next, Sync};
use super::trouble::{Stage, Trouble};
use crate::api::{
    ABANDON_ANNOTATION, FINALIZER, HelmRelease, HelmReleaseStatus, NamespacedName, Reason,
    resource_id,
};
use crate::status::{EventNote, Failure, Progress, StatusEdit};
use crate::telemetry::Action as Timed;

/// How long a change of the finalizers may take.
const TIMEOUT: Duration = Duration::from_secs(15);

impl Sync<'_> {
    /// Sees to it that the object is not gone before its release is.
    pub(super) async fn ensure_finalizer(&mut self) -> Result<(), End> {
        if self
            .release
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
        {
            return Ok(());
        }
        match set_finalizer(self.context, &self.release, true).await {
            Ok(()) => Ok(()),
            Err(message) => Err(self.fail(
                Trouble::new(
                    Stage::Spec,
                    Reason::ServerUnavailable,
                    format!("{message}: cannot add the finalizer {FINALIZER}"),
                )
                .transient(),
            )),
        }
    }
}

/// Adds or removes our finalizer; other finalizers stay as they are.
async fn set_finalizer(
    context: &Context,
    release: &HelmRelease,
    wanted: bool,
) -> Result<(), String> {
    let key = release.key();
    let api: Api<HelmRelease> = Api::namespaced(context.clusters.objects().clone(), &key.namespace);
    let mut metadata = release.metadata.clone();
    for _ in 0..5 {
        let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER.to_owned());
        }
        // The version makes sure that nobody else's finalizer is lost.
        let body = json!({"metadata": {
            "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            "finalizers": finalizers,
        }});
        let params = PatchParams {
            field_manager: Some("helm-operator".to_owned()),
            ..Default::default()
        };
        let patch = Patch::Merge(&body);
        let sent = api.patch_metadata(&key.name, &params, &patch);
        let answer = tokio::time::timeout(TIMEOUT, sent).await;
        match answer.map_err(|_| format!("no answer within {TIMEOUT:?}"))? {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let read = tokio::time::timeout(TIMEOUT, api.get_metadata_opt(&key.name)).await;
                let read = read.map_err(|_| format!("no answer within {TIMEOUT:?}"))?;
                match read.map_err(|error| error.to_string())? {
                    Some(found) if found.metadata.uid == release.metadata.uid => {
                        metadata = found.metadata;
                    }
                    // It is gone, or another one has its name.
                    _ => return Ok(()),
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("the object changes faster than it can be written".to_owned())
}

/// Reconciles a HelmRelease that is being deleted.
pub(super) async fn remove(
    context: &Arc<Context>,
    release: &Arc<HelmRelease>,
    slot: &mut Slot,
) -> Next {
    if !release
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
    {
        return Next::Never;
    }
    let mut removal = Removal {
        context,
        told: told(&context.status.current(release)),
        release,
        target: release.release_key(),
        slot,
    };
    let result = removal.run().await;
    removal.conclude(result).await
}

struct Removal<'a> {
    context: &'a Arc<Context>,
    release: &'a Arc<HelmRelease>,
    target: NamespacedName,
    slot: &'a mut Slot,
    /// What `Ready` said before this try.
    told: Option<String>,
}

/// What `Ready` says.
fn told(status: &HelmReleaseStatus) -> Option<String> {
    status.condition("Ready")?.message.clone()
}

/// How a removal ended.
enum Removed {
    /// The release is gone, or is not ours to remove; this is the story.
    Done(EventNote),
    /// The daemon stops.
    Abandoned,
}

impl Removal<'_> {
    async fn run(&mut self) -> Result<Removed, Failure> {
        let NamespacedName { namespace, name } = self.target.clone();
        if self
            .release
            .annotations()
            .get(ABANDON_ANNOTATION)
            .is_some_and(|value| value == "true")
        {
            return Ok(Removed::Done(EventNote::normal(
                "ReleaseAbandoned",
                format!(
                    "release '{name}' in namespace '{namespace}' is left in the cluster: annotation {ABANDON_ANNOTATION}"
                ),
            )));
        }
        let Some(cluster) = self.cluster().await? else {
            return Ok(Removed::Done(
                self.unreachable("the Secret of its kubeconfig is gone"),
            ));
        };
        let history = match self.history(&cluster).await {
            Err(failure) if self.lacks_account(&failure).await => {
                return Ok(Removed::Done(
                    self.unreachable("its ServiceAccount is gone"),
                ));
            }
            history => history?,
        };
        if let Some(owner) = self.foreign_owner(&history) {
            return Ok(Removed::Done(EventNote::normal(
                "ReleaseNotOwned",
                format!(
                    "release '{name}' in namespace '{namespace}' is left alone: it belongs to {owner}"
                ),
            )));
        }
        if history.is_empty() {
            return Ok(Removed::Done(EventNote::normal(
                "ReleaseUninstalled",
                format!("there is no release '{name}' in namespace '{namespace}'"),
            )));
        }
        match self.uninstall(&cluster, history).await {
            Err(failure) if self.lacks_account(&failure).await => Ok(Removed::Done(
                self.unreachable("its ServiceAccount is gone"),
            )),
            removed => removed,
        }
    }

    /// The cluster of the release; `None` when nobody can say any more which one that is.
    async fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        let account = self.context.settings.default_service_account.as_deref();
        match self.context.clusters.target(self.release, account).await {
            Ok(cluster) => Ok(Some(cluster)),
            Err(trouble) if trouble.has_reason(Reason::KubeConfigNotFound) => Ok(None),
            Err(trouble) => Err(Failure {
                retried: true,
                ..trouble.failure()
            }),
        }
    }

    /// Whether it failed because the ServiceAccount is gone. The daemon's own rights are no way out: who
    /// may write a release record could have anything deleted with them.
    async fn lacks_account(&self, failure: &Failure) -> bool {
        let default = self.context.settings.default_service_account.as_deref();
        let Some(account) = account_of(self.release, default) else {
            return false;
        };
        let is_denied = [
            helm_kube::Reason::Forbidden,
            helm_kube::Reason::Unauthorized,
        ]
        .iter()
        .any(|reason| reason.as_str() == failure.reason);
        if !is_denied {
            return false;
        }
        let client = self.context.clusters.own().client().clone();
        let api: Api<ServiceAccount> = Api::namespaced(client, &account.namespace);
        let found = tokio::time::timeout(TIMEOUT, api.get_metadata_opt(&account.name)).await;
        matches!(found, Ok(Ok(None)))
    }

    fn unreachable(&self, why: &str) -> EventNote {
        let NamespacedName { namespace, name } = &self.target;
        EventNote::warning(
            "ReleaseAbandoned",
            format!(
                "release '{name}' in namespace '{namespace}' cannot be uninstalled: {why}: its objects are left in the cluster"
            ),
        )
    }

    fn key(&self) -> ReleaseKey {
        ReleaseKey::new(&*self.target.name, &*self.target.namespace)
    }

    async fn history(&self, cluster: &Cluster) -> Result<History, Failure> {
        let machine = helm_kube::history(self.key(), Driver::Secret);
        let history = cluster.run(machine).await;
        history.map_err(|error| Failure {
            reason: error.reason.to_string(),
            message: format!("uninstall failed: {}", error.message),
            retried: true,
        })
    }

    /// Who else the release belongs to: who the record names, or another object that claims a release
    /// that is not by us.
    fn foreign_owner(&self, history: &History) -> Option<String> {
        let ours = self.release.key();
        match history.newest().and_then(owner_of) {
            Some(owner) if owner == resource_id(&ours) => None,
            Some(owner) => Some(owner.to_owned()),
            None => {
                let record = Wakes::Record(self.target.clone());
                let claims = self.context.index().woken_by(&record);
                claims
                    .iter()
                    .find(|key| **key != ours)
                    .map(|key| format!("HelmRelease {key}"))
            }
        }
    }

    fn edit(&self) -> StatusEdit {
        let before = self.context.status.current(self.release);
        let generation = self.release.metadata.generation.unwrap_or(0);
        StatusEdit::new(before, self.target.clone(), generation, Timestamp::now())
    }

    async fn uninstall(&mut self, cluster: &Cluster, history: History) -> Result<Removed, Failure> {
        let spec = &self.release.spec;
        let wanted = spec.uninstall.clone().unwrap_or_default();
        let options = super::options::uninstall(self.release, &self.context.settings);
        let mut edit = self.edit();
        edit.begin(Progress::Uninstalling, options.timeout);
        self.write(edit).await;
        tracing::info!(release = %self.release.key(), "running uninstall");
        let plan = recover(
            &history,
            &RecoverContext {
                now: Timestamp::now(),
                holder: &self.context.settings.holder,
                digest: None,
                patience: options.patience,
            },
        );
        let machine = helm_kube::uninstall(helm_kube::Uninstall {
            release: self.key(),
            history,
            plan,
            keep_history: wanted.keep_history.unwrap_or(false),
            description: None,
            options,
        });
        let timer = self
            .context
            .metrics
            .time(Timed::Uninstall, self.target.clone());
        let context = self.context;
        let run = carry_out(cluster, machine, self.slot, &context.shutdown).await;
        let Ok(result) = run else {
            return Ok(Removed::Abandoned);
        };
        timer.ended(result.is_ok());
        match result {
            Ok(_) => {
                let NamespacedName { namespace, name } = &self.target;
                Ok(Removed::Done(EventNote::normal(
                    "ReleaseUninstalled",
                    format!("release '{name}' in namespace '{namespace}' uninstalled"),
                )))
            }
            Err(error) => Err(Failure {
                reason: match error.reason {
                    reason @ (helm_kube::Reason::HookFailed
                    | helm_kube::Reason::Forbidden
                    | helm_kube::Reason::Unauthorized) => reason.to_string(),
                    _ => Reason::UninstallFailed.to_string(),
                },
                message: format!("uninstall failed: {}", error.message),
                retried: true,
            }),
        }
    }

    async fn write(&self, edit: StatusEdit) {
        let status = edit.into_status();
        if let Err(error) = self.context.status.write(self.release, status).await {
            tracing::warn!(release = %self.release.key(), %error, "status not written");
        }
    }

    async fn conclude(&mut self, result: Result<Removed, Failure>) -> Next {
        let key = self.release.key();
        let failure = match result {
            Ok(Removed::Abandoned) => return Next::OnChange,
            Ok(Removed::Done(story)) => {
                // The Event first: it is about an object that is gone a moment later.
                self.context.events.record(self.release, &story).await;
                match set_finalizer(self.context, self.release, false).await {
                    Ok(()) => {
                        tracing::info!(release = %key, "{}", story.message);
                        return Next::Never;
                    }
                    Err(message) => Failure::retried(
                        Reason::ServerUnavailable,
                        format!("{message}: cannot remove the finalizer {FINALIZER}"),
                    ),
                }
            }
            Err(failure) => failure,
        };
        self.fail(&failure).await;
        let failures = self.context.remember(&key, |memory| {
            memory.failures = memory.failures.saturating_add(1);
            memory.failures
        });
        self.context.metrics.count_retry();
        Next::After(Backoff::of(&self.release.spec).jittered(failures, &key.to_string()))
    }

    async fn fail(&self, failure: &Failure) {
        let mut edit = self.edit();
        edit.uninstall_failed(failure);
        let after = edit.into_status();
        // Not as it is now: this try has begun with saying that it is under way.
        let is_news = told(&after) != self.told;
        if let Err(error) = self.context.status.write(self.release, after).await {
            tracing::warn!(release = %self.release.key(), %error, "status not written");
        }
        if is_news {
            let NamespacedName { namespace, name } = &self.target;
            let text = format!(
                "release '{name}' in namespace '{namespace}': {}",
                failure.message
            );
            let note = EventNote::warning("FailedReleaseUninstall", text);
            self.context.events.record(self.release, &note).await;
        }
    }
}

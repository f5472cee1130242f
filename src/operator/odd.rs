//! HelmReleases that cannot be read: an older CRD let something pass. Only they are concerned, and they can be deleted.

use std::sync::Arc;

use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::act::Slot;
use super::context::Context;
use super::reconcile::Next;
use super::remove::remove;
use crate::api::{GROUP, HelmRelease, HelmReleaseSpec, NamespacedName, Reason, VERSION};
use crate::status::Failure;
use crate::watch::BadRelease;

/// Tells in the status what cannot be read; nothing else is done with the object.
pub(super) async fn report_bad(context: &Context, bad: &BadRelease) -> Next {
    let release = with_spec(bad, HelmReleaseSpec::default());
    let text = format!("the object cannot be read: {}: correct its spec", bad.error);
    let failure = Failure::stalled(Reason::InvalidSpec, text);
    super::run::report(context, &release, &failure).await;
    Next::OnChange
}

/// Uninstalls an object that cannot be read, by what can be read of it, and lets it go.
pub(super) async fn remove_bad(
    context: &Arc<Context>,
    key: &NamespacedName,
    bad: &BadRelease,
    slot: &mut Slot,
) -> Next {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, "HelmRelease");
    let resource = ApiResource::from_gvk_with_plural(&kind, "helmreleases");
    let client = context.clusters.objects().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &key.namespace, &resource);
    let object = match api.get_opt(&key.name).await {
        Ok(Some(object)) => object,
        Ok(None) => return Next::Never,
        Err(error) => {
            tracing::warn!(release = %key, %error, "not read, to be tried again");
            return Next::After(std::time::Duration::from_secs(10));
        }
    };
    let release = Arc::new(with_spec(bad, salvage(&object.data)));
    let Ok(lock) = context.locks.try_lock(&release.release_key()) else {
        return Next::After(std::time::Duration::from_secs(1));
    };
    let next = remove(context, &release, slot).await;
    if next == Next::Never {
        lock.remove().ok();
    }
    next
}

fn with_spec(bad: &BadRelease, spec: HelmReleaseSpec) -> HelmRelease {
    let name = bad.metadata.name.as_deref().unwrap_or_default();
    let mut release = HelmRelease::new(name, spec);
    release.metadata = bad.metadata.clone();
    release
}

/// The fields of the spec that can be read, each by itself. Values are left out: an uninstall needs none. A release
/// name that cannot be read is taken from the status.
fn salvage(object: &Value) -> HelmReleaseSpec {
    let mut kept = json!({"chart": {}});
    let fields = object["spec"].as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "values") {
        let mut trial = kept.clone();
        trial[name.as_str()] = value.clone();
        if serde_json::from_value::<HelmReleaseSpec>(trial.clone()).is_ok() {
            kept = trial;
        }
    }
    let was_named = !object["spec"]["releaseName"].is_null() && kept["releaseName"].is_null();
    if was_named && object["status"]["releaseName"].is_string() {
        kept["releaseName"] = object["status"]["releaseName"].clone();
    }
    serde_json::from_value(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_of_a_spec_is_kept() {
        let object = json!({"spec": {"chart": "text", "timeout": "10m", "targetNamespace": "apps",
            "releaseName": "web", "values": {"a": 1}, "gates": [7], "maxHistory": 3}});
        let spec = salvage(&object);
        assert_eq!(spec.target_namespace.as_deref(), Some("apps"));
        assert_eq!(spec.release_name.as_deref(), Some("web"));
        assert_eq!((spec.max_history, spec.timeout), (Some(3), None));
        assert!(spec.values.is_none() && spec.gates.is_none());
    }

    #[test]
    fn a_release_name_that_cannot_be_read_comes_from_the_status() {
        let object = json!({"spec": {"releaseName": 7}, "status": {"releaseName": "seven"}});
        assert_eq!(salvage(&object).release_name.as_deref(), Some("seven"));
        let never = json!({"spec": {}, "status": {"releaseName": "old"}});
        assert_eq!(salvage(&never).release_name, None);
        assert_eq!(salvage(&json!({"spec": []})), salvage(&json!({})));
    }
}

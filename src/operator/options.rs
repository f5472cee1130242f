//! From a spec to the options of Helm's actions.

use std::time::Duration;

use helm_kube::{CrdPolicy as KubeCrds, Options, WaitFor};

use super::context::Settings;
use crate::api::{ANTECEDENT_ANNOTATION, CrdPolicy, HelmRelease, resource_id};

/// Kinds that `forceUpgrade` may delete and make anew when an immutable field changes. Claims and volumes
/// never are, and StatefulSets keep their claims.
const FORCED: [&str; 12] = [
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "Pod",
    "ReplicaSet",
    "RoleBinding",
    "ClusterRoleBinding",
    "Secret",
    "Service",
    "StatefulSet",
];

/// Options of an install or an upgrade.
pub(crate) fn deploy(release: &HelmRelease, settings: &Settings) -> Options {
    let spec = &release.spec;
    let force = spec.force_upgrade.unwrap_or(false);
    Options {
        holder: settings.holder.clone(),
        timeout: spec.timeout(),
        wait: if spec.wait() {
            WaitFor::Ready
        } else {
            WaitFor::Nothing
        },
        max_history: spec.max_history(),
        create_namespace: spec.create_namespace.unwrap_or(false),
        crds: match spec.crd_policy() {
            CrdPolicy::Skip => KubeCrds::Skip,
            CrdPolicy::Create => KubeCrds::Create,
            CrdPolicy::CreateReplace => KubeCrds::CreateReplace,
        },
        // 1.4 overwrote what others had changed; so does this, field by field.
        force_conflicts: true,
        strict: !spec.disable_open_api_validation.unwrap_or(false),
        recreate: if force {
            FORCED.map(str::to_owned).to_vec()
        } else {
            Vec::new()
        },
        annotations: [(
            ANTECEDENT_ANNOTATION.to_owned(),
            resource_id(&release.key()),
        )]
        .into(),
        ..Options::default()
    }
}

/// Options of a rollback.
pub(crate) fn rollback(release: &HelmRelease, settings: &Settings) -> Options {
    let rollback = release.spec.rollback();
    let force = rollback.force.unwrap_or(false);
    Options {
        timeout: rollback.timeout(),
        wait: if rollback.wait.unwrap_or(false) {
            WaitFor::Ready
        } else {
            WaitFor::Nothing
        },
        hooks: !rollback.disable_hooks.unwrap_or(false),
        recreate: if force {
            FORCED.map(str::to_owned).to_vec()
        } else {
            Vec::new()
        },
        ..deploy(release, settings)
    }
}

/// Options of a run of the tests.
pub(crate) fn test(release: &HelmRelease, settings: &Settings) -> Options {
    Options {
        timeout: release.spec.test().timeout(),
        ..deploy(release, settings)
    }
}

/// Options of an uninstall.
pub(crate) fn uninstall(release: &HelmRelease, settings: &Settings) -> Options {
    let wanted = release.spec.uninstall.clone().unwrap_or_default();
    let timeout: Duration = wanted
        .timeout
        .map_or(release.spec.timeout(), crate::api::Duration::get);
    Options {
        timeout,
        wait: if wanted.wait.unwrap_or(false) {
            WaitFor::Ready
        } else {
            WaitFor::Nothing
        },
        hooks: !wanted.disable_hooks.unwrap_or(false),
        ..deploy(release, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(spec: serde_json::Value) -> HelmRelease {
        HelmRelease::new("web", serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn each_action_has_its_own_timeout_wait_and_hooks() {
        let release = release(serde_json::json!({"chart": {}, "timeout": 7,
            "rollback": {"enable": true, "timeout": 8, "disableHooks": true},
            "test": {"enable": true, "timeout": 9},
            "uninstall": {"timeout": "10s", "wait": true, "disableHooks": true}}));
        let settings = super::super::test_settings();
        let shown = |options: Options| (options.timeout.as_secs(), options.wait, options.hooks);
        assert_eq!(
            shown(deploy(&release, &settings)),
            (7, WaitFor::Ready, true)
        );
        assert_eq!(
            shown(rollback(&release, &settings)),
            (8, WaitFor::Nothing, false)
        );
        assert_eq!(shown(test(&release, &settings)).0, 9);
        assert_eq!(
            shown(uninstall(&release, &settings)),
            (10, WaitFor::Ready, false)
        );
    }

    #[test]
    fn force_validation_history_and_crds_reach_every_action() {
        let release = release(serde_json::json!({"chart": {}, "forceUpgrade": true,
            "disableOpenAPIValidation": true, "maxHistory": 0, "skipCRDs": true}));
        let options = deploy(&release, &super::super::test_settings());
        assert!(!options.strict && options.max_history == 0 && options.crds == KubeCrds::Skip);
        assert!(options.recreate.contains(&"Job".to_owned()));
        assert!(
            !options
                .recreate
                .contains(&"PersistentVolumeClaim".to_owned())
        );
    }
}

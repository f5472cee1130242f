//! Gates: what must hold before an install or an upgrade starts.

use std::collections::HashSet;
use std::time::Duration;

use helm_kube::State;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, GroupVersionKind};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};

use crate::api::{
    ConditionStatus, ConditionType, Dependency, Gate, GateType, HelmRelease, NamespacedName, Reason,
};
use crate::watch::{Cached, Releases};

/// How long one look may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What a look at a gate found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateResult {
    /// Name of the gate; the name of its condition follows from it.
    pub(crate) name: String,
    /// Whether it holds the release back when it does not pass.
    pub(crate) mandatory: bool,
    /// What was found.
    pub(crate) verdict: Verdict,
    /// When to look again, should no event tell.
    pub(crate) again: Duration,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes.
    Passed(String),
    /// It does not pass.
    NotPassed(String),
    /// It does not pass: a cycle of dependencies.
    Cycle(String),
    /// It could not be found out.
    Failed(String),
}

impl Verdict {
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Passed(_))
    }

    /// Status, reason and text of the condition.
    pub(crate) fn condition(&self) -> (ConditionStatus, Reason, &str) {
        match self {
            Self::Passed(text) => (ConditionStatus::True, Reason::GatePassed, text),
            Self::NotPassed(text) => (ConditionStatus::False, Reason::GateNotPassed, text),
            Self::Cycle(text) => (ConditionStatus::False, Reason::DependencyCycle, text),
            Self::Failed(text) => (ConditionStatus::Unknown, Reason::GateCheckFailed, text),
        }
    }
}

/// Looks at gates.
#[derive(Clone)]
pub(crate) struct GateKeeper {
    pub(crate) client: Client,
    pub(crate) own_namespace_only: bool,
}

/// The name of the ConfigMap that approves a release.
#[must_use]
pub fn approval_name(release: &str) -> String {
    format!("approval-{release}")
}

/// All gates of a release: those that are written, and one for each entry of `dependsOn`.
pub(crate) fn all_gates(release: &HelmRelease) -> Vec<Gate> {
    let depends_on = release.spec.depends_on.iter().flatten().map(|on| {
        let namespace = on
            .namespace
            .as_deref()
            .filter(|ns| *ns != release.own_namespace());
        let place = namespace.map(|ns| format!("{ns}-")).unwrap_or_default();
        Gate {
            name: format!("depends-on-{place}{}", on.name),
            gate_type: GateType::DependencyReady,
            description: None,
            mandatory: None,
            check_interval: None,
            config_map: None,
            dependency: Some(Dependency {
                name: on.name.clone(),
                namespace: on.namespace.clone(),
                ..Default::default()
            }),
        }
    });
    depends_on
        .chain(release.spec.gates.iter().flatten().cloned())
        .collect()
}

/// The HelmReleases that a release depends on.
pub(crate) fn dependencies(release: &HelmRelease) -> Vec<NamespacedName> {
    all_gates(release)
        .iter()
        .filter_map(|gate| gate.dependency.as_ref().filter(|on| on.is_helm_release()))
        .map(|on| dependency_key(release, on))
        .collect()
}

/// The ConfigMaps whose change may open a gate.
pub(crate) fn config_maps(release: &HelmRelease) -> Vec<NamespacedName> {
    let own = release.own_namespace();
    let gates = release.spec.gates.iter().flatten();
    gates
        .filter_map(|gate| match gate.gate_type {
            GateType::ManualApproval => {
                Some(NamespacedName::new(own, approval_name(&release.name_any())))
            }
            GateType::ConfigMapExists => gate.config_map.as_ref().map(|check| {
                let namespace = check.namespace.as_deref().filter(|ns| !ns.is_empty());
                NamespacedName::new(namespace.unwrap_or(own), check.name.as_str())
            }),
            GateType::DependencyReady => None,
        })
        .collect()
}

/// Dependencies of other kinds, with the namespaces they are looked for in.
pub(crate) fn other_dependencies(release: &HelmRelease) -> Vec<(Dependency, String)> {
    let own = release.own_namespace();
    let gates = release.spec.gates.iter().flatten();
    gates
        .filter_map(|gate| gate.dependency.as_ref().filter(|on| !on.is_helm_release()))
        .map(|on| {
            (
                on.clone(),
                on.namespace.clone().unwrap_or_else(|| own.to_owned()),
            )
        })
        .collect()
}

fn dependency_key(release: &HelmRelease, on: &Dependency) -> NamespacedName {
    let namespace = on.namespace.as_deref().filter(|ns| !ns.is_empty());
    NamespacedName::new(
        namespace.unwrap_or_else(|| release.own_namespace()),
        on.name.as_str(),
    )
}

/// Whether a HelmRelease is ready at its current generation.
pub(crate) fn is_ready(release: &HelmRelease) -> bool {
    let Some(status) = &release.status else {
        return false;
    };
    let generation = release.metadata.generation;
    let is_current = status.observed_generation >= generation;
    // A release that is suspended has seen its spec and done nothing about it.
    let ready = status.condition(&ConditionType::Ready.to_string());
    let said_at = ready.and_then(|ready| ready.observed_generation);
    is_current
        && said_at.is_none_or(|at| Some(at) >= generation)
        && status.is_true(ConditionType::Ready)
}

/// The cycle of dependencies that a release is part of, if it is: its members in their order.
pub(crate) fn cycle(start: &NamespacedName, releases: &Releases) -> Option<Vec<NamespacedName>> {
    let mut seen = HashSet::new();
    let mut path = Vec::new();
    walk(start, start, releases, &mut seen, &mut path).then_some(path)
}

fn walk(
    at: &NamespacedName,
    start: &NamespacedName,
    releases: &Releases,
    seen: &mut HashSet<NamespacedName>,
    path: &mut Vec<NamespacedName>,
) -> bool {
    // A chain of dependencies longer than this is not followed: nobody writes one.
    if path.len() > 256 || !seen.insert(at.clone()) {
        return false;
    }
    let Some(Cached::Good(release)) = releases.get(at) else {
        return false;
    };
    path.push(at.clone());
    for next in dependencies(&release) {
        if next == *start || walk(&next, start, releases, seen, path) {
            return true;
        }
    }
    path.pop();
    false
}

impl GateKeeper {
    /// Looks at every gate of a release, for the inputs with that digest.
    pub(crate) async fn look(
        &self,
        release: &HelmRelease,
        digest: &str,
        releases: &Releases,
    ) -> Vec<GateResult> {
        let mut results = Vec::new();
        for gate in all_gates(release) {
            let looked =
                tokio::time::timeout(TIMEOUT, self.verdict(release, &gate, digest, releases));
            let verdict = looked.await.unwrap_or_else(|_| {
                Verdict::Failed(format!("no answer from the API server within {TIMEOUT:?}"))
            });
            let verdict = match &gate.description {
                Some(description) => described(verdict, description),
                None => verdict,
            };
            results.push(GateResult {
                mandatory: gate.is_mandatory(),
                again: gate.check_interval(),
                name: gate.name,
                verdict,
            });
        }
        results
    }

    async fn verdict(
        &self,
        release: &HelmRelease,
        gate: &Gate,
        digest: &str,
        releases: &Releases,
    ) -> Verdict {
        match gate.gate_type {
            GateType::ManualApproval => self.approval(release, digest).await,
            GateType::ConfigMapExists => match &gate.config_map {
                Some(check) => self.config_map(release, check).await,
                None => Verdict::NotPassed("the gate names no configMap".to_owned()),
            },
            GateType::DependencyReady => match &gate.dependency {
                Some(on) if on.is_helm_release() => self.release(release, on, releases),
                Some(on) => self.object(release, on).await,
                None => Verdict::NotPassed("the gate names no dependency".to_owned()),
            },
        }
    }

    fn denies(&self, release: &HelmRelease, namespace: &str) -> Option<Verdict> {
        (self.own_namespace_only && namespace != release.own_namespace()).then(|| {
            Verdict::NotPassed(format!(
                "namespace {namespace} is another one, which --no-cross-namespace-refs forbids"
            ))
        })
    }

    fn release(&self, release: &HelmRelease, on: &Dependency, releases: &Releases) -> Verdict {
        let key = dependency_key(release, on);
        if let Some(denied) = self.denies(release, &key.namespace) {
            return denied;
        }
        if let Some(members) = cycle(&release.key(), releases) {
            let names: Vec<String> = members.iter().map(ToString::to_string).collect();
            return Verdict::Cycle(format!(
                "a cycle of dependencies: {} → {}: take one of them out",
                names.join(" → "),
                release.key()
            ));
        }
        match releases.get(&key) {
            Some(Cached::Good(found)) if is_ready(&found) => {
                Verdict::Passed(format!("HelmRelease {key} is ready"))
            }
            Some(_) => Verdict::NotPassed(format!("HelmRelease {key} is not ready")),
            None => Verdict::NotPassed(format!("HelmRelease {key} does not exist")),
        }
    }

    async fn approval(&self, release: &HelmRelease, digest: &str) -> Verdict {
        let name = approval_name(&release.name_any());
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), release.own_namespace());
        match api.get_opt(&name).await {
            Ok(found) => approves(found.as_ref(), &name, digest),
            Err(error) => Verdict::Failed(format!("{error}: cannot read ConfigMap {name}")),
        }
    }

    async fn config_map(
        &self,
        release: &HelmRelease,
        check: &crate::api::ConfigMapCheck,
    ) -> Verdict {
        let namespace = check.namespace.as_deref().filter(|ns| !ns.is_empty());
        let namespace = namespace.unwrap_or_else(|| release.own_namespace());
        if let Some(denied) = self.denies(release, namespace) {
            return denied;
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let place = format!("ConfigMap {namespace}/{}", check.name);
        match api.get_opt(&check.name).await {
            Ok(found) => holds(found.as_ref(), check, &place),
            Err(error) => Verdict::Failed(format!("{error}: cannot read {place}")),
        }
    }

    async fn object(&self, release: &HelmRelease, on: &Dependency) -> Verdict {
        let namespace = on
            .namespace
            .as_deref()
            .unwrap_or_else(|| release.own_namespace());
        if let Some(denied) = self.denies(release, namespace) {
            return denied;
        }
        let kind = on.kind.as_deref().unwrap_or_default();
        let place = format!("{kind} {namespace}/{}", on.name);
        let read = async {
            let (resource, namespaced) = discover(&self.client, on).await?;
            let api: Api<DynamicObject> = if namespaced {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            } else {
                Api::all_with(self.client.clone(), &resource)
            };
            api.get_opt(&on.name).await
        };
        match read.await {
            Ok(Some(object)) => {
                let value = serde_json::to_value(&object).unwrap_or_default();
                let found = helm_kube::readiness(&value, Timestamp::now());
                if found.state == State::Current {
                    Verdict::Passed(format!("{place} is ready"))
                } else {
                    Verdict::NotPassed(format!("{place} is not ready: {}", found.message))
                }
            }
            Ok(None) => Verdict::NotPassed(format!("{place} does not exist")),
            Err(error) => Verdict::Failed(format!("{error}: cannot read {place}")),
        }
    }
}

/// Where a kind is served.
pub(crate) async fn discover(
    client: &Client,
    on: &Dependency,
) -> Result<(ApiResource, bool), kube::Error> {
    let version = on.api_version.as_deref().unwrap_or("v1");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, on.kind.as_deref().unwrap_or_default());
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &gvk).await?;
    Ok((
        resource,
        capabilities.scope == kube::discovery::Scope::Namespaced,
    ))
}

fn described(verdict: Verdict, description: &str) -> Verdict {
    let with = |text: String| format!("{description}: {text}");
    match verdict {
        Verdict::Passed(text) => Verdict::Passed(with(text)),
        Verdict::NotPassed(text) => Verdict::NotPassed(with(text)),
        Verdict::Cycle(text) => Verdict::Cycle(with(text)),
        Verdict::Failed(text) => Verdict::Failed(with(text)),
    }
}

fn approves(found: Option<&ConfigMap>, name: &str, digest: &str) -> Verdict {
    let data = found.and_then(|map| map.data.as_ref());
    let value = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
    let waits = format!("waits for approval of {digest} in ConfigMap {name}");
    match (value("approved"), value("digest")) {
        (Some("true"), None) => Verdict::Passed("every change is approved".to_owned()),
        (Some("true"), Some(approved)) if approved == digest => {
            Verdict::Passed(format!("{digest} is approved"))
        }
        (Some("true"), Some(other)) => {
            Verdict::NotPassed(format!("{waits}, which approves {other}"))
        }
        _ => Verdict::NotPassed(waits),
    }
}

fn holds(found: Option<&ConfigMap>, check: &crate::api::ConfigMapCheck, place: &str) -> Verdict {
    let Some(map) = found else {
        return Verdict::NotPassed(format!("{place} does not exist"));
    };
    let Some(key) = &check.key else {
        return Verdict::Passed(format!("{place} exists"));
    };
    let value = map.data.as_ref().and_then(|data| data.get(key));
    match (value, &check.value) {
        (None, _) => Verdict::NotPassed(format!("{place} has no key {key}")),
        (Some(_), None) => Verdict::Passed(format!("{place} has key {key}")),
        (Some(found), Some(wanted)) if found == wanted => {
            Verdict::Passed(format!("{place} has the wanted value under {key}"))
        }
        (Some(_), Some(_)) => Verdict::NotPassed(format!("{place} has another value under {key}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: serde_json::Value) -> ConfigMap {
        serde_json::from_value(serde_json::json!({ "data": data })).unwrap()
    }

    #[test]
    fn approval_is_for_the_digest_that_waits_or_for_all() {
        let rows = [
            (None, false),
            (Some(serde_json::json!({})), false),
            (Some(serde_json::json!({"approved": "false"})), false),
            (Some(serde_json::json!({"approved": "yes"})), false),
            (Some(serde_json::json!({"approved": "true"})), true),
            (
                Some(serde_json::json!({"approved": "true", "digest": "d1"})),
                true,
            ),
            (
                Some(serde_json::json!({"approved": "true", "digest": "d0"})),
                false,
            ),
            (Some(serde_json::json!({"digest": "d1"})), false),
        ];
        for (data, passes) in rows {
            let found = data.clone().map(map);
            let verdict = approves(found.as_ref(), "approval-web", "d1");
            assert_eq!(verdict.passes(), passes, "{data:?}");
            assert!(passes || verdict.condition().2.contains("d1"));
        }
    }

    #[test]
    fn a_config_map_has_to_exist_and_hold_what_is_asked_for() {
        let check = |key: Option<&str>, value: Option<&str>| crate::api::ConfigMapCheck {
            name: "flags".into(),
            key: key.map(str::to_owned),
            value: value.map(str::to_owned),
            ..Default::default()
        };
        let found = map(serde_json::json!({"go": "now"}));
        let rows = [
            (None, check(None, None), false),
            (Some(&found), check(None, None), true),
            (Some(&found), check(Some("go"), None), true),
            (Some(&found), check(Some("stop"), None), false),
            (Some(&found), check(Some("go"), Some("now")), true),
            (Some(&found), check(Some("go"), Some("later")), false),
        ];
        for (found, check, passes) in rows {
            assert_eq!(
                holds(found, &check, "ConfigMap demo/flags").passes(),
                passes,
                "{check:?}"
            );
        }
    }

    fn releases(edges: &[(&str, &[&str])]) -> Releases {
        let releases = Releases::default();
        for (name, on) in edges {
            let on: Vec<_> = on
                .iter()
                .map(|name| serde_json::json!({ "name": name }))
                .collect();
            let object = serde_json::json!({
                "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
                "metadata": {"namespace": "demo", "name": name},
                "spec": {"chart": {}, "dependsOn": on}
            });
            releases.apply(serde_json::from_value(object).unwrap());
        }
        releases
    }

    #[test]
    fn a_cycle_is_found_on_each_member_and_on_nobody_else() {
        let releases = releases(&[
            ("a", &["b"]),
            ("b", &["c", "leaf"]),
            ("c", &["a"]),
            ("leaf", &[]),
            ("outside", &["a"]),
            ("self", &["self"]),
        ]);
        let found = |name: &str| cycle(&NamespacedName::new("demo", name), &releases);
        for member in ["a", "b", "c"] {
            assert_eq!(
                found(member).map(|members| members.len()),
                Some(3),
                "{member}"
            );
        }
        assert_eq!(found("self").map(|members| members.len()), Some(1));
        assert_eq!(found("leaf"), None);
        assert_eq!(found("outside"), None);
    }

    #[test]
    fn depends_on_is_short_for_mandatory_gates() {
        let release = HelmRelease::new(
            "web",
            serde_json::from_value(serde_json::json!({"chart": {},
                "dependsOn": [{"name": "db"}, {"name": "net", "namespace": "infra"}],
                "gates": [{"name": "ok", "type": "ManualApproval", "mandatory": false}]}))
            .unwrap(),
        );
        let gates: Vec<_> = all_gates(&release)
            .into_iter()
            .map(|gate| (gate.is_mandatory(), gate.name))
            .collect();
        assert_eq!(
            gates,
            [
                (true, "depends-on-db".into()),
                (true, "depends-on-infra-net".into()),
                (false, "ok".into())
            ]
        );
        assert_eq!(
            config_maps(&release),
            [NamespacedName::new("default", "approval-web")]
        );
        assert_eq!(dependencies(&release).len(), 2);
    }

    #[test]
    fn a_release_is_ready_only_at_its_current_generation() {
        let mut release = HelmRelease::new(
            "web",
            serde_json::from_value(serde_json::json!({"chart": {}})).unwrap(),
        );
        release.metadata.generation = Some(2);
        let ready = |generation: i64| -> crate::api::HelmReleaseStatus {
            serde_json::from_value(serde_json::json!({"observedGeneration": generation,
                "conditions": [{"type": "Ready", "status": "True"}]}))
            .unwrap()
        };
        assert!(!is_ready(&release));
        release.status = Some(ready(1));
        assert!(!is_ready(&release));
        release.status = Some(ready(2));
        assert!(is_ready(&release));
        // Suspended: it was ready at an earlier generation, and has seen this one.
        let mut seen = ready(2);
        for at in [1, 2] {
            let condition = &mut seen.conditions.as_mut().unwrap()[0];
            condition.observed_generation = Some(at);
            release.status = Some(seen.clone());
            assert_eq!(is_ready(&release), at == 2);
        }
    }
}

//! `spec.gates` and `spec.dependsOn`: what must hold before an install or an upgrade starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Duration;
use kube::KubeSchema;

/// A check that must pass before an install or an upgrade starts; never before an uninstall or a
/// rollback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.type != 'ConfigMapExists' || has(self.configMap)")
    .message("a gate of type ConfigMapExists needs configMap"))]
#[x_kube(validation = Rule::new("self.type != 'DependencyReady' || has(self.dependency)")
    .message("a gate of type DependencyReady needs dependency"))]
pub struct Gate {
    /// Name of the gate, unique in the list: a DNS label. Its condition is `Gate-<name>`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What is checked.
    #[serde(rename = "type")]
    pub gate_type: GateType,
    /// Shown in the message of the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A gate that is not mandatory is evaluated and shown, and holds nothing back; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mandatory: Option<bool>,
    /// How soon to look again when no event tells; 30s when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_interval: Option<Duration>,
    /// For `ConfigMapExists`: the ConfigMap, and what it must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapCheck>,
    /// For `DependencyReady`: the object that must be ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<Dependency>,
}

/// What a gate checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateType {
    /// A ConfigMap exists, and holds a key, and a value.
    ConfigMapExists,
    /// A HelmRelease or another object is ready at its current generation.
    DependencyReady,
    /// ConfigMap `approval-<name>` approves the input digest that waits.
    ManualApproval,
}

/// A ConfigMap that must exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapCheck {
    /// Name of the ConfigMap.
    pub name: String,
    /// Namespace of the ConfigMap; that of the HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A key that its data must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value that the key must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// An object that must be ready: a HelmRelease, unless `apiVersion` and `kind` say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// API version of the object; that of HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the object; `HelmRelease` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; that of the HelmRelease when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A HelmRelease that must be ready first: short for a mandatory `DependencyReady` gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct DependsOn {
    /// Name of the HelmRelease.
    pub name: String,
    /// Namespace of the HelmRelease; that of this one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Gate {
    /// Whether the release is held back while the gate does not pass.
    #[must_use]
    pub fn is_mandatory(&self) -> bool {
        self.mandatory.unwrap_or(true)
    }

    /// How soon to look again.
    #[must_use]
    pub fn check_interval(&self) -> std::time::Duration {
        let least = std::time::Duration::from_secs(1);
        self.check_interval
            .map_or(std::time::Duration::from_secs(30), Duration::get)
            .max(least)
    }
}

impl Dependency {
    /// Whether the object is a HelmRelease of this API.
    #[must_use]
    pub fn is_helm_release(&self) -> bool {
        let group = self.api_version.as_deref().map_or(super::GROUP, |version| {
            version.split_once('/').map_or("", |(group, _)| group)
        });
        self.kind.as_deref().unwrap_or("HelmRelease") == "HelmRelease" && group == super::GROUP
    }
}

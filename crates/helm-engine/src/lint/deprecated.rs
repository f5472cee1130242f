//! The API versions that Kubernetes has deprecated, as `helm lint` 4.3.1 knows them.

use std::fmt::Write;

/// What the API server would warn of if a chart uses this kind; `None` if the version of
/// Kubernetes (1.`minor`) does not deprecate it.
pub(super) fn warning(api_version: &str, kind: &str, (major, minor): (u32, u32)) -> Option<String> {
    let (_, since, removed, instead, _) = DEPRECATED
        .iter()
        .find(|(known, .., kinds)| *known == api_version && kinds.contains(&kind))?;
    if (1, *since) > (major, minor) && (major, minor) != (0, 0) {
        return None;
    }
    let mut text =
        format!("{api_version} {kind} is deprecated in v1.{since}+, unavailable in v1.{removed}+");
    let instead = match instead {
        Instead::Nothing => None,
        Instead::Version(version) => Some((version, &kind)),
        Instead::Kind(version, kind) => Some((version, kind)),
    };
    if let Some((version, kind)) = instead {
        // Writing to a string does not fail.
        let _ = write!(text, "; use {version} {kind}");
    }
    Some(text)
}

/// What to use instead.
enum Instead {
    Nothing,
    /// The same kind in this version.
    Version(&'static str),
    /// Another kind.
    Kind(&'static str, &'static str),
}

/// API version, deprecated since 1.x, removed in 1.x, what to use instead, kinds.
type Row = (&'static str, u32, u32, Instead, &'static [&'static str]);

const DEPRECATED: &[Row] = &[
    (
        "admissionregistration.k8s.io/v1alpha1",
        35,
        38,
        Instead::Nothing,
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicyBindingList",
            "MutatingAdmissionPolicyList",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1alpha1",
        29,
        32,
        Instead::Nothing,
        &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList",
            "ValidatingAdmissionPolicyList",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        37,
        40,
        Instead::Version("admissionregistration.k8s.io/v1"),
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicyBindingList",
            "MutatingAdmissionPolicyList",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        16,
        22,
        Instead::Version("admissionregistration.k8s.io/v1"),
        &[
            "MutatingWebhookConfiguration",
            "MutatingWebhookConfigurationList",
            "ValidatingWebhookConfiguration",
            "ValidatingWebhookConfigurationList",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        31,
        34,
        Instead::Nothing,
        &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList",
            "ValidatingAdmissionPolicyList",
        ],
    ),
    (
        "apps/v1beta1",
        8,
        16,
        Instead::Version("apps/v1"),
        &[
            "ControllerRevision",
            "ControllerRevisionList",
            "Deployment",
            "DeploymentList",
            "DeploymentRollback",
            "StatefulSet",
            "StatefulSetList",
        ],
    ),
    (
        "apps/v1beta1",
        8,
        16,
        Instead::Version("autoscaling/v1"),
        &["Scale"],
    ),
    (
        "apps/v1beta2",
        9,
        16,
        Instead::Version("apps/v1"),
        &[
            "ControllerRevision",
            "ControllerRevisionList",
            "DaemonSet",
            "DaemonSetList",
            "Deployment",
            "DeploymentList",
            "ReplicaSet",
            "ReplicaSetList",
            "StatefulSet",
            "StatefulSetList",
        ],
    ),
    (
        "apps/v1beta2",
        9,
        16,
        Instead::Version("autoscaling/v1"),
        &["Scale"],
    ),
    (
        "authentication.k8s.io/v1alpha1",
        29,
        32,
        Instead::Nothing,
        &["SelfSubjectReview"],
    ),
    (
        "authentication.k8s.io/v1beta1",
        30,
        33,
        Instead::Nothing,
        &["SelfSubjectReview"],
    ),
    (
        "authentication.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("authentication.k8s.io/v1"),
        &["TokenReview"],
    ),
    (
        "authorization.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("authorization.k8s.io/v1"),
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    (
        "batch/v1beta1",
        21,
        25,
        Instead::Version("batch/v1"),
        &["CronJob", "CronJobList"],
    ),
    (
        "certificates.k8s.io/v1alpha1",
        34,
        37,
        Instead::Nothing,
        &["ClusterTrustBundle", "ClusterTrustBundleList"],
    ),
    (
        "certificates.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("certificates.k8s.io/v1"),
        &["CertificateSigningRequest", "CertificateSigningRequestList"],
    ),
    (
        "certificates.k8s.io/v1beta1",
        37,
        40,
        Instead::Version("certificates.k8s.io/v1"),
        &[
            "ClusterTrustBundle",
            "ClusterTrustBundleList",
            "PodCertificateRequest",
            "PodCertificateRequestList",
        ],
    ),
    (
        "coordination.k8s.io/v1alpha2",
        35,
        38,
        Instead::Nothing,
        &["LeaseCandidate", "LeaseCandidateList"],
    ),
    (
        "coordination.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("coordination.k8s.io/v1"),
        &["Lease", "LeaseList"],
    ),
    (
        "coordination.k8s.io/v1beta1",
        36,
        39,
        Instead::Nothing,
        &["LeaseCandidate", "LeaseCandidateList"],
    ),
    (
        "discovery.k8s.io/v1beta1",
        21,
        25,
        Instead::Version("discovery.k8s.io/v1"),
        &["EndpointSlice"],
    ),
    (
        "discovery.k8s.io/v1beta1",
        21,
        25,
        Instead::Kind("discovery.k8s.io/v1", "EndpointSlice"),
        &["EndpointSliceList"],
    ),
    (
        "events.k8s.io/v1beta1",
        22,
        25,
        Instead::Nothing,
        &["Event", "EventList"],
    ),
    (
        "extensions/v1beta1",
        8,
        16,
        Instead::Version("apps/v1"),
        &[
            "DaemonSet",
            "DaemonSetList",
            "Deployment",
            "DeploymentList",
            "ReplicaSet",
            "ReplicaSetList",
        ],
    ),
    (
        "extensions/v1beta1",
        8,
        16,
        Instead::Nothing,
        &["DeploymentRollback"],
    ),
    (
        "extensions/v1beta1",
        14,
        22,
        Instead::Version("networking.k8s.io/v1"),
        &["Ingress", "IngressList"],
    ),
    (
        "extensions/v1beta1",
        9,
        16,
        Instead::Version("networking.k8s.io/v1"),
        &["NetworkPolicy", "NetworkPolicyList"],
    ),
    ("extensions/v1beta1", 2, 16, Instead::Nothing, &["Scale"]),
    (
        "flowcontrol.apiserver.k8s.io/v1beta1",
        23,
        26,
        Instead::Version("flowcontrol.apiserver.k8s.io/v1beta3"),
        &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta2",
        26,
        29,
        Instead::Version("flowcontrol.apiserver.k8s.io/v1beta3"),
        &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta3",
        29,
        32,
        Instead::Version("flowcontrol.apiserver.k8s.io/v1"),
        &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    ),
    (
        "lifecycle.k8s.io/v1alpha1",
        40,
        43,
        Instead::Nothing,
        &[
            "Eviction",
            "EvictionList",
            "EvictionRequest",
            "EvictionRequestList",
        ],
    ),
    (
        "networking.k8s.io/v1beta1",
        34,
        37,
        Instead::Nothing,
        &[
            "IPAddress",
            "IPAddressList",
            "ServiceCIDR",
            "ServiceCIDRList",
        ],
    ),
    (
        "networking.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("networking.k8s.io/v1"),
        &["Ingress", "IngressClassList", "IngressList"],
    ),
    (
        "networking.k8s.io/v1beta1",
        19,
        22,
        Instead::Kind("networking.k8s.io/v1", "IngressClassList"),
        &["IngressClass"],
    ),
    (
        "node.k8s.io/v1beta1",
        22,
        25,
        Instead::Nothing,
        &["RuntimeClass", "RuntimeClassList"],
    ),
    ("policy/v1beta1", 22, 25, Instead::Nothing, &["Eviction"]),
    (
        "policy/v1beta1",
        21,
        25,
        Instead::Version("policy/v1"),
        &["PodDisruptionBudget", "PodDisruptionBudgetList"],
    ),
    (
        "rbac.authorization.k8s.io/v1beta1",
        17,
        22,
        Instead::Version("rbac.authorization.k8s.io/v1"),
        &[
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRoleBindingList",
            "ClusterRoleList",
            "Role",
            "RoleBinding",
            "RoleBindingList",
            "RoleList",
        ],
    ),
    (
        "resource.k8s.io/v1alpha3",
        36,
        39,
        Instead::Nothing,
        &["DeviceTaintRule", "DeviceTaintRuleList"],
    ),
    (
        "resource.k8s.io/v1alpha3",
        39,
        42,
        Instead::Nothing,
        &["ResourcePoolStatusRequest", "ResourcePoolStatusRequestList"],
    ),
    (
        "resource.k8s.io/v1beta1",
        35,
        38,
        Instead::Nothing,
        &[
            "DeviceClass",
            "DeviceClassList",
            "ResourceClaim",
            "ResourceClaimList",
            "ResourceClaimTemplate",
            "ResourceClaimTemplateList",
            "ResourceSlice",
            "ResourceSliceList",
        ],
    ),
    (
        "resource.k8s.io/v1beta2",
        36,
        39,
        Instead::Nothing,
        &[
            "DeviceClass",
            "DeviceClassList",
            "ResourceClaim",
            "ResourceClaimList",
            "ResourceClaimTemplate",
            "ResourceClaimTemplateList",
            "ResourceSlice",
            "ResourceSliceList",
        ],
    ),
    (
        "resource.k8s.io/v1beta2",
        39,
        42,
        Instead::Nothing,
        &["DeviceTaintRule", "DeviceTaintRuleList"],
    ),
    (
        "scheduling.k8s.io/v1beta1",
        40,
        43,
        Instead::Nothing,
        &["PodGroup", "PodGroupList", "Workload", "WorkloadList"],
    ),
    (
        "scheduling.k8s.io/v1beta1",
        14,
        22,
        Instead::Version("scheduling.k8s.io/v1"),
        &["PriorityClass", "PriorityClassList"],
    ),
    (
        "storage.k8s.io/v1alpha1",
        21,
        24,
        Instead::Version("storage.k8s.io/v1beta1"),
        &["CSIStorageCapacity", "CSIStorageCapacityList"],
    ),
    (
        "storage.k8s.io/v1alpha1",
        21,
        24,
        Instead::Version("storage.k8s.io/v1"),
        &["VolumeAttachment", "VolumeAttachmentList"],
    ),
    (
        "storage.k8s.io/v1alpha1",
        32,
        35,
        Instead::Version("storage.k8s.io/v1"),
        &["VolumeAttributesClass", "VolumeAttributesClassList"],
    ),
    (
        "storage.k8s.io/v1beta1",
        19,
        22,
        Instead::Version("storage.k8s.io/v1"),
        &[
            "CSIDriver",
            "CSIDriverList",
            "StorageClass",
            "StorageClassList",
            "VolumeAttachment",
            "VolumeAttachmentList",
        ],
    ),
    (
        "storage.k8s.io/v1beta1",
        17,
        22,
        Instead::Version("storage.k8s.io/v1"),
        &["CSINode"],
    ),
    (
        "storage.k8s.io/v1beta1",
        17,
        22,
        Instead::Kind("storage.k8s.io/v1", "CSINode"),
        &["CSINodeList"],
    ),
    (
        "storage.k8s.io/v1beta1",
        24,
        27,
        Instead::Version("storage.k8s.io/v1"),
        &["CSIStorageCapacity", "CSIStorageCapacityList"],
    ),
    (
        "storage.k8s.io/v1beta1",
        34,
        37,
        Instead::Version("storage.k8s.io/v1"),
        &["VolumeAttributesClass", "VolumeAttributesClassList"],
    ),
    (
        "storagemigration.k8s.io/v1beta1",
        37,
        40,
        Instead::Version("storagemigration.k8s.io/v1"),
        &["StorageVersionMigration", "StorageVersionMigrationList"],
    ),
];

//! What kinds a cluster serves.

use std::collections::HashMap;

use serde_json::Value;

/// Where a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural in paths.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ApiResource {
    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        join(&self.group, &self.version)
    }
}

/// The kinds of a cluster, as discovery told them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The server's version.
    pub server: ServerVersion,
    /// Group versions in the order of discovery.
    versions: Vec<String>,
    /// By `apiVersion`, then by kind.
    resources: HashMap<String, HashMap<String, ApiResource>>,
}

/// The version of a Kubernetes API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerVersion {
    /// `1`
    pub major: String,
    /// `33`, `27+`
    pub minor: String,
    /// `v1.33.4-gke.1245000`
    pub git_version: String,
}

impl ServerVersion {
    /// Reads the answer of `/version`.
    #[must_use]
    pub fn parse(body: &Value) -> Self {
        Self {
            major: text(body, "major"),
            minor: text(body, "minor"),
            git_version: text(body, "gitVersion"),
        }
    }
}

impl Catalog {
    /// An empty catalog of a server.
    #[must_use]
    pub fn new(server: ServerVersion) -> Self {
        Self {
            server,
            ..Self::default()
        }
    }

    /// Adds an answer of aggregated discovery (`APIGroupDiscoveryList`), of `/api` or `/apis`.
    pub fn add_aggregated(&mut self, body: &Value) {
        for item in items(body, "items") {
            let group = item.get("metadata").map(|metadata| text(metadata, "name"));
            let group = group.unwrap_or_default();
            for version in items(item, "versions") {
                self.add_discovered(&group, version);
            }
        }
    }

    fn add_discovered(&mut self, group: &str, body: &Value) {
        let version = text(body, "version");
        self.add_version(join(group, &version));
        for resource in items(body, "resources") {
            let kind = resource.get("responseKind").map(|kind| text(kind, "kind"));
            self.add(ApiResource {
                group: group.to_owned(),
                version: version.clone(),
                kind: kind.unwrap_or_default(),
                plural: text(resource, "resource"),
                namespaced: text(resource, "scope") == "Namespaced",
            });
        }
    }

    /// Adds an answer of the discovery of one group version (`APIResourceList`).
    pub fn add_group_version(&mut self, body: &Value) {
        let api_version = text(body, "groupVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        for resource in items(body, "resources") {
            let plural = text(resource, "name");
            if plural.contains('/') {
                continue;
            }
            self.add(ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: text(resource, "kind"),
                plural,
                namespaced: resource.get("namespaced") == Some(&Value::Bool(true)),
            });
        }
        self.add_version(api_version);
    }

    fn add_version(&mut self, api_version: String) {
        if !self.versions.contains(&api_version) {
            self.versions.push(api_version);
        }
    }

    fn add(&mut self, resource: ApiResource) {
        let kinds = self.resources.entry(resource.api_version()).or_default();
        kinds.entry(resource.kind.clone()).or_insert(resource);
    }

    /// Where a kind is served.
    #[must_use]
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&ApiResource> {
        self.resources.get(api_version)?.get(kind)
    }

    /// Where a kind of a group is served, in whatever version, preferred ones first: for stored
    /// manifests whose version has been removed.
    #[must_use]
    pub fn find_any_version(&self, group: &str, kind: &str) -> Option<&ApiResource> {
        self.versions
            .iter()
            .filter(|version| version.split_once('/').map_or("", |(group, _)| group) == group)
            .find_map(|version| self.find(version, kind))
    }

    /// What `.Capabilities.APIVersions` lists: each group version and each `group/version/Kind`.
    #[must_use]
    pub fn api_versions(&self) -> Vec<String> {
        let mut all = Vec::new();
        for version in &self.versions {
            all.push(version.clone());
            let kinds = self.resources.get(version).into_iter().flatten();
            let mut kinds: Vec<_> = kinds.map(|(kind, _)| format!("{version}/{kind}")).collect();
            kinds.sort_unstable();
            all.append(&mut kinds);
        }
        all
    }

    /// The group versions.
    #[must_use]
    pub fn versions(&self) -> &[String] {
        &self.versions
    }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn text(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.add_aggregated(&json!({"items": [{"metadata": {}, "versions": [{
            "version": "v1",
            "resources": [
                {"resource": "configmaps", "scope": "Namespaced", "responseKind": {"kind": "ConfigMap"}},
                {"resource": "namespaces", "scope": "Cluster", "responseKind": {"kind": "Namespace"}},
            ]}]}]}));
        catalog.add_group_version(&json!({"groupVersion": "apps/v1", "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": true},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
        ]}));
        catalog
    }

    #[test]
    fn both_forms_of_discovery_are_read() {
        let catalog = catalog();
        assert!(catalog.find("v1", "ConfigMap").unwrap().namespaced);
        assert!(!catalog.find("v1", "Namespace").unwrap().namespaced);
        assert_eq!(
            catalog.find("apps/v1", "Deployment").unwrap().plural,
            "deployments"
        );
        assert_eq!(catalog.find("apps/v1", "Scale"), None);
        assert_eq!(catalog.find("v2", "ConfigMap"), None);
    }

    #[test]
    fn a_removed_version_is_found_under_a_current_one() {
        let found = catalog()
            .find_any_version("apps", "Deployment")
            .unwrap()
            .api_version();
        assert_eq!(found, "apps/v1");
        assert_eq!(catalog().find_any_version("extensions", "Deployment"), None);
    }

    #[test]
    fn capabilities_list_versions_and_kinds() {
        let expected = [
            "v1",
            "v1/ConfigMap",
            "v1/Namespace",
            "apps/v1",
            "apps/v1/Deployment",
        ];
        assert_eq!(catalog().api_versions(), expected);
    }
}

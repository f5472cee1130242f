//! `.Capabilities`.

use std::any::Any;
use std::rc::Rc;

use gotmpl::{List, Map, Object, Signature, Str, Type, Value};

use crate::capabilities::{Capabilities, HelmVersion, KubeVersion};

pub(super) fn object(capabilities: &Capabilities) -> Value {
    Value::Object(Rc::new(CapabilitiesObject {
        kube_version: Value::Object(Rc::new(KubeVersionObject(
            capabilities.kube_version.clone(),
        ))),
        api_versions: Value::Object(Rc::new(VersionSet(List::strings(
            capabilities.api_versions.iter().map(String::as_str),
        )))),
        helm_version: Value::Object(Rc::new(HelmVersionObject(
            capabilities.helm_version.clone(),
        ))),
    }))
}

/// Go's `*common.Capabilities`.
#[derive(Clone)]
struct CapabilitiesObject {
    kube_version: Value,
    api_versions: Value,
    helm_version: Value,
}

impl Object for CapabilitiesObject {
    fn go_type(&self) -> &'static str {
        "*common.Capabilities"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "KubeVersion" => self.kube_version.clone(),
            "APIVersions" => self.api_versions.clone(),
            "HelmVersion" => self.helm_version.clone(),
            _ => return None,
        })
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        matches!(name, "Copy").then_some(Signature {
            parameters: &[],
            variadic: None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        match (name, arguments) {
            ("Copy", []) => Some(Ok(Value::Object(Rc::new(self.clone())))),
            _ => None,
        }
    }

    fn to_json(&self) -> Option<Value> {
        Some(Value::Map(Map::from_entries(
            self.json_fields()
                .iter()
                .filter_map(|name| Some((*name, self.field(name)?))),
        )))
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &["KubeVersion", "APIVersions", "HelmVersion"]
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Go's `common.KubeVersion`, which prints as its normalised version.
struct KubeVersionObject(KubeVersion);

impl Object for KubeVersionObject {
    fn go_type(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Version" => self.0.version.as_str(),
            "Major" => &self.0.major,
            "Minor" => &self.0.minor,
            _ => return None,
        }))
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        matches!(name, "String" | "GitVersion").then_some(Signature {
            parameters: &[],
            variadic: None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        match (name, arguments) {
            ("String", []) => Some(Ok(Value::string(self.0.as_str()))),
            ("GitVersion", []) => Some(Ok(Value::string(self.0.version.as_str()))),
            _ => None,
        }
    }

    fn to_json(&self) -> Option<Value> {
        Some(Value::Map(Map::from_entries(
            self.json_fields()
                .iter()
                .filter_map(|name| Some((*name, self.field(name)?))),
        )))
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &["Version", "Major", "Minor"]
    }

    fn display(&self) -> Str {
        self.0.as_str().into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Go's `common.VersionSet`, a `[]string` with a method.
struct VersionSet(List);

impl Object for VersionSet {
    fn go_type(&self) -> &'static str {
        "common.VersionSet"
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        matches!(name, "Has").then_some(Signature {
            parameters: &[Type::String],
            variadic: None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let ("Has", [Value::String(wanted)]) = (name, arguments) else {
            return None;
        };
        let has = self
            .0
            .items()
            .iter()
            .any(|item| matches!(item, Value::String(version) if version == wanted));
        Some(Ok(Value::Bool(has)))
    }

    fn as_list(&self) -> Option<List> {
        Some(self.0.clone())
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Go's `version.BuildInfo`.
struct HelmVersionObject(HelmVersion);

impl Object for HelmVersionObject {
    fn go_type(&self) -> &'static str {
        "version.BuildInfo"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Version" => self.0.version.as_str(),
            "GitCommit" => &self.0.git_commit,
            "GitTreeState" => &self.0.git_tree_state,
            "GoVersion" => &self.0.go_version,
            "KubeClientVersion" => &self.0.kube_client_version,
            _ => return None,
        }))
    }

    fn to_json(&self) -> Option<Value> {
        let version = &self.0;
        let entries = [
            ("version", &version.version),
            ("git_commit", &version.git_commit),
            ("git_tree_state", &version.git_tree_state),
            ("go_version", &version.go_version),
            ("kube_client_version", &version.kube_client_version),
        ];
        let entries = entries
            .into_iter()
            .filter(|(name, text)| *name == "kube_client_version" || !text.is_empty())
            .map(|(name, text)| (name, Value::string(text.as_str())));
        Some(Value::Map(Map::from_entries(entries)))
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &[
            "version",
            "git_commit",
            "git_tree_state",
            "go_version",
            "kube_client_version",
        ]
    }

    fn display(&self) -> Str {
        let version = &self.0;
        format!(
            "{{{} {} {} {} {}}}",
            version.version,
            version.git_commit,
            version.git_tree_state,
            version.go_version,
            version.kube_client_version
        )
        .into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

//! `.Capabilities`.

use std::any::Any;
use std::rc::Rc;

use gotmpl::{List, Map, Object, Signature, Str, Type, Value};

use crate::capabilities::{Capabilities, HelmVersion, KubeVersion};

pub(super) fn object(capabilities: &Capabilities) -> Value {
    Value::Object(Rc::new(CapabilitiesObject {
        kube_version: Value::Object(Rc::new(KubeVersionObject {
            version: Rc::new(capabilities.kube_version.clone()),
            copied: false,
        })),
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

    fn to_yaml(&self) -> Option<Value> {
        Some(lower_cased(self.members()))
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &["kubeversion", "apiversions", "helmversion"]
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let kube_version = match &self.kube_version {
            Value::Object(object) => object.copied(),
            _ => None,
        };
        Some(vec![
            (
                "KubeVersion",
                kube_version.unwrap_or_else(|| self.kube_version.clone()),
            ),
            ("APIVersions", self.api_versions.clone()),
            ("HelmVersion", self.helm_version.clone()),
        ])
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Go's `common.KubeVersion`, which prints as its normalised version, by a method that a copy of it
/// has not: `{{ .Capabilities.KubeVersion }}` is `v1.37.0`, and `quote` of it is
/// `"{v1.37.0 v1.37.0 1 37}"`.
#[derive(Clone)]
struct KubeVersionObject {
    version: Rc<KubeVersion>,
    copied: bool,
}

impl Object for KubeVersionObject {
    fn go_type(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Version" => self.version.version.as_str(),
            "Major" => &self.version.major,
            "Minor" => &self.version.minor,
            _ => return None,
        }))
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        let known = !self.copied && matches!(name, "String" | "GitVersion");
        known.then_some(Signature {
            parameters: &[],
            variadic: None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        match (name, arguments) {
            _ if self.copied => None,
            ("String", []) => Some(Ok(Value::string(self.version.as_str()))),
            ("GitVersion", []) => Some(Ok(Value::string(self.version.version.as_str()))),
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

    fn to_yaml(&self) -> Option<Value> {
        Some(lower_cased(self.members()))
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &["version", "major", "minor"]
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let normalized = self.version.normalized.as_deref().unwrap_or_default();
        Some(vec![
            ("Version", Value::string(self.version.version.as_str())),
            ("normalizedVersion", Value::string(normalized)),
            ("Major", Value::string(self.version.major.as_str())),
            ("Minor", Value::string(self.version.minor.as_str())),
        ])
    }

    fn is_stringer(&self) -> bool {
        !self.copied
    }

    fn copied(&self) -> Option<Value> {
        (!self.copied).then(|| {
            Value::Object(Rc::new(Self {
                copied: true,
                ..self.clone()
            }))
        })
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.version == other.version)
    }

    fn display(&self) -> Str {
        self.version.as_str().into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The exported fields of a struct as yaml.v3 names them.
fn lower_cased(members: Option<Vec<(&'static str, Value)>>) -> Value {
    let members = members.unwrap_or_default().into_iter();
    let exported = members.filter(|(name, _)| name.starts_with(|first: char| first.is_uppercase()));
    Value::Map(Map::from_entries(exported.map(|(name, value)| {
        (Str::from(name.to_ascii_lowercase()), value)
    })))
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

    fn to_yaml(&self) -> Option<Value> {
        Some(lower_cased(self.members()))
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &[
            "version",
            "gitcommit",
            "gittreestate",
            "goversion",
            "kubeclientversion",
        ]
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let names = [
            "Version",
            "GitCommit",
            "GitTreeState",
            "GoVersion",
            "KubeClientVersion",
        ];
        Some(
            names
                .map(|name| (name, self.field(name).unwrap_or(Value::Nil)))
                .to_vec(),
        )
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

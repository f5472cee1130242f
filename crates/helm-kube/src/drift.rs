//! Drift: live objects that are no longer as their release says.
//!
//! The stored manifest is applied as a dry run, and what would come of it is compared with what is
//! there, so that defaults and webhooks are no drift, and neither are fields that others have
//! added. Mending applies the manifest again, by force; it makes no new revision.

mod compare;
mod labels;

use serde_json::{Map, Value};

pub use compare::{Difference, DifferenceKind, differences};
pub use labels::{LabelSelector, SelectorError};

use crate::calls::{self, ApplyMode};
use crate::error::{ActionError, Reason};
use crate::machine::Machine;
use crate::object::{self, Object, ObjectKey, Resource};
use crate::options::Options;
use crate::release::ReleaseKey;
use crate::request::{Accept, Failure, Reply};
use crate::session::Session;
use crate::storage::{History, Stored};

/// A look for drift.
#[derive(Clone, Debug)]
pub struct DriftCheck {
    /// The release.
    pub release: ReleaseKey,
    /// Its history.
    pub history: History,
    /// What is left out of account.
    pub ignore: Vec<IgnoreRule>,
    /// Mend what has drifted.
    pub correct: bool,
    /// How.
    pub options: Options,
}

/// Paths that may differ, of all objects or of some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreRule {
    /// JSON pointers, such as `/spec/replicas`.
    pub paths: Vec<String>,
    /// The objects; what is not said matches all.
    pub target: IgnoreTarget,
}

/// What objects a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreTarget {
    /// The API group.
    pub group: Option<String>,
    /// The API version.
    pub version: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// Labels, as the release writes them; an empty selector matches all.
    pub labels: LabelSelector,
}

impl IgnoreTarget {
    fn matches(&self, resource: &Resource) -> bool {
        let labels = resource.content.get("metadata");
        let labels = labels.and_then(|metadata| metadata.get("labels"));
        self.names(&resource.key) && self.labels.matches(labels.and_then(Value::as_object))
    }

    fn names(&self, key: &ObjectKey) -> bool {
        let is = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == actual)
        };
        is(&self.group, key.group())
            && is(&self.version, key.version())
            && is(&self.kind, &key.kind)
            && is(&self.name, &key.name)
            && is(&self.namespace, &key.namespace)
    }
}

/// The annotation, or label, of an object that nobody minds drifting: `disabled`.
pub const DRIFT_DETECTION: &str = "helm.fluxcd.io/driftDetection";

/// An object that is not as its release says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The object.
    pub object: ObjectKey,
    /// In what it differs; empty if it does not exist.
    pub differences: Vec<Difference>,
    /// Whether it does not exist.
    pub is_missing: bool,
    /// Whether it was mended.
    pub is_corrected: bool,
    /// Why it cannot be mended, if so: an immutable field, an admission webhook, missing rights.
    pub trouble: Option<ActionError>,
}

/// Looks whether the live objects are as the deployed revision says, and mends them if asked to.
/// Hooks are no part of it.
#[must_use]
pub fn drift(check: DriftCheck) -> Machine<Result<Vec<Drift>, ActionError>> {
    Machine::new(|port| async move {
        let deployed = check.history.deployed().map(|found| found.revision);
        let deployed = deployed.ok_or_else(|| {
            ActionError::new(
                Reason::InvalidState,
                format!("release {} has no deployed revision", check.release),
            )
        })?;
        let mut session = Session::open(port, check.release, check.options).await?;
        let record: Stored = session.storage.get(&session.port, deployed).await?;
        let mut drifts = Vec::new();
        for object in object::parse(&record.release.manifest)? {
            if let Some(drift) = session.look(object, &check.ignore, check.correct).await? {
                drifts.push(drift);
            }
        }
        Ok(drifts)
    })
}

impl Session {
    async fn look(
        &mut self,
        object: Object,
        ignore: &[IgnoreRule],
        correct: bool,
    ) -> Result<Option<Drift>, ActionError> {
        let mut resource = self.locate(object).await?;
        if resource.has_generated_name() || is_disabled(&Value::Object(resource.content.clone())) {
            return Ok(None);
        }
        resource = self.stamped(resource);
        let live = self.read(&resource).await?;
        if let Some(live) = &live {
            if is_disabled(live) {
                return Ok(None);
            }
            take_over(&mut resource, live, ignore);
        }
        let wanted = match &live {
            Some(_) => self.force(&resource, true).await,
            None => Ok(Value::Null),
        };
        let wanted = match wanted {
            Err(error) if error.reason == Reason::ImmutableField => {
                // What differs cannot be told by a dry run, but that something does.
                return Ok(Some(Drift {
                    object: resource.key,
                    differences: Vec::new(),
                    is_missing: false,
                    is_corrected: false,
                    trouble: Some(error),
                }));
            }
            wanted => wanted?,
        };
        let differences = live
            .as_ref()
            .map(|live| differences(live, &wanted))
            .unwrap_or_default();
        if live.is_some() && differences.is_empty() {
            return Ok(None);
        }
        // One object that cannot be mended does not keep the others from it.
        let trouble = match correct {
            true => self.force(&resource, false).await.err(),
            false => None,
        };
        Ok(Some(Drift {
            object: resource.key,
            differences,
            is_missing: live.is_none(),
            is_corrected: correct && trouble.is_none(),
            trouble,
        }))
    }

    async fn read(&self, resource: &Resource) -> Result<Option<Value>, ActionError> {
        let call = calls::get(&resource.api, &resource.key, Accept::Full);
        let what = call.what.clone();
        match self.port.try_call(call).await {
            Ok(Reply::Object { body, .. }) => Ok(Some(body)),
            Ok(_) => Ok(None),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }

    async fn force(&self, resource: &Resource, dry_run: bool) -> Result<Value, ActionError> {
        let mode = ApplyMode {
            force: true,
            strict: false,
            dry_run,
        };
        let call = calls::apply(resource, mode, Accept::Full);
        let what = call.what.clone();
        match self.port.try_call(call).await {
            Ok(Reply::Object { body, .. }) => Ok(body),
            Ok(_) => Ok(Value::Null),
            Err(failure) => {
                let mut error = ActionError::from_failure(&what, &failure);
                if let Failure::Status(status) = &failure
                    && status.is_immutable()
                {
                    error.reason = Reason::ImmutableField;
                }
                Err(error)
            }
        }
    }
}

fn is_disabled(object: &Value) -> bool {
    let metadata = object.get("metadata");
    ["labels", "annotations"].iter().any(|place| {
        let value = metadata.and_then(|metadata| metadata.get(*place)?.get(DRIFT_DETECTION));
        value.and_then(Value::as_str) == Some("disabled")
    })
}

/// Gives ignored paths their live values. Leaving them out would give up their ownership, and so
/// change them.
fn take_over(resource: &mut Resource, live: &Value, ignore: &[IgnoreRule]) {
    let rules = ignore.iter().filter(|rule| rule.target.matches(resource));
    let paths: Vec<_> = rules.flat_map(|rule| rule.paths.iter()).collect();
    for path in paths {
        let parts: Vec<_> = path.split('/').skip(1).map(unescape).collect();
        set_path(&mut resource.content, &parts, live.pointer(path));
    }
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Sets what is at a path, or removes it. A path that leads nowhere in the object is left alone.
fn set_path(map: &mut Map<String, Value>, path: &[String], value: Option<&Value>) {
    match path {
        [] => {}
        [last] => match value {
            Some(value) if map.contains_key(last) => {
                map.insert(last.clone(), value.clone());
            }
            _ => {
                map.remove(last);
            }
        },
        [first, rest @ ..] => match map.get_mut(first) {
            Some(Value::Object(inner)) => set_path(inner, rest, value),
            Some(Value::Array(items)) => set_item(items, rest, value),
            _ => {}
        },
    }
}

fn set_item(items: &mut [Value], path: &[String], value: Option<&Value>) {
    let [index, rest @ ..] = path else {
        return;
    };
    let item = index
        .parse::<usize>()
        .ok()
        .and_then(|index| items.get_mut(index));
    match (item, rest, value) {
        (Some(item), [], Some(value)) => *item = value.clone(),
        (Some(Value::Object(inner)), [_, ..], _) => set_path(inner, rest, value),
        (Some(Value::Array(inner)), [_, ..], _) => set_item(inner, rest, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn ignored_paths_take_the_live_value() {
        let live = json!({"spec": {"replicas": 7, "list": [{"a": 1}, {"a": 2}]}, "a/b": "live"});
        let table = [
            (
                "/spec/replicas",
                json!({"spec": {"replicas": 7, "list": [{"a": 5}], "own": 1}, "a/b": "x"}),
            ),
            (
                "/spec/own",
                json!({"spec": {"replicas": 1, "list": [{"a": 5}]}, "a/b": "x"}),
            ),
            (
                "/spec/list/0/a",
                json!({"spec": {"replicas": 1, "list": [{"a": 1}], "own": 1}, "a/b": "x"}),
            ),
            (
                "/a~1b",
                json!({"spec": {"replicas": 1, "list": [{"a": 5}], "own": 1}, "a/b": "live"}),
            ),
            (
                "/no/such/path",
                json!({"spec": {"replicas": 1, "list": [{"a": 5}], "own": 1}, "a/b": "x"}),
            ),
        ];
        for (path, expected) in table {
            let mut content =
                map(json!({"spec": {"replicas": 1, "list": [{"a": 5}], "own": 1}, "a/b": "x"}));
            let parts: Vec<_> = path.split('/').skip(1).map(unescape).collect();
            set_path(&mut content, &parts, live.pointer(path));
            assert_eq!(Value::Object(content), expected, "{path}");
        }
    }

    #[test]
    fn rules_are_about_the_objects_they_name() {
        let key = ObjectKey {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "a".to_owned(),
            name: "web".to_owned(),
        };
        let some = |text: &str| Some(text.to_owned());
        let kind = IgnoreTarget {
            kind: some("Deployment"),
            group: some("apps"),
            ..IgnoreTarget::default()
        };
        let other = IgnoreTarget {
            name: some("api"),
            ..IgnoreTarget::default()
        };
        assert!(IgnoreTarget::default().names(&key));
        assert!(kind.names(&key));
        assert!(!other.names(&key));
    }
}

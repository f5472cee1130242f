//! Field managers: from the client-side updates of Helm 3 to server-side apply.
//!
//! An object that Helm 3 made has its fields under an `Update` entry of the manager `helm` (or
//! `helm-operator`, in the hands of Flux Helm Operator 1.x). Without migration those fields would
//! be owned twice, and one that goes from the chart would stay in the cluster. The entries are
//! united into the `Apply` entry of `helm`, as `kubectl` does it; no field is lost or changed.

use serde_json::{Map, Value, json};

use crate::calls::FIELD_MANAGER;

/// Managers that updated objects for Helm.
const FORMER_MANAGERS: [&str; 3] = ["helm", "helm-operator", "helm3"];

/// The JSON patch that migrates an object, or `None` if there is nothing to migrate. It holds the
/// object's version, so that it fails if the object has changed since.
#[must_use]
pub fn migration(live: &Value) -> Option<Value> {
    let metadata = live.get("metadata")?;
    let entries = metadata.get("managedFields")?.as_array()?;
    if !entries.iter().any(is_former) {
        return None;
    }
    let mut united = united_entry(entries)?;
    let mut kept: Vec<Value> = entries
        .iter()
        .filter(|entry| !is_former(entry) && !is_apply(entry))
        .cloned()
        .collect();
    if let Some(fields) = united.get_mut("fieldsV1").and_then(Value::as_object_mut) {
        forget_last_applied(fields);
    }
    kept.push(united);
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
    ]))
}

fn united_entry(entries: &[Value]) -> Option<Value> {
    let present = entries.iter().find(|entry| is_apply(entry));
    let mut formers = entries.iter().filter(|entry| is_former(entry));
    let mut united = match present {
        Some(entry) => entry.clone(),
        None => formers.next()?.clone(),
    };
    for former in formers {
        let (Some(into), Some(from)) = (united.get_mut("fieldsV1"), former.get("fieldsV1")) else {
            continue;
        };
        unite(into, from);
    }
    let entry = united.as_object_mut()?;
    entry.insert("manager".to_owned(), FIELD_MANAGER.into());
    entry.insert("operation".to_owned(), "Apply".into());
    Some(united)
}

fn is_former(entry: &Value) -> bool {
    let manager = text(entry, "manager");
    FORMER_MANAGERS.contains(&manager)
        && text(entry, "operation") == "Update"
        && text(entry, "subresource").is_empty()
}

fn is_apply(entry: &Value) -> bool {
    text(entry, "manager") == FIELD_MANAGER
        && text(entry, "operation") == "Apply"
        && text(entry, "subresource").is_empty()
}

/// The union of two sets of fields (`fieldsV1`: nested maps, in which `.` is the field itself).
fn unite(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else {
        return;
    };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(present) => unite(present, value),
            None => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn forget_last_applied(fields: &mut Map<String, Value>) {
    let annotations = fields
        .get_mut("f:metadata")
        .and_then(|metadata| metadata.get_mut("f:annotations"))
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove("f:kubectl.kubernetes.io/last-applied-configuration");
    }
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn live(entries: Value) -> Value {
        json!({"metadata": {"resourceVersion": "7", "managedFields": entries}})
    }

    #[test]
    fn an_object_of_helm_4_needs_no_migration() {
        let apply = entry("helm", "Apply", json!({"f:data": {}}));
        let other = entry("kubectl-edit", "Update", json!({"f:data": {}}));
        assert_eq!(migration(&live(json!([apply, other]))), None);
        assert_eq!(migration(&json!({})), None);
    }

    #[test]
    fn an_object_of_helm_3_becomes_applied() {
        let update = entry("helm", "Update", json!({"f:data": {".": {}, "f:a": {}}}));
        let other = entry("kubectl-edit", "Update", json!({"f:data": {"f:z": {}}}));
        let patch = migration(&live(json!([update, other]))).unwrap();
        assert_eq!(patch[0]["value"][0]["manager"], "kubectl-edit");
        let applied = entry("helm", "Apply", json!({"f:data": {".": {}, "f:a": {}}}));
        assert_eq!(patch[0]["value"][1], applied);
        assert_eq!(patch[1]["value"], "7");
    }

    #[test]
    fn no_field_is_lost_when_entries_are_united() {
        let apply = entry("helm", "Apply", json!({"f:data": {"f:a": {}}}));
        let one = entry(
            "helm",
            "Update",
            json!({"f:data": {"f:b": {}}, "f:metadata": {"f:annotations": {
            "f:kubectl.kubernetes.io/last-applied-configuration": {}, "f:x": {}}}}),
        );
        let two = entry("helm-operator", "Update", json!({"f:data": {"f:c": {}}}));
        let patch = migration(&live(json!([apply, one, two]))).unwrap();
        let expected = json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}, "f:metadata": {"f:annotations": {"f:x": {}}}});
        assert_eq!(patch[0]["value"], json!([entry("helm", "Apply", expected)]));
    }

    #[test]
    fn updates_of_subresources_are_left_alone() {
        let mut scale = entry("helm", "Update", json!({"f:spec": {}}));
        scale["subresource"] = json!("scale");
        assert_eq!(migration(&live(json!([scale]))), None);
    }
}

//! The CustomResourceDefinition, made from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;

use super::spec::HelmRelease;

/// The CRD of `HelmRelease`.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = HelmRelease::crd();
    let versions = crd.spec.versions.iter_mut();
    let roots = versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for (name, part) in roots.flat_map(|root| root.properties.iter_mut().flatten()) {
        match name.as_str() {
            // The daemon writes it, and never null.
            "status" => each_schema(part, &mut |schema| schema.nullable = None),
            _ => each_schema(part, &mut enum_to_pattern),
        }
    }
    crd
}

/// The API server refuses null for every enum, also one that is `nullable` and lists null; a pattern
/// it applies to strings only.
fn enum_to_pattern(schema: &mut JSONSchemaProps) {
    if schema.nullable != Some(true) {
        return;
    }
    if let Some(values) = schema.enum_.take() {
        let words: Vec<&str> = values
            .iter()
            .filter_map(|JSON(value)| value.as_str())
            .collect();
        schema.pattern = Some(format!("^({})$", words.join("|")));
    }
}

/// Visits a schema and all schemas below it.
fn each_schema(schema: &mut JSONSchemaProps, visit: &mut impl FnMut(&mut JSONSchemaProps)) {
    visit(schema);
    for field in schema
        .properties
        .iter_mut()
        .flat_map(|fields| fields.values_mut())
    {
        each_schema(field, visit);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        each_schema(items, visit);
    }
}

/// The CRD as YAML, as in `crds/helmreleases.yaml`.
///
/// # Errors
/// Fails only if the CRD cannot be written as YAML, which a test rules out.
pub fn crd_yaml() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&crd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_columns_and_subresource_are_those_of_1_4() {
        let crd = crd();
        assert_eq!(
            crd.metadata.name.as_deref(),
            Some("helmreleases.helm.fluxcd.io")
        );
        assert_eq!(
            crd.spec.names.short_names,
            Some(vec!["hr".into(), "hrs".into()])
        );
        assert_eq!(crd.spec.scope, "Namespaced");
        let [version] = crd.spec.versions.as_slice() else {
            panic!("one version")
        };
        assert!(version.served && version.storage && version.name == "v1");
        assert!(version.subresources.as_ref().unwrap().status.is_some());
        let columns: Vec<_> = version
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| (column.name.as_str(), column.json_path.as_str()))
            .collect();
        assert_eq!(
            columns[..5],
            [
                ("Release", ".status.releaseName"),
                ("Phase", ".status.phase"),
                ("ReleaseStatus", ".status.releaseStatus"),
                (
                    "Message",
                    ".status.conditions[?(@.type==\"Released\")].message"
                ),
                ("Age", ".metadata.creationTimestamp"),
            ]
        );
        assert_eq!(columns.len(), 8);
    }

    #[test]
    fn optional_fields_are_nullable_and_nothing_has_a_default() {
        let schema = serde_json::to_value(crd()).unwrap();
        let schema = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut seen = 0;
        walk(
            schema,
            &mut |path, field, required| {
                assert!(field.get("default").is_none(), "{path} has a default");
                let typed = field.get("type").is_some()
                    || field.get("x-kubernetes-int-or-string").is_some();
                if path.starts_with(".spec") && path != ".spec" && typed && !required {
                    assert_eq!(field["nullable"], true, "{path} is not nullable");
                    seen += 1;
                }
            },
            "",
            true,
        );
        assert!(seen > 60, "{seen}");
    }

    /// Visits each property with its path and whether it is required.
    fn walk(
        schema: &serde_json::Value,
        visit: &mut impl FnMut(&str, &serde_json::Value, bool),
        path: &str,
        required: bool,
    ) {
        visit(path, schema, required);
        let names: Vec<_> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let required = names.iter().any(|n| *n == name);
            walk(property, visit, &format!("{path}.{name}"), required);
        }
        if schema["items"].is_object() {
            walk(&schema["items"], visit, &format!("{path}[]"), true);
        }
    }

    /// `UPDATE_GOLDEN=1` writes the file instead.
    #[test]
    fn the_committed_crd_is_the_generated_one() {
        let path = "crds/helmreleases.yaml";
        let generated = crd_yaml().unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            committed, generated,
            "crds/helmreleases.yaml is stale: UPDATE_GOLDEN=1"
        );
    }

    #[test]
    fn the_yaml_reads_back_as_the_crd() {
        let back: CustomResourceDefinition = serde_yaml::from_str(&crd_yaml().unwrap()).unwrap();
        assert_eq!(back, crd());
    }
}

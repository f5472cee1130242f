//! The HelmRelease API on a real API server: what is stored, what is refused, and how.

use helm_operator::api::{HelmRelease, crd};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::support::shared;

/// Every field of the API once, with a value that is not its default.
fn everything() -> Value {
    json!({
        "helmVersion": "v3",
        "chart": {
            "git": "ssh://git@git.example.com:2222/acme/deploy.git",
            "ref": "v1.0.0",
            "path": "charts/hello",
            "secretRef": {"name": "git-basic", "namespace": "team-b"},
            "skipDepUpdate": true,
            "submodules": true,
            "verify": {"secretRef": {"name": "signers", "namespace": "team-b"}},
            "repository": "https://charts.example.com/stable",
            "name": "hello",
            "version": "1.2.3",
            "chartPullSecret": {"name": "repo-basic"},
            "oci": {"url": "oci://registry.example.com/charts/hello", "version": "1.x",
                "tag": "stable", "digest": "sha256:00"},
        },
        "releaseName": "everything-1",
        "targetNamespace": "team-b",
        "maxHistory": 3,
        "timeout": 1200,
        "wait": false,
        "resetValues": false,
        "forceUpgrade": true,
        "skipCRDs": true,
        "disableOpenAPIValidation": true,
        "disableSchemaValidation": true,
        "valueFileSecrets": [{"name": "everything-legacy"}],
        "valuesFrom": [
            {"configMapKeyRef": {"name": "v", "namespace": "team-b", "key": "prod.yaml", "optional": true},
             "targetPath": "a.b"},
            {"secretKeyRef": {"name": "s", "namespace": "team-b", "key": "prod.yaml", "optional": true}},
            {"externalSourceRef": {"url": "https://values.example.com/x.yaml", "optional": true}},
            {"chartFileRef": {"path": "values-prod.yaml", "optional": true}},
        ],
        "values": {"replicaCount": 2, "big": 9007199254740993_i64, "none": null, "list": [1, "x", {}]},
        "rollback": {"enable": true, "retry": true, "maxRetries": 1, "force": true, "recreate": true,
            "disableHooks": true, "timeout": 600, "wait": true},
        "test": {"enable": true, "ignoreFailures": true, "timeout": 30, "cleanup": false},
        "suspend": true,
        "interval": "1m30s",
        "dependsOn": [{"name": "db", "namespace": "infra"}],
        "gates": [
            {"name": "flags", "type": "ConfigMapExists", "description": "feature flags",
             "mandatory": false, "checkInterval": 10,
             "configMap": {"name": "flags", "namespace": "infra", "key": "go", "value": "yes"}},
            {"name": "db", "type": "DependencyReady",
             "dependency": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "namespace": "infra"}},
            {"name": "ops", "type": "ManualApproval"},
        ],
        "createNamespace": true,
        "serviceAccountName": "deployer",
        "kubeConfig": {"secretRef": {"name": "afar", "key": "config"}},
        "driftDetection": {"mode": "warn", "ignore": [{"paths": ["/spec/replicas"],
            "target": {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web",
                "namespace": "team-b", "labelSelector": "app=web"}}]},
        "crds": "CreateReplace",
        "retry": {"limit": 3, "backoff": "2s", "maxBackoff": "1m"},
        "uninstall": {"keepHistory": true, "wait": true, "timeout": "2m", "disableHooks": true},
    })
}

fn object(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec})
}

/// Access to HelmReleases without their Rust type, which could hide what it does not know.
fn api(namespace: &str) -> Api<DynamicObject> {
    let client = shared().plane.client().unwrap();
    Api::namespaced_with(client, namespace, &ApiResource::erase::<HelmRelease>(&()))
}

async fn apply(
    api: &Api<DynamicObject>,
    name: &str,
    spec: Value,
    dry_run: bool,
) -> Result<DynamicObject, String> {
    let params = PatchParams {
        dry_run,
        ..PatchParams::apply("test").force()
    };
    let patch = Patch::Apply(object(name, spec));
    api.patch(name, &params, &patch)
        .await
        .map_err(|error| error.to_string())
}

/// Fields of the schema that the test's object has to have, by their paths.
fn paths(schema: &Value, path: &str, required: &mut Vec<String>, optional: &mut Vec<String>) {
    let needed: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        let list = if needed.contains(&name.as_str()) {
            &mut *required
        } else {
            &mut *optional
        };
        list.push(path.clone());
        paths(field, &path, required, optional);
        if field["items"].is_object() {
            paths(&field["items"], &format!("{path}/0"), required, optional);
        }
    }
}

/// The required and the optional fields of the spec.
fn fields() -> (Vec<String>, Vec<String>) {
    let crd = serde_json::to_value(crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let (mut required, mut optional) = (Vec::new(), Vec::new());
    paths(schema, "", &mut required, &mut optional);
    (required, optional)
}

/// The place of a field in the object: of a list, the entry that has it.
fn find<'a>(spec: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = vec![spec];
    for part in path.split('/').skip(1) {
        at = match part {
            "0" => at
                .into_iter()
                .filter_map(Value::as_array)
                .flatten()
                .collect(),
            part => at.into_iter().filter_map(|value| value.get(part)).collect(),
        };
    }
    at.into_iter().next()
}

#[test]
fn the_object_with_everything_has_every_field_of_the_schema() {
    let spec = everything();
    let (required, optional) = fields();
    let missing: Vec<_> = required
        .iter()
        .chain(&optional)
        .filter(|path| find(&spec, path).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(optional.len() > 80, "{}", optional.len());
}

#[tokio::test]
async fn every_field_is_stored_by_create_and_by_both_kinds_of_apply() {
    let namespace = shared().plane.namespace("api-all").unwrap();
    let api = api(&namespace);
    let created: DynamicObject = serde_json::from_value(object("created", everything())).unwrap();
    let created = api.create(&PostParams::default(), &created).await.unwrap();
    assert_eq!(created.data["spec"], everything());
    let applied = apply(&api, "applied", everything(), false).await.unwrap();
    assert_eq!(applied.data["spec"], everything());
    let mut kubectl = shared().plane.kubectl().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object("client", everything()).to_string()).unwrap();
    kubectl
        .args(["apply", "--namespace", &namespace, "--filename"])
        .arg(file.path());
    testkit::run(&mut kubectl).unwrap();
    // A client-side apply drops every null before it is sent.
    let mut sent = everything();
    sent["values"].as_object_mut().unwrap().remove("none");
    assert_eq!(api.get("client").await.unwrap().data["spec"], sent);
}

#[tokio::test]
async fn every_optional_field_may_be_null_by_create_and_by_server_side_apply() {
    let namespace = shared().plane.namespace("api-null").unwrap();
    let api = api(&namespace);
    for (number, path) in fields().1.iter().enumerate() {
        let mut spec = everything();
        let pointer = position(&spec, path);
        *spec.pointer_mut(&pointer).unwrap() = Value::Null;
        // What a gate needs for its type is needed.
        if ["/gates/0/configMap", "/gates/0/dependency"].contains(&path.as_str()) {
            continue;
        }
        let name = format!("n{number}");
        let applied = apply(&api, &name, spec.clone(), true).await;
        assert!(applied.is_ok(), "apply {path}: {applied:?}");
        let new: DynamicObject = serde_json::from_value(object(&name, spec)).unwrap();
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = api.create(&params, &new).await;
        let created = created.unwrap_or_else(|error| panic!("create {path}: {error}"));
        // What the API server stored is read.
        let read: Result<HelmRelease, _> = created.try_parse();
        assert!(read.is_ok(), "read {path}: {read:?}");
    }
}

/// The JSON pointer of the first place that has the field.
fn position(spec: &Value, path: &str) -> String {
    let Some((list, rest)) = path.split_once("/0/") else {
        return path.to_owned();
    };
    let entries = spec.pointer(list).and_then(Value::as_array).unwrap();
    let rest = format!("/{rest}");
    let index = entries
        .iter()
        .position(|entry| find(entry, &rest).is_some())
        .unwrap();
    format!("{list}/{index}{}", position(&entries[index], &rest))
}

#[tokio::test]
async fn only_what_can_never_work_is_refused_and_what_1_4_refused() {
    let namespace = shared().plane.namespace("api-no").unwrap();
    let api = api(&namespace);
    let git = json!({"git": "https://git.example.com/a", "path": "."});
    let gate = |more: Value| json!({"chart": git, "gates": [more]});
    let rule = |rule: Value| json!({"chart": git, "driftDetection": {"ignore": [rule]}});
    let rows = [
        (json!({}), "spec.chart: Required value"),
        (json!({"chart": {}}), "no complete chart source"),
        (
            json!({"chart": {"git": "", "path": ""}}),
            "no complete chart source",
        ),
        (
            json!({"chart": {"oci": {"url": ""}}}),
            "no complete chart source",
        ),
        (
            json!({"chart": {"git": "https://x", "path": ".", "ref": 8412057}}),
            "spec.chart.ref",
        ),
        (
            json!({"chart": {"repository": "https://x", "name": "a", "version": 1.1}}),
            "spec.chart.version",
        ),
        (json!({"chart": git, "timeout": "10m"}), "spec.timeout"),
        (json!({"chart": git, "wait": "true"}), "spec.wait"),
        (
            json!({"chart": git, "helmVersion": "v4"}),
            "spec.helmVersion",
        ),
        (
            json!({"chart": git, "valuesFrom": [{}, {"configMapKeyRef": {"key": "x"}}]}),
            "spec.valuesFrom[1].configMapKeyRef.name: Required value",
        ),
        (
            json!({"chart": git, "interval": "5 minutes"}),
            "spec.interval",
        ),
        (
            gate(json!({"name": "", "type": "ManualApproval"})),
            "spec.gates[0].name",
        ),
        (
            gate(json!({"name": "Not_a_label", "type": "ManualApproval"})),
            "spec.gates[0].name",
        ),
        (
            gate(json!({"name": "x", "type": "Other"})),
            "spec.gates[0].type",
        ),
        (
            gate(json!({"name": "x", "type": "ConfigMapExists"})),
            "needs configMap",
        ),
        (
            gate(json!({"name": "x", "type": "DependencyReady"})),
            "needs dependency",
        ),
        (
            json!({"chart": git, "gates": [{"name": "x", "type": "ManualApproval"},
            {"name": "x", "type": "ManualApproval"}]}),
            "two gates have the same name",
        ),
        (rule(json!({"paths": ["data"]})), "no JSON pointer"),
        (rule(json!({"paths": ["/a", "/a~b"]})), "no JSON pointer"),
        (
            rule(json!({"paths": [], "target": {"labelSelector": "a b"}})),
            "labelSelector has no meaning",
        ),
        (
            rule(json!({"paths": [], "target": {"labelSelector": "a in (b"}})),
            "labelSelector has no meaning",
        ),
    ];
    for (spec, words) in rows {
        let refused = apply(&api, "no", spec.clone(), true)
            .await
            .expect_err(&spec.to_string());
        assert!(refused.contains(words), "{spec}: {refused}");
    }
    let accepted = [
        // Not complete: 1.4 stored them, and said so when it synced.
        json!({"chart": {"git": "https://git.example.com/a"}}),
        json!({"chart": {"repository": "https://x", "name": "a"}}),
        json!({"chart": {"ref": "master", "repository": "https://x", "name": "a", "version": "1"}}),
        json!({"chart": {"git": "https://x", "path": ".", "repository": "https://x", "name": "a", "version": "1"}}),
        json!({"chart": git, "maxHistory": -1, "timeout": -1, "rollback": {"maxRetries": -1}}),
        json!({"chart": git, "values": [1, 2]}),
        json!({"chart": git, "valuesFrom": [{}]}),
        json!({"chart": {"oci": {"url": "oci://x/y"}}}),
        rule(json!({"paths": ["/data/a~1b", "/x", "/"], "target": {
            "labelSelector": "app in (a, b),tier!=c, !d,e,f==g,h=, i notin (j)"}})),
        rule(json!({"paths": [], "target": {"labelSelector": ""}})),
        json!({"chart": git, "interval": 90, "gates": [{"name": "x", "type": "ManualApproval", "checkInterval": "0"}]}),
    ];
    for spec in accepted {
        let stored = apply(&api, "yes", spec.clone(), true).await;
        assert!(stored.is_ok(), "{spec}: {stored:?}");
    }
}

#[tokio::test]
async fn columns_and_short_names_are_there() {
    let namespace = shared().plane.namespace("api-columns").unwrap();
    let api = api(&namespace);
    let spec = json!({"suspend": true, "chart": {"git": "https://git.example.com/a", "path": "."}});
    apply(&api, "shown", spec, false).await.unwrap();
    for short in ["hr", "hrs", "helmrelease", "helmreleases"] {
        let mut kubectl = shared().plane.kubectl().unwrap();
        kubectl.args(["get", short, "--namespace", &namespace, "--output=wide"]);
        let shown = testkit::run(&mut kubectl).unwrap();
        let head: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(
            head,
            [
                "NAME",
                "RELEASE",
                "PHASE",
                "RELEASESTATUS",
                "MESSAGE",
                "AGE",
                "READY",
                "CHART",
                "REVISION"
            ]
        );
    }
}

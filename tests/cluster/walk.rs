//! A walk through valid specs: each change is brought to the state that a fresh deployment of the same spec has, and
//! an invalid change on the way is recovered from by the next one.
//!
//! `HELM_OPERATOR_WALK=200` walks further than every day; `HELM_OPERATOR_WALK_SEED` walks the way of an earlier run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::support::{Bench, LIMIT, condition, text};

/// Changes of an everyday run.
const STEPS: usize = 40;
/// One in so many changes is invalid.
const SPOILED: u64 = 9;

/// A small generator of numbers (SplitMix64): the same seed gives the same walk on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn pick(&mut self, from: &[Value]) -> Value {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap();
        from[at].clone()
    }
}

/// Three states of a chart: with more objects, with fewer, with other names.
fn write_charts(bench: &Bench) {
    let write = |file: &str, content: &str| {
        bench
            .repository
            .write(&format!("charts/walk/{file}"), content)
            .unwrap();
    };
    let object = |kind: &str, name: &str, body: &str| {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\n  \
             labels: {{walk: {{{{ .Release.Name }}}}, chart: {{{{ .Chart.Version | quote }}}}}}\n{body}"
        )
    };
    let all = "data: {values: {{ omit .Values \"spoil\" | toJson | quote }}}\n";
    let many = format!(
        "{{{{ range $i := until (int .Values.count) }}}}\n---\n{}{{{{ end }}}}",
        object("ConfigMap", "{{ $i }}", "data: {n: {{ $i | quote }}}\n")
            .replace(".Release", "$.Release")
            .replace(".Chart", "$.Chart")
    );
    let spoil = "{{ if .Values.spoil }}{{ fail \"spoiled\" }}{{ end }}";
    write(
        "values.yaml",
        "count: 1\nsecret: false\naccount: false\nspoil: false\nnested: {a: 1, b: {c: 2}}\n",
    );
    write("Chart.yaml", "apiVersion: v2\nname: walk\nversion: 1.0.0\n");
    write("templates/all.yaml", &object("ConfigMap", "all", all));
    write("templates/many.yaml", &many);
    write("templates/spoil.yaml", spoil);
    let secret = object(
        "Secret",
        "secret",
        "stringData: {greeting: {{ .Values.greeting | default \"none\" | quote }}}\n",
    );
    write(
        "templates/secret.yaml",
        &format!("{{{{ if .Values.secret }}}}\n{secret}{{{{ end }}}}"),
    );
    bench.repository.commit("One").unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: walk\nversion: 2.0.0\n");
    let account = object("ServiceAccount", "account", "");
    write(
        "templates/account.yaml",
        &format!("{{{{ if .Values.account }}}}\n{account}{{{{ end }}}}"),
    );
    bench.repository.branch("two").unwrap();
    bench.repository.commit("Two").unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: walk\nversion: 3.0.0\n");
    write("templates/all.yaml", &object("ConfigMap", "renamed", all));
    bench
        .repository
        .remove("charts/walk/templates/many.yaml")
        .unwrap();
    bench.repository.commit("Three").unwrap();
    bench.repository.tag("v3.0.0", None).unwrap();
}

/// Objects that specs refer to.
fn write_sources(bench: &Bench) {
    let map = |kind: &str, name: &str, key: &str, content: &str| {
        let field = if kind == "Secret" {
            "stringData"
        } else {
            "data"
        };
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: {key: content}})
            .to_string()
    };
    let objects = [
        map(
            "ConfigMap",
            "first",
            "values.yaml",
            "order: first\nnested: {b: {d: first}}\n",
        ),
        map(
            "ConfigMap",
            "second",
            "other.yaml",
            "order: second\nlist: [1, 2]\n",
        ),
        map(
            "Secret",
            "third",
            "values.yaml",
            "order: third\nsecret: true\n",
        ),
        map("ConfigMap", "word", "word", "a word"),
    ];
    bench
        .rig
        .apply(&bench.namespace, &objects.join("\n---\n"))
        .unwrap();
}

/// One change of one thing. `null` takes a field away.
fn change(dice: &mut Dice, spec: &mut Value) {
    let number = dice.below(1000);
    let coin = dice.coin();
    match dice.below(18) {
        0 => spec["values"]["greeting"] = format!("word {number}").into(),
        1 => spec["values"]["count"] = (number % 5).into(),
        2 => spec["values"]["secret"] = coin.into(),
        3 => spec["values"]["account"] = coin.into(),
        4 => {
            spec["values"]["nested"] = dice.pick(&[
                json!({"a": number}),
                json!({"b": null}),
                json!({"b": {"c": [1, "x"]}}),
                json!(7),
            ]);
        }
        5 => spec["values"] = json!({"fresh": number}),
        6 => spec["chart"]["ref"] = dice.pick(&[json!("main"), json!("two"), json!("v3.0.0")]),
        7 => {
            let mut entries = vec![
                json!({"configMapKeyRef": {"name": "first"}}),
                json!({"configMapKeyRef": {"name": "second", "key": "other.yaml"}}),
                json!({"secretKeyRef": {"name": "third"}}),
                json!({"secretKeyRef": {"name": "missing", "optional": true}}),
                json!({"configMapKeyRef": {"name": "word", "key": "word"}, "targetPath": "deep.word"}),
            ];
            entries.rotate_left(usize::try_from(number % 5).unwrap());
            entries.truncate(usize::try_from(dice.below(5)).unwrap());
            spec["valuesFrom"] = entries.into();
        }
        8 => spec["maxHistory"] = dice.pick(&[json!(1), json!(2), json!(5), json!(null), json!(0)]),
        9 => spec["timeout"] = dice.pick(&[json!(30), json!(60), json!(0), json!(null)]),
        10 => spec["wait"] = dice.pick(&[json!(true), json!(false), json!(null)]),
        11 => spec["forceUpgrade"] = coin.into(),
        12 => {
            spec["skipCRDs"] = coin.into();
            spec["crds"] = dice.pick(&[
                json!("Skip"),
                json!("Create"),
                json!("CreateReplace"),
                json!(null),
            ]);
        }
        13 => spec["disableOpenAPIValidation"] = coin.into(),
        14 => {
            spec["rollback"] = dice.pick(&[
                json!({"enable": true}),
                json!({"enable": true, "wait": true, "retry": true}),
                json!(null),
            ]);
        }
        15 => {
            spec["test"] = dice.pick(&[
                json!({"enable": true}),
                json!({"enable": true, "ignoreFailures": true}),
                json!(null),
            ]);
        }
        16 => {
            spec["interval"] = dice.pick(&[json!("5m"), json!(120), json!(null)]);
            spec["retry"] = dice.pick(&[json!({"limit": 2, "backoff": "1s"}), json!(null)]);
            spec["driftDetection"] = dice.pick(&[
                json!({"mode": "warn"}),
                json!({"mode": "enabled"}),
                json!(null),
            ]);
        }
        _ => {
            let open =
                json!([{"name": "map", "type": "ConfigMapExists", "configMap": {"name": "first"}}]);
            let shown = json!([{"name": "no", "type": "ConfigMapExists", "mandatory": false, "configMap": {"name": "missing"}}]);
            spec["gates"] = dice.pick(&[open, shown, json!(null)]);
        }
    }
}

/// A spec that cannot be deployed.
fn spoil(dice: &mut Dice, spec: &Value) -> Value {
    let mut spoiled = spec.clone();
    match dice.below(4) {
        0 => spoiled["chart"]["path"] = "charts/none".into(),
        1 => spoiled["chart"]["ref"] = "no-such-branch".into(),
        2 => spoiled["valuesFrom"] = json!([{"secretKeyRef": {"name": "missing"}}]),
        _ => spoiled["values"]["spoil"] = true.into(),
    }
    spoiled
}

/// Writes specs as one field manager, so that what is not in them is taken away.
struct Writer<'a> {
    bench: &'a Bench,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl<'a> Writer<'a> {
    fn new(bench: &'a Bench) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime
            .block_on(async { bench.rig.plane.client() })
            .unwrap();
        Self {
            bench,
            runtime,
            client,
        }
    }

    fn write(&self, name: &str, spec: &Value) {
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("helm.fluxcd.io", "v1", "HelmRelease"),
            "helmreleases",
        );
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.bench.namespace, &kind);
        let mut spec = spec.clone();
        spec["releaseName"] = name.into();
        spec.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let object = json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec});
        let params = PatchParams::apply("walk").force();
        self.runtime
            .block_on(api.patch(name, &params, &Patch::Apply(&object)))
            .unwrap();
    }
}

/// What is deployed of a release, without what differs between two deployments of one spec.
fn objects(bench: &Bench, release: &str) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for kind in ["configmaps", "secrets", "serviceaccounts"] {
        let path = format!(
            "/api/v1/namespaces/{}/{kind}?labelSelector=walk%3D{release}",
            bench.namespace
        );
        let list = bench.rig.plane.get(&path).unwrap();
        for object in list["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            let seen = json!({"labels": metadata["labels"], "annotations": metadata["annotations"],
                "data": object["data"], "type": object["type"]});
            let plain = seen
                .to_string()
                .replace(&format!("\"{release}\""), "\"R\"")
                .replace(&format!("helmrelease/{release}\""), "R\"");
            let name = text(object, "/metadata/name").replacen(release, "R", 1);
            objects.insert(
                format!("{kind}/{name}"),
                serde_json::from_str(&plain).unwrap(),
            );
        }
    }
    objects
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_change_of_a_spec_ends_where_a_fresh_deployment_of_it_begins() {
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let seed = from_environment("HELM_OPERATOR_WALK_SEED").unwrap_or(clock.as_secs());
    let steps = from_environment("HELM_OPERATOR_WALK")
        .map_or(STEPS, |steps| usize::try_from(steps).unwrap());
    println!("HELM_OPERATOR_WALK_SEED={seed} HELM_OPERATOR_WALK={steps}");
    let bench = Bench::new("walk");
    write_charts(&bench);
    write_sources(&bench);
    let writer = Writer::new(&bench);
    let mut dice = Dice(seed);
    let mut spec = json!({"chart": {"git": bench.repository.url(), "path": "charts/walk", "ref": "main"},
        "values": {"greeting": "start"}});
    let mut walked: Vec<(Value, BTreeMap<String, Value>)> = Vec::new();
    let started = Instant::now();
    while walked.len() < steps {
        change(&mut dice, &mut spec);
        if dice.below(SPOILED) == 0 {
            writer.write("walker", &spoil(&mut dice, &spec));
            bench.wait("walker", |release| {
                release["status"]["observedGeneration"] == release["metadata"]["generation"]
                    && condition(release, "Ready").starts_with("False")
            });
        }
        writer.write("walker", &spec);
        bench.ready("walker");
        walked.push((spec.clone(), objects(&bench, "walker")));
    }
    println!("walked in {:.1} s", started.elapsed().as_secs_f64());
    let records = bench.records("walker");
    assert_eq!(
        records
            .iter()
            .filter(|(_, status)| status == "deployed")
            .count(),
        1,
        "{records:?}"
    );
    assert!(
        records
            .iter()
            .zip(records.iter().skip(1))
            .all(|(a, b)| a.0 + 1 == b.0),
        "{records:?}"
    );
    compare_with_fresh(&bench, &writer, &walked);
    println!("compared after {:.1} s", started.elapsed().as_secs_f64());
}

/// Deploys each spec anew, all at once, and compares.
fn compare_with_fresh(
    bench: &Bench,
    writer: &Writer<'_>,
    walked: &[(Value, BTreeMap<String, Value>)],
) {
    for (number, (spec, _)) in walked.iter().enumerate() {
        writer.write(&format!("fresh-{number}"), spec);
    }
    let end = Instant::now() + LIMIT + Duration::from_secs(walked.len() as u64);
    for (number, (spec, seen)) in walked.iter().enumerate() {
        let name = format!("fresh-{number}");
        bench
            .rig
            .wait_until_ready(
                &bench.namespace,
                &name,
                end.saturating_duration_since(Instant::now()),
            )
            .unwrap();
        let fresh = objects(bench, &name);
        assert!(!fresh.is_empty());
        assert_eq!(*seen, fresh, "step {number}: {spec:#}");
    }
}

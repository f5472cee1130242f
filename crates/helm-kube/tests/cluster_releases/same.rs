//! Public charts, installed by the stock helm and by us: the live objects have to be equal.

use std::path::{Path, PathBuf};

use helm_engine::{Chart, Limits, RenderOptions, load, render, values};
use helm_kube::{ApiResource, Desired, Object, differences, is_owned, parse_manifest};
use serde_json::Value;
use testkit::{ControlPlane, Options, repository};

use crate::support::{Actor, Site};

/// The charts of the corpus beside the repository that render the same each time, with default
/// values.
fn charts() -> Vec<(String, PathBuf)> {
    let corpus = repository().join("../shared/corpus");
    let Ok(cases) = std::fs::read_to_string(corpus.join("cases.tsv")) else {
        println!("skipped: there is no corpus at {}", corpus.display());
        return Vec::new();
    };
    cases
        .lines()
        .filter_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [case, chart, "", "ok"] => Some((case.to_owned(), corpus.join(chart))),
            _ => None,
        })
        .collect()
}

/// The number of charts that are compared.
const WANTED: usize = 40;

/// A namespace in which one of us installs a chart.
struct Hand(Site);

impl Hand {
    fn new(plane: &'static ControlPlane, prefix: &str) -> Self {
        let mut site = Site::on(plane, prefix);
        // Nobody runs Jobs here.
        site.options.hooks = false;
        Self(site)
    }

    /// Installs the chart, and returns all objects of its manifest as they live.
    async fn with_helm(&self, chart: &Path) -> Result<Vec<Value>, String> {
        let chart = chart.to_str().unwrap();
        let install = self.0.try_helm(&["install", "web", chart, "--no-hooks"]);
        install.map_err(|error| format!("{error:#}"))?;
        let live = self.live().await;
        self.0.helm(&["uninstall", "web", "--no-hooks"]);
        self.let_claims_go();
        Ok(live)
    }

    async fn with_us(&self, chart: &Path) -> Result<Vec<Value>, String> {
        let loaded = load(chart, &Limits::default()).map_err(|error| error.to_string())?;
        deploy(&self.0, &loaded.chart).await?;
        let live = self.live().await;
        self.0.uninstall(false).await.unwrap();
        self.let_claims_go();
        Ok(live)
    }

    /// Without controllers nobody takes the protection off claims that are deleted.
    fn let_claims_go(&self) {
        let claims = self
            .0
            .kubectl(&["get", "persistentvolumeclaims", "--output=name"]);
        for claim in claims.lines() {
            let patch = "--patch={\"metadata\":{\"finalizers\":null}}";
            self.0.kubectl(&["patch", claim, "--type=merge", patch]);
        }
    }

    async fn live(&self) -> Vec<Value> {
        let catalog = self.0.cluster.catalog(true).await.unwrap();
        let manifest = self.0.helm(&["get", "manifest", "web"]);
        let mut objects = Vec::new();
        for object in parse_manifest(&manifest).unwrap() {
            let api = catalog.find(object.api_version(), object.kind()).unwrap();
            let mut live = self.0.plane.get(&self.path(api, &object)).unwrap();
            assert!(is_owned(&live, &self.0.release));
            normalize(&mut live);
            objects.push(live);
        }
        objects
    }

    fn path(&self, api: &ApiResource, object: &Object) -> String {
        let root = match api.group.as_str() {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        let place = match (api.namespaced, object.metadata("namespace")) {
            (false, _) => String::new(),
            (true, "") => format!("namespaces/{}/", self.0.namespace()),
            (true, own) => format!("namespaces/{own}/"),
        };
        format!(
            "{root}/{}/{place}{}/{}",
            api.version,
            api.plural,
            object.metadata("name")
        )
    }
}

async fn deploy(actor: &Actor, chart: &Chart) -> Result<(), String> {
    let user = values::read_values(b"{}").unwrap();
    let options = RenderOptions {
        release_name: "web".to_owned(),
        namespace: actor.namespace().to_owned(),
        capabilities: actor.cluster.capabilities().await.unwrap(),
        keep_chart: true,
        ..RenderOptions::default()
    };
    let rendered = render(chart, &user, &options).map_err(|error| error.to_string())?;
    let desired = Desired::new(rendered, user);
    actor
        .deploy(desired)
        .await
        .map(|_| ())
        .map_err(|error| error.to_string())
}

/// Takes out what differs between any two objects.
fn normalize(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(key);
    }
    let entries = metadata["managedFields"].as_array_mut().unwrap();
    // The API server's own work, which goes on.
    entries.retain(|entry| entry["manager"] == "helm");
    for entry in entries {
        entry.as_object_mut().unwrap().remove("time");
    }
    object.as_object_mut().unwrap().remove("status");
    if object["kind"] == "Service" {
        let spec = object["spec"].as_object_mut().unwrap();
        for key in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            spec.remove(key);
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
}

/// Installs a chart in both ways; tells how many objects are the same.
async fn compare(plane: &'static ControlPlane, case: &str, chart: &Path) -> Result<usize, String> {
    let hand = Hand::new(plane, "hand");
    let theirs = hand.with_helm(chart).await;
    match (theirs, hand.with_us(chart).await) {
        (Ok(theirs), Ok(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{case}");
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let (kind, name) = (&ours["kind"], &ours["metadata"]["name"]);
                if ours != theirs {
                    let told = differences(ours, theirs);
                    panic!("{case}: {kind} {name}: {told:?}\nours: {ours}\nhelm's: {theirs}");
                }
            }
            Ok(ours.len())
        }
        (Err(helm), Err(ours)) => Err(format!("refused; helm: {helm}; we: {ours}")),
        // Definitions that another chart has left are in helm's way, and not in ours.
        (Err(helm), Ok(_)) if helm.contains("failed to install CRD") => Err(helm),
        (helm, ours) => panic!(
            "{case}: only one of us fails: {:?} {:?}",
            helm.err(),
            ours.err()
        ),
    }
}

#[tokio::test]
async fn public_charts_live_the_same_whoever_installs_them() {
    let charts = charts();
    if charts.is_empty() {
        return;
    }
    // A cluster of its own: charts bring webhooks and kinds. It ends with this process.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).unwrap()));
    let mut same = 0;
    for (case, chart) in charts {
        if same == WANTED {
            break;
        }
        match compare(plane, &case, &chart).await {
            Ok(count) => {
                println!("{case}: {count} objects are the same");
                same += 1;
            }
            Err(why) => println!("{case}: {}", why.replace('\n', " ")),
        }
    }
    println!("{same} charts");
    assert_eq!(same, WANTED);
}

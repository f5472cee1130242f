//! Manifests as people write them for 1.4, with their quirks: `manifests/*.yaml`. The first line of each says what is
//! to become of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use testkit::{ChartServer, Rig, ScratchDir, chart_archive};

use crate::support::{LIMIT, condition, message, records, shared, text};

/// What becomes of a manifest.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    /// It is stored, whatever way it comes, and deployed.
    Deployed,
    /// It is stored; the sync fails in this phase with this text.
    Fails { phase: String, words: String },
    /// The API server refuses it and names this field, with this text.
    Refused { field: String, words: String },
    /// kubectl refuses this field; without its check it is pruned and the rest is deployed.
    Unknown { field: String },
    /// It is no object at all.
    Undecodable { words: String },
    /// Nothing of this API is served.
    NoKind { version: String },
}

impl Fate {
    /// Reads the first line, `# fails ChartFetchFailed: no such file`.
    fn parse(line: &str) -> Self {
        let line = line.trim().trim_start_matches("# ");
        let (head, words) = line.split_once(':').unwrap_or((line, ""));
        let words = words.trim().to_owned();
        match head.split_once(' ').unwrap_or((head, "")) {
            ("deployed", "") => Self::Deployed,
            ("fails", phase) => Self::Fails {
                phase: phase.to_owned(),
                words,
            },
            ("refused", field) => Self::Refused {
                field: field.to_owned(),
                words,
            },
            ("unknown", field) => Self::Unknown {
                field: field.to_owned(),
            },
            ("undecodable", "") => Self::Undecodable { words },
            ("no", "kind") => Self::NoKind { version: words },
            _ => panic!("no fate: {line}"),
        }
    }
}

/// A manifest and its fate.
struct Shape {
    file: String,
    fate: Fate,
    content: String,
}

/// What the manifests name, in two namespaces of the shared rig.
struct Site {
    rig: &'static Rig<'static>,
    namespace: String,
    other: String,
    /// Where nothing is stored.
    empty: String,
    /// Serves charts and values; the second one asks for a login.
    _servers: [ChartServer; 2],
    shapes: Vec<Shape>,
}

/// Renders all values, so that a test can see them.
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-map}\n\
    data: {values: {{ .Values | toJson | quote }}, version: {{ .Chart.Version | quote }}}\n";
const DEFAULTS: &str =
    "greeting: hello\nremove: {chartDefault: 1, nested: {alsoGone: 2, bare: 3, kept: 4}}\n";
const PROD: &str = "order: file\nfile: read\n";

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let rig = shared();
        let namespace = rig.plane.namespace("shapes").unwrap();
        let other = rig.plane.namespace("shapes-other").unwrap();
        let empty = rig.plane.namespace("shapes-empty").unwrap();
        let charts = chart_server("/stable");
        let private = chart_server("/private");
        private.require_login("reader", "not-a-word");
        charts.put("/values.yaml", b"order: url\nurl: read\n".to_vec());
        let with_login = private
            .url()
            .replace("http://", "http://reader:not-a-word@");
        let mut words = git_words(rig, &namespace);
        words.extend([
            ("USERCHARTS", with_login),
            ("CHARTS", charts.url()),
            ("OTHER", other.clone()),
        ]);
        let mut apply = rig.plane.kubectl().unwrap();
        let objects = input(&objects(&namespace, &other));
        testkit::run(
            apply
                .args(["apply", "--server-side", "--filename=-"])
                .stdin(objects),
        )
        .unwrap();
        Site {
            rig,
            shapes: shapes(&words),
            namespace,
            other,
            empty,
            _servers: [charts, private],
        }
    })
}

/// A repository at a path of a server, with two versions of the chart `hello`.
fn chart_server(path: &str) -> ChartServer {
    let server = ChartServer::start().unwrap();
    let mut index = "apiVersion: v1\nentries:\n  hello:\n".to_owned();
    for version in ["1.0.0", "1.2.3"] {
        let files = [
            ("templates/config.yaml", TEMPLATE),
            ("values.yaml", DEFAULTS),
            ("env/prod.yaml", PROD),
        ];
        let archive = chart_archive("hello", version, &files).unwrap();
        server.put(&format!("{path}/hello-{version}.tgz"), archive);
        writeln!(
            index,
            "  - {{apiVersion: v2, name: hello, version: {version}, urls: [hello-{version}.tgz]}}"
        )
        .unwrap();
    }
    server.put(&format!("{path}/index.yaml"), index.into_bytes());
    server
}

/// Repositories with the refs that the manifests name.
fn git_words(rig: &Rig<'_>, namespace: &str) -> Vec<(&'static str, String)> {
    let deploy = rig
        .git
        .repository(&format!("{namespace}-Shop-Deploy"))
        .unwrap();
    let root = rig.git.repository(&format!("{namespace}-root")).unwrap();
    for (repository, path) in [(&deploy, "charts/hello/"), (&root, "")] {
        let write = |file: &str, content: &str| {
            repository.write(&format!("{path}{file}"), content).unwrap();
        };
        write(
            "Chart.yaml",
            "apiVersion: v2\nname: hello\nversion: 0.1.0\n",
        );
        write("values.yaml", DEFAULTS);
        write("templates/config.yaml", TEMPLATE);
        write("env/prod.yaml", PROD);
        repository.commit("Add the chart").unwrap();
    }
    deploy.tag("v1.0.0", None).unwrap();
    deploy.tag("0.0.8", Some("first")).unwrap();
    deploy.branch("feature/DEL-7/new-door").unwrap();
    let commit = deploy.head().unwrap();
    let short = commit[..9].to_owned();
    vec![
        ("GIT", deploy.url().to_owned()),
        ("ROOT", root.url().to_owned()),
        ("COMMIT", commit),
        ("SHORT", short),
    ]
}

/// ConfigMaps and Secrets that values come from.
fn objects(own: &str, other: &str) -> String {
    let object = |kind: &str, namespace: &str, name: &str, data: Value| {
        let field = if kind == "Secret" {
            "stringData"
        } else {
            "data"
        };
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, field: data}).to_string()
    };
    let shared = json!({"platform": "order: map\nmap: read\n", "values.yaml": "order: last\nlast: read\n",
        "broken": "no: map: at all", "word": "a single word"});
    let secret = json!({"values.yaml": "order: secret\nsecret: read\n"});
    let login = json!({"username": "reader", "password": "not-a-word"});
    [
        object("ConfigMap", other, "shared-values", shared),
        object("Secret", other, "secret-values", secret),
        object("Secret", other, "git-login", login),
        object(
            "Secret",
            own,
            "old-values",
            json!({"values.yaml": "order: old\nold: read\n"}),
        ),
    ]
    .join("\n---\n")
}

fn shapes(words: &[(&str, String)]) -> Vec<Shape> {
    let directory = testkit::repository().join("tests/cluster/manifests");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let shape = |file: &PathBuf| {
        let mut content = fs::read_to_string(file).unwrap();
        let fate = Fate::parse(content.lines().next().unwrap());
        for (word, meaning) in words {
            content = content.replace(word, meaning);
        }
        Shape {
            file: file.file_name().unwrap().to_string_lossy().into_owned(),
            fate,
            content,
        }
    };
    files.iter().map(shape).collect()
}

impl Site {
    fn with(&self, wanted: impl Fn(&Fate) -> bool) -> impl Iterator<Item = &Shape> {
        self.shapes.iter().filter(move |shape| wanted(&shape.fate))
    }

    fn shape(&self, file: &str) -> &Shape {
        self.shapes
            .iter()
            .find(|shape| shape.file == format!("{file}.yaml"))
            .unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut kubectl = self.rig.plane.kubectl().unwrap();
        let namespace = if arguments.contains(&"--dry-run=server") {
            &self.empty
        } else {
            &self.namespace
        };
        kubectl.args(arguments).args(["--namespace", namespace]);
        kubectl
    }

    /// Runs kubectl on these manifests at once.
    fn on<'a>(
        &self,
        shapes: impl Iterator<Item = &'a Shape>,
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        let scratch = ScratchDir::new("manifests").unwrap();
        for shape in shapes {
            fs::write(scratch.path().join(&shape.file), &shape.content).unwrap();
        }
        testkit::run(
            self.kubectl(arguments)
                .arg("--filename")
                .arg(scratch.path()),
        )
    }

    /// The error of kubectl on one manifest.
    fn refusal(&self, shape: &Shape, arguments: &[&str]) -> String {
        let result = self.on([shape].into_iter(), arguments);
        let said = result.err().map(|error| format!("{error:#}"));
        said.unwrap_or_else(|| panic!("{} is accepted by {arguments:?}", shape.file))
    }

    /// All HelmReleases that are stored, by name.
    fn stored(&self) -> BTreeMap<String, Value> {
        let path = format!(
            "/apis/helm.fluxcd.io/v1/namespaces/{}/helmreleases",
            self.namespace
        );
        let list = self.rig.plane.get(&path).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| (text(item, "/metadata/name"), item.clone()))
            .collect()
    }

    /// The names of the HelmReleases of manifests.
    fn names<'a>(&self, shapes: impl Iterator<Item = &'a Shape>) -> Vec<String> {
        let way = [
            "create",
            "--dry-run=client",
            "--output=name",
            "--validate=ignore",
        ];
        let said = self.on(shapes, &way).unwrap();
        let name = |line: &str| Some(line.split_once('/')?.1.to_owned());
        said.lines().filter_map(name).collect()
    }

    /// The values that the chart saw.
    fn values(&self, release: &str) -> Value {
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/{release}-map",
            self.namespace
        );
        let map = self.rig.plane.get(&path).unwrap();
        serde_json::from_str(&text(&map, "/data/values")).unwrap()
    }

    fn records_of(&self, release: &Value) -> Vec<(i64, String)> {
        let spec = &release["spec"];
        let namespace = spec["targetNamespace"]
            .as_str()
            .filter(|target| !target.is_empty());
        records(
            self.rig.plane,
            namespace.unwrap_or(&self.namespace),
            &text(release, "/status/releaseName"),
        )
    }
}

/// Applies all that is accepted, once, and waits until it is deployed.
fn deployed() -> &'static Site {
    static DONE: OnceLock<&'static Site> = OnceLock::new();
    DONE.get_or_init(|| {
        let site = site();
        let good = || site.with(|fate| *fate == Fate::Deployed);
        site.on(good(), &["create"]).unwrap();
        let pruned = || site.with(|fate| matches!(fate, Fate::Unknown { .. }));
        site.on(pruned(), &["create", "--validate=ignore"]).unwrap();
        for name in site.names(good().chain(pruned())) {
            site.rig
                .wait_until_ready(&site.namespace, &name, LIMIT)
                .unwrap();
        }
        site
    })
}

#[test]
fn manifests_of_1_4_are_accepted_whatever_way_they_come() {
    let site = site();
    let good = || site.with(|fate| matches!(fate, Fate::Deployed | Fate::Fails { .. }));
    for way in [
        &["apply", "--dry-run=server"][..],
        &["apply", "--dry-run=server", "--server-side"],
        &["create", "--dry-run=server"],
    ] {
        let said = site.on(good(), way).unwrap();
        assert!(said.lines().count() >= good().count(), "{way:?}: {said}");
    }
}

#[test]
fn manifests_that_were_refused_are_refused_with_the_field_that_is_wrong() {
    let site = site();
    let mut wrong = Vec::new();
    for shape in &site.shapes {
        let (field, words, check) = match &shape.fate {
            Fate::Refused { field, words } => (field.as_str(), words.as_str(), "--validate=ignore"),
            Fate::Unknown { field } => (field.as_str(), "unknown field", "--validate=strict"),
            Fate::Undecodable { words } => ("", words.as_str(), "--validate=strict"),
            Fate::NoKind { version } => {
                (version.as_str(), "no matches for kind", "--validate=strict")
            }
            Fate::Deployed | Fate::Fails { .. } => continue,
        };
        let said = site.refusal(shape, &["create", "--dry-run=server", check]);
        if !said.contains(field) || !said.contains(words) {
            wrong.push(format!("{}: {said}", shape.file));
        }
        site.refusal(
            shape,
            &["apply", "--server-side", "--dry-run=server", check],
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn manifests_of_1_4_are_deployed_in_one_revision() {
    let site = deployed();
    let names = site.names(site.with(|fate| *fate == Fate::Deployed));
    // Another sync of each changes nothing.
    let again = [
        "annotate",
        "helmreleases",
        "--all",
        "helm.fluxcd.io/reconcile-at=now",
    ];
    testkit::run(&mut site.kubectl(&again)).unwrap();
    for name in &names {
        let handled = |release: &Value| text(release, "/status/lastHandledReconcileAt") == "now";
        site.rig
            .wait_for(&site.namespace, name, LIMIT, handled)
            .unwrap();
    }
    let stored = site.stored();
    for name in &names {
        let release = &stored[name];
        let records = site.records_of(release);
        assert_eq!(
            records,
            [(1, "deployed".to_owned())],
            "{name}: {:#}",
            release["status"]
        );
        assert_eq!(condition(release, "Released"), "True Succeeded", "{name}");
    }
}

#[test]
fn manifests_that_cannot_work_fail_with_the_words_of_1_4() {
    let site = site();
    let failing = || site.with(|fate| matches!(fate, Fate::Fails { .. }));
    site.on(failing(), &["apply"]).unwrap();
    let mut wrong = Vec::new();
    for shape in failing() {
        let Fate::Fails { phase, words } = &shape.fate else {
            continue;
        };
        for name in site.names([shape].into_iter()) {
            let is_told = |release: &Value| {
                let failed = condition(release, "Released").starts_with("False");
                failed && release["status"]["observedGeneration"] == 1
            };
            let release = site
                .rig
                .wait_for(&site.namespace, &name, LIMIT, is_told)
                .unwrap();
            let (told, ready) = (message(&release, "Released"), message(&release, "Ready"));
            if text(&release, "/status/phase") != *phase
                || !told.contains(words)
                || !ready.contains(words)
            {
                wrong.push(format!(
                    "{}: {}: {told}",
                    shape.file,
                    text(&release, "/status/phase")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A text as the input of a program.
fn input(text: &str) -> fs::File {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

#[test]
fn nothing_of_a_manifest_is_pruned_or_rewritten() {
    let site = deployed();
    let stored = site.stored();
    for file in [
        "everything",
        "annotations-of-flux",
        "placeholders-in-values",
        "json-body",
        "line-ends-of-dos",
    ] {
        let arguments = [
            "create",
            "--dry-run=client",
            "--output=json",
            "--validate=ignore",
        ];
        let said = site.on([site.shape(file)].into_iter(), &arguments).unwrap();
        let sent: Value = serde_json::from_str(&said).unwrap();
        let kept = &stored[&text(&sent, "/metadata/name")];
        assert_eq!(sent["spec"], kept["spec"], "{file}");
        assert_eq!(
            sent["metadata"]["labels"], kept["metadata"]["labels"],
            "{file}"
        );
        for (name, value) in sent["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            assert_eq!(
                kept["metadata"]["annotations"][name], *value,
                "{file}: {name}"
            );
        }
    }
}

#[test]
fn values_reach_the_chart_as_json_of_the_manifest() {
    let site = deployed();
    let said = site.on(
        [site.shape("values-scalars")].into_iter(),
        &["create", "--dry-run=client", "--output=json"],
    );
    let sent: Value = serde_json::from_str(&said.unwrap()).unwrap();
    let mut expected = sent["spec"]["values"].clone();
    // Nulls delete what the chart has; the rest of it stays.
    expected["greeting"] = "hello".into();
    expected["remove"] = json!({"nested": {"kept": 4}});
    // Helm reads the numbers of a values file as floats, and so the largest ones lose their last digits.
    expected["numbers"]["beyond"] = json!(9_007_199_254_740_992_u64);
    expected["numbers"]["largest"] = json!(9_223_372_036_854_776_000_u64);
    let seen = site.values("scalars");
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    assert_eq!(
        seen.as_object().unwrap().len(),
        expected.as_object().unwrap().len()
    );
    assert_eq!(site.values("textvalues")["greeting"], "hello");
    assert_eq!(site.values("listvalues")["greeting"], "hello");
    assert_eq!(site.values("doslines")["config"], "first: 1\nsecond: 2\n");
    assert_eq!(site.values("variables")["cluster"], "${CLUSTER:=edge-1}");
    assert_eq!(site.values("modern")["deep"]["word"], "a single word");
}

#[test]
fn sources_of_values_are_merged_in_the_order_of_1_4() {
    let site = deployed();
    let seen = site.values("sources");
    for read in ["old", "map", "secret", "url", "file", "last"] {
        assert_eq!(seen[read], "read", "{read}: {seen:#}");
    }
    assert_eq!(seen["order"], "inline");
    assert_eq!(site.values("archivefile")["file"], "read");
}

#[test]
fn a_login_in_a_url_is_shown_nowhere() {
    let site = deployed();
    let release = &site.stored()["userinfo"];
    assert!(!release["status"].to_string().contains("not-a-word"));
    let events = site
        .rig
        .plane
        .get(&format!("/api/v1/namespaces/{}/events", site.namespace))
        .unwrap();
    assert!(!events.to_string().contains("not-a-word"));
    assert!(!site.rig.daemon.log().contains("not-a-word"));
    assert!(site.other.starts_with("shapes-other"));
}

//! Taking over from 1.4: HelmReleases, release records and objects as it leaves them. What is as wanted is taken over
//! without a new revision and without a write to any of it.
//!
//! Everything here is written from the description of what 1.4 does: statuses put on `/status` by a client called
//! `helm-operator`, records of Helm 3, objects made by client-side updates with the antecedent put on by kubectl.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::OnceLock;

use base64::Engine as _;
use serde_json::{Value, json};
use testkit::{
    AuditEntry, ChartServer, ControlPlane, Daemon, DaemonOptions, GitOptions, GitRepository,
    GitServer, Options, chart_archive,
};

use crate::support::{
    BINARY, LIMIT, TEMPLATE, condition, kubectl, message, records, text, write_chart,
};

/// One HelmRelease that 1.4 has left.
#[derive(Clone, Default)]
struct Left {
    name: &'static str,
    /// What the spec says besides `releaseName` and `chart`.
    spec: Value,
    chart: Option<Value>,
    /// What the status says besides what every status says.
    status: Value,
    /// Status, greeting of the values, and greeting of the manifest of each revision.
    revisions: Vec<(&'static str, &'static str)>,
    /// Values that were recorded besides the greeting.
    config: Value,
    /// Who the objects belong to, if it is someone else.
    antecedent: Option<&'static str>,
}

/// A chart that leaves out a field when its value is gone.
fn template() -> String {
    format!(
        "{TEMPLATE}{{{{- with .Values.extra }}}}\n  extra: {{{{ . | quote }}}}\n{{{{- end }}}}\n"
    )
}

const OTHER: &str = "old-target";

/// A HelmRelease whose inputs are those of its newest revision, and its status when that went well.
fn settled(name: &'static str) -> Left {
    Left {
        name,
        spec: json!({"values": {"greeting": "hi", "extra": "yes"}}),
        status: json!({"phase": "Succeeded"}),
        revisions: vec![("superseded", "hello"), ("deployed", "hi")],
        config: json!({}),
        ..Left::default()
    }
}

fn cases() -> Vec<Left> {
    let rolled_back = json!({"phase": "RolledBack", "rollbackCount": 1});
    vec![
        settled("git"),
        Left {
            chart: Some(json!({"repository": "CHARTS", "name": "hello", "version": "1.0.0"})),
            ..settled("repository")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes", "million": 1_000_000, "gone": null},
                "valuesFrom": [{"configMapKeyRef": {"name": "more"}}, {"secretKeyRef": {"name": "most", "key": "k"}}]}),
            // Numbers went through floats, as JSON has them.
            config: json!({"million": 1e6, "gone": null, "from": {"map": 1, "secret": true}, "word": "last"}),
            ..settled("sources")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "targetNamespace": OTHER}),
            ..settled("elsewhere")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "test": {"enable": true}}),
            status: json!({"phase": "Succeeded", "tested": true}),
            ..settled("tested")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "resetValues": false}),
            ..settled("reused")
        },
        Left {
            revisions: [
                [("superseded", "hello"); 9].as_slice(),
                &[("deployed", "hi")],
            ]
            .concat(),
            ..settled("long")
        },
        Left {
            status: json!({"phase": "Succeeded", "lastAttemptedRevision": "EARLIER", "revision": "EARLIER"}),
            ..settled("moved-on")
        },
        Left {
            spec: json!({"values": {"greeting": "other", "extra": "yes"}, "suspend": true}),
            ..settled("suspended")
        },
        Left {
            status: json!({"phase": "DeployFailed"}),
            revisions: vec![("deployed", "hello"), ("failed", "hi")],
            ..settled("failed")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "rollback": {"enable": true}}),
            status: rolled_back.clone(),
            revisions: vec![
                ("superseded", "hello"),
                ("failed", "hi"),
                ("deployed", "hello"),
            ],
            ..settled("rolled-back")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "rollback": {"enable": true, "retry": true, "maxRetries": 1}}),
            status: json!({"phase": "RolledBack", "rollbackCount": 2}),
            revisions: vec![
                ("superseded", "hello"),
                ("failed", "hi"),
                ("superseded", "hello"),
                ("failed", "hi"),
                ("deployed", "hello"),
            ],
            ..settled("retried-enough")
        },
        Left {
            spec: json!({"values": {"greeting": "hi", "extra": "yes"}, "rollback": {"enable": true}, "test": {"enable": true}}),
            status: rolled_back,
            // A revision whose tests failed was deployed, and is superseded by the rollback.
            revisions: vec![
                ("superseded", "hello"),
                ("superseded", "hi"),
                ("deployed", "hello"),
            ],
            ..settled("test-failed")
        },
        Left {
            antecedent: Some("elsewhere:helmrelease/parent"),
            ..settled("claimed")
        },
    ]
}

/// The state before and after the daemon came.
struct Site {
    plane: ControlPlane,
    namespace: String,
    daemon: Daemon,
    _git: GitServer,
    _charts: ChartServer,
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
    writes: Vec<AuditEntry>,
}

/// Leaves everything as 1.4 does, starts the daemon, and lets it verify all of it a few times.
fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let plane = ControlPlane::start(Options {
            audit: true,
            ..Options::default()
        })
        .unwrap();
        testkit::apply_crd(&plane).unwrap();
        let namespace = plane.namespace("old").unwrap();
        testkit::apply(
            &plane,
            &namespace,
            &format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {OTHER}}}\n"),
        )
        .unwrap();
        let git = GitServer::start(GitOptions::default()).unwrap();
        let repository = git.repository("old").unwrap();
        write_chart(&repository, "1.0.0");
        repository
            .write("charts/hello/templates/map.yaml", template())
            .unwrap();
        let earlier = repository.commit("Add the chart").unwrap();
        repository
            .commit_file("README.md", "not a part of the chart")
            .unwrap();
        let charts = ChartServer::start().unwrap();
        let files = [
            ("templates/map.yaml", &*template()),
            ("values.yaml", "greeting: hello\n"),
        ];
        charts.add_chart("hello", "1.0.0", archive_without_config(&files));
        Fixtures {
            plane: &plane,
            namespace: &namespace,
            repository: &repository,
            charts: &charts,
            earlier: &earlier,
        }
        .leave(&cases());
        let before = versions(&plane, &namespace);
        let flags = [
            "--charts-sync-interval=1s",
            "--status-update-interval=1s",
            "--git-default-ref=main",
        ];
        let daemon =
            Daemon::start(DaemonOptions::local(BINARY, plane.kubeconfig(), &flags)).unwrap();
        for case in cases() {
            wait(&plane, &namespace, case.name, |release| {
                !condition(release, "Progressing").is_empty()
            });
        }
        // A few more turns of every loop.
        std::thread::sleep(std::time::Duration::from_secs(4));
        let after = versions(&plane, &namespace);
        let written = |entry: &AuditEntry| !matches!(entry.verb.as_str(), "get" | "list" | "watch");
        let writes = plane.audit().unwrap().into_iter().filter(written);
        let writes = writes
            .filter(|entry| entry.agent.starts_with("helm-operator/"))
            .collect();
        Site {
            namespace,
            daemon,
            _git: git,
            _charts: charts,
            before,
            after,
            writes,
            plane,
        }
    })
}

/// An archive of the chart with these files and no others.
fn archive_without_config(files: &[(&str, &str)]) -> Vec<u8> {
    let files = [files, &[("templates/config.yaml", "")]].concat();
    chart_archive("hello", "1.0.0", &files).unwrap()
}

fn wait(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    enough: impl Fn(&Value) -> bool,
) -> Value {
    let path = format!("/apis/helm.fluxcd.io/v1/namespaces/{namespace}/helmreleases/{name}");
    let end = std::time::Instant::now() + LIMIT;
    loop {
        let release = plane.get(&path).unwrap();
        if enough(&release) {
            return release;
        }
        assert!(
            std::time::Instant::now() < end,
            "{name}: {:#}",
            release["status"]
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The version of every Secret and ConfigMap that 1.4 has left.
fn versions(plane: &ControlPlane, namespace: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for namespace in [namespace, OTHER] {
        for kind in ["secrets", "configmaps"] {
            let list = plane
                .get(&format!("/api/v1/namespaces/{namespace}/{kind}"))
                .unwrap();
            for object in list["items"].as_array().unwrap() {
                let name = format!("{namespace}/{kind}/{}", text(object, "/metadata/name"));
                versions.insert(name, text(object, "/metadata/resourceVersion"));
            }
        }
    }
    versions
}

struct Fixtures<'a> {
    plane: &'a ControlPlane,
    namespace: &'a str,
    repository: &'a GitRepository,
    charts: &'a ChartServer,
    earlier: &'a str,
}

impl Fixtures<'_> {
    fn leave(&self, cases: &[Left]) {
        let values = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "namespace": self.namespace},
            "data": {"values.yaml": "from: {map: 1}\nword: first\n"}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "most", "namespace": self.namespace},
            "stringData": {"k": "from: {secret: true}\nword: last\n"}});
        let mut made = vec![values, secret];
        let mut annotated = Vec::new();
        for case in cases {
            made.extend(
                (1..)
                    .zip(&case.revisions)
                    .map(|(number, &(status, greeting))| {
                        self.record(case, number, status, greeting)
                    }),
            );
            made.push(self.object(case));
            annotated.push(case);
        }
        self.kubectl(&["create", "--field-manager=helm-operator"], &list(made));
        for case in annotated {
            let owner = format!("{}:helmrelease/{}", self.namespace, case.name);
            let owner = case.antecedent.unwrap_or(&owner);
            let mut annotate = self.plane.kubectl().unwrap();
            annotate.args([
                "annotate",
                "--overwrite",
                "--namespace",
                self.target(case),
                "ConfigMap",
                case.name,
            ]);
            testkit::run(annotate.arg(format!("helm.fluxcd.io/antecedent={owner}"))).unwrap();
        }
        let objects: Vec<Value> = cases.iter().map(|case| self.release(case)).collect();
        // As `kubectl apply` stores them, but for the nulls, which it drops when it creates an object.
        self.kubectl(&["create", "--save-config"], &list(objects.clone()));
        let with_status: Vec<Value> = cases
            .iter()
            .zip(objects)
            .map(|(case, object)| self.status(case, object))
            .collect();
        let arguments = [
            "replace",
            "--subresource=status",
            "--field-manager=helm-operator",
        ];
        self.kubectl(&arguments, &list(with_status));
    }

    fn kubectl(&self, arguments: &[&str], manifest: &Value) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(manifest.to_string().as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut kubectl = self.plane.kubectl().unwrap();
        kubectl.args(arguments).arg("--filename=-");
        testkit::run(kubectl.stdin(file)).unwrap();
    }

    fn target<'b>(&'b self, case: &Left) -> &'b str {
        if case.spec["targetNamespace"].is_null() {
            self.namespace
        } else {
            OTHER
        }
    }

    fn release(&self, case: &Left) -> Value {
        let mut spec = case.spec.clone();
        spec["releaseName"] = case.name.into();
        spec["chart"] = match &case.chart {
            Some(chart) => {
                serde_json::from_str(&chart.to_string().replace("CHARTS", &self.charts.url()))
                    .unwrap()
            }
            None => json!({"git": self.repository.url(), "path": "charts/hello", "ref": "main"}),
        };
        // The antecedent of a parent, and an annotation of Flux: both are none of our business.
        json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
            "metadata": {"name": case.name, "namespace": self.namespace,
                "annotations": {"fluxcd.io/automated": "true"}},
            "spec": spec})
    }

    fn status(&self, case: &Left, mut object: Value) -> Value {
        let head = self.repository.head().unwrap();
        let revision = if case.chart.is_some() {
            "1.0.0".to_owned()
        } else {
            head
        };
        let phase = text(&case.status, "/phase");
        let failed = phase == "DeployFailed" || phase == "RolledBack";
        let mut conditions = vec![
            old_condition("ChartFetched", "True", "ChartFetched"),
            old_condition(
                "Deployed",
                if failed { "False" } else { "True" },
                if failed { "DeployFailed" } else { "Deployed" },
            ),
            old_condition(
                "Released",
                if failed { "False" } else { "True" },
                if failed { "DeployFailed" } else { "Succeeded" },
            ),
        ];
        if phase == "RolledBack" {
            conditions.push(old_condition("RolledBack", "True", "RolledBack"));
        }
        if case.status["tested"] == true {
            conditions.push(old_condition("Tested", "True", "Tested"));
        }
        let (newest, _) = case.revisions[case.revisions.len() - 1];
        let mut status = json!({"observedGeneration": 1, "phase": phase, "releaseName": case.name,
            "releaseStatus": newest, "revision": revision, "lastAttemptedRevision": revision,
            "conditions": conditions});
        for field in ["rollbackCount", "lastAttemptedRevision", "revision"] {
            let said = case.status.get(field).cloned();
            if let Some(said) = said {
                status[field] = if said == "EARLIER" {
                    self.earlier.into()
                } else {
                    said
                };
            }
        }
        object["status"] = status;
        object
    }

    /// A release record as Helm 3 writes it: JSON, gzip, base64.
    fn record(&self, case: &Left, number: i64, status: &str, greeting: &str) -> Value {
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut config = case.config.clone();
        config["greeting"] = greeting.into();
        config["extra"] = "yes".into();
        let templates = if case.chart.is_some() {
            json!([{"name": "templates/config.yaml", "data": ""}, {"name": "templates/map.yaml", "data": base64(template().as_bytes())}])
        } else {
            json!([{"name": "templates/map.yaml", "data": base64(template().as_bytes())}])
        };
        // With `resetValues: false` Helm records the defaults and the values together.
        let defaults = match case.spec["resetValues"] == false && number > 1 {
            true => json!({"greeting": greeting, "extra": "yes"}),
            false => json!({"greeting": "hello"}),
        };
        let release = json!({
            "name": case.name, "namespace": self.target(case), "version": number,
            "info": {"first_deployed": "2021-03-04T05:06:07.123456789Z", "last_deployed": "2021-03-05T05:06:07.987654321+01:00",
                "deleted": "", "description": "Upgrade complete", "status": status},
            "chart": {"metadata": {"name": "hello", "version": "1.0.0", "apiVersion": "v2"}, "lock": null,
                "templates": templates, "values": defaults, "schema": null, "files": null},
            "config": config,
            "manifest": format!(
                "---\n# Source: hello/templates/map.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n\
                 data:\n  greeting: \"{greeting}\"\n  revision: \"{number}\"\n  extra: \"yes\"\n", case.name),
        });
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(release.to_string().as_bytes()).unwrap();
        let encoded = base64(&gzip.finish().unwrap());
        json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": format!("sh.helm.release.v1.{}.v{number}", case.name), "namespace": self.target(case),
                "labels": {"name": case.name, "owner": "helm", "status": status, "version": number.to_string(),
                    "modifiedAt": "1614920767"}},
            "stringData": {"release": encoded}})
    }

    /// The ConfigMap of a release as it lives.
    fn object(&self, case: &Left) -> Value {
        let live = case
            .revisions
            .iter()
            .rev()
            .find(|(status, _)| *status == "deployed" || *status == "failed");
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": case.name, "namespace": self.target(case),
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": case.name, "meta.helm.sh/release-namespace": self.target(case)}},
            "data": {"greeting": live.unwrap().1, "revision": case.revisions.len().to_string(), "extra": "yes"}})
    }
}

fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn old_condition(of: &str, status: &str, reason: &str) -> Value {
    json!({"type": of, "status": status, "reason": reason, "message": format!("{reason} in words of 1.4."),
        "lastUpdateTime": "2021-03-05T05:06:10Z", "lastTransitionTime": "2021-03-05T05:06:09Z"})
}

fn now(name: &str) -> Value {
    let site = site();
    site.plane
        .get(&format!(
            "/apis/helm.fluxcd.io/v1/namespaces/{}/helmreleases/{name}",
            site.namespace
        ))
        .unwrap()
}

#[test]
fn records_and_objects_of_1_4_are_not_written() {
    let site = site();
    let log = site.daemon.log();
    let differences: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("difference"))
        .collect();
    assert_eq!(site.before, site.after, "{differences:#?}");
    let of_release = |entry: &&AuditEntry| {
        !entry.uri.contains("/helmreleases/") && !entry.uri.contains("/leases")
    };
    let others: Vec<_> = site
        .writes
        .iter()
        .filter(of_release)
        .filter(|entry| !entry.uri.contains("/events"))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// The finalizer and one status, or two when the source had to be fetched first.
#[test]
fn each_helm_release_of_1_4_gets_its_finalizer_and_the_new_part_of_its_status() {
    let site = site();
    for case in cases() {
        let of_case = |entry: &&AuditEntry| {
            let path = entry.uri.split('?').next().unwrap_or_default();
            path.ends_with(&format!("/helmreleases/{}", case.name))
                || path.ends_with(&format!("/helmreleases/{}/status", case.name))
        };
        let writes: Vec<_> = site.writes.iter().filter(of_case).collect();
        let statuses = writes
            .iter()
            .filter(|entry| entry.uri.contains("/status"))
            .count();
        assert!(
            (1..=3).contains(&statuses) && writes.len() - statuses <= 1,
            "{}: {writes:#?}",
            case.name
        );
    }
}

#[test]
fn what_1_4_has_deployed_is_ready_at_once() {
    for name in [
        "git",
        "repository",
        "sources",
        "elsewhere",
        "tested",
        "reused",
        "long",
        "moved-on",
    ] {
        let release = now(name);
        assert_eq!(
            condition(&release, "Ready"),
            "True UpToDate",
            "{name}: {:#}",
            release["status"]
        );
        assert_eq!(condition(&release, "Released"), "True Succeeded", "{name}");
        assert!(
            text(&release, "/status/digest").starts_with("sha256:"),
            "{name}"
        );
    }
    // What tests said stays said.
    assert_eq!(condition(&now("tested"), "Tested"), "True Tested");
    assert_eq!(text(&now("repository"), "/status/revision"), "1.0.0");
}

#[test]
fn what_failed_under_1_4_is_held_until_something_changes() {
    for (name, phase) in [
        ("failed", "DeployFailed"),
        ("rolled-back", "RolledBack"),
        ("retried-enough", "RolledBack"),
        ("test-failed", "RolledBack"),
    ] {
        let release = now(name);
        assert_eq!(
            condition(&release, "Stalled"),
            "True UpgradeFailed",
            "{name}: {:#}",
            release["status"]
        );
        assert_eq!(text(&release, "/status/phase"), phase, "{name}");
        assert_eq!(
            condition(&release, "Released"),
            "False DeployFailed",
            "{name}"
        );
        assert!(
            message(&release, "Ready").contains("helm.fluxcd.io/reconcile-at"),
            "{name}"
        );
    }
    assert_eq!(now("retried-enough")["status"]["rollbackCount"], 2);
}

#[test]
fn what_is_suspended_or_of_someone_else_is_left_alone() {
    assert_eq!(text(&now("suspended"), "/status/phase"), "Suspended");
    let claimed = now("claimed");
    assert_eq!(condition(&claimed, "Ready"), "False OwnedByOther");
    assert!(message(&claimed, "Ready").contains("elsewhere:helmrelease/parent"));
}

#[test]
fn the_next_change_upgrades_what_was_taken_over_and_what_failed() {
    let site = site();
    for (name, revisions) in [("repository", 3), ("failed", 3), ("rolled-back", 4)] {
        let patch = r#"{"spec": {"values": {"greeting": "changed", "extra": null}}}"#;
        let arguments = [
            "patch",
            "helmrelease",
            name,
            "--type=merge",
            "--patch",
            patch,
        ];
        kubectl(&site.plane, &site.namespace, &arguments);
        wait(&site.plane, &site.namespace, name, testkit::is_ready);
        let records = records(&site.plane, &site.namespace, name);
        assert_eq!(
            records.last(),
            Some(&(revisions, "deployed".to_owned())),
            "{name}: {records:?}"
        );
        let map = site
            .plane
            .get(&format!(
                "/api/v1/namespaces/{}/configmaps/{name}",
                site.namespace
            ))
            .unwrap();
        assert_eq!(text(&map, "/data/greeting"), "changed");
        // A field that 1.4 has made and the chart makes no more is gone, whoever its manager was.
        assert_eq!(
            map["data"].as_object().unwrap().len(),
            2,
            "{:#}",
            map["data"]
        );
        let status = now(name);
        assert!(status["status"]["rollbackCount"].is_null());
        assert_eq!(condition(&status, "RolledBack"), "");
    }
    assert!(!site.daemon.log().contains("panic"));
}

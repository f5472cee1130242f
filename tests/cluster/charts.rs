//! Charts that come from a Helm repository, from a registry, and to git from both.

use std::sync::OnceLock;

use serde_json::Value;
use testkit::{ChartServer, ControlPlane, Options, Registry, RegistryOptions, Rig, chart_archive};

use crate::support::{BINARY, LIMIT, message, records, text};

/// A control plane of its own: the daemon here looks for new versions every second.
struct Site {
    plane: &'static ControlPlane,
    rig: Rig<'static>,
    registry: Registry,
}

fn site() -> &'static Site {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let plane = PLANE.get_or_init(|| ControlPlane::start(Options::default()).unwrap());
        let registry = Registry::start(RegistryOptions::default()).unwrap();
        let plain = format!("--plain-http-registries={}", registry.host());
        let flags = [
            "--workers=4",
            "--charts-sync-interval=1s",
            "--git-poll-interval=1s",
            "--status-update-interval=1s",
            "--git-default-ref=main",
            &plain,
        ];
        let rig = Rig::start(plane, BINARY, &flags).unwrap();
        Site {
            plane,
            rig,
            registry,
        }
    })
}

impl Site {
    /// Applies a HelmRelease `web` with this `chart`, in a namespace of its own.
    fn apply(&self, namespace: &str, chart: &str) {
        let manifest = format!(
            "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: web}}\n\
             spec:\n  releaseName: web\n  chart: {chart}\n"
        );
        self.rig.apply(namespace, &manifest).unwrap();
    }

    /// Waits until the release runs this chart, in this many revisions.
    fn runs(&self, namespace: &str, chart: &str, revisions: usize) -> Value {
        self.rig.wait_until_ready(namespace, "web", LIMIT).unwrap();
        let is_there = |release: &Value| text(release, "/status/chart") == chart;
        let release = self
            .rig
            .wait_for(namespace, "web", LIMIT, is_there)
            .unwrap();
        let records = records(self.plane, namespace, "web");
        assert_eq!(records.len(), revisions, "{records:?}");
        assert_eq!(records[revisions - 1].1, "deployed");
        release
    }

    /// The version that the ConfigMap of a chart of the release shows.
    fn shows(&self, namespace: &str, chart: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/web-{chart}");
        text(&self.plane.get(&path).unwrap(), "/data/version")
    }
}

#[test]
fn a_release_from_a_helm_repository_follows_its_range() {
    let site = site();
    let namespace = site.plane.namespace("repository").unwrap();
    let server = ChartServer::start().unwrap();
    let add = |version: &str| {
        server.add_chart("app", version, chart_archive("app", version, &[]).unwrap());
    };
    add("1.0.0");
    let chart = format!(
        "{{repository: \"{}\", name: app, version: 1.x}}",
        server.url()
    );
    site.apply(&namespace, &chart);
    let release = site.runs(&namespace, "app-1.0.0", 1);
    assert_eq!(text(&release, "/status/revision"), "1.0.0");
    add("2.0.0");
    add("1.1.0");
    site.runs(&namespace, "app-1.1.0", 2);
    assert_eq!(site.shows(&namespace, "app"), "1.1.0");
}

#[test]
fn a_release_from_a_registry_follows_its_range_in_both_spellings() {
    let site = site();
    let add = |version: &str| site.registry.push("shop", version).unwrap();
    add("1.0.0");
    let host = site.registry.host();
    let spellings = [
        (
            "spelled",
            format!("{{repository: \"oci://{host}/team\", name: shop, version: ^1}}"),
        ),
        (
            "oci",
            format!("{{oci: {{url: \"oci://{host}/team/shop\", version: ^1}}}}"),
        ),
    ];
    let namespaces = spellings.map(|(name, chart)| {
        let namespace = site.plane.namespace(name).unwrap();
        site.apply(&namespace, &chart);
        namespace
    });
    for namespace in &namespaces {
        site.runs(namespace, "shop-1.0.0", 1);
    }
    add("1.2.0");
    for namespace in &namespaces {
        site.runs(namespace, "shop-1.2.0", 2);
        assert_eq!(site.shows(namespace, "shop"), "1.2.0");
    }
}

#[test]
fn a_git_chart_brings_its_dependencies_and_follows_them() {
    let site = site();
    let namespace = site.plane.namespace("dependencies").unwrap();
    let server = ChartServer::start().unwrap();
    let add = |version: &str| {
        server.add_chart("db", version, chart_archive("db", version, &[]).unwrap());
    };
    add("1.0.0");
    site.registry.push("cache", "3.0.0").unwrap();
    let repository = site.rig.git.repository(&namespace).unwrap();
    let chart = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n\
         - {{name: db, version: 1.x, repository: \"{}\"}}\n\
         - {{name: cache, version: 3.0.0, repository: \"oci://{}/team\"}}\n",
        server.url(),
        site.registry.host()
    );
    repository.write("app/Chart.yaml", &chart).unwrap();
    repository.commit("Add the chart").unwrap();
    let source = format!("{{git: \"{}\", path: app}}", repository.url());
    site.apply(&namespace, &source);
    site.runs(&namespace, "app-0.1.0", 1);
    assert_eq!(site.shows(&namespace, "db"), "1.0.0");
    assert_eq!(site.shows(&namespace, "cache"), "3.0.0");
    // A push with a new version of the chart brings the newest version of what it depends on.
    add("1.5.0");
    repository
        .write("app/Chart.yaml", chart.replace("0.1.0", "0.2.0"))
        .unwrap();
    repository.commit("Release 0.2.0").unwrap();
    site.rig
        .wait_for(&namespace, "web", LIMIT, |release| {
            text(release, "/status/chart") == "app-0.2.0"
        })
        .unwrap();
    assert_eq!(site.shows(&namespace, "db"), "1.5.0");
}

#[test]
fn a_dependency_that_is_missing_stops_before_anything_is_deployed() {
    let site = site();
    let namespace = site.plane.namespace("missing").unwrap();
    let server = ChartServer::start().unwrap();
    let repository = site.rig.git.repository(&namespace).unwrap();
    let chart = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n\
         - {{name: db, version: 1.x, repository: \"{}\"}}\n",
        server.url()
    );
    repository.write("app/Chart.yaml", &chart).unwrap();
    repository.commit("Add the chart").unwrap();
    site.apply(
        &namespace,
        &format!("{{git: \"{}\", path: app}}", repository.url()),
    );
    let failed = site
        .rig
        .wait_for(&namespace, "web", LIMIT, |release| {
            message(release, "Ready").contains("dependency db 1.x")
        })
        .unwrap();
    assert_eq!(
        text(&failed, "/status/phase"),
        "ChartFetchFailed",
        "{failed:#}"
    );
    assert!(records(site.plane, &namespace, "web").is_empty());
    server.add_chart("db", "1.0.0", chart_archive("db", "1.0.0", &[]).unwrap());
    site.runs(&namespace, "app-0.1.0", 1);
}

//! Charts that come from a Helm repository, from a registry, and to git from both.

use std::sync::OnceLock;

use serde_json::Value;
use testkit::{
    ChartServer, ControlPlane, CosignKey, Options, Registry, RegistryOptions, Rig, chart_archive,
};

use crate::support::{BINARY, LIMIT, message, records, shared, text};

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

/// Applies a HelmRelease `web` with this `chart`, in a namespace of its own.
fn apply(rig: &Rig<'_>, namespace: &str, chart: &str) {
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: web}}\n\
         spec:\n  releaseName: web\n  chart: {chart}\n"
    );
    rig.apply(namespace, &manifest).unwrap();
}

/// Waits until the release runs this chart, in this many revisions.
fn runs(rig: &Rig<'_>, namespace: &str, chart: &str, revisions: usize) -> Value {
    let is_there = |release: &Value| text(release, "/status/chart") == chart;
    let release = rig.wait_for(namespace, "web", LIMIT, is_there).unwrap();
    rig.wait_until_ready(namespace, "web", LIMIT).unwrap();
    let records = records(rig.plane, namespace, "web");
    let log = rig.daemon.log();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(namespace))
        .collect();
    assert_eq!(records.len(), revisions, "{records:?}\n{}", told.join("\n"));
    assert_eq!(records[revisions - 1].1, "deployed");
    release
}

/// The version that the ConfigMap of a chart of the release shows.
fn shows(rig: &Rig<'_>, namespace: &str, chart: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/web-{chart}");
    text(&rig.plane.get(&path).unwrap(), "/data/version")
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
    apply(&site.rig, &namespace, &chart);
    let release = runs(&site.rig, &namespace, "app-1.0.0", 1);
    assert_eq!(text(&release, "/status/revision"), "1.0.0");
    add("2.0.0");
    add("1.1.0");
    runs(&site.rig, &namespace, "app-1.1.0", 2);
    assert_eq!(shows(&site.rig, &namespace, "app"), "1.1.0");
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
        apply(&site.rig, &namespace, &chart);
        namespace
    });
    for namespace in &namespaces {
        runs(&site.rig, namespace, "shop-1.0.0", 1);
    }
    add("1.2.0");
    for namespace in &namespaces {
        runs(&site.rig, namespace, "shop-1.2.0", 2);
        assert_eq!(shows(&site.rig, namespace, "shop"), "1.2.0");
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
    apply(&site.rig, &namespace, &source);
    runs(&site.rig, &namespace, "app-0.1.0", 1);
    assert_eq!(shows(&site.rig, &namespace, "db"), "1.0.0");
    assert_eq!(shows(&site.rig, &namespace, "cache"), "3.0.0");
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
    assert_eq!(shows(&site.rig, &namespace, "db"), "1.5.0");
    // The first look after the interval may have found 1.5.0 before the push.
    let revisions = records(site.plane, &namespace, "web").len();
    assert!(matches!(revisions, 2 | 3), "{revisions} revisions");
    // And without a push it is looked for every interval, as the range of a chart in a repository is.
    add("1.6.0");
    site.rig
        .wait_for(&namespace, "web", LIMIT, |_| {
            shows(&site.rig, &namespace, "db") == "1.6.0"
        })
        .unwrap();
    runs(&site.rig, &namespace, "app-0.2.0", revisions + 1);
}

#[test]
fn a_change_finds_what_was_published_before_it() {
    // The interval of this daemon is far longer than the test.
    let rig = shared();
    let namespace = rig.plane.namespace("prompt").unwrap();
    let server = ChartServer::start().unwrap();
    let add = |name: &str, version: &str| {
        server.add_chart(name, version, chart_archive(name, version, &[]).unwrap());
    };
    add("db", "1.0.0");
    let repository = rig.git.repository(&namespace).unwrap();
    let chart = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n\
         - {{name: db, version: 1.x, repository: \"{}\"}}\n",
        server.url()
    );
    repository.write("app/Chart.yaml", &chart).unwrap();
    repository.commit("Add the chart").unwrap();
    apply(
        rig,
        &namespace,
        &format!("{{git: \"{}\", path: app}}", repository.url()),
    );
    runs(rig, &namespace, "app-0.1.0", 1);
    add("db", "1.5.0");
    repository
        .write("app/Chart.yaml", chart.replace("0.1.0", "0.2.0"))
        .unwrap();
    repository.commit("Release 0.2.0").unwrap();
    assert_eq!(rig.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    runs(rig, &namespace, "app-0.2.0", 2);
    assert_eq!(shows(rig, &namespace, "db"), "1.5.0");
    // The same for a chart of the repository itself, when the spec changes.
    add("shop", "2.0.0");
    let shop = format!(
        "{{repository: \"{}\", name: shop, version: 2.0.0}}",
        server.url()
    );
    apply(rig, &namespace, &shop);
    runs(rig, &namespace, "shop-2.0.0", 3);
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
    apply(
        &site.rig,
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
    runs(&site.rig, &namespace, "app-0.1.0", 1);
}

#[test]
fn a_chart_that_is_not_signed_is_refused_and_the_last_good_release_stays() {
    let site = site();
    let namespace = site.plane.namespace("signed").unwrap();
    let (key, stranger) = (
        CosignKey::generate().unwrap(),
        CosignKey::generate().unwrap(),
    );
    let push = |version: &str| {
        site.registry.push("sealed", version).unwrap();
        site.registry.manifest("sealed", version).unwrap().0
    };
    let sign = |key: &CosignKey, manifest: &str| {
        key.sign_manifest(&site.registry, "sealed", manifest)
            .unwrap();
    };
    sign(&key, &push("1.0.0"));
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: signers}}\nstringData: {{cosign.pub: {:?}}}\n",
        key.public().unwrap()
    );
    site.rig.apply(&namespace, &secret).unwrap();
    let chart = format!(
        "{{repository: \"oci://{}/team\", name: sealed, version: 1.x, verify: {{secretRef: {{name: signers}}}}}}",
        site.registry.host()
    );
    apply(&site.rig, &namespace, &chart);
    runs(&site.rig, &namespace, "sealed-1.0.0", 1);
    let refused = |why: &str| {
        let failed = site
            .rig
            .wait_for(&namespace, "web", LIMIT, |release| {
                message(release, "Ready").contains(why)
            })
            .unwrap();
        assert_eq!(
            text(&failed, "/status/phase"),
            "ChartFetchFailed",
            "{failed:#}"
        );
        let records = records(site.plane, &namespace, "web");
        assert_eq!(records.len(), 1, "{records:?}");
        assert_eq!(records[0].1, "deployed");
        assert_eq!(shows(&site.rig, &namespace, "sealed"), "1.0.0");
    };
    let manifest = push("1.1.0");
    refused("it is not signed");
    sign(&stranger, &manifest);
    refused("it is signed by another key");
    sign(&key, &manifest);
    runs(&site.rig, &namespace, "sealed-1.1.0", 2);
}

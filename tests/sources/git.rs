//! Git charts and what they depend on, from a real git server, a repository and a registry.

use std::sync::Arc;
use std::time::Duration;

use helm_engine::Dependency;
use helm_operator::gitsync::{GitSource, Mirrors, Options, ReleaseKey, Schedule, StaticSecrets};
use helm_operator::source::{
    ChartArtifact, Freshness, Reason, RepositoryUrl, SourceError, SourceRef, Sources,
};
use testkit::{
    ChartServer, GitOptions, GitRepository, GitServer, Registry, RegistryOptions, chart_archive,
};

use crate::Bench;

/// A git server with one repository, and a cache for what is fetched from it.
struct Rig {
    _server: GitServer,
    repository: GitRepository,
    bench: Bench,
    registries: Vec<String>,
}

impl Rig {
    fn new(bench: Bench) -> Self {
        let server = GitServer::start(GitOptions::default()).unwrap();
        let repository = server.repository("charts").unwrap();
        Self {
            _server: server,
            repository,
            bench,
            registries: Vec::new(),
        }
    }

    /// A daemon's sources, with what an earlier one has left on disk.
    fn sources(&self, name: &str) -> Sources {
        let mut options = Options::new(self.bench.scratch.join(name));
        options.poll = Schedule::every(Duration::from_secs(3600)).unwrap();
        options.fetch_grace = Duration::from_secs(60);
        options.policy.allow_http = true;
        options.policy.allow_local = true;
        let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
        let charts = self
            .bench
            .open()
            .with_plain_registries(self.registries.clone());
        Sources::new(mirrors).with_charts(Arc::new(charts))
    }

    async fn fetch(&self, sources: &Sources) -> Result<ChartArtifact, SourceError> {
        let url = RepositoryUrl::parse(self.repository.url()).unwrap();
        let source = SourceRef::Git(GitSource::new(url, "app"));
        let release = ReleaseKey {
            namespace: "apps".into(),
            name: "web".into(),
        };
        sources.declare(&release, &source);
        sources.fetch(&source, Freshness::by_interval()).await
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.repository
                .write(&format!("app/{path}"), *text)
                .unwrap();
        }
        self.repository.commit("Change the chart").unwrap();
    }
}

fn chart(dependencies: &str) -> String {
    format!("apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n{dependencies}")
}

fn dependency(name: &str, version: &str, repository: &str) -> Dependency {
    Dependency {
        name: name.to_owned(),
        version: version.to_owned(),
        repository: repository.to_owned(),
        ..Dependency::default()
    }
}

#[tokio::test]
async fn everything_cached_and_locked_causes_no_request_even_after_a_restart() {
    let server = ChartServer::start().unwrap();
    server.add_chart("db", "1.0.0", chart_archive("db", "1.0.0", &[]).unwrap());
    let registry = Registry::start(RegistryOptions::default()).unwrap();
    registry.push("cache", "3.0.0").unwrap();
    let mut rig = Rig::new(Bench::new());
    rig.registries.push(registry.host().to_owned());
    let oci = format!("oci://{}/team", registry.host());
    let requested = [
        dependency("db", "1.x", &server.url()),
        dependency("cache", "3.x", &oci),
    ];
    let locked = [
        Some(dependency("db", "1.0.0", &server.url())),
        Some(dependency("cache", "3.0.0", &oci)),
    ];
    let rows = |all: &[&Dependency]| -> String {
        all.iter()
            .map(|it| {
                format!(
                    "- {{name: {}, version: {}, repository: \"{}\"}}\n",
                    it.name, it.version, it.repository
                )
            })
            .collect()
    };
    let lock = format!(
        "dependencies:\n{}digest: {}\ngenerated: \"2026-01-01T00:00:00Z\"\n",
        rows(&locked.iter().flatten().collect::<Vec<_>>()),
        helm_engine::lock_digest(&requested, &locked)
    );
    let text = chart(&rows(&requested.iter().collect::<Vec<_>>()));
    rig.commit(&[("Chart.yaml", &text), ("Chart.lock", &lock)]);
    let first = rig.fetch(&rig.sources("one")).await.unwrap();
    assert!(first.file("charts/db-1.0.0.tgz").is_some());
    assert!(first.file("charts/cache-3.0.0.tgz").is_some());
    assert!(!first.can_move, "the lock says which");
    // A newer one does not matter, nor does a registry that is gone.
    server.add_chart("db", "1.1.0", chart_archive("db", "1.1.0", &[]).unwrap());
    drop(registry);
    server.forget();
    let second = rig.fetch(&rig.sources("two")).await.unwrap();
    assert_eq!(second.digest, first.digest);
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn an_unchanged_git_chart_with_a_range_is_one_conditional_request() {
    let server = ChartServer::start().unwrap();
    server.add_chart("db", "1.0.0", chart_archive("db", "1.0.0", &[]).unwrap());
    let rig = Rig::new(Bench::new());
    let row = format!(
        "- {{name: db, version: 1.x, repository: \"{}\"}}\n",
        server.url()
    );
    rig.commit(&[("Chart.yaml", &chart(&row))]);
    let sources = rig.sources("one");
    let first = rig.fetch(&sources).await.unwrap();
    assert!(first.can_move);
    server.forget();
    let second = rig.fetch(&sources).await.unwrap();
    assert_eq!(second.digest, first.digest);
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].if_none_match.is_some(), "{requests:?}");
}

#[tokio::test]
async fn dependencies_whose_names_are_paths_and_charts_of_the_wrong_shape_are_errors() {
    let server = ChartServer::start().unwrap();
    let rig = Rig::new(Bench::new());
    let sources = rig.sources("one");
    let with = |name: &str| {
        format!(
            "- {{name: {name:?}, version: 1.0.0, repository: \"{}\"}}\n",
            server.url()
        )
    };
    for (at, text) in [
        chart(&with("../../etc/x")),
        chart(&with("..")),
        chart(&with(".")),
        chart(&with("a/b")),
        chart("- null\n- []\n- text\n"),
        chart("  {a: b}\n"),
        "apiVersion: v2\nname: app\nversion: [1]\ndependencies: 7\n".to_owned(),
        format!(
            "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: {}\n",
            "[".repeat(50_000)
        ),
    ]
    .into_iter()
    .enumerate()
    {
        rig.commit(&[("Chart.yaml", &text), ("round", &at.to_string())]);
        sources.mirrors().sync(None).await;
        let shown: String = text.chars().take(120).collect();
        let error = match rig.fetch(&sources).await {
            Ok(found) => panic!("{shown}: {:?}", found.files),
            Err(error) => error,
        };
        let expected = [
            Reason::InvalidData,
            Reason::InvalidSource,
            Reason::ChartNotFound,
        ];
        assert!(expected.contains(&error.reason()), "{shown}: {error}");
    }
}

#[tokio::test]
async fn a_dependency_that_is_no_chart_stops_the_chart_that_wants_it() {
    // It is found when the chart is loaded, before anything is compared.
    let server = ChartServer::start().unwrap();
    server.add_chart("db", "1.0.0", b"no archive".to_vec());
    let rig = Rig::new(Bench::new());
    let row = format!(
        "- {{name: db, version: 1.0.0, repository: \"{}\"}}\n",
        server.url()
    );
    rig.commit(&[("Chart.yaml", &chart(&row))]);
    let found = rig.fetch(&rig.sources("one")).await.unwrap();
    let files = found
        .files
        .iter()
        .map(|(path, data)| (path.clone(), data.as_slice()));
    let loaded = helm_engine::load_files(files, &helm_engine::Limits::default());
    assert!(loaded.is_err(), "an empty chart is never deployed");
}

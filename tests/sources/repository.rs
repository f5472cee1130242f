//! Versions, caches and credentials of Helm repositories.

use std::time::{Duration, Instant};

use helm_operator::source::{Freshness, HelmRepositorySource, Reason};
use testkit::{ChartAnswer, ChartServer, chart_archive};

use crate::{Bench, secret_ref, seen, source};

fn serve(versions: &[&str]) -> ChartServer {
    let server = ChartServer::start().unwrap();
    for version in versions {
        server.add_chart("app", version, chart_archive("app", version, &[]).unwrap());
    }
    server
}

fn paths(server: &ChartServer) -> Vec<String> {
    server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect()
}

#[tokio::test]
async fn a_range_means_the_newest_version_and_a_newer_one_is_seen() {
    let server = serve(&["1.0.0", "1.2.0", "2.0.0-rc.1"]);
    let charts = Bench::new().charts();
    let asked = source(&server.url(), "app", "1.x");
    let first = charts.repository_chart(&asked).await.unwrap();
    assert_eq!(first.revision, "1.2.0");
    server.add_chart("app", "1.3.0", chart_archive("app", "1.3.0", &[]).unwrap());
    let second = charts.repository_chart(&asked).await.unwrap();
    assert_eq!(second.revision, "1.3.0");
    assert_ne!(first.digest, second.digest);
}

#[tokio::test]
async fn an_exact_version_that_was_fetched_causes_no_request_even_after_a_restart() {
    let server = serve(&["1.0.0"]);
    let bench = Bench::new();
    let asked = source(&server.url(), "app", "1.0.0");
    assert_eq!(
        seen(bench.charts().repository_chart(&asked).await),
        ("1.0.0".into(), "1.0.0".into())
    );
    server.forget();
    assert_eq!(
        seen(bench.charts().repository_chart(&asked).await),
        ("1.0.0".into(), "1.0.0".into())
    );
    assert_eq!(paths(&server), Vec::<String>::new());
}

#[tokio::test]
async fn an_index_that_did_not_change_is_one_conditional_request() {
    let server = serve(&["1.0.0"]);
    let bench = Bench::new();
    let asked = source(&server.url(), "app", "^1");
    for charts in [bench.charts(), bench.charts()] {
        charts.repository_chart(&asked).await.unwrap();
        server.forget();
        charts.repository_chart(&asked).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].if_none_match.is_some());
    }
}

#[tokio::test]
async fn many_releases_share_one_download_of_the_index() {
    let server = serve(&["1.0.0", "1.1.0", "1.2.0"]);
    let charts = Bench::new().every(Duration::from_secs(60)).charts();
    let asked: Vec<_> = (0..30)
        .map(|at| source(&server.url(), "app", ["~1.0", "~1.1", "*"][at % 3]))
        .collect();
    let all = asked.iter().map(|asked| charts.repository_chart(asked));
    for found in futures::future::join_all(all).await {
        found.unwrap();
    }
    let index = paths(&server)
        .into_iter()
        .filter(|path| path == "/index.yaml")
        .count();
    assert_eq!(index, 1);
}

#[tokio::test]
async fn a_change_looks_at_the_index_again_once_for_all_releases() {
    let server = serve(&["1.0.0"]);
    let mut charts = Bench::new().every(Duration::from_secs(3600)).charts();
    let asked: Vec<_> = (0..20)
        .map(|at| source(&server.url(), "app", ["1.x", "^1", "*"][at % 3]))
        .collect();
    let revisions = async |charts: &crate::Opened| -> Vec<String> {
        let all = asked.iter().map(|asked| charts.repository_chart(asked));
        let found = futures::future::join_all(all).await;
        found.into_iter().map(|it| it.unwrap().revision).collect()
    };
    assert_eq!(revisions(&charts).await, ["1.0.0"; 20]);
    server.add_chart("app", "1.5.0", chart_archive("app", "1.5.0", &[]).unwrap());
    server.forget();
    assert_eq!(revisions(&charts).await, ["1.0.0"; 20], "not due yet");
    assert_eq!(paths(&server), Vec::<String>::new());
    charts.want(Freshness::since(Instant::now()));
    for _ in 0..2 {
        assert_eq!(revisions(&charts).await, ["1.5.0"; 20]);
    }
    let requests = server.requests();
    let index: Vec<_> = requests
        .iter()
        .filter(|request| request.path == "/index.yaml")
        .collect();
    assert_eq!(index.len(), 1, "{requests:?}");
    assert!(index[0].if_none_match.is_some(), "it is conditional");
}

#[tokio::test]
async fn what_is_not_there_is_said_with_what_is() {
    let server = serve(&["1.0.0", "1.1.0"]);
    let charts = Bench::new().charts();
    for (name, version, reason, hint) in [
        (
            "ap",
            "*",
            Reason::ChartNotFound,
            "the nearest names are app",
        ),
        (
            "app",
            "1.7.0",
            Reason::VersionNotFound,
            "come near are 1.1.0, 1.0.0",
        ),
        (
            "app",
            ">=2",
            Reason::VersionNotFound,
            "come near are 1.1.0, 1.0.0",
        ),
        (
            "app",
            "one",
            Reason::InvalidSource,
            "write one such as 1.2.3",
        ),
        ("stable/app", "*", Reason::InvalidSource, "write \"app\""),
    ] {
        let error = charts
            .repository_chart(&source(&server.url(), name, version))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn the_secret_of_the_release_opens_a_private_repository() {
    let server = serve(&["1.0.0"]);
    server.require_login("robot", "canary-password");
    let bench = Bench::new()
        .secret(
            "good",
            &[("username", "robot"), ("password", "canary-password")],
        )
        .secret(
            "wrong",
            &[("username", "robot"), ("password", "canary-wrong")],
        );
    let charts = bench.charts();
    let asked = |secret: Option<&str>| HelmRepositorySource {
        secret: secret.map(secret_ref),
        ..source(&server.url(), "app", "*")
    };
    assert_eq!(
        seen(charts.repository_chart(&asked(Some("good"))).await).0,
        "1.0.0"
    );
    for secret in [None, Some("wrong"), Some("absent")] {
        let error = charts.repository_chart(&asked(secret)).await.unwrap_err();
        assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn credentials_stay_with_their_repository_unless_they_are_passed_on() {
    let (home, other) = (serve(&[]), serve(&["1.0.0"]));
    let index = format!(
        "apiVersion: v1\nentries:\n  app:\n  - name: app\n    version: 1.0.0\n    urls:\n    - {}/app-1.0.0.tgz\n",
        other.url()
    );
    home.put("/index.yaml", index.into_bytes());
    home.require_login("robot", "canary");
    for (passes, expected) in [("false", false), ("true", true)] {
        let login = [
            ("username", "robot"),
            ("password", "canary"),
            ("passCredentials", passes),
        ];
        let charts = Bench::new().secret("login", &login).charts();
        let asked = HelmRepositorySource {
            secret: Some(secret_ref("login")),
            ..source(&home.url(), "app", "*")
        };
        other.forget();
        charts.repository_chart(&asked).await.unwrap();
        let seen = other.requests().pop().unwrap().authorization;
        assert_eq!(seen.is_some(), expected, "passCredentials: {passes}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_carries_no_credentials() {
    let (home, other) = (serve(&["1.0.0"]), serve(&["1.0.0"]));
    home.require_login("robot", "canary");
    let target = format!("{}/app-1.0.0.tgz", other.url());
    for status in [301, 302, 307, 308] {
        home.answer(
            "/app-1.0.0.tgz",
            ChartAnswer::Canned(status, vec![("location".into(), target.clone())], vec![]),
        );
        let charts = Bench::new()
            .secret("login", &[("username", "robot"), ("password", "canary")])
            .charts();
        let asked = HelmRepositorySource {
            secret: Some(secret_ref("login")),
            ..source(&home.url(), "app", "*")
        };
        other.forget();
        charts.repository_chart(&asked).await.unwrap();
        assert_eq!(
            other.requests().pop().unwrap().authorization,
            None,
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_login_in_the_address_is_used_and_never_shown() {
    let server = serve(&["1.0.0"]);
    server.require_login("robot", "p@ss/canary");
    let url = server
        .url()
        .replace("http://", "http://robot:p%40ss%2Fcanary@");
    let charts = Bench::new().charts();
    assert_eq!(
        seen(charts.repository_chart(&source(&url, "app", "*")).await).0,
        "1.0.0"
    );
    let error = charts
        .repository_chart(&source(&url, "nope", "*"))
        .await
        .unwrap_err();
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test]
async fn a_path_below_the_host_and_an_absolute_address_are_followed() {
    let server = serve(&["1.0.0"]);
    let archive = chart_archive("sub", "3.0.0", &[]).unwrap();
    server.put("/team/charts/sub-3.0.0.tgz", archive);
    let index = "apiVersion: v1\nentries:\n  sub:\n  - name: sub\n    version: 3.0.0\n    urls: [charts/sub-3.0.0.tgz]\n";
    server.put("/team/index.yaml", index.into());
    let charts = Bench::new().charts();
    for url in [
        format!("{}/team", server.url()),
        format!("{}/team/", server.url()),
    ] {
        assert_eq!(
            seen(charts.repository_chart(&source(&url, "sub", "")).await).0,
            "3.0.0"
        );
    }
}

//! A real registry (the distribution project's), pushed to by the stock helm.

use std::time::{Duration, Instant};

use helm_operator::source::{Freshness, OciSource, Reason, RepositoryUrl};
use testkit::{ChartServer, Lifetime, Registry, RegistryOptions, TokenServer, blob_path};

use crate::{Bench, Opened, secret_ref, seen};

fn open() -> Registry {
    Registry::start(RegistryOptions::default()).unwrap()
}

fn charts(registry: &Registry, bench: &Bench) -> Opened {
    bench.charts_speaking_http(&[registry.host()])
}

fn source(registry: &Registry, name: &str, version: &str) -> OciSource {
    OciSource {
        url: RepositoryUrl::parse(&registry.url(name)).unwrap(),
        tag: None,
        version: Some(version.to_owned()).filter(|text| !text.is_empty()),
        secret: None,
        verify: None,
    }
}

fn with_secret(secret: Option<&str>, source: OciSource) -> OciSource {
    OciSource {
        secret: secret.map(secret_ref),
        ..source
    }
}

#[tokio::test]
async fn charts_are_pulled_by_version_range_and_digest() {
    let registry = open();
    for version in ["1.0.0", "1.1.0+build.7", "2.0.0-rc.1"] {
        registry.push("app", version).unwrap();
    }
    let bench = Bench::new();
    let opened = charts(&registry, &bench);
    for (asked, expected) in [
        ("1.0.0", "1.0.0"),
        ("1.1.0+build.7", "1.1.0+build.7"),
        ("^1", "1.1.0+build.7"),
        ("", "1.1.0+build.7"),
        (">0-0", "2.0.0-rc.1"),
    ] {
        let found = opened
            .registry_chart(&source(&registry, "app", asked))
            .await;
        assert_eq!(seen(found), (expected.into(), expected.into()), "{asked:?}");
    }
    for (name, version, reason) in [
        ("nope", "1.0.0", Reason::ChartNotFound),
        ("nope", "*", Reason::ChartNotFound),
        ("app", "7.0.0", Reason::ChartNotFound),
        ("app", "~7", Reason::VersionNotFound),
        ("app", "x y", Reason::InvalidSource),
    ] {
        let error = opened
            .registry_chart(&source(&registry, name, version))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{name} {version}: {error}");
    }
}

#[tokio::test]
async fn a_registry_that_speaks_no_tls_is_told_as_such_with_what_to_do() {
    let registry = open();
    registry.push("app", "1.0.0").unwrap();
    let bench = Bench::new();
    let opened = bench.charts_speaking_http(&[]);
    let app = source(&registry, "app", "1.0.0");
    let error = opened.registry_chart(&app).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable);
    let text = error.to_string();
    assert!(
        text.contains("does not speak TLS") && text.contains("--plain-http-registries"),
        "{text}"
    );
}

#[tokio::test]
async fn a_private_registry_is_opened_by_a_docker_config_or_a_login() {
    // robot:secret-canary
    let line = helm_operator_test_htpasswd();
    let registry = Registry::start(RegistryOptions {
        htpasswd: Some(&line),
        ..RegistryOptions::default()
    })
    .unwrap();
    registry.login("robot", "secret-canary").unwrap();
    registry.push("app", "1.0.0").unwrap();
    let docker = format!(
        r#"{{"auths":{{"{}":{{"username":"robot","password":"secret-canary"}}}}}}"#,
        registry.host()
    );
    let bench = Bench::new()
        .secret("docker", &[(".dockerconfigjson", &docker)])
        .secret(
            "login",
            &[("username", "robot"), ("password", "secret-canary")],
        )
        .secret(
            "wrong",
            &[("username", "robot"), ("password", "wrong-canary")],
        );
    let opened = charts(&registry, &bench);
    let asked = |secret| with_secret(secret, source(&registry, "app", "^1"));
    for secret in ["docker", "login"] {
        assert_eq!(
            seen(opened.registry_chart(&asked(Some(secret))).await).0,
            "1.0.0"
        );
    }
    for secret in [None, Some("wrong")] {
        let error = opened.registry_chart(&asked(secret)).await.unwrap_err();
        assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

/// The line for `robot` with the password `secret-canary`.
fn helm_operator_test_htpasswd() -> String {
    format!("robot:{}\n", bcrypt::hash("secret-canary", 4).unwrap())
}

#[tokio::test]
async fn a_tag_that_is_no_version_and_a_digest_are_taken_as_they_are() {
    let registry = open();
    registry.push("app", "1.0.0").unwrap();
    let (digest, manifest) = registry.manifest("app", "1.0.0").unwrap();
    let manifest = String::from_utf8(manifest).unwrap();
    registry.put_manifest("app", "stable", manifest).unwrap();
    let bench = Bench::new();
    let opened = charts(&registry, &bench);
    let stable = OciSource {
        tag: Some("stable".to_owned()),
        ..source(&registry, "app", "^7")
    };
    let found = seen(opened.registry_chart(&stable).await);
    assert_eq!(found, ("stable".into(), "1.0.0".into()));
    let found = seen(
        opened
            .registry_chart(&source(&registry, "app", &digest))
            .await,
    );
    assert_eq!(found, (digest, "1.0.0".into()));
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_when_the_registry_refuses_it() {
    let tokens = TokenServer::start("robot", "secret-canary").unwrap();
    let registry = with_tokens(&tokens);
    let bench = Bench::new().secret("login", &LOGIN);
    let opened = charts(&registry, &bench);
    let asked = |version| with_secret(Some("login"), source(&registry, "app", version));
    // The registry allows a minute more than the token says: this one ends in a few seconds, and
    // its service lies about that.
    tokens.set_lifetime(Lifetime {
        said: Duration::from_secs(3600),
        signed_seconds: -57,
    });
    let before = tokens.issued().len();
    assert_eq!(
        seen(opened.registry_chart(&asked("1.0.0")).await).0,
        "1.0.0"
    );
    assert_eq!(
        tokens.issued().len(),
        before + 1,
        "one token for all requests"
    );
    let token = tokens.issued().pop().unwrap();
    tokens.set_lifetime(Lifetime {
        said: Duration::from_secs(3600),
        signed_seconds: 3600,
    });
    let start = Instant::now();
    while registry.accepts(&token, "app").unwrap() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the token stays good"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for version in ["1.1.0", "1.0.0", "^1"] {
        seen(opened.registry_chart(&asked(version)).await);
    }
    assert_eq!(tokens.issued().len(), before + 2, "renewed once");
}

#[tokio::test]
async fn a_login_that_the_token_service_refuses_is_said_without_it() {
    let tokens = TokenServer::start("robot", "secret-canary").unwrap();
    let registry = with_tokens(&tokens);
    let wrong = [("username", "robot"), ("password", "wrong-canary")];
    let bench = Bench::new().secret("wrong", &wrong);
    let opened = charts(&registry, &bench);
    for secret in [None, Some("wrong")] {
        for version in ["1.0.0", "^1"] {
            let asked = with_secret(secret, source(&registry, "app", version));
            let error = opened.registry_chart(&asked).await.unwrap_err();
            assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("canary") && shown.contains("token"),
                "{shown}"
            );
        }
    }
}

#[tokio::test]
async fn a_token_is_for_pulling_one_chart_only() {
    let tokens = TokenServer::start("robot", "secret-canary").unwrap();
    let registry = with_tokens(&tokens);
    let bench = Bench::new().secret("login", &LOGIN);
    let asked = with_secret(Some("login"), source(&registry, "app", "^1"));
    seen(charts(&registry, &bench).registry_chart(&asked).await);
    let last = tokens.requests().pop().unwrap();
    assert_eq!(last.scope, "repository:team/app:pull");
    assert!(!registry.log().contains("canary"));
}

#[tokio::test]
async fn a_blob_that_is_kept_elsewhere_is_fetched_without_credentials() {
    let storage = ChartServer::start().unwrap();
    let tokens = TokenServer::start("robot", "secret-canary").unwrap();
    let registry = Registry::start(RegistryOptions {
        tokens: Some(&tokens),
        redirect_blobs: Some(&storage.url()),
        ..RegistryOptions::default()
    })
    .unwrap();
    registry.login("robot", "secret-canary").unwrap();
    let archive = registry.push("app", "1.0.0").unwrap();
    let path = blob_path(&archive);
    storage.put(&path, archive);
    storage.forget();
    let bench = Bench::new().secret("login", &LOGIN);
    let asked = with_secret(Some("login"), source(&registry, "app", "1.0.0"));
    assert_eq!(
        seen(charts(&registry, &bench).registry_chart(&asked).await).1,
        "1.0.0"
    );
    let requests = storage.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0].authorization, None);
    assert!(requests[0].path.starts_with(&path), "{requests:?}");
}

#[tokio::test]
async fn tags_are_listed_again_within_the_interval_when_something_has_changed() {
    let registry = open();
    registry.push("app", "1.0.0").unwrap();
    let bench = Bench::new().every(Duration::from_secs(3600));
    let mut opened = charts(&registry, &bench);
    let range = source(&registry, "app", "^1");
    let tag = OciSource {
        tag: Some("1.0.0".to_owned()),
        ..range.clone()
    };
    assert_eq!(seen(opened.registry_chart(&range).await).0, "1.0.0");
    let first = opened.registry_chart(&tag).await.unwrap();
    registry.push("app", "1.1.0").unwrap();
    let (_, manifest) = registry.manifest("app", "1.1.0").unwrap();
    let manifest = String::from_utf8(manifest).unwrap();
    registry.put_manifest("app", "1.0.0", manifest).unwrap();
    assert_eq!(seen(opened.registry_chart(&range).await).0, "1.0.0");
    let unchanged = opened.registry_chart(&tag).await.unwrap();
    assert_eq!(unchanged.digest, first.digest);
    opened.want(Freshness::since(Instant::now()));
    assert_eq!(seen(opened.registry_chart(&range).await).0, "1.1.0");
    let moved = opened.registry_chart(&tag).await.unwrap();
    assert_ne!(moved.digest, first.digest);
}

const LOGIN: [(&str, &str); 2] = [("username", "robot"), ("password", "secret-canary")];

/// With `app` 1.0.0 and 1.1.0, for those with a token.
fn with_tokens(tokens: &TokenServer) -> Registry {
    let registry = Registry::start(RegistryOptions {
        tokens: Some(tokens),
        ..RegistryOptions::default()
    })
    .unwrap();
    registry.login("robot", "secret-canary").unwrap();
    for version in ["1.0.0", "1.1.0"] {
        registry.push("app", version).unwrap();
    }
    registry
}

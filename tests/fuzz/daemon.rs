//! What the daemon reads: HelmReleases, indexes of repositories, webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helm_operator::api::{HelmRelease, odd_input};
use helm_operator::gitsync::StaticSecrets;
use helm_operator::server::{Hooks, hook_routes};
use helm_operator::source::{
    Charts, Freshness, HelmRepositorySource, RepositoryOptions, RepositoryUrl,
};
use testkit::{ChartAnswer, ChartServer, ScratchDir};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::{behaviour, fuzz};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn helm_releases_are_read_or_refused() {
    let seeds = [
        r#"{"apiVersion":"helm.fluxcd.io/v1","kind":"HelmRelease","metadata":{"name":"a","namespace":"b","generation":1},"spec":{"releaseName":"r","targetNamespace":"t","chart":{"git":"https://u:p@h/x","ref":"main","path":"charts/a"},"values":{"x":{"y":[1,null]}},"valuesFrom":[{"secretKeyRef":{"name":"s","key":"k","optional":true}}],"timeout":300,"rollback":{"enable":true,"retry":true,"maxRetries":5},"test":{"enable":true}}}"#,
        r#"{"apiVersion":"helm.fluxcd.io/v1","kind":"HelmRelease","metadata":{"name":"a"},"spec":{"chart":{"repository":"https://h/","name":"n","version":"1.x"},"wait":true,"maxHistory":0,"dependsOn":[{"name":"x"}],"valueFileSecrets":[{"name":"s"}]},"status":{"phase":"Deployed","conditions":[{"type":"Released","status":"True","lastUpdateTime":"2024-01-01T00:00:00Z"}],"observedGeneration":1,"rollbackCount":3}}"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\"5m\"",
        "\"-1s\"",
        "\"chart\":{",
        "\"git\":\"ext::sh -c x\",",
        "\"git\":\"git@h:x\",",
        "\"ref\":\"--upload-pack=x\",",
        "\"path\":\"../..\",",
        "\"releaseName\":\"A_b\",",
        "1e400",
        "\\u0000",
        "\\ud800",
        "\"timeout\":",
        "\"spec\":",
        "\"values\":",
        "\"chart\":[],",
    ];
    fuzz("releases", seeds, pieces, |text| {
        let read = serde_json::from_slice::<HelmRelease>(text);
        if let Ok(release) = &read {
            let odd = odd_input(release, true).len();
            let _ = (
                release.release_name(),
                release.release_key(),
                release.target_namespace(),
            );
            let _ = (
                odd,
                release.spec.chart.choose().is_ok(),
                release.spec.timeout(),
            );
        }
        behaviour(&read.map(|release| format!("{:?}", release.spec)))
    });
}

#[test]
fn indexes_are_read_or_refused() {
    let server = ChartServer::start().unwrap();
    let scratch = ScratchDir::new("fuzz-index").unwrap();
    let runtime = runtime();
    let seeds = [
        "apiVersion: v1\nentries:\n  app:\n  - apiVersion: v2\n    name: app\n    version: 1.2.3\n    digest: abc\n    urls: [app-1.2.3.tgz]\n    created: 2024-01-01T00:00:00Z\n  - {name: app, version: 2.0.0-rc.1, urls: ['http://h/x.tgz'], deprecated: true}\n  other: []\ngenerated: 2024-01-01T00:00:00Z\n",
        "{\"apiVersion\":\"v1\",\"entries\":{\"app\":[{\"name\":\"app\",\"version\":\"1.0.0\",\"urls\":[\"a.tgz\"]},null,{}]}}",
        "entries:\n  app: &a\n  - &b {name: app, version: '1'}\n  - *b\n  ..: *a\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "entries:\n",
        "  app:\n",
        "  - name: app\n",
        "    version: 1.0.0\n",
        "    urls: []\n",
        "    urls: ['file:///etc/passwd']\n",
        "null",
        "{}",
        "[]",
        "&a ",
        "*a",
        "- ",
        ": ",
        "\n  ",
        "\"",
        "\\u001b",
        "version: '1.0.0'\n",
        "apiVersion: v9\n",
        "..",
        "{",
        "[",
    ];
    let options = RepositoryOptions {
        index_bytes: 1 << 20,
        archive_bytes: 1 << 20,
        ..RepositoryOptions::new(scratch.join("cache"))
    };
    let charts = runtime
        .block_on(async { Charts::new(options, Arc::new(StaticSecrets::default())) })
        .unwrap();
    let runs = AtomicU64::new(0);
    fuzz("index", seeds, pieces, |text| {
        // A repository of its own: a bad one is left alone for a while.
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let path = format!("/{run}/index.yaml");
        server.answer(&path, ChartAnswer::Canned(200, Vec::new(), text.to_vec()));
        let url = format!("{}/{run}", server.url());
        let source = HelmRepositorySource {
            url: RepositoryUrl::parse_chart_repository(&url).unwrap(),
            name: "app".to_owned(),
            version: Some("*".to_owned()),
            secret: None,
            pull_secret: None,
            verify: None,
        };
        let outcome = runtime.block_on(charts.from_repository(&source, Freshness::by_interval()));
        server.heal(&path);
        server.forget();
        let outcome = outcome.map_err(|error| error.to_string().replace(&url, ""));
        behaviour(&outcome.map(|artifact| artifact.revision))
    });
}

const SECRET: &str = "canary";

#[test]
fn webhooks_of_every_provider_are_answered() {
    let scratch = ScratchDir::new("fuzz-hooks").unwrap();
    let path = scratch.join("secrets");
    std::fs::write(&path, SECRET).unwrap();
    let runtime = runtime();
    let router = hook_routes(Hooks::new(Some(path), Arc::new(|_| 1)));
    let seeds = [
        r#"{"ref":"refs/heads/main","repository":{"clone_url":"https://h/a/b.git","ssh_url":"git@h:a/b.git","git_url":"git://h/a/b","html_url":"https://h/a/b"}}"#,
        r#"{"object_kind":"push","project":{"git_http_url":"https://h/a/b.git","git_ssh_url":"git@h:a/b.git","http_url":"x"}}"#,
        r#"{"push":{"changes":[]},"repository":{"full_name":"a/b","links":{"html":{"href":"https://bitbucket.org/a/b"},"clone":[{"href":"ssh://git@h:7999/a/b.git","name":"ssh"}]}}}"#,
        r#"{"gitUrl":"https://h/a/b.git"}"#,
        "",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\"repository\":",
        "\"url\":\"file:///etc\"",
        "\"href\":1,",
        "\\u0000",
        "\\ud800",
        "1e400",
        "git@h:",
        "https://",
        "[::1]",
        ":99999",
        "%00",
        "\"links\":{\"clone\":",
        "@",
    ];
    fuzz("webhooks", seeds, pieces, |text| {
        let mut statuses = String::new();
        for provider in ["github", "gitlab", "gitea", "bitbucket", "generic"] {
            let response = runtime.block_on(router.clone().oneshot(request(provider, text)));
            let status = response.unwrap().status();
            assert!(!status.is_server_error(), "{provider}: {status}");
            statuses.push_str(status.as_str());
        }
        behaviour(&Err::<Vec<u8>, _>(
            statuses
                .replace('0', "o")
                .replace('2', "t")
                .replace('4', "f"),
        ))
    });
}

fn request(provider: &str, text: &[u8]) -> axum::http::Request<axum::body::Body> {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature: String = aws_lc_rs::hmac::sign(&key, text)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    axum::http::Request::post(format!("/hook/{provider}"))
        .header("x-hub-signature-256", format!("sha256={signature}"))
        .header("x-hub-signature", format!("sha256={signature}"))
        .header("x-gitea-signature", &signature)
        .header("x-gitlab-token", SECRET)
        .header("x-github-event", "push")
        .header("x-gitlab-event", "Push Hook")
        .header("x-gitea-event", "push")
        .header("x-event-key", "repo:push")
        .body(text.to_vec().into())
        .unwrap()
}

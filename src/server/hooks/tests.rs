use std::sync::Mutex;

use axum::http::{HeaderName, HeaderValue, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const SECRET: &str = "canary-secret";

type Synced = Arc<Mutex<Vec<String>>>;

struct Rig {
    url: String,
    address: std::net::SocketAddr,
    synced: Synced,
    directory: tempfile::TempDir,
}

impl Rig {
    /// The routes on loopback; every mirror that is asked for exists.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(
            directory.path().join("secret"),
            format!("old-secret\n{SECRET}\n"),
        )
        .unwrap();
        Self::with(directory, true).await
    }

    async fn with(directory: tempfile::TempDir, secrets: bool) -> Self {
        let synced = Synced::default();
        let noted = Arc::clone(&synced);
        let sync: SyncRepository = Arc::new(move |url| {
            let name = url.map_or_else(|| "all".to_owned(), RepositoryUrl::repository_id);
            noted.lock().unwrap().push(name);
            1
        });
        let path = secrets.then(|| directory.path().to_owned());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = hook_routes(Hooks::new(path, sync));
        tokio::spawn(super::super::serve(
            listener,
            router,
            std::future::pending(),
        ));
        Self {
            url: format!("http://{address}"),
            address,
            synced,
            directory,
        }
    }

    async fn send(&self, provider: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = reqwest::Client::new()
            .post(format!("{}/hook/{provider}", self.url))
            .body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    fn synced(&self) -> Vec<String> {
        std::mem::take(&mut *self.synced.lock().unwrap())
    }
}

fn sign(body: &str) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = aws_lc_rs::hmac::sign(&key, body.as_bytes());
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

const GITHUB: &str = r#"{"ref":"refs/heads/main","after":"0000","repository":{"clone_url":"https://github.com/Team/App.git","ssh_url":"git@github.com:Team/App.git","html_url":"https://github.com/Team/App"}}"#;
const GITLAB: &str = r#"{"object_kind":"push","project":{"git_http_url":"https://gitlab.example/team/app.git","git_ssh_url":"git@gitlab.example:team/app.git"},"repository":{"url":"git@gitlab.example:team/app.git"}}"#;
const BITBUCKET: &str =
    r#"{"repository":{"links":{"html":{"href":"https://bitbucket.org/team/app"}}}}"#;
const BITBUCKET_SERVER: &str = r#"{"repository":{"slug":"app","links":{"self":[{"href":"https://bb.example/projects/TEAM/repos/app/browse"}],"clone":[{"href":"ssh://git@bb.example:7999/team/app.git","name":"ssh"}]}}}"#;

#[tokio::test]
async fn a_signed_hook_of_every_provider_syncs_its_repository_once() {
    let rig = Rig::new().await;
    let signed = |body: &str| format!("sha256={}", sign(body));
    for (provider, headers, body, expected) in [
        (
            "github",
            vec![("x-hub-signature-256", signed(GITHUB))],
            GITHUB,
            vec!["github.com/team/app"],
        ),
        (
            "gitea",
            vec![("x-gitea-signature", sign(GITHUB))],
            GITHUB,
            vec!["github.com/team/app"],
        ),
        (
            "forgejo",
            vec![("x-forgejo-signature", sign(GITHUB))],
            GITHUB,
            vec!["github.com/team/app"],
        ),
        (
            "gitlab",
            vec![("x-gitlab-token", SECRET.into())],
            GITLAB,
            vec!["gitlab.example/team/app"],
        ),
        (
            "bitbucket",
            vec![("x-hub-signature", signed(BITBUCKET))],
            BITBUCKET,
            vec!["bitbucket.org/team/app"],
        ),
        (
            "bitbucket",
            vec![("x-hub-signature", signed(BITBUCKET_SERVER))],
            BITBUCKET_SERVER,
            vec!["bb.example/team/app", "bb.example/scm/team/app"],
        ),
        (
            "generic",
            vec![("x-signature", signed(r#"{"url":"git@h:a"}"#))],
            r#"{"url":"git@h:a"}"#,
            vec!["h/a"],
        ),
        (
            "generic",
            vec![("x-signature", signed(""))],
            "",
            vec!["all"],
        ),
    ] {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let (status, text) = rig.send(provider, &headers, body).await;
        assert_eq!(status, 200, "{provider}: {text}");
        let (mut found, mut expected) = (rig.synced(), expected);
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{provider}");
    }
}

#[tokio::test]
async fn a_form_as_github_sends_it_by_default_is_read() {
    let rig = Rig::new().await;
    let mut url = reqwest::Url::parse("http://h/").unwrap();
    url.query_pairs_mut().append_pair("payload", GITHUB);
    let body = url.query().unwrap().to_owned();
    let signature = format!("sha256={}", sign(&body));
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    assert_eq!(rig.send("github", &headers, &body).await.0, 200);
    assert_eq!(rig.synced(), ["github.com/team/app"]);
}

#[tokio::test]
async fn json_that_curl_calls_a_form_is_read_as_what_it_is() {
    let rig = Rig::new().await;
    for (body, expected) in [
        (r#"{"url":"https://h/team/app"}"#, "h/team/app"),
        (" \n", "all"),
        ("", "all"),
    ] {
        let signature = format!("sha256={}", sign(body));
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-signature", signature.as_str()),
        ];
        let (status, text) = rig.send("generic", &headers, body).await;
        assert_eq!(
            (status, rig.synced()),
            (200, vec![expected.into()]),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_generic_hook_that_names_nothing_does_not_mean_all() {
    let rig = Rig::new().await;
    for body in [
        "{}",
        r#"{"ulr":"https://h/team/app"}"#,
        r#"{"url":"ext::sh"}"#,
        "payload=%7B%7D",
    ] {
        let signature = format!("sha256={}", sign(body));
        let headers = [("x-signature", signature.as_str())];
        assert_eq!(rig.send("generic", &headers, body).await.0, 400, "{body}");
    }
    assert!(rig.synced().is_empty());
}

#[tokio::test]
async fn s33_a_hook_that_does_not_know_the_secret_does_nothing() {
    let rig = Rig::new().await;
    let forged = format!("sha256={}", sign("other body"));
    let sha1 = "sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709".to_owned();
    for (provider, headers) in [
        ("github", vec![]),
        ("github", vec![("x-hub-signature-256", forged.as_str())]),
        ("github", vec![("x-hub-signature-256", "sha256=")]),
        ("github", vec![("x-hub-signature", sha1.as_str())]),
        ("github", vec![("x-gitlab-token", SECRET)]),
        ("gitlab", vec![("x-gitlab-token", "wrong")]),
        ("gitlab", vec![("x-gitlab-token", "")]),
        ("gitea", vec![("x-gitea-signature", "zz")]),
        ("bitbucket", vec![("x-hub-signature", sha1.as_str())]),
        ("generic", vec![]),
    ] {
        let (status, text) = rig.send(provider, &headers, GITHUB).await;
        assert_eq!(status, 401, "{provider} {headers:?}: {text}");
        assert!(!text.contains("canary"));
    }
    assert!(rig.synced().is_empty());
}

#[tokio::test]
async fn without_a_secret_every_hook_is_refused() {
    let rig = Rig::with(tempfile::tempdir().unwrap(), false).await;
    let (status, text) = rig.send("gitlab", &[("x-gitlab-token", "")], GITLAB).await;
    assert_eq!(status, 403);
    assert!(text.contains("--hook-secrets"), "{text}");
    let empty = Rig::with(tempfile::tempdir().unwrap(), true).await;
    assert_eq!(
        empty
            .send("gitlab", &[("x-gitlab-token", "")], GITLAB)
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn a_rotated_secret_is_taken_without_a_restart() {
    let rig = Rig::new().await;
    let file = rig.directory.path().join("gitlab");
    assert_eq!(
        rig.send("gitlab", &[("x-gitlab-token", "old-secret")], GITLAB)
            .await
            .0,
        200
    );
    std::fs::write(file, "new-secret\n").unwrap();
    assert_eq!(
        rig.send("gitlab", &[("x-gitlab-token", "old-secret")], GITLAB)
            .await
            .0,
        401
    );
    assert_eq!(
        rig.send("gitlab", &[("x-gitlab-token", "new-secret")], GITLAB)
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn events_that_change_no_ref_do_nothing() {
    let rig = Rig::new().await;
    let signature = format!("sha256={}", sign(GITHUB));
    for event in ["ping", "issues", "star"] {
        let headers = [
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-event", event),
        ];
        assert_eq!(rig.send("github", &headers, GITHUB).await.0, 200, "{event}");
    }
    assert!(rig.synced().is_empty());
    let headers = [
        ("x-hub-signature-256", signature.as_str()),
        ("x-github-event", "push"),
    ];
    rig.send("github", &headers, GITHUB).await;
    assert_eq!(rig.synced().len(), 1);
}

#[tokio::test]
async fn s34_bodies_that_are_no_hook_are_refused() {
    let rig = Rig::new().await;
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"repository":7}"#,
        r#"{"repository":{"clone_url":"ext::sh"}}"#,
        &deep,
    ] {
        let signature = format!("sha256={}", sign(body));
        let (status, _) = rig
            .send("github", &[("x-hub-signature-256", &signature)], body)
            .await;
        assert_eq!(status, 400, "{}", &body[..body.len().min(40)]);
    }
    assert!(rig.synced().is_empty());
    assert_eq!(rig.send("nobody", &[], "").await.0, 404);
}

#[tokio::test]
async fn s34_a_body_above_the_limit_is_refused_before_it_is_read() {
    let rig = Rig::new().await;
    let mut stream = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    let request = format!(
        "POST /hook/github HTTP/1.1\r\nhost: h\r\nx-hub-signature-256: sha256={}\r\ncontent-length: 1073741824\r\n\r\n",
        "0".repeat(64)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64];
    let count = stream.read(&mut answer).await.unwrap();
    assert!(
        answer[..count].starts_with(b"HTTP/1.1 413"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn s34_a_body_of_unknown_length_is_cut_at_the_limit() {
    let chunks =
        futures::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b' '; 100_000])));
    let request = Request::new(Body::from_stream(chunks));
    let refused = read(&HeaderMap::new(), request.into_body()).await;
    assert_eq!(refused.unwrap_err(), Refusal::TooLarge);
}

#[tokio::test(start_paused = true)]
async fn s34_a_body_that_never_ends_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), SECRET).unwrap();
    let hooks = Hooks::new(Some(directory.path().to_owned()), Arc::new(|_| 1));
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&"0".repeat(64)).unwrap();
    headers.insert(HeaderName::from_static("x-signature"), value);
    let silent = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let refused = answer(&hooks, "generic", &headers, silent).await;
    assert_eq!(refused.unwrap_err(), Refusal::TooSlow);
}

proptest::proptest! {
    #[test]
    fn s34_no_body_makes_the_reader_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        for provider in [Provider::GitHub, Provider::GitLab, Provider::Gitea, Provider::Bitbucket, Provider::Generic] {
            let _ = payload::urls(provider, &HeaderMap::new(), &body);
        }
    }

    #[test]
    fn s34_no_signature_makes_the_reader_panic(text in ".{0,80}") {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert("x-signature", value);
        }
        let _ = verify::proof(Provider::Generic, &headers);
    }
}

//! Git as users see it on HelmReleases: hooks, states, submodules, signatures, the verbs, and no secret anywhere.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;
use testkit::{ControlPlane, GitOptions, GitRepository, GitServer, Options, Rig, ScratchDir};

use crate::support::{BINARY, LIMIT, Solo, condition, kubectl, message, text, write_chart};

const SECRET: &str = "canary-hook-5a1e";

/// A server whose certificate the daemon trusts by its flags, and that wants a login.
fn private_server() -> &'static GitServer {
    static SERVER: OnceLock<GitServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = GitOptions {
            tls: true,
            credentials: Some(("alice".into(), "inner".into())),
            ..GitOptions::default()
        };
        GitServer::start(options).unwrap()
    })
}

/// A control plane of its own: the daemon logs everything, polls only when told, and takes hooks.
fn rig() -> &'static Rig<'static> {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    static RIG: OnceLock<Rig<'static>> = OnceLock::new();
    RIG.get_or_init(|| {
        let plane = PLANE.get_or_init(|| ControlPlane::start(Options::default()).unwrap());
        let secrets = hook_secrets();
        let authority = private_server().certificate_authority_file().unwrap();
        let authority = format!("--git-ca-file={}", authority.display());
        let flags = [
            "--workers=4",
            "--charts-sync-interval=10m",
            "--git-poll-interval=1h",
            "--git-timeout=5s",
            "--status-update-interval=1s",
            "--log-level=trace",
            &secrets,
            &authority,
        ];
        Rig::start(plane, BINARY, &flags).unwrap()
    })
}

/// The flag with the secrets of hooks.
fn hook_secrets() -> String {
    static SECRETS: OnceLock<ScratchDir> = OnceLock::new();
    let secrets = SECRETS.get_or_init(|| {
        let secrets = ScratchDir::new("hooks").unwrap();
        std::fs::write(secrets.join("secret"), SECRET).unwrap();
        secrets
    });
    format!("--hook-secrets={}", secrets.path().display())
}

/// A release whose daemon nobody else asks to look at its repository.
fn hooked(name: &str) -> Solo<'static> {
    let solo = Solo::new(name, &["--git-poll-interval=1h", &hook_secrets()]);
    solo.install("hello");
    solo
}

/// A namespace with a repository of its own.
struct Site {
    rig: &'static Rig<'static>,
    namespace: String,
    repository: GitRepository,
}

impl Site {
    fn new(name: &str) -> Self {
        let rig = rig();
        let namespace = rig.plane.namespace(name).unwrap();
        let repository = rig.git.repository(&namespace).unwrap();
        write_chart(&repository, "1.0.0");
        repository.commit("Add the chart").unwrap();
        Self {
            rig,
            namespace,
            repository,
        }
    }

    /// Applies a HelmRelease of the chart at `url`; `more` are further fields of its chart.
    fn apply_from(&self, url: &str, more: &str) {
        self.apply_as("hello", url, more);
    }

    fn apply_as(&self, name: &str, url: &str, more: &str) {
        let manifest = format!(
            "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: {name}}}\nspec:\n  \
             releaseName: {name}\n  chart: {{git: \"{url}\", path: charts/hello{more}}}\n"
        );
        self.rig.apply(&self.namespace, &manifest).unwrap();
    }

    fn secret(&self, name: &str, entries: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name}, "stringData": data});
        self.rig
            .apply(&self.namespace, &secret.to_string())
            .unwrap();
    }

    fn ready(&self) -> Value {
        self.rig
            .wait_until_ready(&self.namespace, "hello", LIMIT)
            .unwrap()
    }

    fn wait(&self, enough: impl Fn(&Value) -> bool) -> Value {
        self.rig
            .wait_for(&self.namespace, "hello", LIMIT, enough)
            .unwrap()
    }

    fn fails_with(&self, reason: &str) -> Value {
        self.wait(|release| condition(release, "Ready") == format!("False {reason}"))
    }

    /// Type, reason and text of each Event of the namespace.
    fn events(&self) -> Vec<String> {
        let path = format!("/api/v1/namespaces/{}/events", self.namespace);
        let list = self.rig.plane.get(&path).unwrap();
        let events = list["items"].as_array().unwrap().iter();
        let line = |event: &Value| {
            let [kind, reason, message] =
                ["/type", "/reason", "/message"].map(|pointer| text(event, pointer));
            format!("{kind} {reason} {message}")
        };
        events.map(line).collect()
    }

    fn told(&self, start: &str) {
        let end = std::time::Instant::now() + LIMIT;
        while !self.events().iter().any(|event| event.starts_with(start)) {
            let events = self.events();
            assert!(
                std::time::Instant::now() < end,
                "no {start:?} in {events:#?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn pushed(&self) {
        assert_eq!(self.rig.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    }

    /// What `sync` prints of a release as JSON, whatever its exit code is.
    fn sync(&self, name: &str) -> Value {
        let mut ours = Command::new(BINARY);
        ours.env("KUBECONFIG", self.rig.plane.kubeconfig());
        ours.args(["sync", name, "--output=json", "--namespace"]);
        let output = ours.arg(&self.namespace).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let is_synced = report["outcome"] == "Synced";
        assert_eq!(
            output.status.code(),
            Some(i32::from(!is_synced)),
            "{report}"
        );
        report
    }

    /// Runs the binary against the daemon; what it prints, or why it fails.
    fn ours(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut ours = Command::new(BINARY);
        ours.env("KUBECONFIG", self.rig.plane.kubeconfig())
            .env("HELM_OPERATOR_SERVER", self.rig.daemon.url("/"));
        testkit::run(ours.args(arguments))
    }
}

/// POSTs a hook as a provider does; the status.
fn hook(rig: &Rig<'_>, provider: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = rig.daemon.url(&format!("/hook/{provider}"));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = runtime.block_on(request.send()).unwrap();
    answer.status().as_u16()
}

/// The HMAC of a body, as a provider signs it.
fn signature(secret: &str, body: &str) -> String {
    use aws_lc_rs::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    tag.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// What each provider says of a push to the repository at `url`: its name, the header of its signature, what that holds
/// when it is made with `secret`, and the body.
fn hooks(url: &str, secret: &str) -> Vec<(&'static str, &'static str, String, String)> {
    let ssh = url.replace("http://", "ssh://git@");
    let bodies = [
        (
            "github",
            "x-hub-signature-256",
            format!(r#"{{"repository":{{"clone_url":"{url}"}}}}"#),
        ),
        (
            "gitlab",
            "x-gitlab-token",
            format!(r#"{{"project":{{"git_ssh_url":"{ssh}"}}}}"#),
        ),
        (
            "gitea",
            "x-gitea-signature",
            format!(r#"{{"repository":{{"clone_url":"{url}"}}}}"#),
        ),
        (
            "bitbucket",
            "x-hub-signature",
            format!(r#"{{"repository":{{"links":{{"html":{{"href":"{url}"}}}}}}}}"#),
        ),
        ("generic", "x-signature", format!(r#"{{"url":"{url}"}}"#)),
    ];
    let signed = bodies.map(|(provider, header, body)| {
        let signature = match provider {
            "gitlab" => secret.to_owned(),
            "gitea" => signature(secret, &body),
            _ => format!("sha256={}", signature(secret, &body)),
        };
        (provider, header, signature, body)
    });
    signed.into()
}

#[test]
fn a_signed_hook_of_each_kind_brings_a_push_into_the_cluster_and_a_forged_one_does_not() {
    let solo = hooked("hook");
    let url = solo.repository.url();
    let path = url.rsplit('/').next().unwrap();
    let asked = || solo.rig.git.traffic().count();
    let before = asked();
    for (provider, header, forged, body) in hooks(url, "a guess") {
        assert_eq!(
            hook(&solo.rig, provider, &[(header, &forged)], &body),
            401,
            "{provider}"
        );
        assert_eq!(
            hook(&solo.rig, provider, &[(header, "")], &body),
            401,
            "{provider}"
        );
        assert_eq!(hook(&solo.rig, provider, &[], &body), 401, "{provider}");
    }
    assert_eq!(asked(), before, "a forged hook asks nobody");
    for (number, (provider, header, signed, body)) in hooks(url, SECRET).into_iter().enumerate() {
        write_chart(&solo.repository, &format!("1.{}.0", number + 1));
        let pushed = solo.repository.commit(provider).unwrap();
        let other = body.replace(path, "other.git");
        if header != "x-gitlab-token" {
            assert_eq!(
                hook(&solo.rig, provider, &[(header, &signed)], &other),
                401,
                "{provider}"
            );
        }
        assert_eq!(
            hook(&solo.rig, provider, &[(header, &signed)], &body),
            200,
            "{provider}"
        );
        solo.wait("hello", |release| {
            text(release, "/status/revision") == pushed
        });
    }
}

#[test]
fn a_flood_of_hooks_for_unknown_and_known_repositories_asks_nobody_often() {
    let solo = hooked("flood");
    let asked = || solo.rig.git.traffic().count();
    let before = asked();
    for number in 0..200 {
        let unknown = format!(r#"{{"project":{{"git_http_url":"https://h/{number}"}}}}"#);
        assert_eq!(
            hook(&solo.rig, "gitlab", &[("x-gitlab-token", SECRET)], &unknown),
            200
        );
        let known = format!(
            r#"{{"project":{{"git_http_url":"{}"}}}}"#,
            solo.repository.url()
        );
        assert_eq!(
            hook(&solo.rig, "gitlab", &[("x-gitlab-token", SECRET)], &known),
            200
        );
    }
    // The pause between two polls without news doubles from a quarter of a second.
    let polls = asked() - before;
    assert!(polls < 12, "{polls} requests for 200 hooks");
}

#[test]
fn r16_a_remote_that_goes_away_is_told_and_the_last_good_release_stays() {
    let site = Site::new("away");
    let mut server = GitServer::start(GitOptions::default()).unwrap();
    let repository = server.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    site.apply_from(repository.url(), "");
    site.ready();
    server.stop();
    site.pushed();
    let is_told = |release: &Value| condition(release, "ChartFetched").starts_with("False");
    let told = site.wait(is_told);
    let said = message(&told, "ChartFetched");
    assert!(
        said.contains("Unreachable: ") && said.ends_with("the last good commit stays in use"),
        "{said}"
    );
    assert!(condition(&told, "Ready").starts_with("True"), "{told:#}");
    assert_eq!(text(&told, "/status/phase"), "Succeeded");
    site.told("Warning Unreachable");
    let sources = site.ours(&["sources"]).unwrap();
    assert!(sources.contains("Unreachable"), "{sources}");

    server.resume().unwrap();
    write_chart(&repository, "1.1.0");
    let second = repository.commit("Release 1.1.0").unwrap();
    site.pushed();
    let healed = site.wait(|release| text(release, "/status/revision") == second);
    assert_eq!(condition(&healed, "ChartFetched"), "True ChartFetched");
}

#[test]
fn credentials_that_are_refused_are_told_and_their_rotation_heals() {
    let site = Site::new("auth");
    let options = GitOptions {
        credentials: Some(("alice".into(), "one".into())),
        ..GitOptions::default()
    };
    let server = GitServer::start(options).unwrap();
    let repository = server.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    site.secret("login", &[("username", "alice"), ("password", "wrong")]);
    site.apply_from(repository.url(), ", secretRef: {name: login}");
    let failed = site.fails_with("AuthFailed");
    assert!(
        message(&failed, "Ready").contains("secret"),
        "{}",
        message(&failed, "Ready")
    );
    site.secret("login", &[("username", "alice"), ("password", "one")]);
    site.pushed();
    site.ready();

    // Rotated on the server first: what runs stays, and the cause is told.
    server.set_credentials(Some(("alice", "two")));
    write_chart(&repository, "1.1.0");
    let second = repository.commit("Release 1.1.0").unwrap();
    site.pushed();
    let told = site.wait(|release| condition(release, "ChartFetched").starts_with("False"));
    let said = message(&told, "ChartFetched");
    assert!(said.contains(": AuthFailed: "), "{said}");
    assert!(condition(&told, "Ready").starts_with("True"), "{told:#}");
    site.secret("login", &[("username", "alice"), ("password", "two")]);
    site.pushed();
    let healed = site.wait(|release| text(release, "/status/revision") == second);
    assert_eq!(condition(&healed, "ChartFetched"), "True ChartFetched");
}

#[test]
fn a_login_of_another_namespace_is_used_unless_that_is_forbidden() {
    // Forbidden it is in tests/cluster/hostile.rs.
    let site = Site::new("borrower");
    let lender = site.rig.plane.namespace("lender").unwrap();
    let options = GitOptions {
        credentials: Some(("alice".into(), "lent".into())),
        ..GitOptions::default()
    };
    let server = GitServer::start(options).unwrap();
    let repository = server.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {username: alice, password: lent}\n";
    site.rig.apply(&lender, secret).unwrap();
    site.apply_from(repository.url(), ", secretRef: {name: login}");
    let failed = site.fails_with("AuthFailed");
    let said = message(&failed, "Ready");
    assert!(
        said.contains("does not exist"),
        "one's own is meant: {said}"
    );
    let elsewhere = format!(", secretRef: {{name: login, namespace: {lender}}}");
    site.apply_from(repository.url(), &elsewhere);
    site.ready();
}

#[test]
fn a_renamed_default_branch_is_followed() {
    let site = Site::new("renamed");
    site.apply_from(site.repository.url(), "");
    site.ready();
    site.repository.branch("trunk").unwrap();
    let bare = site.repository.bare().to_str().unwrap();
    let head = ["-C", bare, "symbolic-ref", "HEAD", "refs/heads/trunk"];
    site.repository.git(&head).unwrap();
    site.repository.delete_branch("main").unwrap();
    write_chart(&site.repository, "1.1.0");
    let second = site.repository.commit("On trunk").unwrap();
    site.pushed();
    let ready = site.wait(|release| text(release, "/status/revision") == second);
    assert_eq!(condition(&ready, "ChartFetched"), "True ChartFetched");
}

#[test]
fn mirrors_are_polled_by_a_cron_schedule() {
    let every_other_second = "--git-poll-interval=*/2 * * * * *";
    let solo = Solo::new("cron", &[every_other_second]);
    solo.install("hello");
    for version in ["1.1.0", "1.2.0"] {
        let commit = solo.push(version);
        solo.deployed("hello", &commit);
    }
    let never = Solo::new("yearly", &["--git-poll-interval=0 0 30 2 *"]);
    never.install("hello");
    let asked = never.rig.git.traffic().count();
    let commit = never.push("1.1.0");
    // Longer than the other one's schedule with its jitter took.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(never.rig.git.traffic().count(), asked, "it is not due");
    assert_eq!(
        never.rig.daemon.post("/api/v1/sync-git", "").unwrap().0,
        200
    );
    never.deployed("hello", &commit);
}

#[test]
fn submodules_are_read_with_the_credentials_of_their_own_host() {
    let site = Site::new("submodule");
    let options = GitOptions {
        credentials: Some(("alice".into(), "outer".into())),
        ..GitOptions::default()
    };
    let outer = GitServer::start(options).unwrap();
    let inner = private_server();
    let library = inner.repository("library").unwrap();
    library
        .write("map.yaml", crate::support::TEMPLATE.replace("hello", "hi"))
        .unwrap();
    let commit = library.commit("first").unwrap();
    let repository = outer.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository
        .write("charts/hello/templates/map.yaml", "")
        .unwrap();
    let url = library.url().replace("127.0.0.1", "localhost");
    let place = "charts/hello/templates/common";
    repository.commit_submodule(place, &url, &commit).unwrap();
    site.secret("outer", &[("username", "alice"), ("password", "outer")]);
    // The Secret of one host is not shown to another: the daemon's own login for it is.
    std::fs::write(
        site.rig.daemon.directory().join(".netrc"),
        "machine localhost login alice password inner\n",
    )
    .unwrap();
    let more = ", secretRef: {name: outer}, submodules: true";
    site.apply_from(repository.url(), more);
    site.ready();
    let path = format!("/api/v1/namespaces/{}/configmaps/hello", site.namespace);
    let map = site.rig.plane.get(&path).unwrap();
    assert_eq!(text(&map, "/data/greeting"), "hello");
    let exchanges = inner.traffic().exchanges();
    assert!(!exchanges.is_empty());
    let outer_login = base64::engine::general_purpose::STANDARD.encode("alice:outer");
    for exchange in exchanges {
        let shown = exchange.authorization.unwrap_or_default();
        assert!(!shown.contains(&outer_login));
    }
}

#[test]
fn an_lfs_pointer_in_place_of_values_is_told() {
    let site = Site::new("lfs");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    site.repository
        .commit_file("charts/hello/values.yaml", pointer)
        .unwrap();
    site.apply_from(site.repository.url(), "");
    let failed = site.fails_with("LfsPointer");
    let said = message(&failed, "Ready");
    assert!(said.contains("values.yaml is an LFS pointer"), "{said}");
}

#[test]
fn only_commits_with_a_signature_of_the_secret_are_released() {
    let site = Site::new("signed");
    let keys = ScratchDir::new("signing").unwrap();
    let key = keys.join("key");
    let mut make = Command::new("ssh-keygen");
    make.args(["-q", "-N", "", "-t", "ed25519", "-f"]).arg(&key);
    if make.status().is_err() {
        eprintln!("skipped: ssh-keygen is missing: no signed commit was released");
        return;
    }
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    site.secret("signers", &[("release.pub", &public)]);
    let more = ", verify: {secretRef: {name: signers}}";
    site.apply_from(site.repository.url(), more);
    site.fails_with("SignatureInvalid");
    write_chart(&site.repository, "1.1.0");
    let signed = site.repository.commit_signed("Signed", &key).unwrap();
    site.pushed();
    let ready = site.ready();
    assert_eq!(text(&ready, "/status/revision"), signed);

    write_chart(&site.repository, "1.2.0");
    site.repository.commit("Not signed").unwrap();
    site.pushed();
    site.fails_with("SignatureInvalid");
    let path = format!("/api/v1/namespaces/{}/configmaps/hello", site.namespace);
    assert!(site.rig.plane.get(&path).is_ok(), "the release stays");
    let empty = ", verify: {secretRef: {name: ''}}";
    site.apply_from(site.repository.url(), empty);
    site.fails_with("SourceInvalid");
}

#[test]
fn sync_and_sources_tell_what_the_daemon_does() {
    let site = Site::new("verbs");
    site.apply_from(site.repository.url(), "");
    let ready = site.ready();
    let url = site.repository.url();
    let first = text(&ready, "/status/revision");
    let table = site.ours(&["sources"]).unwrap();
    let row = table.lines().find(|line| line.contains(url)).unwrap();
    let columns: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(columns[1..4], ["Ready", "HEAD", &first[..12]], "{table}");
    let json = site.ours(&["sources", "--output=json"]).unwrap();
    let json: Vec<Value> = serde_json::from_str(&json).unwrap();
    let ours = json.iter().find(|source| source["url"] == url).unwrap();
    assert_eq!(
        (&ours["state"], &ours["releases"]),
        (&"Ready".into(), &1.into())
    );
    assert_eq!(ours["refs"][0]["commit"], first.as_str());

    write_chart(&site.repository, "1.1.0");
    let second = site.repository.commit("Release 1.1.0").unwrap();
    let namespace = format!("--namespace={}", site.namespace);
    let printed = site.ours(&["sync", "hello", &namespace]).unwrap();
    assert!(printed.contains(&second), "{printed}");
    let release = site.rig.release(&site.namespace, "hello").unwrap();
    assert_eq!(text(&release, "/status/revision"), second);

    let everything = site
        .ours(&["sync"])
        .unwrap_or_else(|error| error.to_string());
    assert!(everything.contains(url), "{everything}");
    let mut ours = Command::new(BINARY);
    ours.args([
        "sync",
        "--output=json",
        "--server",
        &site.rig.daemon.url("/"),
    ]);
    let all: Vec<Value> = serde_json::from_slice(&ours.output().unwrap().stdout).unwrap();
    assert!(all.iter().any(|source| source["url"] == url), "{all:?}");
    let missing = site.ours(&["sync", "none", &namespace]).unwrap_err();
    assert!(format!("{missing:#}").contains("not found"), "{missing:#}");
    let deaf = ["sources", "--server=http://127.0.0.1:1"];
    let deaf = format!("{:#}", site.ours(&deaf).unwrap_err());
    assert!(deaf.contains("no daemon answers"), "{deaf}");

    let report = site.sync("hello");
    assert_eq!(
        (&report["outcome"], &report["revision"]),
        (&"Synced".into(), &second.as_str().into())
    );
    for (path, content, phase) in [
        ("templates/map.yaml", "{{ fail \"no\" }}", "DeployFailed"),
        ("Chart.yaml", "name: [", "ChartFetchFailed"),
    ] {
        let path = format!("charts/hello/{path}");
        let third = site.repository.commit_file(&path, content).unwrap();
        let failed = site.ours(&["sync", "hello", &namespace]).unwrap_err();
        assert!(format!("{failed:#}").contains("not ready"), "{failed:#}");
        let report = site.sync("hello");
        assert_eq!(
            (&report["outcome"], &report["phase"]),
            (&"Failed".into(), &phase.into())
        );
        // The one that failed, or none: never the last that went well.
        let revision = report["revision"].as_str().unwrap_or(&third);
        assert_eq!(revision, third, "{report}");
        let status = site.rig.release(&site.namespace, "hello").unwrap();
        assert_eq!(text(&status, "/status/lastAttemptedRevision"), third);
        let is_fetched = condition(&status, "ChartFetched").starts_with("True");
        assert_eq!(is_fetched, phase != "ChartFetchFailed", "{status:#}");
    }
    let (status, metrics) = site.rig.daemon.get("/metrics").unwrap();
    assert_eq!(status, 200);
    for name in [
        "mirror_age_seconds",
        "mirror_ready",
        "fetch_seconds",
        "requests",
        "received_bytes",
    ] {
        let series = format!("helm_operator_git_{name}{{url=\"{url}\"}} ");
        assert!(metrics.contains(&series), "{series} in {metrics}");
    }

    let suspend = r#"{"spec":{"suspend":true}}"#;
    let patch = ["patch", "hr", "hello", "--type=merge", "--patch", suspend];
    kubectl(site.rig.plane, &site.namespace, &patch);
    let suspended = site.ours(&["sync", "hello", &namespace]).unwrap_err();
    let suspended = format!("{suspended:#}");
    assert!(
        suspended.contains("is suspended and was not synced"),
        "{suspended}"
    );
    assert_eq!(site.sync("hello")["outcome"], "Suspended");
}

#[test]
fn s30_no_credential_of_a_source_is_in_anything_that_the_daemon_says() {
    let site = Site::new("canary");
    let options = GitOptions {
        credentials: Some(("alice".into(), "canary-right-01".into())),
        ..GitOptions::default()
    };
    let server = GitServer::start(options).unwrap();
    let repository = server.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let canaries = [
        "canary-right-01",
        "canary-wrong-02",
        "canary-inline-03",
        "canary-token-04",
        "canary-key-05",
        "canary-forged-06",
        "canary-module-07",
        "canary-lfs-08",
        SECRET,
    ];
    site.secret("right", &[("username", "alice"), ("password", canaries[0])]);
    site.secret("wrong", &[("username", "alice"), ("password", canaries[1])]);
    site.secret("token", &[("bearerToken", canaries[3])]);
    site.secret(
        "key",
        &[("identity", canaries[4]), ("known_hosts", canaries[4])],
    );
    let inline = format!("http://alice:{}@", canaries[2]);
    let inline = repository.url().replace("http://", &inline);
    let ssh = "ssh://git@127.0.0.1:1/x";
    // Repositories may hold logins themselves: for a submodule, for the place of large files.
    let careless = server.repository("careless").unwrap();
    write_chart(&careless, "1.0.0");
    let lfs = format!(
        "[lfs]\n\turl = http://alice:{}@127.0.0.1:1/lfs\n",
        canaries[7]
    );
    careless.write(".lfsconfig", lfs).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    careless
        .write("charts/pointer/Chart.yaml", pointer)
        .unwrap();
    let module = format!("http://alice:{}@", canaries[6]);
    let module = repository.url().replace("http://", &module);
    // On another host: on the same one the Secret of the release would be used.
    let module = module.replace("127.0.0.1", "localhost");
    let commit = repository.head().unwrap();
    careless
        .commit_submodule("charts/hello/sub", &module, &commit)
        .unwrap();
    let careless = careless.url();
    for (name, url, more) in [
        ("hello", repository.url(), ", secretRef: {name: right}"),
        ("wrong", repository.url(), ", secretRef: {name: wrong}"),
        ("token", repository.url(), ", secretRef: {name: token}"),
        ("key", ssh, ", secretRef: {name: key}"),
        ("inline", inline.as_str(), ""),
        (
            "module",
            careless,
            ", secretRef: {name: right}, submodules: true",
        ),
    ] {
        site.apply_as(name, url, more);
    }
    for secret in [SECRET, "canary-forged-06"] {
        for (provider, header, signed, body) in hooks(repository.url(), secret) {
            hook(site.rig, provider, &[(header, &signed)], &body);
        }
    }
    site.ready();
    let pointer = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: pointer}}\nspec:\n  \
         chart: {{git: \"{careless}\", path: charts/pointer, secretRef: {{name: right}}}}\n"
    );
    site.rig.apply(&site.namespace, &pointer).unwrap();
    let mut outputs = Vec::new();
    for name in ["wrong", "token", "key", "inline", "module", "pointer"] {
        let failed = site
            .rig
            .wait_for(&site.namespace, name, LIMIT, |release| {
                condition(release, "Ready").starts_with("False")
            })
            .unwrap();
        outputs.push(failed["status"].to_string());
    }
    outputs.push(site.ready()["status"].to_string());
    outputs.push(site.events().join("\n"));
    outputs.push(site.rig.daemon.get("/metrics").unwrap().1);
    outputs.push(site.rig.daemon.get("/api/v1/sources").unwrap().1);
    outputs.push(site.ours(&["sources"]).unwrap());
    let log = site.rig.daemon.log();
    assert!(
        log.contains("TRACE") || log.contains("trace"),
        "it logs all"
    );
    outputs.push(log);
    for canary in canaries {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let (plain, login) = (encode(canary), encode(&format!("alice:{canary}")));
        for shape in [canary, &plain[..16], &login[8..28]] {
            for output in &outputs {
                let line = output.lines().find(|line| line.contains(shape));
                assert_eq!(line, None, "{shape} of {canary}");
            }
        }
    }
}

//! Credentials, certificates, redirects and proxies.

use std::time::Duration;

use helm_operator::gitsync::{GitSource, Reason, SecretRef};
use testkit::{Fault, GitOptions, GitServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    support::{Rig, eventually, moved, noise, reason, url},
    tls::{self, Authority},
};

fn private() -> GitOptions {
    GitOptions {
        credentials: Some(("alice".into(), "p@ss".into())),
        ..GitOptions::default()
    }
}

/// A rig with one chart whose server wants credentials.
fn private_rig() -> Rig {
    Rig::with_chart(private())
}

fn with_secret(mut source: GitSource, secret: SecretRef) -> GitSource {
    source.secret = Some(secret);
    source
}

fn port_of(rig: &Rig) -> u16 {
    url(rig.repository.url()).port().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn basic_credentials_come_from_a_secret_and_cost_no_request() {
    let rig = private_rig();
    let secret = rig
        .secrets
        .set("git", &[("username", "alice"), ("password", "p@ss\n")]);
    let source = with_secret(rig.source("app"), secret);
    rig.use_chart("app", &source).await.unwrap();
    assert_eq!(rig.server.traffic().count(), 3, "they are sent at once");
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.server.traffic().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_url_are_used_and_never_shown() {
    let rig = private_rig();
    let mut source = rig.source("app");
    source.url = url(&rig
        .repository
        .url()
        .replace("http://", "http://alice:p%40ss@"));
    rig.use_chart("app", &source).await.unwrap();
    assert!(!format!("{source:?} {:?}", rig.mirrors.states()).contains("p@ss"));
    source.url = url(&rig
        .repository
        .url()
        .replace("http://", "http://alice:wrong@"));
    let error = rig.mirrors.artifact(&source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::AuthFailed);
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_guesses_the_url_reads_nothing_through_the_mirror_of_another() {
    let rig = private_rig();
    let secret = rig
        .secrets
        .set("git", &[("username", "alice"), ("password", "p@ss")]);
    let bad = rig
        .secrets
        .set("bad", &[("username", "mallory"), ("password", "x")]);
    rig.use_chart("app", &with_secret(rig.source("app"), secret))
        .await
        .unwrap();
    for source in [rig.source("app"), with_secret(rig.source("app"), bad)] {
        assert_eq!(
            reason(rig.mirrors.artifact(&source).await),
            Reason::AuthFailed
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_rotated_credentials_are_taken_at_the_next_poll() {
    let mut rig = private_rig();
    let secret = rig
        .secrets
        .set("git", &[("username", "alice"), ("password", "p@ss")]);
    let source = with_secret(rig.source("app"), secret);
    rig.use_chart("app", &source).await.unwrap();
    rig.server.set_credentials(Some(("alice", "rotated")));
    assert_eq!(rig.poll().await.len(), 1, "AuthFailed is told");
    assert!(rig.mirrors.artifact(&source).await.is_err() || !rig.mirrors.states().is_empty());
    rig.secrets
        .set("git", &[("username", "alice"), ("password", "rotated")]);
    rig.write_chart("app", "two");
    rig.repository.commit("second").unwrap();
    assert_eq!(moved(&rig.poll().await), ["app"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_file_of_the_daemon_is_taken_when_it_changes_and_not_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.crt");
    std::fs::write(&ca_file, Authority::new().pem()).unwrap();
    let tls = GitOptions {
        tls: true,
        ..GitOptions::default()
    };
    let rig = Rig::with(tls, |options| {
        options.daemon_credentials.ca_file = Some(ca_file.clone());
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    let source = rig.source("app");
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::HostKeyMismatch, "{error}");
    let tries = || rig.mirrors.states().first().unwrap().requests;
    let before = tries();
    // Longer than the watch waits for more changes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(tries() <= before + 1, "{} tries", tries());
    std::fs::write(&ca_file, rig.server.certificate_authority().unwrap()).unwrap();
    eventually(|| rig.mirrors.states().first()?.last_success.map(drop)).await;
    rig.mirrors.artifact(&source).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_and_missing_credentials_say_what_to_do() {
    let rig = private_rig();
    let missing = SecretRef {
        namespace: "team".into(),
        name: "absent".into(),
    };
    let error = rig
        .mirrors
        .artifact(&with_secret(rig.source("app"), missing))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "secret team/absent does not exist");
    assert_eq!(error.reason(), Reason::AuthFailed);
    let error = rig.mirrors.artifact(&rig.source("app")).await.unwrap_err();
    assert!(
        error.to_string().contains("spec.chart.secretRef"),
        "{error}"
    );
    let wrong = rig
        .secrets
        .set("wrong", &[("username", "alice"), ("password", "canary")]);
    let error = rig
        .mirrors
        .artifact(&with_secret(rig.source("app"), wrong))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("refuses the credentials of secret team/wrong"),
        "{error}"
    );
    assert!(!error.to_string().contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_is_sent_as_one() {
    let rig = Rig::with_chart(GitOptions::default());
    let secret = rig.secrets.set("git", &[("bearerToken", "t0ken\n")]);
    rig.use_chart("app", &with_secret(rig.source("app"), secret))
        .await
        .unwrap();
    let exchanges = rig.server.traffic().exchanges();
    assert!(
        exchanges
            .iter()
            .all(|e| e.authorization.as_deref() == Some("Bearer t0ken"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_through_the_secret_only() {
    let rig = Rig::with_chart(GitOptions {
        tls: true,
        ..GitOptions::default()
    });
    let error = rig.mirrors.artifact(&rig.source("app")).await.unwrap_err();
    assert_eq!(error.reason(), Reason::HostKeyMismatch, "{error}");
    let ca = rig.server.certificate_authority().unwrap().to_owned();
    for key in ["caFile", "ca.crt"] {
        let secret = rig.secrets.set(key, &[(key, &ca)]);
        rig.use_chart(key, &with_secret(rig.source("app"), secret))
            .await
            .unwrap();
    }
    let secret = rig.secrets.set("bad", &[("caFile", "no certificate")]);
    let error = rig
        .mirrors
        .artifact(&with_secret(rig.source("app"), secret))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::AuthFailed);
    assert!(
        error
            .to_string()
            .contains("CA certificate in secret team/bad"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_certificates_that_do_not_fit_are_refused() {
    let rig = Rig::with_chart(GitOptions::default());
    let authority = Authority::new();
    let target = port_of(&rig);
    let good = authority.sign("127.0.0.1", |_| {});
    let expired = authority.sign("127.0.0.1", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let wrong_name = authority.sign("git.example.com", |_| {});
    let foreign = Authority::new().sign("127.0.0.1", |_| {});
    let secret = rig.secrets.set("ca", &[("caFile", &authority.pem())]);
    for (what, pair, expected) in [
        ("good", good, None),
        ("expired", expired, Some(Reason::HostKeyMismatch)),
        ("wrong name", wrong_name, Some(Reason::HostKeyMismatch)),
        ("self-signed", foreign, Some(Reason::HostKeyMismatch)),
    ] {
        let front = tls::front(target, &pair, None).await;
        let port = front.port();
        let mut source = with_secret(rig.source("app"), secret.clone());
        source.url = url(&format!("https://127.0.0.1:{port}/charts.git"));
        let found = rig
            .mirrors
            .artifact(&source)
            .await
            .err()
            .map(|error| error.reason());
        assert_eq!(found, expected, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_certificate_that_expires_is_told_and_its_renewal_heals() {
    let mut rig = Rig::new();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    let authority = Authority::new();
    let pair = |until: i32| {
        authority.sign("127.0.0.1", |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
        })
    };
    let front = tls::front(port_of(&rig), &pair(3000), None).await;
    let secret = rig.secrets.set("ca", &[("caFile", &authority.pem())]);
    let mut source = with_secret(rig.source("app"), secret);
    source.url = url(&format!("https://127.0.0.1:{}/charts.git", front.port()));
    rig.use_chart("app", &source).await.unwrap();
    front.show(&pair(2002));
    let changes = rig.poll().await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    let error = rig.mirrors.trouble(&source).unwrap();
    assert_eq!(error.reason(), Reason::HostKeyMismatch, "{error}");
    front.show(&pair(3000));
    assert_eq!(rig.poll().await.len(), 1, "its end is told too");
    assert_eq!(rig.mirrors.artifact(&source).await.unwrap().revision, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_name_that_does_not_resolve_is_told() {
    let rig = Rig::new();
    let mut source = rig.source("app");
    source.url = url("https://no-such-host.invalid/team/charts");
    let error = rig.mirrors.artifact(&source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable, "{error}");
    assert!(
        error.to_string().contains("no-such-host.invalid"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_of_the_secret_is_shown() {
    let rig = Rig::with_chart(GitOptions::default());
    let authority = Authority::new();
    let server = authority.sign("127.0.0.1", |_| {});
    let client = authority.sign("client", |_| {});
    let front = tls::front(port_of(&rig), &server, Some(&authority)).await;
    let port = front.port();
    let mut source = rig.source("app");
    source.url = url(&format!("https://127.0.0.1:{port}/charts.git"));
    let ca = authority.pem();
    let without = rig.secrets.set("without", &[("caFile", &ca)]);
    assert!(
        rig.mirrors
            .artifact(&with_secret(source.clone(), without))
            .await
            .is_err()
    );
    let with = rig.secrets.set(
        "with",
        &[
            ("caFile", &ca),
            ("tls.crt", &client.certificate),
            ("tls.key", &client.key),
        ],
    );
    rig.mirrors
        .artifact(&with_secret(source, with))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_credentials_do_not_follow_a_redirect_to_another_origin() {
    for status in [301, 302, 303, 307, 308] {
        let rig = private_rig();
        let other = GitServer::start(GitOptions::default()).unwrap();
        let copy = other.repository("charts").unwrap();
        copy.write("app/Chart.yaml", "name: app\n").unwrap();
        copy.commit("first").unwrap();
        rig.server
            .traffic()
            .fault(Fault::Redirect(status, other.base()));
        let secret = rig
            .secrets
            .set("git", &[("username", "alice"), ("password", "p@ss")]);
        let artifact = rig
            .mirrors
            .artifact(&with_secret(rig.source("app"), secret))
            .await;
        assert!(artifact.is_ok(), "{status}: {artifact:?}");
        let seen = other.traffic().exchanges();
        assert!(!seen.is_empty());
        assert!(
            seen.iter().all(|exchange| exchange.authorization.is_none()),
            "{status}: {seen:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_credentials_do_not_follow_a_redirect_that_hides_its_host() {
    let other = GitServer::start(GitOptions::default()).unwrap();
    let evil = other.base().replace("http://", "");
    for hidden in ["?@", "#@", "\\@", "%23@", "@", "%2f@", "/?@"] {
        let rig = private_rig();
        let honest = rig.server.base();
        rig.server
            .traffic()
            .fault_at(1, Fault::Redirect(302, format!("{honest}{hidden}{evil}")));
        let secret = rig
            .secrets
            .set("git", &[("username", "alice"), ("password", "p@ss")]);
        let artifact = rig
            .mirrors
            .artifact(&with_secret(rig.source("app"), secret))
            .await;
        assert!(artifact.is_err(), "{hidden}: {artifact:?}");
    }
    let seen = other.traffic().exchanges();
    assert!(
        seen.iter().all(|exchange| exchange.authorization.is_none()),
        "{seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_redirects_to_where_nothing_may_be_are_refused() {
    for target in [
        "http://169.254.169.254",
        "http://[fe80::1]",
        "file:///etc/passwd?x=",
        "ftp://127.0.0.1",
        "http://user:pass@127.0.0.1:1",
        "http://0.0.0.0",
    ] {
        let rig = Rig::new();
        rig.server
            .traffic()
            .fault(Fault::Redirect(302, target.to_owned()));
        let error = rig.mirrors.artifact(&rig.source("app")).await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidSource, "{target}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_in_circles_and_to_a_login_page_are_refused() {
    let rig = Rig::new();
    rig.server
        .traffic()
        .fault(Fault::Redirect(302, rig.server.base()));
    let error = rig.mirrors.artifact(&rig.source("app")).await.unwrap_err();
    assert!(error.to_string().contains("more than three"), "{error}");
    let rig = Rig::new();
    rig.server.traffic().fault(Fault::Redirect(
        302,
        format!("{}/login?next=", rig.server.base()),
    ));
    let error = rig.mirrors.artifact(&rig.source("app")).await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_repository_that_moved_is_found_again() {
    let mut rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("app", &source).await.unwrap();
    let new_home = GitServer::start(GitOptions::default()).unwrap();
    let moved_to = new_home.repository("charts").unwrap();
    rig.repository
        .git(&["remote", "add", "new", moved_to.url()])
        .unwrap();
    rig.write_chart("app", "two");
    rig.repository.git(&["add", "--all"]).unwrap();
    rig.repository
        .git(&["commit", "--quiet", "--message", "elsewhere"])
        .unwrap();
    rig.repository
        .git(&["push", "--quiet", "new", "HEAD:main"])
        .unwrap();
    rig.server
        .traffic()
        .fault(Fault::Redirect(301, new_home.base()));
    assert_eq!(moved(&rig.poll().await), ["app"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_schemes_and_addresses_that_are_not_allowed_never_get_a_request() {
    let rig = Rig::with(GitOptions::default(), |options| {
        options.policy.allow_http = false;
        options.policy.allow_local = false;
    });
    for (text, hint) in [
        (rig.repository.url().to_owned(), "--git-allow-http"),
        (
            rig.repository.bare().to_str().unwrap().to_owned(),
            "--git-allow-local",
        ),
        ("oci://127.0.0.1/x".to_owned(), "`repository`"),
        (rig.repository.url().replace("http:", "https:"), "loopback"),
        (
            rig.repository
                .url()
                .replace("http://127.0.0.1", "https://localhost"),
            "loopback",
        ),
        ("https://169.254.169.254/latest".to_owned(), "link-local"),
        ("ssh://git@127.0.0.1/x".to_owned(), "loopback"),
    ] {
        let mut source = rig.source("app");
        source.url = url(&text);
        let error = rig.mirrors.artifact(&source).await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidSource, "{text}: {error}");
        assert!(error.to_string().contains(hint), "{text}: {error}");
    }
    assert_eq!(rig.server.traffic().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_to_a_server_that_speaks_http_is_told_as_that() {
    let rig = Rig::new();
    let mut source = rig.source("app");
    source.url = url(&rig.repository.url().replace("http:", "https:"));
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable, "{error}");
    let told = error.to_string();
    assert!(told.contains("does not speak TLS"), "{told}");
    assert!(told.contains("check the scheme"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_path_works_where_it_is_allowed() {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    for text in [
        rig.repository.bare().to_str().unwrap().to_owned(),
        format!("file://{}", rig.repository.bare().display()),
    ] {
        let mut source = rig.source("app");
        source.url = url(&text);
        assert_eq!(rig.mirrors.artifact(&source).await.unwrap().revision, first);
    }
    let work = rig.repository.work().display();
    for (path, hint) in [
        ("/no/such/repository".to_owned(), String::new()),
        (work.to_string(), format!("use file://{work}/.git")),
        (
            format!("{work}/app"),
            format!("use file://{work}/.git with path: app"),
        ),
    ] {
        let mut wrong = rig.source("app");
        wrong.url = url(&path);
        let error = rig.mirrors.artifact(&wrong).await.unwrap_err();
        assert_eq!(error.reason(), Reason::RepositoryNotFound, "{error}");
        assert!(error.to_string().ends_with(&hint), "{error}");
    }
}

/// A proxy for plain HTTP that checks its own credentials; returns its port and a count of requests.
async fn proxy() -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut inner, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 16 << 10];
                let length = inner.read(&mut head).await.ok()?;
                let text = String::from_utf8_lossy(&head[..length]).into_owned();
                let target = text.split_once("http://")?.1.split_once('/')?.0.to_owned();
                assert!(
                    text.to_lowercase()
                        .contains("proxy-authorization: basic bwu6chjvehk="),
                    "{text}"
                );
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let request = text.replacen(&format!("http://{target}"), "", 1);
                let mut outer = TcpStream::connect(target).await.ok()?;
                outer.write_all(request.as_bytes()).await.ok()?;
                tokio::io::copy_bidirectional(&mut inner, &mut outer)
                    .await
                    .ok()
            });
        }
    });
    (port, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_with_credentials_is_gone_through() {
    let (port, count) = proxy().await;
    let rig = Rig::with(GitOptions::default(), |options| {
        options.proxy = Some(format!("http://me:proxy@127.0.0.1:{port}").into());
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    assert!(count.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert!(!format!("{:?}", rig.options).contains("me:proxy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_server_that_fails_for_a_while_is_well_again_in_one_poll() {
    for (fault, expected) in [
        (Fault::Status(401, None), Reason::AuthFailed),
        (Fault::Status(403, None), Reason::AuthFailed),
        (Fault::Status(404, None), Reason::RepositoryNotFound),
        (Fault::Status(429, Some(1)), Reason::Unreachable),
        (Fault::Status(500, None), Reason::Unreachable),
        (Fault::Status(503, None), Reason::Unreachable),
        (Fault::Cut, Reason::Unreachable),
        (Fault::CutReply, Reason::Unreachable),
        (Fault::Hang, Reason::Timeout),
        (
            Fault::Reply(b"<html>welcome</html>".to_vec()),
            Reason::InvalidData,
        ),
        (Fault::CutBody(30), Reason::Unreachable),
        (Fault::StallBody(30), Reason::Timeout),
    ] {
        let mut rig = Rig::with(GitOptions::default(), |options| {
            options.timeout = Duration::from_millis(600);
        });
        rig.write_chart("app", "one");
        let first = rig.repository.commit("first").unwrap();
        let source = rig.source("app").at("main");
        let what = format!("{fault:?}");
        rig.server.traffic().fault(fault);
        let error = rig.use_chart("app", &source).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{what}: {error}");
        rig.server.traffic().heal();
        rig.poll().await;
        assert_eq!(
            rig.mirrors.artifact(&source).await.unwrap().revision,
            first,
            "{what}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_download_that_is_cut_or_stalls_is_given_up_and_starts_again() {
    for (fault, expected) in [
        (Fault::CutBody(3000), Reason::Unreachable),
        (Fault::StallBody(3000), Reason::Timeout),
        (Fault::Drip(1, Duration::from_millis(100)), Reason::Timeout),
    ] {
        let rig = Rig::with(GitOptions::default(), |options| {
            options.timeout = Duration::from_millis(500);
        });
        rig.write_chart("app", "one");
        rig.repository.write("noise", noise(200_000)).unwrap();
        let first = rig.repository.commit("first").unwrap();
        let what = format!("{fault:?}");
        // The third request is the download.
        rig.server.traffic().fault_at(3, fault);
        let error = rig.use_chart("app", &rig.source("app")).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{what}: {error}");
        rig.mirrors.sync(None).await;
        assert_eq!(
            rig.mirrors
                .artifact(&rig.source("app"))
                .await
                .unwrap()
                .revision,
            first
        );
        let packs = rig.mirror_dir().join("objects/pack");
        let files = std::fs::read_dir(packs).unwrap().count();
        assert_eq!(files, 2, "{what}: the half of the first download is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passing_redirect_is_not_remembered_and_a_lasting_one_is() {
    for (status, requests) in [(302, 3), (308, 1)] {
        let rig = Rig::new();
        let other = GitServer::start(GitOptions::default()).unwrap();
        let copy = other.repository("charts").unwrap();
        copy.write("app/Chart.yaml", "name: app\n").unwrap();
        copy.commit("first").unwrap();
        rig.server
            .traffic()
            .fault(Fault::Redirect(status, other.base()));
        rig.use_chart("app", &rig.source("app")).await.unwrap();
        rig.server.traffic().forget();
        other.traffic().forget();
        rig.mirrors.sync(None).await;
        let count = rig.server.traffic().count() + other.traffic().count();
        assert_eq!(count, requests, "{status}");
    }
}

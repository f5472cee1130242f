//! The git server, driven by the real git.

#![cfg(test)]

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Fault, GitOptions, GitServer, run};

/// `git` as a client, without the user's configuration and without questions at the terminal.
fn git(arguments: &[&str]) -> anyhow::Result<String> {
    run(Command::new("git")
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env_remove("GIT_SSL_CAINFO"))
}

fn served() -> (GitServer, testkit::GitRepository) {
    let server = GitServer::start(GitOptions::default()).unwrap();
    let repository = server.repository("charts").unwrap();
    repository.commit_file("a/Chart.yaml", "name: a\n").unwrap();
    (server, repository)
}

#[test]
fn clone_has_what_was_committed_and_requests_are_counted() {
    let (server, repository) = served();
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("clone");
    git(&["clone", "--quiet", repository.url(), path.to_str().unwrap()]).unwrap();
    assert_eq!(
        std::fs::read_to_string(path.join("a/Chart.yaml")).unwrap(),
        "name: a\n"
    );
    let exchanges = server.traffic().exchanges();
    // Protocol version 2: capabilities, references, pack.
    assert_eq!(exchanges.len(), 3, "{exchanges:#?}");
    assert!(exchanges.iter().all(|it| it.status == Some(200)));
    assert_eq!(exchanges[0].git_protocol.as_deref(), Some("version=2"));
}

#[test]
fn equal_content_gives_equal_commits() {
    let (one, two) = (served(), served());
    assert_eq!(one.1.head().unwrap(), two.1.head().unwrap());
}

#[test]
fn references_move_as_told() {
    let (_server, repository) = served();
    let first = repository.head().unwrap();
    let listed = |name: &str| {
        let line = git(&["ls-remote", repository.url(), name]).unwrap();
        line.split_whitespace().next().map(str::to_owned)
    };
    let second = repository.commit_file("b", "1").unwrap();
    assert_eq!(listed("refs/heads/main"), Some(second.clone()));
    repository.tag("v1", None).unwrap();
    assert_eq!(listed("refs/tags/v1"), Some(second.clone()));
    repository.branch("topic/x").unwrap();
    let third = repository.commit_file("b", "2").unwrap();
    assert_eq!(listed("refs/heads/topic/x"), Some(third));
    repository.checkout("main").unwrap();
    assert_eq!(repository.reset(&first).unwrap(), first);
    assert_eq!(listed("refs/heads/main"), Some(first.clone()));
    let amended = repository.amend("again").unwrap();
    assert_eq!(listed("refs/heads/main"), Some(amended.clone()));
    assert_ne!(amended, first);
    let rewritten = repository.rewrite("new history").unwrap();
    assert_eq!(listed("refs/heads/main"), Some(rewritten));
    assert_eq!(
        repository
            .git(&["rev-list", "--count", "HEAD"])
            .unwrap()
            .trim(),
        "1"
    );
    repository.delete_branch("topic/x").unwrap();
    assert_eq!(listed("refs/heads/topic/x"), None);
    repository.tag("v1", Some("annotated")).unwrap();
    assert!(
        git(&["ls-remote", repository.url(), "refs/tags/v1^{}"])
            .unwrap()
            .contains("v1^{}")
    );
}

#[test]
fn push_over_http_arrives() {
    let (_server, repository) = served();
    std::fs::write(repository.work().join("c"), "pushed").unwrap();
    repository.git(&["add", "--all"]).unwrap();
    repository
        .git(&["commit", "--quiet", "--message", "over http"])
        .unwrap();
    repository
        .git(&["push", "--quiet", repository.url(), "main"])
        .unwrap();
    let listed = git(&["ls-remote", repository.url(), "main"]).unwrap();
    assert!(listed.starts_with(&repository.head().unwrap()));
}

#[test]
fn credentials_are_asked_for_and_can_be_changed() {
    let (server, _repository) = served();
    server.set_credentials(Some(("user", "secret")));
    assert!(git(&["ls-remote", &server.url("charts")]).is_err());
    assert_eq!(server.traffic().exchanges()[0].status, Some(401));
    let with = |password: &str| {
        server
            .url("charts")
            .replace("//", &format!("//user:{password}@"))
    };
    git(&["ls-remote", &with("secret")]).unwrap();
    server.set_credentials(Some(("user", "rotated")));
    assert!(git(&["ls-remote", &with("secret")]).is_err());
    git(&["ls-remote", &with("rotated")]).unwrap();
}

#[test]
fn certificate_is_trusted_through_its_authority_only() {
    let server = GitServer::start(GitOptions {
        tls: true,
        ..GitOptions::default()
    })
    .unwrap();
    let repository = server.repository("charts").unwrap();
    repository.commit_file("a", "1").unwrap();
    let error = git(&["ls-remote", repository.url()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("certificate"), "{error}");
    let trust = format!(
        "http.sslCAInfo={}",
        server.certificate_authority_file().unwrap().display()
    );
    git(&["-c", &trust, "ls-remote", repository.url()]).unwrap();
}

#[test]
fn old_protocol_lists_references_in_the_first_reply() {
    let options = GitOptions {
        protocol_v0: true,
        ..GitOptions::default()
    };
    let server = GitServer::start(options).unwrap();
    let repository = server.repository("charts").unwrap();
    repository.commit_file("a", "1").unwrap();
    git(&["ls-remote", repository.url()]).unwrap();
    assert_eq!(server.traffic().count(), 1);
}

#[test]
fn faults_hit_the_requests_that_they_are_set_for() {
    let (server, repository) = served();
    let list = || git(&["ls-remote", repository.url()]);
    server.traffic().fault_next(1, Fault::Status(503, None));
    assert!(list().unwrap_err().to_string().contains("503"));
    list().unwrap();
    server.traffic().fault(Fault::Cut);
    assert!(list().is_err());
    assert!(list().is_err());
    server.traffic().heal();
    list().unwrap();
    server
        .traffic()
        .fault_when(1, |it| it.method == "POST", Fault::CutBody(10));
    assert!(list().is_err());
    let start = Instant::now();
    server
        .traffic()
        .fault_next(1, Fault::Delay(Duration::from_millis(200)));
    list().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn redirect_names_the_same_path_elsewhere() {
    let (server, repository) = served();
    let (other, _) = served();
    server.traffic().fault(Fault::Redirect(302, other.base()));
    git(&["ls-remote", repository.url()]).unwrap();
    assert_eq!(server.traffic().exchanges()[0].status, Some(302));
    assert!(other.traffic().count() > 0);
}

#[test]
fn stopped_server_refuses_and_comes_back_on_the_same_port() {
    let (mut server, repository) = served();
    server.stop();
    assert!(git(&["ls-remote", repository.url()]).is_err());
    server.resume().unwrap();
    git(&["ls-remote", repository.url()]).unwrap();
}

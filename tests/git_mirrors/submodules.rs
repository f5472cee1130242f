//! Submodules, and commits that must be signed.

use std::process::Command;

use helm_operator::gitsync::Reason;

use crate::support::{Rig, moved, reason, text};

#[tokio::test(flavor = "multi_thread")]
async fn submodules_are_read_only_when_asked_for() {
    let mut rig = Rig::new();
    let library = rig.server.repository("library").unwrap();
    library
        .write(
            "Chart.yaml",
            "apiVersion: v2\nname: common\nversion: 0.1.0\n",
        )
        .unwrap();
    let first = library.commit("first").unwrap();
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    rig.repository
        .commit_submodule("app/charts/common", "../library.git", &first)
        .unwrap();
    let without = rig.source("app");
    let mut with = rig.source("app");
    with.submodules = true;
    let plain = rig.use_chart("plain", &without).await.unwrap();
    assert!(plain.file("charts/common/Chart.yaml").is_none());
    let whole = rig.use_chart("whole", &with).await.unwrap();
    assert_eq!(
        text(&whole, "charts/common/Chart.yaml"),
        "apiVersion: v2\nname: common\nversion: 0.1.0\n"
    );
    assert_ne!(plain.digest, whole.digest, "two contents, two names");

    library.write("values.yaml", "a: 1\n").unwrap();
    let second = library.commit("second").unwrap();
    assert!(
        rig.poll().await.is_empty(),
        "the commit of the submodule is written in the chart"
    );
    rig.repository
        .commit_submodule("app/charts/common", "../library.git", &second)
        .unwrap();
    assert_eq!(moved(&rig.poll().await), ["plain", "whole"]);
    let whole = rig.mirrors.artifact(&with).await.unwrap();
    assert_eq!(text(&whole, "charts/common/values.yaml"), "a: 1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_that_cannot_be_read_is_told_by_its_path() {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    let commit = rig.repository.commit("first").unwrap();
    let mut source = rig.source("app");
    source.submodules = true;
    for (url, expected) in [
        ("../absent.git", Reason::RepositoryNotFound),
        ("ext::sh -c x", Reason::InvalidSource),
        ("http://169.254.169.254/x", Reason::InvalidSource),
        ("../../../x", Reason::InvalidSource),
    ] {
        rig.repository
            .commit_submodule("app/sub", url, &commit)
            .unwrap();
        rig.mirrors.sync(None).await;
        let error = rig.mirrors.artifact(&source).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{url}: {error}");
        assert!(error.to_string().contains("sub"), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_in_circles_end() {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    let commit = rig.repository.commit("first").unwrap();
    rig.repository
        .commit_submodule("app/sub", "../charts.git", &commit)
        .unwrap();
    // A commit cannot name itself, but each can name the one before it.
    for _ in 0..6 {
        let head = rig.repository.head().unwrap();
        rig.repository
            .commit_submodule("app/sub", "../charts.git", &head)
            .unwrap();
    }
    let mut source = rig.source("app");
    source.submodules = true;
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::TooLarge);
    assert!(error.to_string().contains("too deep"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_signed_commits_are_used_when_asked_for() {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    rig.repository.commit("unsigned").unwrap();
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", "ed25519", "-f"])
        .arg(&key)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: ssh-keygen is missing");
        return;
    }
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let mut source = rig.source("app");
    source.verify = Some(rig.secrets.set("signers", &[("release.pub", &public)]));
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::SignatureInvalid, "{error}");
    rig.write_chart("app", "two");
    rig.repository.commit_signed("signed", &key).unwrap();
    rig.mirrors.sync(None).await;
    let artifact = rig.mirrors.artifact(&source).await.unwrap();
    assert_eq!(text(&artifact, "values.yaml"), "greeting: two\n");
    rig.secrets.set("signers", &[("release.pub", "no key")]);
    assert_eq!(
        reason(rig.mirrors.artifact(&source).await),
        Reason::SignatureInvalid,
        "keys are read again"
    );
    source.verify = Some(helm_operator::gitsync::SecretRef {
        namespace: "team".into(),
        name: "absent".into(),
    });
    assert!(rig.mirrors.artifact(&source).await.is_err());
}

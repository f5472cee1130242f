//! Nothing is started: seen from outside, with strace.

use std::{process::Command, sync::Arc};

use helm_operator::gitsync::{GitSource, Mirrors, StaticSecrets};

use crate::support::{Rig, options, url};

const URL: &str = "HELM_OPERATOR_TEST_URL";
const POLLS: usize = 5;

/// Not a test of its own: what strace looks at, in a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run under strace by another test"]
async fn mirrored_in_a_process_of_its_own() {
    let Ok(remote) = std::env::var(URL) else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let options = options(cache.path().join("cache"));
    let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
    let mut source = GitSource::new(url(&remote), "app").at("main");
    source.submodules = false;
    mirrors.declare(&crate::support::release("app"), vec![source.clone()]);
    let artifact = mirrors.artifact(&source).await.unwrap();
    assert!(artifact.file("values.yaml").is_some());
    for _ in 0..POLLS {
        mirrors.sync(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_no_process_is_started_whatever_the_repository_holds() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is missing");
        return;
    }
    let rig = Rig::new();
    rig.write_chart("app", "one");
    let canary = rig.repository.work().parent().unwrap().join("canary");
    let touch = format!("touch {}", canary.display());
    let repository = &rig.repository;
    repository.write(".gitmodules", format!("[submodule \"x\"]\n path = app/x\n url = ext::sh -c '{touch}'\n update = !{touch}\n")).unwrap();
    repository
        .write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
        .unwrap();
    repository
        .write("app/.gitattributes", "* filter=evil\n")
        .unwrap();
    repository
        .write(
            "app/.git-hooks/post-checkout",
            format!("#!/bin/sh\n{touch}\n"),
        )
        .unwrap();
    repository
        .write(
            ".gitconfig",
            format!("[filter \"evil\"]\n smudge = {touch}\n"),
        )
        .unwrap();
    repository
        .write("app/.lfsconfig", "[lfs]\n url = ssh://-oProxyCommand=x/\n")
        .unwrap();
    repository.commit("hostile").unwrap();
    let head = repository.head().unwrap();
    repository
        .git(&[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{head},app/x"),
        ])
        .unwrap();
    repository
        .git(&["commit", "--quiet", "--message", "a submodule"])
        .unwrap();
    repository
        .git(&["push", "--quiet", "origin", "HEAD"])
        .unwrap();
    rig.server.traffic().forget();

    let trace = rig.cache_dir().with_extension("strace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=execve,execveat", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "noexec::mirrored_in_a_process_of_its_own",
            "--include-ignored",
        ])
        .env(URL, rig.repository.url())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && printed.is_empty() {
        eprintln!(
            "skipped: strace may not trace here: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(printed.contains("1 passed"), "{printed}");
    let trace = std::fs::read_to_string(trace).unwrap();
    let started: Vec<&str> = trace.lines().filter(|line| line.contains("exec")).collect();
    assert_eq!(
        started.len(),
        1,
        "the process itself and no other: {started:?}"
    );
    assert!(!canary.exists());
    assert_eq!(
        rig.server.traffic().count(),
        3 + POLLS,
        "each poll was one request"
    );
}

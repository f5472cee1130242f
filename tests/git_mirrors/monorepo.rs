//! A thousand charts in one repository.

use std::{fmt::Write, io::Write as _, process::Stdio, time::Instant};

use helm_operator::gitsync::MirrorState;

use crate::support::{Rig, moved, text};

const CHARTS: usize = 1000;
const COMMITS: usize = 20_000;

/// A history of twenty commits for each chart, written by `git fast-import` straight into the bare repository.
fn import(rig: &Rig) {
    let mut stream = String::new();
    for commit in 0..COMMITS {
        let chart = commit % CHARTS;
        stream.push_str("commit refs/heads/main\ncommitter T <t@example.invalid> ");
        writeln!(stream, "{} +0000\ndata 1\nc", 1_700_000_000 + commit).unwrap();
        if commit < CHARTS {
            let yaml = format!("apiVersion: v2\nname: c{chart:04}\nversion: 0.1.0\n");
            file(
                &mut stream,
                &format!("charts/c{chart:04}/Chart.yaml"),
                &yaml,
            );
            file(
                &mut stream,
                &format!("charts/c{chart:04}/templates/a.yaml"),
                "kind: ConfigMap\n",
            );
        }
        file(
            &mut stream,
            &format!("charts/c{chart:04}/values.yaml"),
            &format!("n: {commit}\n"),
        );
        stream.push('\n');
    }
    let mut import = std::process::Command::new("git")
        .args([
            "-C",
            rig.repository.bare().to_str().unwrap(),
            "fast-import",
            "--quiet",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    import
        .stdin
        .take()
        .unwrap()
        .write_all(stream.as_bytes())
        .unwrap();
    assert!(import.wait().unwrap().success());
    rig.repository
        .git(&["pull", "--quiet", "origin", "main"])
        .unwrap();
}

fn file(stream: &mut String, path: &str, content: &str) {
    write!(
        stream,
        "M 100644 inline {path}\ndata {}\n{content}",
        content.len()
    )
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_the_one_release_whose_chart_it_changes() {
    let mut rig = Rig::new();
    import(&rig);
    for chart in 0..CHARTS {
        let source = rig.source(&format!("charts/c{chart:04}")).at("main");
        let release = crate::support::release(&format!("c{chart:04}"));
        rig.mirrors.declare(&release, vec![source]);
    }
    rig.mirrors.sync(None).await;
    assert_eq!(rig.mirrors.states()[0].state, MirrorState::Ready);
    assert_eq!(rig.mirrors.states().len(), 1, "one mirror for all");
    assert!(
        rig.drain().is_empty(),
        "what is seen for the first time has not moved"
    );
    let received = rig.mirrors.states()[0].received_bytes;
    assert!(
        received < 1_000_000,
        "{received} bytes: the history was left out"
    );

    let path = "charts/c0123/values.yaml";
    rig.repository.commit_file(path, "n: changed\n").unwrap();
    rig.server.traffic().forget();
    let started = Instant::now();
    let changes = rig.poll().await;
    let took = started.elapsed();
    assert_eq!(moved(&changes), ["c0123"]);
    assert_eq!(changes.len(), 1);
    assert_eq!(rig.server.traffic().count(), 2);
    assert!(took.as_secs() < 20, "{took:?}");

    rig.repository
        .commit_file("README.md", "nothing that a chart needs")
        .unwrap();
    assert!(rig.poll().await.is_empty());
    rig.repository
        .git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "nothing at all",
        ])
        .unwrap();
    rig.repository
        .git(&["push", "--quiet", "origin", "HEAD"])
        .unwrap();
    assert!(rig.poll().await.is_empty());
    let artifact = rig
        .mirrors
        .artifact(&rig.source("charts/c0123").at("main"))
        .await
        .unwrap();
    assert_eq!(text(&artifact, "values.yaml"), "n: changed\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_chart_reaches_outside_its_directory_wakes_it_too() {
    let mut rig = Rig::new();
    rig.write_chart("common", "shared");
    rig.write_chart("linked", "one");
    rig.write_chart("dependent", "one");
    rig.write_chart("watching", "one");
    rig.write_chart("alone", "one");
    std::os::unix::fs::symlink(
        "../../shared.tpl",
        rig.repository.work().join("linked/templates/_shared.tpl"),
    )
    .unwrap();
    rig.repository.write("shared.tpl", "one").unwrap();
    rig.repository.write("values/prod.yaml", "a: 1\n").unwrap();
    let chart = "apiVersion: v2\nname: dependent\nversion: 0.1.0\ndependencies:\n- name: common\n  version: 0.1.0\n  repository: file://../common\n";
    rig.repository.write("dependent/Chart.yaml", chart).unwrap();
    rig.repository.commit("first").unwrap();
    for name in ["linked", "dependent", "alone", "watching"] {
        let mut source = rig.source(name);
        if name == "watching" {
            source.watch = vec!["../values/prod.yaml".into()];
        }
        rig.use_chart(name, &source).await.unwrap();
    }
    let digest = async |rig: &Rig, name: &str| {
        rig.mirrors
            .artifact(&rig.source(name))
            .await
            .unwrap()
            .digest
    };
    for (path, name) in [
        ("shared.tpl", "linked"),
        ("common/values.yaml", "dependent"),
    ] {
        let before = digest(&rig, name).await;
        rig.repository.commit_file(path, "changed: yes\n").unwrap();
        assert_eq!(moved(&rig.poll().await), [name], "{path}");
        assert_ne!(digest(&rig, name).await, before, "{path}");
    }
    rig.repository
        .commit_file("values/prod.yaml", "a: 2\n")
        .unwrap();
    assert_eq!(moved(&rig.poll().await), ["watching"]);
    let dependent = rig
        .mirrors
        .artifact(&rig.source("dependent"))
        .await
        .unwrap();
    assert_eq!(
        text(&dependent, "charts/common/values.yaml"),
        "changed: yes\n"
    );
    let mut without = rig.source("dependent");
    without.skip_dep_update = true;
    let without = rig.mirrors.artifact(&without).await.unwrap();
    assert!(without.file("charts/common/values.yaml").is_none());
}

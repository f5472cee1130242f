//! Mirror, poll, wake.

use std::time::Duration;

use helm_operator::gitsync::{ChangeReason, MirrorState, Reason, Schedule};
use testkit::GitOptions;

use crate::support::{PATIENCE, Rig, eventually, moved, reason, release, text, url};

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_read_from_a_branch_and_a_push_wakes_its_release() {
    let mut rig = Rig::new();
    rig.write_chart("charts/app", "one");
    let first = rig.repository.commit("first").unwrap();
    let source = rig.source("charts/app").at("main");
    let artifact = rig.use_chart("app", &source).await.unwrap();
    assert_eq!(artifact.revision, first);
    assert_eq!(text(&artifact, "values.yaml"), "greeting: one\n");
    let tree = rig
        .repository
        .git(&["rev-parse", "HEAD:charts/app"])
        .unwrap();
    assert_eq!(artifact.digest, tree.trim());

    let second = rig
        .repository
        .commit_file("charts/app/values.yaml", "greeting: two\n")
        .unwrap();
    let changes = rig.poll().await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].release, release("app"));
    assert_eq!(
        changes[0].reason,
        ChangeReason::Moved {
            revision: second.clone()
        }
    );
    let artifact = rig.mirrors.artifact(&source).await.unwrap();
    assert_eq!(artifact.revision, second);
    assert_eq!(text(&artifact, "values.yaml"), "greeting: two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_beside_the_chart_wakes_nobody() {
    let mut rig = Rig::new();
    rig.write_chart("charts/a", "one");
    rig.write_chart("charts/b", "one");
    rig.repository.commit("first").unwrap();
    for name in ["a", "b"] {
        rig.use_chart(name, &rig.source(&format!("charts/{name}")))
            .await
            .unwrap();
    }
    rig.repository.commit_file("README.md", "hello").unwrap();
    assert!(rig.poll().await.is_empty());
    rig.repository
        .commit_file("charts/b/values.yaml", "greeting: two\n")
        .unwrap();
    assert_eq!(moved(&rig.poll().await), ["b"]);
    rig.repository.remove("charts/a/values.yaml").unwrap();
    rig.repository.commit("a file less").unwrap();
    assert_eq!(
        moved(&rig.poll().await),
        ["a"],
        "a removed file is a change"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_without_news_is_one_request_and_writes_nothing() {
    let rig = Rig::with_chart(GitOptions::default());
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    let files = || {
        let mut files = Vec::new();
        let mut open = vec![rig.mirror_dir()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    open.push(entry.path());
                }
                files.push((entry.path(), metadata.modified().unwrap(), metadata.len()));
            }
        }
        files.sort();
        files
    };
    let before = files();
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    let exchanges = rig.server.traffic().exchanges();
    assert_eq!(exchanges.len(), 1, "{exchanges:?}");
    assert_eq!(exchanges[0].method, "POST");
    assert!(exchanges[0].path.ends_with("/git-upload-pack"));
    assert_eq!(files(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_costs_two_requests_after_the_first_contact() {
    let rig = Rig::with_chart(GitOptions::default());
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    assert_eq!(
        rig.server.traffic().count(),
        3,
        "what it can do, its refs, its objects"
    );
    rig.repository
        .commit_file("app/values.yaml", "greeting: two\n")
        .unwrap();
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.server.traffic().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_polled_with_one_request_too() {
    let mut rig = Rig::with(
        GitOptions {
            protocol_v0: true,
            ..GitOptions::default()
        },
        |_| {},
    );
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    let source = rig.source("app").at("main");
    rig.use_chart("app", &source).await.unwrap();
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.server.traffic().count(), 1);
    let second = rig
        .repository
        .commit_file("app/values.yaml", "greeting: two\n")
        .unwrap();
    assert_eq!(moved(&rig.poll().await), ["app"]);
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_things_are_told_apart() {
    let rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("app", &source).await.unwrap();
    for (source, expected) in [
        (rig.source("app").at("no-such-branch"), Reason::RefNotFound),
        (
            rig.source("app").at("deadbeef".repeat(5)),
            Reason::RefNotFound,
        ),
        (rig.source("no/such/path"), Reason::PathNotFound),
        (rig.source("App"), Reason::PathNotFound),
        (rig.source("app/values.yaml"), Reason::PathNotFound),
        (rig.source("../app"), Reason::PathNotFound),
        (
            rig.source("app").at("--upload-pack=x"),
            Reason::InvalidSource,
        ),
    ] {
        assert_eq!(
            reason(rig.mirrors.artifact(&source).await),
            expected,
            "{source:?}"
        );
    }
    let mut gone = rig.source("app");
    gone.url = url(&rig.server.url("no-such-repository"));
    assert_eq!(
        reason(rig.mirrors.artifact(&gone).await),
        Reason::RepositoryNotFound
    );
    assert!(
        rig.mirrors.artifact(&source).await.is_ok(),
        "one bad ref hurts no other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_an_empty_repository_is_told_and_the_first_push_heals_it() {
    let mut rig = Rig::new();
    let source = rig.source("app");
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::RefNotFound);
    assert!(error.to_string().contains("empty"), "{error}");
    rig.drain();
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    let changes = rig.poll().await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].reason, ChangeReason::Recovered);
    assert!(rig.mirrors.artifact(&source).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_server_that_goes_away_keeps_what_it_gave() {
    let mut rig = Rig::new();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    let source = rig.source("app");
    rig.use_chart("app", &source).await.unwrap();
    rig.server.stop();
    assert!(rig.poll().await.is_empty(), "one failure may pass");
    assert!(rig.mirrors.trouble(&source).is_none());
    let changes = rig.poll().await;
    assert_eq!(
        rig.mirrors.trouble(&source).unwrap().reason(),
        Reason::Unreachable
    );
    assert!(
        matches!(&changes[..], [change] if matches!(&change.reason, ChangeReason::Failed(error) if error.reason() == Reason::Unreachable)),
        "{changes:?}"
    );
    assert!(matches!(
        &rig.mirrors.states()[0].state,
        MirrorState::Failed(_)
    ));
    assert_eq!(rig.mirrors.artifact(&source).await.unwrap().revision, first);
    rig.server.resume().unwrap();
    let changes = rig.poll().await;
    assert!(
        matches!(&changes[..], [change] if change.reason == ChangeReason::Recovered),
        "{changes:?}"
    );
}

/// On one thread, so that who was woken looks before the cycle that wakes it goes on.
#[tokio::test]
async fn who_is_woken_by_a_push_after_an_outage_is_not_told_of_the_outage() {
    let mut rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("app", &source).await.unwrap();
    rig.server.stop();
    rig.poll().await;
    rig.poll().await;
    assert!(rig.mirrors.trouble(&source).is_some());
    rig.drain();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    rig.server.resume().unwrap();
    let mut changes = rig.mirrors.changes();
    rig.mirrors.sync_now(None);
    let change = changes.next().await;
    assert_eq!(change.reason, ChangeReason::Moved { revision: second });
    assert!(rig.mirrors.trouble(&source).is_none());
    assert_eq!(rig.mirrors.states()[0].state, MirrorState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_told_to_wait_is_woken_when_its_chart_is_there() {
    let rig = Rig::with(GitOptions::default(), |options| {
        options.fetch_grace = std::time::Duration::ZERO;
    });
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    let source = rig.source("app");
    assert_eq!(reason(rig.use_chart("app", &source).await), Reason::Cloning);
    let mut changes = rig.mirrors.changes();
    let change = changes.next().await;
    assert_eq!(change.release, release("app"));
    assert_eq!(change.reason, ChangeReason::Ready { revision: first });
    assert!(rig.mirrors.artifact(&source).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_needs_no_download_and_works_without_the_server() {
    let mut rig = Rig::new();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    let source = rig.source("app").at("main");
    rig.use_chart("app", &source).await.unwrap();
    rig.restart().await;
    rig.server.traffic().forget();
    assert_eq!(rig.use_chart("app", &source).await.unwrap().revision, first);
    let posts = rig
        .server
        .traffic()
        .exchanges()
        .iter()
        .filter(|e| e.method == "POST")
        .count();
    assert_eq!(posts, 1, "the refs are listed, nothing is downloaded");

    rig.server.stop();
    rig.restart().await;
    assert_eq!(rig.use_chart("app", &source).await.unwrap().revision, first);
    assert_eq!(
        reason(rig.mirrors.artifact(&rig.source("app").at("v1")).await),
        Reason::Unreachable
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_nobody_uses_goes_with_its_disk() {
    let rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("a", &source).await.unwrap();
    rig.use_chart("b", &source).await.unwrap();
    assert_eq!(rig.mirrors.states()[0].releases, 2);
    let directory = rig.mirror_dir();
    rig.mirrors.forget(&release("a"));
    assert_eq!(rig.mirrors.states().len(), 1);
    rig.mirrors.forget(&release("b"));
    assert!(rig.mirrors.states().is_empty());
    eventually(|| (!directory.exists()).then_some(())).await;
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.server.traffic().count(), 0);
    assert!(
        rig.use_chart("c", &source).await.is_ok(),
        "and it can come back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_of_an_earlier_run_that_nobody_declares_is_swept() {
    let mut rig = Rig::with_chart(GitOptions::default());
    let other = rig.server.repository("other").unwrap();
    other.write("app/Chart.yaml", "name: app\n").unwrap();
    other.commit("first").unwrap();
    let mut orphan = rig.source("app");
    orphan.url = url(other.url());
    rig.use_chart("orphan", &orphan).await.unwrap();
    let orphan = rig.mirror_dir();
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    rig.restart().await;
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    assert!(orphan.exists());
    rig.mirrors.sweep_orphans();
    assert!(!orphan.exists());
    assert_ne!(rig.mirror_dir(), orphan, "the one in use stays");
    assert!(rig.mirrors.artifact(&rig.source("app")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_come_by_themselves() {
    let mut rig = Rig::with(GitOptions::default(), |options| {
        options.poll = Schedule::every(Duration::from_secs(1)).unwrap();
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    rig.drain();
    rig.write_chart("app", "two");
    let revision = rig.repository.commit("second").unwrap();
    let change = tokio::time::timeout(PATIENCE, rig.changes.next()).await;
    assert_eq!(change.unwrap().reason, ChangeReason::Moved { revision });
}

#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_of_one_remote_share_a_mirror() {
    let rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("a", &source).await.unwrap();
    let mut other = source.clone();
    other.url = url(&format!("{}/", rig.repository.url()));
    rig.use_chart("b", &other).await.unwrap();
    assert_eq!(rig.mirrors.states().len(), 1);
    for spelling in [
        "git@127.0.0.1:charts.git",
        "https://127.0.0.1/charts",
        "ssh://x@127.0.0.1:7/charts",
    ] {
        assert_eq!(rig.mirrors.sync_now(Some(&url(spelling))), 1, "{spelling}");
    }
    assert_eq!(
        rig.mirrors.sync_now(Some(&url("https://127.0.0.1/other"))),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_makes_the_next_answer_the_newest() {
    let rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app").at("main");
    rig.use_chart("app", &source).await.unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    rig.mirrors.refresh(&source);
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_lists_its_mirrors_and_syncs_one_on_request() {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    rig.use_chart("app", &rig.source("app").at("main"))
        .await
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/api/v1/sources", listener.local_addr().unwrap());
    let router = helm_operator::server::sources_routes(rig.mirrors.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let get = reqwest::get(&base).await.unwrap();
    let reports: Vec<helm_operator::server::SourceReport> = get.json().await.unwrap();
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].state.as_str(), reports[0].releases),
        ("Ready", 1)
    );
    assert_eq!(reports[0].refs[0].commit.as_deref(), Some(first.as_str()));

    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    let ask = async |url: &str| {
        let mut address = reqwest::Url::parse(&format!("{base}/sync")).unwrap();
        address.query_pairs_mut().append_pair("url", url);
        reqwest::Client::new().post(address).send().await.unwrap()
    };
    let answer = ask("git@127.0.0.1:charts.git").await;
    let reports: Vec<helm_operator::server::SourceReport> = answer.json().await.unwrap();
    assert_eq!(reports[0].refs[0].commit.as_deref(), Some(second.as_str()));
    assert_eq!(
        ask("https://127.0.0.1/other").await.text().await.unwrap(),
        "[]"
    );
    assert_eq!(ask("ext::x").await.status(), 400);
}

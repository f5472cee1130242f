//! Every kind of ref, and everything that can happen to one.

use helm_operator::gitsync::{MirrorState, Reason};
use testkit::GitOptions;

use crate::support::{Rig, moved, reason, text};

fn both_protocols() -> [Rig; 2] {
    [false, true].map(|protocol_v0| {
        Rig::with(
            GitOptions {
                protocol_v0,
                ..GitOptions::default()
            },
            |_| {},
        )
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_ref_gives_its_commit() {
    for rig in both_protocols() {
        rig.write_chart("app", "one");
        let first = rig.repository.commit("first").unwrap();
        rig.repository.tag("light", None).unwrap();
        rig.repository.tag("annotated", Some("a message")).unwrap();
        rig.write_chart("app", "two");
        let second = rig.repository.commit("second").unwrap();
        rig.repository.branch("feature/with-slash").unwrap();
        rig.write_chart("app", "three");
        let third = rig.repository.commit("third").unwrap();
        for (reference, commit) in [
            (None, &second),
            (Some("HEAD"), &second),
            (Some("main"), &second),
            (Some("refs/heads/main"), &second),
            (Some("feature/with-slash"), &third),
            (Some("light"), &first),
            (Some("annotated"), &first),
            (Some("refs/tags/annotated"), &first),
            (Some(first.as_str()), &first),
            (Some(&first[..7]), &first),
            (Some(&first[..12].to_ascii_uppercase()), &first),
        ] {
            let mut source = rig.source("app");
            source.reference = reference.map(str::to_owned);
            let artifact = rig.mirrors.artifact(&source).await;
            let artifact = artifact.unwrap_or_else(|error| panic!("{reference:?}: {error}"));
            assert_eq!(&artifact.revision, commit, "{reference:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_commit_is_fetched_alone_and_never_asked_for_again() {
    let rig = Rig::new();
    rig.repository.write("big", vec![7; 3_000_000]).unwrap();
    rig.repository.commit("a large file").unwrap();
    rig.repository.remove("big").unwrap();
    rig.write_chart("app", "one");
    let pinned = rig.repository.commit("pinned").unwrap();
    rig.write_chart("app", "two");
    rig.repository.commit("later").unwrap();
    let artifact = rig
        .use_chart("app", &rig.source("app").at(&pinned))
        .await
        .unwrap();
    assert_eq!(text(&artifact, "values.yaml"), "greeting: one\n");
    assert!(
        rig.mirrors.states()[0].received_bytes < 20_000,
        "its parents were left out"
    );
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.server.traffic().count(), 0, "a commit cannot change");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_gives_no_commit_by_its_id_is_asked_for_its_history() {
    let rig = Rig::with(
        GitOptions {
            protocol_v0: true,
            ..GitOptions::default()
        },
        |_| {},
    );
    rig.repository
        .configure("uploadpack.allowAnySHA1InWant", "false")
        .unwrap();
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    rig.write_chart("app", "two");
    rig.repository.commit("second").unwrap();
    let artifact = rig
        .use_chart("app", &rig.source("app").at(&first))
        .await
        .unwrap();
    assert_eq!(text(&artifact, "values.yaml"), "greeting: one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_force_push_a_rewrite_and_a_moved_tag_are_ordinary() {
    for mut rig in both_protocols() {
        rig.write_chart("app", "one");
        let first = rig.repository.commit("first").unwrap();
        rig.repository.tag("v1", Some("first")).unwrap();
        let (branch, tag) = (rig.source("app").at("main"), rig.source("app").at("v1"));
        rig.use_chart("branch", &branch).await.unwrap();
        rig.use_chart("tag", &tag).await.unwrap();
        let greeting =
            async |source| text(&rig.mirrors.artifact(source).await.unwrap(), "values.yaml");
        assert_eq!(greeting(&tag).await, "greeting: one\n");

        rig.write_chart("app", "amended");
        rig.repository.amend("amended").unwrap();
        assert_eq!(moved(&rig.poll().await), ["branch"]);
        rig.write_chart("app", "rewritten");
        rig.repository.rewrite("rewritten").unwrap();
        assert_eq!(moved(&rig.poll().await), ["branch"]);
        let artifact = rig.mirrors.artifact(&branch).await.unwrap();
        assert_eq!(text(&artifact, "values.yaml"), "greeting: rewritten\n");
        rig.repository.tag("v1", Some("moved")).unwrap();
        assert_eq!(moved(&rig.poll().await), ["tag"]);
        rig.repository.reset(&first).unwrap();
        assert_eq!(moved(&rig.poll().await), ["branch"]);
        assert_eq!(rig.mirrors.artifact(&branch).await.unwrap().revision, first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_deleted_branch_is_told_and_one_that_comes_back_heals() {
    let mut rig = Rig::with_chart(GitOptions::default());
    rig.repository.branch("release").unwrap();
    let source = rig.source("app").at("release");
    rig.use_chart("app", &source).await.unwrap();
    rig.repository.checkout("main").unwrap();
    rig.repository.delete_branch("release").unwrap();
    let changes = rig.poll().await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    let error = rig.mirrors.artifact(&source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::RefNotFound);
    assert_eq!(
        error.to_string(),
        "the remote has no branch or tag `release`"
    );
    rig.repository
        .git(&["push", "--quiet", "origin", "release"])
        .unwrap();
    assert_eq!(rig.poll().await.len(), 1);
    assert!(rig.mirrors.artifact(&source).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_renamed_default_branch_is_followed() {
    let mut rig = Rig::with_chart(GitOptions::default());
    let source = rig.source("app");
    rig.use_chart("app", &source).await.unwrap();
    rig.repository.branch("trunk").unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("on trunk").unwrap();
    let bare = rig.repository.bare().to_str().unwrap().to_owned();
    rig.repository
        .git(&["-C", &bare, "symbolic-ref", "HEAD", "refs/heads/trunk"])
        .unwrap();
    assert_eq!(moved(&rig.poll().await), ["app"]);
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_ref_of_the_options_stands_in_for_a_missing_ref() {
    let rig = Rig::with(GitOptions::default(), |options| {
        options.default_ref = Some("develop".into());
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    rig.repository.branch("develop").unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    assert_eq!(
        rig.use_chart("app", &rig.source("app"))
            .await
            .unwrap()
            .revision,
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_ref_is_looked_up_at_once_and_not_at_the_next_poll() {
    let rig = Rig::with_chart(GitOptions::default());
    rig.use_chart("app", &rig.source("app").at("main"))
        .await
        .unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    let artifact = rig
        .use_chart("app", &rig.source("app").at(&second))
        .await
        .unwrap();
    assert_eq!(
        artifact.revision, second,
        "a commit that the mirror had not seen"
    );
    rig.write_chart("app", "three");
    let third = rig.repository.commit("third").unwrap();
    let artifact = rig
        .use_chart("app", &rig.source("app").at("main"))
        .await
        .unwrap();
    assert_eq!(
        artifact.revision, third,
        "a branch is as new as the declaration"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_appears_later_is_found() {
    let rig = Rig::with_chart(GitOptions::default());
    rig.write_chart("app", "two");
    rig.repository.git(&["add", "--all"]).unwrap();
    rig.repository
        .git(&["commit", "--quiet", "--message", "not pushed"])
        .unwrap();
    let second = rig.repository.head().unwrap();
    let source = rig.source("app").at(&second);
    assert_eq!(
        reason(rig.use_chart("app", &source).await),
        Reason::RefNotFound
    );
    rig.repository
        .git(&["push", "--quiet", "origin", "HEAD"])
        .unwrap();
    rig.mirrors.sync(None).await;
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_shallow_server_serves_what_it_has() {
    for mut rig in both_protocols() {
        rig.write_chart("app", "one");
        let first = rig.repository.commit("first").unwrap();
        rig.write_chart("app", "two");
        let second = rig.repository.commit("second").unwrap();
        let bare = rig.repository.bare().to_owned();
        let shallow = bare.with_extension("shallow");
        let (from, to) = (
            format!("file://{}", bare.display()),
            shallow.to_str().unwrap(),
        );
        rig.repository
            .git(&["clone", "--quiet", "--bare", "--depth=1", &from, to])
            .unwrap();
        std::fs::remove_dir_all(&bare).unwrap();
        std::fs::rename(&shallow, &bare).unwrap();
        let source = rig.source("app").at("main");
        let artifact = rig.use_chart("app", &source).await.unwrap();
        assert_eq!(artifact.revision, second);
        let old = rig.mirrors.artifact(&rig.source("app").at(&first)).await;
        assert_eq!(reason(old), Reason::RefNotFound);
        rig.write_chart("app", "three");
        rig.repository.commit("third").unwrap();
        let changes = rig.poll().await;
        assert_eq!(moved(&changes), ["app"], "{:?}", rig.mirrors.states());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_does_not_exist_holds_up_no_other_ref_of_its_mirror() {
    for mut rig in both_protocols() {
        rig.write_chart("app", "one");
        let first = rig.repository.commit("first").unwrap();
        for (name, digit) in [("bad-1", "1"), ("bad-2", "2"), ("bad-3", "3")] {
            let source = rig.source("app").at(digit.repeat(40));
            let found = rig.use_chart(name, &source).await;
            assert_eq!(reason(found), Reason::RefNotFound);
        }
        let good = rig.source("app").at(&first);
        rig.use_chart("good", &good).await.unwrap();
        let main = rig.source("app").at("main");
        rig.use_chart("main", &main).await.unwrap();
        rig.drain();
        rig.write_chart("app", "two");
        rig.repository.commit("second").unwrap();
        assert_eq!(moved(&rig.poll().await), ["main"]);
        assert_eq!(rig.mirrors.states()[0].state, MirrorState::Ready);
    }
}

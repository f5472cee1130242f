//! An API server that is away, slow, forgetful or restored from a backup: what was wanted meanwhile is done
//! afterwards, and nothing else.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use testkit::{ControlPlane, Exchange, Fault, Options};

use crate::support::{Lone, lone_plane, text};

fn is_watch(exchange: &Exchange) -> bool {
    exchange.query.contains("watch=")
}

/// The second revision is deployed, and the first one superseded, which is the last write.
fn two_revisions(lone: &Lone<'_>, name: &str) {
    let wanted = [(1, "superseded".to_owned()), (2, "deployed".to_owned())];
    lone.until("two revisions", || lone.records(name) == wanted);
}

#[test]
fn a_watch_that_is_cut_is_taken_up_again() {
    let lone = Lone::start(lone_plane(), "cut", &[]);
    lone.install("hello");
    lone.proxy.traffic().cut_streams();
    lone.apply("hello", "values: {greeting: after the cut}");
    lone.greets("hello", "after the cut");
    two_revisions(&lone, "hello");
}

#[test]
fn a_watch_that_went_silent_is_given_up() {
    let lone = Lone::start(lone_plane(), "silent", &["--watch-timeout=2s"]);
    lone.install("hello");
    lone.proxy.traffic().stall_streams();
    lone.apply("hello", "values: {greeting: heard}");
    lone.greets("hello", "heard");
    two_revisions(&lone, "hello");
}

#[test]
fn a_watch_whose_start_is_never_answered_is_given_up() {
    let lone = Lone::start(lone_plane(), "mute", &["--watch-timeout=2s"]);
    lone.install("hello");
    lone.proxy.traffic().fault_when(3, is_watch, Fault::Hang);
    lone.proxy.traffic().cut_streams();
    lone.apply("hello", "values: {greeting: heard}");
    lone.greets("hello", "heard");
}

/// The watch is told in three ways that its version is gone: by an event, by the status of the answer, and after
/// an outage it does not even ask. Meanwhile one release changes and one is deleted.
fn told_gone(name: &str, fault: Fault, times: usize) {
    let lone = Lone::start(lone_plane(), name, &[]);
    lone.install("stays");
    lone.install("goes");
    lone.proxy.traffic().fault_when(times, is_watch, fault);
    lone.proxy.traffic().cut_streams();
    lone.kubectl(&["delete", "helmrelease", "goes", "--wait=false"]);
    lone.apply("stays", "values: {greeting: changed}");
    // Long enough for a few tries.
    std::thread::sleep(Duration::from_secs(2));
    lone.proxy.traffic().heal();
    lone.greets("stays", "changed");
    lone.until("the other one is gone", || {
        lone.config_map("goes").is_none() && lone.records("goes").is_empty()
    });
    two_revisions(&lone, "stays");
}

#[test]
fn a_version_that_is_gone_by_an_event_is_listed_anew() {
    let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
    told_gone(
        "gone-event",
        Fault::Reply(format!("{event}\n").into_bytes()),
        3,
    );
}

#[test]
fn a_version_that_is_gone_by_the_answer_is_listed_anew() {
    told_gone("gone-answer", Fault::Status(410, None), 3);
}

#[test]
fn watches_that_are_refused_for_a_while_miss_nothing() {
    told_gone("refused", Fault::Status(503, None), usize::MAX);
}

#[test]
fn what_etcd_has_compacted_is_listed_anew() {
    let options = Options {
        api_server_flags: vec![
            "--etcd-compaction-interval=1s".to_owned(),
            "--watch-cache=false".to_owned(),
        ],
        ..Options::default()
    };
    let plane = ControlPlane::start(options).unwrap();
    testkit::apply_crd(&plane).unwrap();
    let lone = Lone::start(&plane, "compacted", &[]);
    let installed = lone.install("hello");
    let old = text(&installed, "/metadata/resourceVersion");
    // The new watches are kept back until their versions are gone.
    let wait = Fault::Delay(Duration::from_secs(6));
    lone.proxy.traffic().fault_when(3, is_watch, wait);
    lone.proxy.traffic().cut_streams();
    lone.apply("hello", "values: {greeting: changed}");
    let path =
        format!("/api/v1/configmaps?resourceVersionMatch=Exact&limit=1&resourceVersion={old}");
    lone.until("the old version is compacted", || plane.get(&path).is_err());
    lone.greets("hello", "changed");
    two_revisions(&lone, "hello");
}

#[test]
fn conflicts_on_every_write_once_are_overcome() {
    let lone = Lone::start(lone_plane(), "conflict", &[]);
    lone.install("hello");
    let generation = lone.wait("hello", |_| true)["metadata"]["generation"].clone();
    let seen = Mutex::new(HashSet::new());
    let is_first = move |exchange: &Exchange| {
        let place = (exchange.method.clone(), exchange.path.clone());
        exchange.write.is_some() && seen.lock().unwrap().insert(place)
    };
    let conflict = Fault::Status(409, None);
    lone.proxy
        .traffic()
        .fault_when(usize::MAX, is_first, conflict);
    let commit = lone.push("1.1.0");
    let deployed = lone.deployed("hello", &commit);
    assert_eq!(deployed["metadata"]["generation"], generation);
    two_revisions(&lone, "hello");
}

#[test]
fn a_status_that_always_conflicts_is_written_when_it_can_be() {
    let lone = Lone::start(lone_plane(), "status", &[]);
    let before = lone.install("hello");
    let is_status = |exchange: &Exchange| exchange.path.ends_with("/status");
    lone.proxy
        .traffic()
        .fault_when(usize::MAX, is_status, Fault::Status(409, None));
    let commit = lone.push("1.1.0");
    lone.until("the upgrade is deployed", || {
        lone.records("hello").len() == 2
    });
    // It is not deployed again and again because nobody says that it was.
    lone.proxy.traffic().forget();
    let tries = |all: &[Exchange]| all.iter().filter(|it| is_status(it)).count() >= 4;
    lone.proxy
        .traffic()
        .wait_until(crate::support::LIMIT, tries)
        .unwrap();
    two_revisions(&lone, "hello");
    lone.proxy.traffic().heal();
    let after = lone.deployed("hello", &commit);
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        after["metadata"]["generation"],
        before["metadata"]["generation"]
    );
    two_revisions(&lone, "hello");
}

#[test]
fn an_api_server_that_asks_for_patience_gets_it() {
    let lone = Lone::start(lone_plane(), "patience", &[]);
    let is_object = |exchange: &Exchange| exchange.path.ends_with("/configmaps/hello");
    let busy = Fault::Status(429, Some(8));
    lone.proxy.traffic().fault_when(1, is_object, busy);
    lone.install("hello");
    let exchanges = lone.proxy.traffic().exchanges();
    let asked: Vec<_> = exchanges.iter().filter(|it| is_object(it)).collect();
    let pause = asked[1].at - asked[0].at;
    assert!(pause >= Duration::from_secs(8), "{pause:?}");
    assert_eq!(lone.records("hello"), [(1, "deployed".to_owned())]);
}

#[test]
fn one_request_that_hangs_holds_up_no_other_release() {
    let lone = Lone::start(lone_plane(), "hang", &[]);
    let is_slow = |exchange: &Exchange| exchange.path.ends_with("/configmaps/slow");
    lone.proxy.traffic().fault_when(1, is_slow, Fault::Hang);
    lone.apply("slow", "");
    let has_come = |all: &[Exchange]| all.iter().any(is_slow);
    lone.proxy
        .traffic()
        .wait_until(crate::support::LIMIT, has_come)
        .unwrap();
    for name in ["one", "two", "three"] {
        lone.install(name);
    }
    assert!(lone.config_map("slow").is_none());
    // The deadline of the request is half a minute.
    lone.wait("slow", testkit::is_ready);
    assert_eq!(lone.records("slow"), [(1, "deployed".to_owned())]);
}

#[test]
fn an_api_server_that_was_away_finds_all_done_soon_after() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    testkit::apply_crd(&plane).unwrap();
    let lone = Lone::start(&plane, "away", &[]);
    lone.install("hello");
    plane.stop_api_server().unwrap();
    let commit = lone.push("1.1.0");
    // Long enough for watches, status and upgrade to fail some times.
    std::thread::sleep(Duration::from_secs(8));
    plane.start_api_server().unwrap();
    lone.deployed("hello", &commit);
    two_revisions(&lone, "hello");
    plane.restart_etcd().unwrap();
    lone.apply("hello", "values: {greeting: after etcd}");
    lone.greets("hello", "after etcd");
    assert!(lone.rig.daemon.controls().try_wait().unwrap().is_none());
}

#[test]
fn a_cluster_restored_from_a_backup_is_brought_up_to_date() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    testkit::apply_crd(&plane).unwrap();
    let lone = Lone::start(&plane, "restored", &[]);
    lone.install("hello");
    lone.install("other");
    let uid = |name: &str| text(&lone.config_map(name).unwrap(), "/metadata/uid");
    let uids = (uid("hello"), uid("other"));
    let backup = plane.back_up().unwrap();
    let commit = lone.push("1.1.0");
    lone.deployed("hello", &commit);
    lone.deployed("other", &commit);
    // What comes to be after the backup is forgotten with it.
    lone.install("late");
    plane.restore(&backup).unwrap();
    lone.until("both are upgraded again", || {
        lone.records("hello").len() == 2 && lone.records("other").len() == 2
    });
    lone.deployed("hello", &commit);
    two_revisions(&lone, "hello");
    two_revisions(&lone, "other");
    assert_eq!((uid("hello"), uid("other")), uids, "objects were made anew");
    // Versions are lower now than those that were seen: changes are seen all the same.
    lone.apply("other", "values: {greeting: seen}");
    lone.greets("other", "seen");
}

//! An API server that is away, slow, forgetful or restored from a backup: what was wanted meanwhile is done
//! afterwards, and nothing else.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use testkit::{ControlPlane, Exchange, Fault, Options};

use crate::support::{LIMIT, POLLS, Solo, text};

fn is_watch(exchange: &Exchange) -> bool {
    exchange.query.contains("watch=")
}

/// The second revision is deployed, and the first one superseded, which is the last write.
fn two_revisions(solo: &Solo<'_>, name: &str) {
    let wanted = [(1, "superseded".to_owned()), (2, "deployed".to_owned())];
    solo.until("two revisions", || solo.records(name) == wanted);
}

#[test]
fn a_watch_that_is_cut_is_taken_up_again() {
    let solo = Solo::new("cut", &[POLLS]);
    solo.install("hello");
    solo.proxy.traffic().cut_streams();
    solo.apply("hello", "values: {greeting: after the cut}");
    solo.greets("hello", "after the cut");
    two_revisions(&solo, "hello");
}

#[test]
fn a_watch_that_went_silent_is_given_up() {
    let solo = Solo::new("silent", &[POLLS, "--watch-timeout=2s"]);
    solo.install("hello");
    solo.proxy.traffic().stall_streams();
    solo.apply("hello", "values: {greeting: heard}");
    solo.greets("hello", "heard");
    two_revisions(&solo, "hello");
}

/// Whoever believed the silent watch would write revision 2 once more, and again, until it is given up.
#[test]
fn a_push_is_deployed_although_the_watch_has_not_shown_the_one_before() {
    let solo = Solo::new("behind", &[POLLS, "--watch-timeout=10m"]);
    solo.install("hello");
    solo.proxy.traffic().stall_streams();
    for version in ["1.1.0", "1.2.0"] {
        let commit = solo.push(version);
        solo.wait("hello", |release| {
            text(release, "/status/revision") == commit && testkit::is_ready(release)
        });
    }
    let records = solo.records("hello");
    let states: Vec<&str> = records.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(states, ["superseded", "superseded", "deployed"]);
    assert!(!solo.rig.daemon.log().contains("begun again"));
}

#[test]
fn a_watch_whose_start_is_never_answered_is_given_up() {
    let solo = Solo::new("mute", &[POLLS, "--watch-timeout=2s"]);
    solo.install("hello");
    solo.proxy.traffic().fault_when(3, is_watch, Fault::Hang);
    solo.proxy.traffic().cut_streams();
    solo.apply("hello", "values: {greeting: heard}");
    solo.greets("hello", "heard");
}

/// The watch is told in three ways that its version is gone: by an event, by the status of the answer, and after
/// an outage it does not even ask. Meanwhile one release changes and one is deleted.
fn told_gone(name: &str, fault: Fault, times: usize) {
    let solo = Solo::new(name, &[POLLS]);
    solo.install("stays");
    solo.install("goes");
    solo.proxy.traffic().forget();
    solo.proxy.traffic().fault_when(times, is_watch, fault);
    solo.proxy.traffic().cut_streams();
    solo.kubectl(&["delete", "helmrelease", "goes", "--wait=false"]);
    solo.apply("stays", "values: {greeting: changed}");
    let tries = |all: &[Exchange]| all.iter().filter(|it| is_watch(it)).count() >= 4;
    solo.proxy.traffic().wait_until(LIMIT, tries).unwrap();
    solo.proxy.traffic().heal();
    solo.greets("stays", "changed");
    solo.until("the other one is gone", || {
        solo.config_map("goes").is_none() && solo.records("goes").is_empty()
    });
    two_revisions(&solo, "stays");
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
    let solo = Solo::on(&plane, "compacted", &[POLLS]);
    let installed = solo.install("hello");
    let old = text(&installed, "/metadata/resourceVersion");
    // The new watches are kept back until their versions are gone.
    let wait = Fault::Delay(Duration::from_secs(6));
    solo.proxy.traffic().fault_when(3, is_watch, wait);
    solo.proxy.traffic().cut_streams();
    solo.apply("hello", "values: {greeting: changed}");
    let path =
        format!("/api/v1/configmaps?resourceVersionMatch=Exact&limit=1&resourceVersion={old}");
    solo.until("the old version is compacted", || plane.get(&path).is_err());
    solo.greets("hello", "changed");
    two_revisions(&solo, "hello");
}

#[test]
fn conflicts_on_every_write_once_are_overcome() {
    let solo = Solo::new("conflict", &[POLLS]);
    solo.install("hello");
    let generation = solo.wait("hello", |_| true)["metadata"]["generation"].clone();
    let seen = Mutex::new(HashSet::new());
    let is_first = move |exchange: &Exchange| {
        let place = (exchange.method.clone(), exchange.path.clone());
        exchange.write.is_some() && seen.lock().unwrap().insert(place)
    };
    let conflict = Fault::Status(409, None);
    solo.proxy
        .traffic()
        .fault_when(usize::MAX, is_first, conflict);
    let commit = solo.push("1.1.0");
    let deployed = solo.deployed("hello", &commit);
    assert_eq!(deployed["metadata"]["generation"], generation);
    two_revisions(&solo, "hello");
}

#[test]
fn a_status_that_always_conflicts_is_written_when_it_can_be() {
    let solo = Solo::new("status", &[POLLS]);
    let before = solo.install("hello");
    let is_status = |exchange: &Exchange| exchange.path.ends_with("/status");
    solo.proxy
        .traffic()
        .fault_when(usize::MAX, is_status, Fault::Status(409, None));
    let commit = solo.push("1.1.0");
    solo.until("the upgrade is deployed", || {
        solo.records("hello").len() == 2
    });
    // It is not deployed again and again because nobody says that it was.
    solo.proxy.traffic().forget();
    let tries = |all: &[Exchange]| all.iter().filter(|it| is_status(it)).count() >= 4;
    solo.proxy.traffic().wait_until(LIMIT, tries).unwrap();
    two_revisions(&solo, "hello");
    solo.proxy.traffic().heal();
    let after = solo.deployed("hello", &commit);
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        after["metadata"]["generation"],
        before["metadata"]["generation"]
    );
    two_revisions(&solo, "hello");
}

#[test]
fn an_api_server_that_asks_for_patience_gets_it() {
    let solo = Solo::new("patience", &[POLLS]);
    let is_object = |exchange: &Exchange| exchange.path.ends_with("/configmaps/hello");
    let busy = Fault::Status(429, Some(8));
    solo.proxy.traffic().fault_when(1, is_object, busy);
    solo.install("hello");
    let exchanges = solo.proxy.traffic().exchanges();
    let asked: Vec<_> = exchanges.iter().filter(|it| is_object(it)).collect();
    let pause = asked[1].at - asked[0].at;
    assert!(pause >= Duration::from_secs(8), "{pause:?}");
    assert_eq!(solo.records("hello"), [(1, "deployed".to_owned())]);
}

#[test]
fn one_request_that_hangs_holds_up_no_other_release() {
    let solo = Solo::new("hang", &[POLLS]);
    let is_slow = |exchange: &Exchange| exchange.path.ends_with("/configmaps/slow");
    solo.proxy.traffic().fault_when(1, is_slow, Fault::Hang);
    solo.apply("slow", "");
    let has_come = |all: &[Exchange]| all.iter().any(is_slow);
    solo.proxy.traffic().wait_until(LIMIT, has_come).unwrap();
    for name in ["one", "two", "three"] {
        solo.install(name);
    }
    assert!(solo.config_map("slow").is_none());
    // The deadline of the request is half a minute.
    solo.wait("slow", testkit::is_ready);
    assert_eq!(solo.records("slow"), [(1, "deployed".to_owned())]);
}

#[test]
fn an_api_server_that_was_away_finds_all_done_soon_after() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    testkit::apply_crd(&plane).unwrap();
    let solo = Solo::on(&plane, "away", &[POLLS]);
    solo.install("hello");
    plane.stop_api_server().unwrap();
    solo.proxy.traffic().forget();
    let commit = solo.push("1.1.0");
    // Watches, status and upgrade fail some times.
    let fail = |all: &[Exchange]| all.len() >= 6;
    solo.proxy.traffic().wait_until(LIMIT, fail).unwrap();
    plane.start_api_server().unwrap();
    solo.deployed("hello", &commit);
    two_revisions(&solo, "hello");
    plane.restart_etcd().unwrap();
    solo.apply("hello", "values: {greeting: after etcd}");
    solo.greets("hello", "after etcd");
    assert!(solo.rig.daemon.controls().try_wait().unwrap().is_none());
}

#[test]
fn a_cluster_restored_from_a_backup_is_brought_up_to_date() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    testkit::apply_crd(&plane).unwrap();
    let solo = Solo::on(&plane, "restored", &[POLLS]);
    solo.install("hello");
    solo.install("other");
    let uid = |name: &str| text(&solo.config_map(name).unwrap(), "/metadata/uid");
    let uids = (uid("hello"), uid("other"));
    let backup = plane.back_up().unwrap();
    let commit = solo.push("1.1.0");
    solo.deployed("hello", &commit);
    solo.deployed("other", &commit);
    // What comes to be after the backup is forgotten with it.
    solo.install("late");
    plane.restore(&backup).unwrap();
    solo.until("both are upgraded again", || {
        solo.records("hello").len() == 2 && solo.records("other").len() == 2
    });
    solo.deployed("hello", &commit);
    two_revisions(&solo, "hello");
    two_revisions(&solo, "other");
    assert_eq!((uid("hello"), uid("other")), uids, "objects were made anew");
    // Versions are lower now than those that were seen: changes are seen all the same.
    solo.apply("other", "values: {greeting: seen}");
    solo.greets("other", "seen");
}

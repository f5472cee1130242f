//! Who leads, and what becomes of who does not any more.

use std::time::{Duration, Instant};

use testkit::Fault;

use crate::fleet::{Fleet, LIMIT, Replica, SHORT, SHORT_TAKEOVER};

const LEASE: &str = "helm-operator";

#[test]
fn of_two_replicas_that_start_at_once_one_works() {
    let fleet = Fleet::new(6, 1);
    fleet.apply();
    let first = fleet.spawn(&SHORT);
    let second = fleet.spawn(&SHORT);
    for replica in [&first, &second] {
        replica.daemon.wait_until_ready().unwrap();
    }
    fleet.wait_for(&fleet.push("1.1.0"), &[&first, &second]);
    let terms = fleet.check_single_writer(LEASE);
    assert_eq!(terms.len(), 1, "{terms:?}");
    fleet.check_histories();
}

/// The default times: 15 s, 10 s, 2 s. A leader that is killed gives nothing back.
#[test]
fn a_takeover_from_a_killed_leader_takes_less_than_twenty_seconds() {
    let fleet = Fleet::new(1, 1);
    fleet.apply();
    let first = fleet.start(&[]);
    first.wait_until_leading(LIMIT);
    let second = fleet.start(&[]);
    fleet.wait_for(&fleet.push("1.1.0"), &[&first, &second]);
    assert!(!first.daemon.log().contains("taking over"), "from whom?");
    let killed = Instant::now();
    first.daemon.kill().unwrap();
    second.wait_until_leading(LIMIT);
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(
        took > Duration::from_secs(5),
        "nobody may be that quick: {took:?}"
    );
    assert!(second.daemon.log().contains("taking over"));
    fleet.wait_for(&fleet.push("1.2.0"), &[&second]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 2);
    fleet.check_histories();
}

/// Stopped in the middle of an upgrade, at several writes of it, and woken when another has taken over: it goes on
/// where it stopped, with an answer that waits for it and the next write at hand, and must not send it.
#[test]
fn a_stopped_leader_that_wakes_up_in_mid_action_writes_nothing() {
    let fleet = Fleet::new(1, 30);
    fleet.apply();
    let mut leader = fleet.start(&SHORT);
    leader.wait_until_leading(LIMIT);
    fleet.wait_for(&fleet.push("1.1.0"), &[&leader]);
    for (turn, write) in [2, 9, 20].into_iter().enumerate() {
        let standby = fleet.start(&SHORT);
        let slow = Fault::Delay(Duration::from_millis(60));
        leader.proxy.traffic().forget();
        leader
            .proxy
            .traffic()
            .fault_when(usize::MAX, |exchange| exchange.write.is_some(), slow);
        let commit = fleet.push(&format!("1.2.{turn}"));
        leader.wait_for_writes(write);
        leader.daemon.controls().signal("STOP").unwrap();
        standby.wait_until_leading(SHORT_TAKEOVER);
        leader.proxy.traffic().heal();
        leader.daemon.controls().signal("CONT").unwrap();
        let status = leader.daemon.controls().wait(LIMIT).unwrap();
        assert_eq!(status.code(), Some(1), "{}", leader.tail());
        assert!(
            leader.daemon.log().contains("leadership was lost"),
            "{}",
            leader.tail()
        );
        fleet.wait_for(&commit, &[&standby]);
        fleet.check_single_writer(LEASE);
        fleet.check_histories();
        leader = standby;
    }
    assert_eq!(fleet.check_single_writer(LEASE).len(), 4);
}

/// The leader reaches nobody, in the middle of an upgrade; then the network is back.
#[test]
fn a_leader_that_is_cut_off_from_the_api_server_stops_and_another_goes_on() {
    let fleet = Fleet::new(2, 20);
    fleet.apply();
    let first = fleet.start(&SHORT);
    first.wait_until_leading(LIMIT);
    fleet.wait_for(&fleet.push("1.1.0"), &[&first]);
    let second = fleet.start(&SHORT);
    let slow = Fault::Delay(Duration::from_millis(30));
    first.proxy.traffic().forget();
    first
        .proxy
        .traffic()
        .fault_when(usize::MAX, |exchange| exchange.write.is_some(), slow);
    let commit = fleet.push("1.2.0");
    first.wait_for_writes(10);
    first.proxy.traffic().heal();
    first.proxy.traffic().fault(Fault::Hang);
    first.proxy.traffic().stall_streams();
    second.wait_until_leading(SHORT_TAKEOVER);
    first.proxy.traffic().heal();
    let status = first.daemon.controls().wait(LIMIT).unwrap();
    assert_eq!(status.code(), Some(1), "{}", first.tail());
    fleet.wait_for(&commit, &[&second]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 2);
    fleet.check_histories();
}

/// New replica, old one ends, again and again, while the chart moves on.
#[test]
fn a_rolling_update_loses_nothing() {
    let fleet = Fleet::new(12, 3);
    fleet.apply();
    let mut old = fleet.start(&SHORT);
    let mut commit = String::new();
    for turn in 0..4 {
        commit = fleet.push(&format!("1.{}.0", turn + 1));
        // The update comes into the middle of the work.
        old.wait_for_writes(15);
        let new = fleet.start(&SHORT);
        let ended = old.daemon.terminate().unwrap();
        assert!(ended.success(), "{}", old.tail());
        // It was given back: nobody waits for its end.
        let took = new.wait_until_leading(LIMIT);
        assert!(took < Duration::from_secs(3), "{took:?}\n{}", old.tail());
        old = new;
    }
    fleet.wait_for(&commit, &[&old]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 5);
    fleet.check_histories();
}

/// A mistake of who runs it: two daemons that know nothing of each other. They do the work twice, and the records
/// stay whole: each is created by one of them, and changed by who has seen it last.
#[test]
fn two_daemons_without_election_leave_the_records_whole() {
    let fleet = Fleet::new(6, 3);
    fleet.apply();
    let flags = ["--leader-election=false"];
    let first = fleet.start(&flags);
    let second = fleet.start(&flags);
    let mut commit = String::new();
    for version in ["1.1.0", "1.2.0", "1.3.0"] {
        commit = fleet.push(version);
        fleet.wait_for(&commit, &[&first, &second]);
    }
    fleet.wait_for(&commit, &[&first, &second]);
    assert_eq!(fleet.writers("/secrets").len(), 2, "both have worked");
    fleet.check_histories();
}

/// The standby knows of the commit that it saw last, which is older than what is deployed: nobody has told it of the
/// push, and it polls seldom. It looks before it works.
#[test]
fn a_new_leader_deploys_nothing_older_than_the_last_one_did() {
    let fleet = Fleet::new(4, 1);
    fleet.apply();
    let seldom = [&SHORT[..], &["--git-poll-interval=10m"]].concat();
    let first = fleet.start(&seldom);
    first.wait_until_leading(LIMIT);
    let second = fleet.start(&seldom);
    let sync = |replica: &Replica<'_>| {
        assert_eq!(replica.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    };
    let old = fleet.repository.head().unwrap();
    fleet.wait_for(&old, &[&first]);
    second.wait_for_mirror();
    let new = fleet.push("1.1.0");
    sync(&first);
    fleet.wait_for(&new, &[&first]);
    first.daemon.kill().unwrap();
    second.wait_until_leading(SHORT_TAKEOVER);
    let newest = fleet.push("1.2.0");
    sync(&second);
    fleet.wait_for(&newest, &[&second]);
    // One for each commit: none was deployed twice.
    assert_eq!(fleet.revisions(), vec![3; fleet.size]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 2);
}

/// A leader that has deployed, and a replica that stands by; neither polls while a test runs.
fn deaf(fleet: &Fleet) -> [Replica<'_>; 2] {
    fleet.apply();
    let seldom = [
        &SHORT[..],
        &["--git-poll-interval=10m", "--pod-ip=127.0.0.1"],
    ]
    .concat();
    let first = fleet.start(&seldom);
    first.wait_until_leading(LIMIT);
    let second = fleet.start(&seldom);
    fleet.wait_for(&fleet.repository.head().unwrap(), &[&first]);
    [first, second]
}

/// A Service leads to any replica; what reaches one that stands by is passed on.
#[test]
fn a_push_that_a_standby_hears_of_reaches_the_leader() {
    let fleet = Fleet::new(2, 1);
    let [first, second] = deaf(&fleet);
    let commit = fleet.push("1.1.0");
    // It knows of the leader once it has looked at the Lease.
    second.wait_until_standing_by();
    assert_eq!(
        second.daemon.post("/api/v1/sync-git", "").unwrap(),
        (200, "OK".to_owned())
    );
    fleet.wait_for(&commit, &[&first]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 1);
    // A leader that is gone is no reason to forget it: the next one deploys what was pushed, and nobody says it again.
    let commit = fleet.push("1.2.0");
    first.daemon.kill().unwrap();
    assert_eq!(second.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    second.wait_until_leading(SHORT_TAKEOVER);
    fleet.wait_for(&commit, &[&second]);
    let commit = fleet.push("1.3.0");
    assert_eq!(second.daemon.post("/api/v1/sync-git", "").unwrap().0, 200);
    fleet.wait_for(&commit, &[&second]);
}

/// The leader is stopped and takes connections without a word. Who stands by passes the push on, and does it itself as
/// soon as it leads; whoever pushed is answered then, and the old leader finds that its time has passed.
#[test]
fn a_push_that_a_silent_leader_does_not_answer_is_done_by_the_next_one() {
    let fleet = Fleet::new(2, 1);
    let [first, second] = deaf(&fleet);
    second.wait_until_standing_by();
    second.wait_for_mirror();
    first.daemon.controls().signal("STOP").unwrap();
    let commit = fleet.push("1.1.0");
    let asked = Instant::now();
    assert_eq!(
        second.daemon.post("/api/v1/sync-git", "").unwrap(),
        (200, "OK".to_owned())
    );
    assert!(asked.elapsed() < SHORT_TAKEOVER, "{:?}", asked.elapsed());
    let log = second.daemon.log();
    assert!(log.contains("not passed on to the leader"), "{log}");
    fleet.wait_for(&commit, &[&second]);
    first.daemon.controls().signal("CONT").unwrap();
    let status = first.daemon.controls().wait(LIMIT).unwrap();
    assert_eq!(status.code(), Some(1), "{}", first.tail());
    assert_eq!(fleet.revisions(), vec![2; fleet.size]);
    assert_eq!(fleet.check_single_writer(LEASE).len(), 2);
}

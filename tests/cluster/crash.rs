//! A kill at any moment needs no person.

use testkit::{Fault, Victim};

use crate::support::{POLLS, Solo, records, text};

/// The template of a second object.
const SECOND: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-second'}\ndata: {version: '{{ .Chart.Version }}'}\n";

/// The writes of an upgrade, in their order.
const WRITES: [&str; 7] = [
    "PATCH /status",
    "POST /secrets",
    "PATCH /configmaps/hello",
    "PATCH /configmaps/hello-second",
    "PUT /secrets/sh.helm.release.v1.hello.v2",
    "PUT /secrets/sh.helm.release.v1.hello.v1",
    "PATCH /status",
];

/// The daemon is killed before or after its `write`th write of an upgrade, from 1, started again, and left to
/// itself.
fn killed_in_upgrade(name: &str, write: usize, fault: fn(Victim) -> Fault) {
    // The status loop would write between the writes of the table.
    let flags = [POLLS, "--workers=1", "--status-update-interval=10m"];
    let mut solo = Solo::new(name, &flags);
    solo.repository
        .write("charts/hello/templates/second.yaml", SECOND)
        .unwrap();
    solo.repository.commit("Add an object").unwrap();
    solo.install("hello");
    let uid = text(&solo.config_map("hello").unwrap(), "/metadata/uid");
    let controls = solo.rig.daemon.controls();
    solo.proxy.traffic().forget();
    solo.proxy
        .traffic()
        .fault_at_write(write, fault(Victim::from(controls.clone())));
    let commit = solo.push("1.1.0");
    controls.wait(crate::support::LIMIT).unwrap();
    check_writes(&solo, write);
    solo.proxy.traffic().heal();
    solo.bench.rig.daemon.start_again().unwrap();
    solo.deployed("hello", &commit);
    let records = records(solo.rig.plane, &solo.namespace, "hello");
    let wanted = [(1, "superseded".to_owned()), (2, "deployed".to_owned())];
    assert_eq!(records, wanted);
    let map = solo.config_map("hello").unwrap();
    assert_eq!(text(&map, "/metadata/uid"), uid, "it was made anew");
    let second = solo.config_map("hello-second").unwrap();
    assert_eq!(text(&second, "/data/version"), "1.1.0");
    solo.helm(&["status", "hello"]);
}

/// The writes until the kill are those of the table, so that the names of the windows are true.
fn check_writes(solo: &Solo<'_>, write: usize) {
    let exchanges = solo.proxy.traffic().exchanges();
    let writes: Vec<_> = exchanges.iter().filter(|it| it.write.is_some()).collect();
    assert_eq!(writes.len(), write);
    for (made, wanted) in writes.iter().zip(WRITES) {
        let (method, path) = wanted.split_once(' ').unwrap();
        assert!(
            made.method == method && made.path.ends_with(path),
            "{} {} instead of {wanted}",
            made.method,
            made.path
        );
    }
}

#[test]
fn a_kill_before_the_record_of_an_upgrade_is_written() {
    killed_in_upgrade("window-1", 2, Fault::KillBefore);
}

#[test]
fn a_kill_after_the_record_of_an_upgrade_is_written() {
    killed_in_upgrade("window-2", 2, Fault::KillAfter);
}

#[test]
fn a_kill_between_the_objects_of_an_upgrade() {
    killed_in_upgrade("window-3", 3, Fault::KillAfter);
}

#[test]
fn a_kill_between_the_objects_of_an_upgrade_and_its_end() {
    killed_in_upgrade("window-4", 4, Fault::KillAfter);
}

/// Helm supersedes the old revision first; here the new one is deployed first, so that both are.
#[test]
fn a_kill_between_the_last_two_writes_of_an_upgrade() {
    killed_in_upgrade("window-5", 5, Fault::KillAfter);
}

#[test]
fn a_kill_before_the_status_tells_of_an_upgrade() {
    killed_in_upgrade("window-6", 7, Fault::KillBefore);
}

/// Killed again and again, always a little later after its start; each time that it came to rest all the same,
/// there is something new to do.
#[test]
fn twenty_kills_of_the_daemon_in_a_row_are_survived() {
    let mut solo = Solo::new("kills", &[POLLS]);
    solo.install("hello");
    let mut pushes = 1;
    let mut commit = solo.push("1.1.0");
    for kill in 0..20 {
        solo.proxy.traffic().forget();
        let controls = solo.rig.daemon.controls();
        let fault = Fault::KillAfter(Victim::from(controls.clone()));
        solo.proxy.traffic().fault_at(12 + kill % 10, fault);
        solo.until("it is killed", || {
            let release = solo.rig.release(&solo.namespace, "hello").unwrap();
            if text(&release, "/status/revision") == commit {
                pushes += 1;
                commit = solo.push(&format!("1.{pushes}.0"));
            }
            controls.try_wait().unwrap().is_some()
        });
        solo.proxy.traffic().heal();
        solo.bench.rig.daemon.spawn_again().unwrap();
    }
    solo.rig.daemon.wait_until_ready().unwrap();
    solo.deployed("hello", &commit);
    let records = solo.records("hello");
    let states: Vec<&str> = records.iter().map(|(_, status)| status.as_str()).collect();
    let (newest, older) = states.split_last().unwrap();
    assert_eq!(*newest, "deployed", "{records:?}");
    assert!(
        older.iter().all(|status| *status == "superseded"),
        "{records:?}"
    );
    assert!(
        records.last().unwrap().0 <= pushes + 1,
        "{pushes}: {records:?}"
    );
}

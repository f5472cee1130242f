//! Machines whose clocks are wrong.

use std::path::PathBuf;
use std::process::Command;

use testkit::run;

use crate::fleet::{Fleet, LIMIT, SHORT, SHORT_TAKEOVER};

/// Compiles the library that moves the wall clock of a process; none if there is no C compiler.
fn skew_library(directory: &std::path::Path) -> Option<PathBuf> {
    let source = testkit::repository().join("tests/cluster_leader/skew.c");
    let library = directory.join("skew.so");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source);
    if compiler.get_program().is_empty() || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler to move clocks with");
        return None;
    }
    run(&mut compiler).unwrap();
    Some(library)
}

/// one replica lives an hour ahead, the other an hour behind. Whoever is read as long expired, or as renewed in
/// the future, keeps the Lease while it renews it, and loses it when it does not.
#[test]
fn replicas_whose_clocks_differ_by_hours_neither_steal_nor_lose_the_lease() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(library) = skew_library(scratch.path()) else {
        return;
    };
    let fleet = Fleet::new(4, 1);
    fleet.apply();
    let clock = |seconds: &str| {
        [
            ("LD_PRELOAD".to_owned(), library.display().to_string()),
            ("SKEW_SECONDS".to_owned(), seconds.to_owned()),
        ]
    };
    // Behind by minutes only: the API server's certificate is as young as this test.
    let ahead = fleet.spawn_in(&SHORT, &clock("3600"));
    ahead.wait_until_leading(LIMIT);
    let now = fleet.start(&SHORT);
    fleet.wait_for(&fleet.push("1.1.0"), &[&ahead, &now]);
    // Longer than a lease: time enough to steal it.
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert_eq!(fleet.check_single_writer("helm-operator").len(), 1);
    ahead.daemon.kill().unwrap();
    now.wait_until_leading(SHORT_TAKEOVER);
    fleet.wait_for(&fleet.push("1.2.0"), &[&now]);
    // And the other way round: the one that waits sees renewals from an hour ago.
    let ahead = fleet.spawn_in(&SHORT, &clock("3600"));
    ahead.daemon.wait_until_ready().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert_eq!(fleet.check_single_writer("helm-operator").len(), 2);
    now.daemon.kill().unwrap();
    ahead.wait_until_leading(SHORT_TAKEOVER);
    fleet.wait_for(&fleet.push("1.3.0"), &[&ahead]);
    assert_eq!(fleet.check_single_writer("helm-operator").len(), 3);
    fleet.check_histories();
}

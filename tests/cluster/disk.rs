//! Directories of the daemon that cannot be used: told on the releases, and healed without a restart.

use std::fs;
use std::time::Duration;

use testkit::{Daemon, DaemonOptions, ScratchDir, SmallDisk};

use crate::support::{BINARY, POLLS, Solo, condition, message, shared};

/// The daemon has been one process all the time.
fn was_started_once(solo: &Solo<'_>) {
    let log = solo.rig.daemon.log();
    assert_eq!(log.matches("starting operator").count(), 1, "{log}");
}

#[test]
fn r15_a_read_only_cache_directory_is_told_and_the_last_good_release_stays() {
    let place = ScratchDir::new("read-only").unwrap();
    let Some(disk) = SmallDisk::mount(&place.join("disk"), "size=8m").unwrap() else {
        return;
    };
    let cache = format!("--cache-dir={}", place.join("disk/cache").display());
    let solo = Solo::new("read-only", &[POLLS, &cache]);
    solo.install("hello");
    disk.remount("ro").unwrap();
    let second = solo.push("1.1.0");
    let told = solo.wait("hello", |release| {
        condition(release, "ChartFetched").starts_with("False")
    });
    let said = message(&told, "ChartFetched");
    assert!(
        said.contains(": StorageFailed: ") && said.contains("Read-only file system"),
        "{said}"
    );
    assert!(condition(&told, "Ready").starts_with("True"), "{told:#}");
    disk.remount("rw").unwrap();
    let healed = solo.deployed("hello", &second);
    assert_eq!(condition(&healed, "ChartFetched"), "True ChartFetched");
    was_started_once(&solo);
}

#[test]
fn r15_a_lock_directory_that_cannot_be_used_is_told_on_the_release_and_heals() {
    let place = ScratchDir::new("locks").unwrap();
    let locks = place.join("locks");
    let flag = format!("--lock-dir={}", locks.display());
    let solo = Solo::new("locks", &[POLLS, &flag]);
    solo.install("hello");
    fs::rename(&locks, place.join("aside")).unwrap();
    fs::write(&locks, "x").unwrap();
    solo.apply("hello", "values: {greeting: unlocked}");
    let told = solo.wait("hello", |release| {
        condition(release, "Ready") == "False StorageFailed"
    });
    let said = message(&told, "Ready");
    assert!(said.contains("cannot use lock file"), "{said}");
    fs::remove_file(&locks).unwrap();
    fs::rename(place.join("aside"), &locks).unwrap();
    solo.greets("hello", "unlocked");
    solo.wait("hello", testkit::is_ready);
    was_started_once(&solo);
}

#[test]
fn r15_a_daemon_whose_directories_cannot_be_used_waits_for_them() {
    let place = ScratchDir::new("no-directory").unwrap();
    for (flag, said) in [
        ("--lock-dir", "cannot use lock file"),
        ("--cache-dir", "the cache directory"),
    ] {
        let file = place.join(flag);
        fs::write(&file, "x").unwrap();
        let directory = format!("{flag}={}", file.join("inner").display());
        let namespace = shared().plane.namespace("no-directory").unwrap();
        let only = format!("--allow-namespace={namespace}");
        let kubeconfig = shared().plane.kubeconfig();
        let options = DaemonOptions::local(BINARY, kubeconfig, &[&directory, &only]);
        let daemon = Daemon::spawn(options).unwrap();
        let end = std::time::Instant::now() + crate::support::LIMIT;
        while !daemon.get("/healthz").is_ok_and(|(code, _)| code == 200) {
            assert!(std::time::Instant::now() < end, "{}", daemon.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(daemon.get("/readyz").unwrap().0, 503, "{flag}");
        let log = daemon.log();
        assert!(
            log.contains(said) && log.contains("nothing is synced"),
            "{log}"
        );
        fs::remove_file(&file).unwrap();
        daemon.wait_until_ready().unwrap();
        assert!(daemon.terminate().unwrap().success());
    }
}

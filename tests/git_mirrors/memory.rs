//! What hostile answers cost in memory: the tests of `hostile` again, in a process that is watched.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

/// Far above what the limits of those tests allow to be held at once, far below what they are sent.
const CAP_KIB: u64 = 400 << 10;

/// The most memory that a process has had, in KiB; none when it has ended.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn s12_hostile_answers_end_within_a_cap_of_memory() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::", "--test-threads=2"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut most = 0;
    let status = loop {
        most = most.max(peak(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // The number only grows, so that little is missed.
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    assert!(most > 1000 && most < CAP_KIB, "{most} KiB");
}

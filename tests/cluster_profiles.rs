//! Profiles of a real daemon: `cargo test --features profiling --test cluster_profiles`.

#![cfg(test)]
#![cfg(feature = "profiling")]

use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{ControlPlane, DaemonOptions, Rig};

fn rig(flags: &[&str], environment: &[(&str, &str)]) -> Rig<'static> {
    let plane = ControlPlane::shared().unwrap();
    let binary = env!("CARGO_BIN_EXE_helm-operator");
    let mut options = DaemonOptions::local(binary, plane.kubeconfig(), flags);
    let pairs = environment.iter();
    options.environment = pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Rig::start_with(plane, options).unwrap()
}

fn profile_of_a_busy_daemon(rig: &Rig<'_>) -> String {
    let done = AtomicBool::new(false);
    let ask = || {
        while !done.load(Ordering::Relaxed) {
            rig.daemon.get("/metrics").unwrap();
        }
    };
    let (code, profile) = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(ask);
        }
        let profile = rig.daemon.get("/debug/pprof/profile?seconds=3");
        done.store(true, Ordering::Relaxed);
        profile.unwrap()
    });
    assert_eq!(code, 200, "{profile}");
    profile
}

#[test]
fn profiles_are_served_when_they_are_wanted() {
    let sampled = [("_RJEM_MALLOC_CONF", "prof:true,lg_prof_sample:12")];
    let rig = rig(&["--profiling", "--leader-election=false"], &sampled);
    let (code, heap) = rig.daemon.get("/debug/pprof/heap").unwrap();
    assert_eq!(code, 200, "{heap}");
    assert!(heap.len() > 100, "{}", heap.len());
    // Something to do, so that there is something to see; the samples are few, and may all be of others' code.
    let mut profiles = (0..10).map(|_| profile_of_a_busy_daemon(&rig));
    let busy = profiles
        .find(|text| text.contains("helm_operator"))
        .expect("samples of our own code");
    let stacks: Vec<&str> = busy.lines().collect();
    let is_folded = |line: &&str| {
        line.rsplit_once(' ')
            .is_some_and(|(stack, count)| stack.contains(';') && count.parse::<u32>().is_ok())
    };
    assert!(stacks.iter().all(is_folded), "{stacks:#?}");
}

#[test]
fn profiles_are_off_by_default() {
    let rig = rig(&[], &[]);
    assert_eq!(
        rig.daemon.get("/debug/pprof/profile?seconds=1").unwrap().0,
        404
    );
    assert_eq!(rig.daemon.get("/debug/pprof/heap").unwrap().0, 404);
}

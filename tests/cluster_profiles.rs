//! Profiles of a real daemon: `cargo test --features profiling --test cluster_profiles`.

#![cfg(test)]
#![cfg(feature = "profiling")]

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

#[test]
fn profiles_are_served_when_they_are_wanted() {
    let sampled = [("_RJEM_MALLOC_CONF", "prof:true,lg_prof_sample:12")];
    let rig = rig(&["--profiling", "--leader-election=false"], &sampled);
    let (code, heap) = rig.daemon.get("/debug/pprof/heap").unwrap();
    assert_eq!(code, 200, "{heap}");
    assert!(heap.len() > 100, "{}", heap.len());
    // Something to do, so that there is something to see.
    let busy = std::thread::scope(|scope| {
        let profile = scope.spawn(|| rig.daemon.get("/debug/pprof/profile?seconds=3").unwrap());
        while !profile.is_finished() {
            rig.daemon.get("/metrics").unwrap();
        }
        profile.join().unwrap()
    });
    assert_eq!(busy.0, 200, "{}", busy.1);
    let stacks: Vec<&str> = busy.1.lines().collect();
    assert!(!stacks.is_empty());
    let is_folded = |line: &&str| {
        line.rsplit_once(' ')
            .is_some_and(|(stack, count)| stack.contains(';') && count.parse::<u32>().is_ok())
    };
    assert!(stacks.iter().all(is_folded), "{stacks:#?}");
    assert!(busy.1.contains("helm_operator"), "{stacks:#?}");
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

//! The pure core (`recover`, `decide`, the status and the actions) against an API server in memory, through
//! thousands of histories of crashes, lost answers, outages, refusals, stale caches and other clients: all
//! short ones, and random long ones. Whatever happened, the next syncs bring the release to where it should
//! be, and then nothing more is written.
//!
//! A random run prints its seed; `MODEL_SEED=… cargo test --test model` repeats it, and `MODEL_RUNS=…` makes
//! it longer.

#![cfg(test)]

mod charts;
mod exhaustive;
mod faults;
mod random;
mod server;
mod table;
mod world;

use helm_engine::Status;

use charts::Chart;
use faults::Faults;
use world::{End, Spec, World, deployed};

/// How many syncs without faults may be needed at most: one to wait for another client, one to go on with
/// what was interrupted, up to three tries that `maxRetries` allows, one to roll back, one to be sure.
const ENOUGH: usize = 8;

/// Lets the world come to rest, and checks where it comes to.
fn settle(world: &mut World, story: &str) {
    for _ in 0..ENOUGH {
        let asked = world.sync(&Faults::NONE, 0);
        asked.unwrap_or_else(|stop| panic!("{story}: {stop:?}"));
    }
    check_quiet(world, story);
    check_history(world, story);
    check_objects(world, story);
}

/// Nothing is written any more.
fn check_quiet(world: &mut World, story: &str) {
    let writes = world.server.writes;
    for _ in 0..3 {
        let end = world.sync(&Faults::NONE, 0).unwrap();
        assert!(
            matches!(end, End::Settled | End::Held),
            "{story}: {end:?} {:?}",
            world.status.condition("Ready")
        );
    }
    assert_eq!(world.server.writes, writes, "{story}: it goes on writing");
}

/// One deployed revision at most, nothing pending, no more revisions than are kept; where the chart works,
/// the newest one is it.
fn check_history(world: &mut World, story: &str) {
    let history = world.history();
    let revisions = history.revisions();
    let states = revisions.iter().map(|found| (found.revision, found.status));
    let told = format!("{story}: {:?}", states.collect::<Vec<_>>());
    let count = |status| {
        revisions
            .iter()
            .filter(|found| found.status == status)
            .count()
    };
    assert!(count(Status::Deployed) <= 1, "{told}");
    assert!(
        revisions.iter().all(|found| !found.status.is_pending()),
        "{told}"
    );
    assert!(revisions.len() <= 5, "{told}");
    let newest = history.newest().map(|newest| newest.status);
    let Spec {
        chart,
        rollback,
        test,
        ..
    } = world.spec;
    match chart {
        Chart::Good(_) => assert_eq!(newest, Some(Status::Deployed), "{told}"),
        Chart::BadTest if !test => assert_eq!(newest, Some(Status::Deployed), "{told}"),
        // An install whose tests fail is taken back.
        Chart::BadTest => assert!(matches!(newest, None | Some(Status::Deployed)), "{told}"),
        // There may have been nothing to go back to.
        _ if rollback && count(Status::Deployed) > 0 => {
            assert_eq!(newest, Some(Status::Deployed), "{told}");
        }
        // What was rolled back while that was still wanted stays so.
        _ if newest == Some(Status::Deployed) => {
            assert_ne!(deployed(&history), Some(chart), "{told}");
        }
        _ => assert_eq!(newest, Some(Status::Failed), "{told}"),
    }
    if newest == Some(Status::Deployed) && (!chart.is_bad() || chart == Chart::BadTest && !test) {
        assert_eq!(deployed(&history), Some(chart), "{told}");
    }
}

/// The objects of the deployed revision, and no others; all of them the release's.
fn check_objects(world: &mut World, story: &str) {
    let history = world.history();
    let is_deployed = history
        .newest()
        .is_some_and(|newest| newest.status == Status::Deployed);
    if let Some(chart) = deployed(&history).filter(|_| is_deployed) {
        assert_eq!(world.objects(), chart.objects(), "{story}");
    }
    if history.is_empty() {
        assert!(world.objects().is_empty(), "{story}");
    }
    let release = helm_kube::ReleaseKey::new("web", "shop");
    for object in world.server.list("configmaps") {
        assert!(
            helm_kube::is_owned(object, &release),
            "{story}: {object:#?}"
        );
    }
}

/// The release goes without a trace.
fn take_away(world: &mut World, story: &str) {
    let gone = world.uninstall(false, &Faults::NONE);
    gone.unwrap_or_else(|stop| panic!("{story}: {stop:?}"));
    assert!(world.objects().is_empty(), "{story}: {:?}", world.objects());
    assert!(world.server.list("secrets").next().is_none(), "{story}");
}

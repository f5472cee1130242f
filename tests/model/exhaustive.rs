//! All short histories: every fault at every request of every action, and every pair of crashes.

use std::collections::BTreeSet;
use std::time::Instant;

use helm_kube::Verb;

use crate::charts::Chart;
use crate::faults::{Fault, Faults};
use crate::world::{End, Spec, Stop, World};
use crate::{settle, take_away};

/// What is done when it goes wrong.
#[derive(Clone, Copy, Debug)]
enum Act {
    Sync,
    RollBack,
    Test,
    Uninstall,
}

struct Scenario {
    name: &'static str,
    /// Charts that were deployed before, oldest first.
    before: &'static [Chart],
    /// What the spec says now.
    spec: Spec,
    act: Act,
}

const fn spec(chart: Chart) -> Spec {
    Spec {
        chart,
        rollback: false,
        retry: false,
        limit: None,
        test: false,
    }
}

const ONE: Chart = Chart::Good(1);
const TWO: Chart = Chart::Good(2);

fn scenarios() -> Vec<Scenario> {
    let scenario = |name, before, spec, act| Scenario {
        name,
        before,
        spec,
        act,
    };
    let with = |chart, rollback, test| Spec {
        rollback,
        test,
        ..spec(chart)
    };
    vec![
        scenario("install", &[], spec(ONE), Act::Sync),
        scenario("install with a hook before", &[], spec(TWO), Act::Sync),
        scenario("install and test", &[], with(ONE, false, true), Act::Sync),
        scenario(
            "install whose hook fails",
            &[],
            spec(Chart::BadHook),
            Act::Sync,
        ),
        scenario(
            "install whose object is refused",
            &[],
            spec(Chart::BadObject),
            Act::Sync,
        ),
        scenario(
            "install whose test fails",
            &[],
            with(Chart::BadTest, false, true),
            Act::Sync,
        ),
        scenario("upgrade", &[ONE], spec(TWO), Act::Sync),
        scenario(
            "upgrade over a failed install",
            &[Chart::BadObject],
            spec(TWO),
            Act::Sync,
        ),
        scenario(
            "upgrade over a failed upgrade",
            &[ONE, Chart::BadObject],
            spec(TWO),
            Act::Sync,
        ),
        scenario(
            "upgrade whose hook fails",
            &[ONE],
            spec(Chart::BadHook),
            Act::Sync,
        ),
        scenario(
            "upgrade that is rolled back",
            &[ONE],
            with(Chart::BadObject, true, false),
            Act::Sync,
        ),
        scenario(
            "upgrade whose test fails",
            &[ONE],
            with(Chart::BadTest, true, true),
            Act::Sync,
        ),
        scenario("rollback", &[ONE, TWO], spec(ONE), Act::RollBack),
        scenario("test", &[ONE], spec(ONE), Act::Test),
        scenario("uninstall", &[ONE, TWO], spec(TWO), Act::Uninstall),
    ]
}

impl Scenario {
    fn prepare(&self) -> World {
        let mut world = World::new(spec(ONE));
        for &chart in self.before {
            world.change(spec(chart));
            for _ in 0..2 {
                world.sync(&Faults::NONE, 0).unwrap();
            }
        }
        world.change(self.spec);
        world.server.log.clear();
        world
    }

    fn act(&self, world: &mut World, faults: &Faults) -> Result<(), Stop> {
        match self.act {
            Act::Sync => world.sync(faults, 0).map(|_| ()),
            // A person who sees that it was done does not do it again.
            Act::RollBack if world.is_rolled_back() => Ok(()),
            Act::RollBack => world.roll_back(Some(1), faults),
            Act::Test => world.test(faults),
            Act::Uninstall => world.uninstall(false, faults),
        }
    }

    /// Whether the action is one that a person repeats until it is done, or that the spec keeps asking for.
    fn finish(&self, mut world: World, story: &str) -> World {
        if let Act::Uninstall = self.act {
            take_away(&mut world, story);
            return world;
        }
        settle(&mut world, story);
        world
    }
}

/// What the objects of a release went through: names of those created and deleted.
fn changes(world: &World, verb: Verb) -> BTreeSet<String> {
    let of_release = |path: &&String| path.contains("/configmaps/");
    let log = world.server.log.iter();
    let wanted = log.filter(|(other, _)| *other == verb);
    wanted
        .map(|(_, path)| path)
        .filter(of_release)
        .cloned()
        .collect()
}

/// How often a Job was started.
fn runs(world: &World, name: &str) -> usize {
    let path = format!("/jobs/{name}");
    let log = world.server.log.iter();
    log.filter(|(verb, at)| *verb == Verb::Create && at.ends_with(&path))
        .count()
}

struct Reference {
    requests: usize,
    deleted: BTreeSet<String>,
    runs: [usize; 2],
}

/// The hooks that run once for each action that was begun; tests may be run again.
const HOOKS: [&str; 2] = ["before", "after"];

impl Reference {
    /// The run without faults.
    fn of(scenario: &Scenario) -> Self {
        let mut world = scenario.prepare();
        // Charts that are bad make it fail, as they should.
        scenario.act(&mut world, &Faults::NONE).ok();
        let requests = world.asked;
        let world = scenario.finish(world, scenario.name);
        Self {
            requests,
            deleted: changes(&world, Verb::Delete),
            runs: HOOKS.map(|hook| runs(&world, hook)),
        }
    }

    /// After outages and crashes, nothing was deleted that should stay.
    fn check(&self, world: &World, story: &str) {
        let deleted = changes(world, Verb::Delete);
        assert!(
            deleted.is_subset(&self.deleted),
            "{story}: {deleted:?} instead of {:?}",
            self.deleted
        );
    }
}

#[test]
fn every_fault_at_every_request_of_every_action_is_mended() {
    let started = Instant::now();
    let mut count = 0;
    for scenario in scenarios() {
        let reference = Reference::of(&scenario);
        let fresh = scenario.prepare();
        for at in 1..=reference.requests {
            for fault in Fault::ALL {
                let story = format!("{}: {fault:?} at request {at}", scenario.name);
                let mut world = fresh.clone();
                scenario.act(&mut world, &Faults::one(at, fault)).ok();
                // What the API server has refused is tried again when a person asks for it.
                if fault.is_refusal() {
                    world.generation += 1;
                }
                let world = scenario.finish(world, &story);
                if !fault.is_refusal() {
                    reference.check(&world, &story);
                }
                let is_gone_on_with = matches!(scenario.act, Act::Sync) && fault.is_crash();
                if is_gone_on_with && !scenario.spec.chart.is_bad() {
                    let again = HOOKS.map(|hook| runs(&world, hook));
                    assert_eq!(again, reference.runs, "{story}: runs of {HOOKS:?}");
                }
                count += 1;
            }
        }
        println!("{}: {} requests", scenario.name, reference.requests);
    }
    println!("{count} runs in {:?}", started.elapsed());
}

/// The scenarios of which all pairs are run.
const DEEP: [&str; 5] = [
    "install",
    "upgrade",
    "upgrade that is rolled back",
    "rollback",
    "uninstall",
];

#[test]
fn every_crash_followed_by_every_crash_is_mended() {
    let started = Instant::now();
    let mut count = 0;
    let deep = scenarios()
        .into_iter()
        .filter(|scenario| DEEP.contains(&scenario.name));
    for scenario in deep {
        let reference = Reference::of(&scenario);
        let fresh = scenario.prepare();
        for crash in 1..=reference.requests {
            let mut crashed = fresh.clone();
            let died = Faults::one(crash, Fault::CrashAfter);
            scenario.act(&mut crashed, &died).ok();
            for second in 1..=reference.requests + 4 {
                let story = format!(
                    "{}: killed after request {crash}, and again after {second}",
                    scenario.name
                );
                let mut world = crashed.clone();
                let died = Faults::one(second, Fault::CrashAfter);
                scenario.act(&mut world, &died).ok();
                let is_over = world.asked < second;
                let world = scenario.finish(world, &story);
                reference.check(&world, &story);
                count += 1;
                if is_over {
                    break;
                }
            }
        }
    }
    println!("{count} runs in {:?}", started.elapsed());
}

/// What is said once is not tried again and again.
#[test]
fn a_refusal_that_stays_ends_in_rest() {
    for chart in [Chart::BadHook, Chart::BadObject] {
        for rollback in [false, true] {
            let mut world = World::new(spec(ONE));
            world.sync(&Faults::NONE, 0).unwrap();
            world.change(Spec {
                rollback,
                ..spec(chart)
            });
            let end = world.sync(&Faults::NONE, 0).unwrap();
            assert_eq!(end, End::Failed);
            let writes = world.server.writes;
            assert_eq!(world.sync(&Faults::NONE, 0).unwrap(), End::Held);
            assert_eq!(
                world.server.writes, writes,
                "{chart:?}, rollback {rollback}"
            );
        }
    }
}

/// `maxRetries` counts the rollbacks of one spec: the next one has its own.
#[test]
fn rollbacks_are_counted_anew_for_each_spec() {
    let mut world = World::new(spec(ONE));
    world.sync(&Faults::NONE, 0).unwrap();
    for chart in [Chart::BadHook, Chart::BadObject, Chart::BadHook] {
        world.change(Spec {
            rollback: true,
            retry: true,
            ..spec(chart)
        });
        let before = world.history().newest().unwrap().revision;
        while world.sync(&Faults::NONE, 0).unwrap() == End::Failed {}
        let after = world.history().newest().unwrap().revision;
        // `maxRetries: 2` allows one more, as in 1.4: three upgrades, each rolled back.
        assert_eq!(after - before, 6, "{chart:?}");
        assert_eq!(world.status.rollback_count, Some(3));
    }
}

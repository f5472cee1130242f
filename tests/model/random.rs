//! Random long histories.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::charts::Chart;
use crate::faults::{Fault, Faults};
use crate::world::{End, Spec, World};
use crate::{settle, take_away};

/// What somebody does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A sync, with caches that are so many syncs old.
    Sync(usize),
    /// A person changes the spec.
    Change(Spec),
    /// A person rolls back.
    RollBack,
    /// A person runs the tests.
    Test,
    /// A person uninstalls.
    Uninstall { keep: bool },
    /// Another client starts an upgrade and is never heard of again.
    Foreign,
}

/// An act, and the requests of it that go wrong.
type Event = (Act, Vec<(usize, Fault)>);

fn number(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    text.parse().unwrap_or(otherwise)
}

/// A runner whose seed is told and can be given; without one, it is the same in every run, so that what fails is what
/// was changed. `MODEL_SEED=$RANDOM MODEL_RUNS=100000` looks for what nobody has thought of.
fn runner(test: &str, runs: u64) -> TestRunner {
    let seed = number("MODEL_SEED", 226_442_517);
    let runs = number("MODEL_RUNS", runs);
    println!("{test}: {runs} runs, MODEL_SEED={seed}");
    let config = Config {
        cases: u32::try_from(runs).unwrap(),
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn check<S: Strategy>(test: &str, runs: u64, strategy: &S, body: impl Fn(S::Value)) {
    let result = runner(test, runs).run(strategy, |value| {
        body(value);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn any_chart() -> impl Strategy<Value = Chart> {
    prop::sample::select(Chart::ALL.to_vec())
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let flag = any::<bool>;
    let limit = prop::option::of(0_i64..3);
    (any_chart(), flag(), flag(), limit, flag()).prop_map(
        |(chart, rollback, retry, limit, test)| Spec {
            chart,
            rollback,
            retry,
            limit,
            test,
        },
    )
}

fn any_faults() -> impl Strategy<Value = Vec<(usize, Fault)>> {
    let fault = prop::sample::select(Fault::ALL.to_vec());
    prop::collection::vec((1_usize..30, fault), 0..3)
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => prop_oneof![3 => Just(0), 1 => 1_usize..3].prop_map(Act::Sync),
        4 => any_spec().prop_map(Act::Change),
        2 => Just(Act::RollBack),
        1 => Just(Act::Test),
        2 => any::<bool>().prop_map(|keep| Act::Uninstall { keep }),
        1 => Just(Act::Foreign),
    ]
}

/// Whatever comes of it: the end is what counts.
fn perform(world: &mut World, (act, faults): &Event) {
    let faults = Faults::At(faults.clone());
    match *act {
        Act::Sync(age) => {
            world.sync(&faults, age).ok();
        }
        Act::Change(spec) => world.change(spec),
        Act::RollBack => {
            world.roll_back(None, &faults).ok();
        }
        Act::Test => {
            world.test(&faults).ok();
        }
        Act::Uninstall { keep } => {
            world.uninstall(keep, &faults).ok();
        }
        Act::Foreign => world.foreign(),
    }
}

#[test]
fn after_any_history_a_few_syncs_bring_the_release_to_where_it_should_be() {
    let events = prop::collection::vec((any_act(), any_faults()), 1..14);
    let strategy = (any_spec(), events, any_spec());
    check("any history", 600, &strategy, |(first, events, last)| {
        let mut world = World::new(first);
        for event in &events {
            perform(&mut world, event);
        }
        world.change(last);
        settle(&mut world, "in the end");
        // A hook that fails stops an uninstall, too.
        if last.chart != Chart::BadHook {
            take_away(&mut world, "in the end");
        }
    });
}

#[test]
fn an_object_that_stays_in_the_chart_is_never_made_anew() {
    let good = prop::sample::select(Chart::ALL[..3].to_vec());
    let events = prop::collection::vec((good, 0_usize..2, any_faults()), 1..12);
    check("same object", 400, &events, |events| {
        let mut world = World::new(Spec::of(Chart::Good(1)));
        world.sync(&Faults::NONE, 0).unwrap();
        let uid = world.uid("same");
        for (chart, age, faults) in events {
            world.change(Spec::of(chart));
            world.sync(&Faults::At(faults), age).ok();
            assert_eq!(world.uid("same"), uid);
        }
    });
}

#[test]
fn crashes_and_outages_alone_make_no_revisions() {
    let faults = prop::collection::vec(any_faults(), 0..20);
    check("crashes", 300, &faults, |attempts| {
        let mut world = World::new(Spec::of(Chart::Good(1)));
        world.sync(&Faults::NONE, 0).unwrap();
        world.change(Spec::of(Chart::Good(2)));
        for mut faults in attempts {
            faults.retain(|(_, fault)| !fault.is_refusal());
            world.sync(&Faults::At(faults), 0).ok();
        }
        assert!(world.history().newest().unwrap().revision <= 2);
    });
}

/// Kinds of requests that may fail for ever.
const WORDS: [&str; 9] = [
    "/",
    "Get ",
    "Create ",
    "Replace ",
    "Patch ",
    "Delete ",
    "/secrets",
    "/configmaps",
    "/jobs",
];

/// The most requests of one sync: an action that waits for a hook looks at it for five minutes, and an
/// upgrade that fails so may be followed by a rollback.
const MOST_REQUESTS: usize = 400;

/// No failure that stays makes a sync endless, nor lets revisions pile up; and when it ends, all is well.
#[test]
fn no_failure_that_stays_loops_without_bound() {
    let fault = prop::sample::select(Fault::ALL.to_vec());
    let word = prop::sample::select(WORDS.to_vec());
    let strategy = (any_chart(), any_spec(), word, fault);
    check(
        "persistent",
        400,
        &strategy,
        |(first, spec, word, fault)| {
            let mut world = World::new(Spec::of(first));
            world.sync(&Faults::NONE, 0).unwrap();
            world.change(spec);
            let faults = Faults::Always(word, fault);
            let mut held = 0;
            for attempt in 1..=12 {
                let writes = world.server.writes;
                let end = world.sync(&faults, 0).ok();
                assert!(world.asked <= MOST_REQUESTS, "{} requests", world.asked);
                let history = world.history();
                assert!(history.revisions().len() <= 6);
                // At most a revision for the attempt and one for its rollback.
                let newest = history.newest().map_or(0, |newest| newest.revision);
                assert!(newest <= 2 + 2 * attempt, "{newest} after {attempt}");
                // What is held is not tried again.
                if held > 1 {
                    assert_eq!(end, Some(End::Held));
                    assert_eq!(world.server.writes, writes);
                }
                held = if end == Some(End::Held) { held + 1 } else { 0 };
            }
            world.generation += 1;
            settle(&mut world, "when it is over");
        },
    );
}

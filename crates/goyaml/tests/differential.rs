//! Random documents and values, compared with what Go makes of them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

#[path = "support/soup.rs"]
mod soup;
mod support;

use soup::{Random, document, mutate, soup};
use support::{Oracle, answer};

/// `cargo xtask oracle` runs it.
#[test]
#[ignore = "needs the oracle's program: run by `cargo xtask oracle`"]
fn random_documents_come_out_as_in_go() {
    let number = |name, otherwise| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let mut oracle = Oracle::start().expect("GOYAML_ORACLE names the oracle's program");
    let mut random = Random::new(number("GOYAML_SEED", 1));
    let rounds = number("GOYAML_ROUNDS", 20_000);
    let mut different = 0;
    for _ in 0..rounds {
        let made = document(&mut random, 0, 0);
        let text = match random.below(3) {
            0 => soup(&mut random),
            1 => mutate(&mut random, &made),
            _ => made,
        };
        let operation = random.pick(&["read", "strict", "head", "values", "json", "jsonprefix"]);
        let wanted = oracle.ask(operation, &text);
        if answer(operation, &text) == wanted {
            continue;
        }
        // Where Go goes through a map, it does not always say the same.
        let often: Vec<_> = (0..20).map(|_| oracle.ask(operation, &text)).collect();
        if often.iter().any(|answer| *answer != wanted) {
            continue;
        }
        different += 1;
        println!(
            "{operation} of {:?}\n  go   {wanted:?}\n  ours {:?}",
            String::from_utf8_lossy(&text),
            answer(operation, &text)
        );
    }
    assert_eq!(different, 0, "of {rounds}");
}

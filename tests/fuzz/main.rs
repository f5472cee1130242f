//! Mutated inputs for everything that reads what others wrote, without a fuzzer's compiler.
//!
//! Each target takes seeds, changes them with the pieces of their grammar, keeps those that behave in a new way, and
//! looks for panics, for inputs that take too long, and for memory. As a test each runs for a second;
//! `cargo xtask fuzz [TARGET] [--seconds N]` runs them optimised and as long as one likes.

#![cfg(test)]

mod charts;
mod daemon;
mod git;
mod mutate;
mod templates;
mod watch;

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use mutate::{Pool, Random};

/// What an input did, so that inputs that do something new are kept: the text of an error without
/// its numbers and names, or the rough size of a result.
fn behaviour<T: AsRef<[u8]>, E: Display>(result: &Result<T, E>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match result {
        Ok(text) => text.as_ref().len().checked_ilog2().hash(&mut hasher),
        Err(error) => error
            .to_string()
            .bytes()
            .filter(|byte| !byte.is_ascii_digit())
            .take(120)
            .for_each(|byte| byte.hash(&mut hasher)),
    }
    hasher.finish()
}

/// Seconds of each target, `FUZZ_SECONDS`.
fn time() -> Duration {
    let seconds = std::env::var("FUZZ_SECONDS").ok();
    Duration::from_secs(seconds.map_or(1, |text| text.parse().unwrap()))
}

/// Runs one target until its time is over.
fn fuzz(name: &'static str, seeds: Vec<Vec<u8>>, pieces: &[&str], run: impl Fn(&[u8]) -> u64) {
    let seed = std::env::var("FUZZ_SEED").map_or(1, |text| text.parse().unwrap());
    let mut random = Random::new(seed);
    let mut pool = Pool::new(seeds, pieces);
    let guard = watch::Guard::new(name);
    for text in pool.seeds() {
        guard.input(&text);
        pool.learn(run(&text), &text);
    }
    let end = Instant::now() + time();
    let mut inputs = 0_u64;
    while Instant::now() < end {
        let text = pool.mutate(&mut random);
        guard.input(&text);
        pool.learn(run(&text), &text);
        inputs += 1;
    }
    guard.finish(inputs, pool.behaviours());
}

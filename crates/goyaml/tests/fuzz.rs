//! Random texts: nothing panics, hangs or contradicts itself.
//!
//! It runs for two seconds, or for as many as `GOYAML_FUZZ_SECONDS` says.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]
#![expect(dead_code, reason = "only a part of the support is used here")]

#[path = "support/soup.rs"]
mod soup;
mod support;

use std::time::{Duration, Instant};

use goyaml::Tree;
use soup::{Random, document, mutate, soup};
use support::answer;

const OPERATIONS: [&str; 10] = [
    "read",
    "strict",
    "map",
    "list",
    "values",
    "head",
    "json",
    "jsonmap",
    "jsonlist",
    "jsonprefix",
];

fn seconds() -> u64 {
    std::env::var("GOYAML_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2)
}

/// Reads a text in every way; what can be read, can be written and read again.
fn try_all(text: &[u8]) {
    let start = Instant::now();
    for operation in OPERATIONS {
        // An answer or an error, but no panic.
        let _ = answer(operation, text);
    }
    if let Ok(tree) = goyaml::read(text) {
        check_round_trip(&tree);
    }
    let taken = start.elapsed();
    assert!(
        taken < Duration::from_secs(5),
        "{taken:?} for {:?}",
        String::from_utf8_lossy(text)
    );
}

fn check_round_trip(tree: &Tree) {
    let json = goyaml::to_json_tree(tree).expect("what was read fits JSON");
    assert_eq!(goyaml::read_json(&json).as_ref(), Ok(tree));
    let pretty = goyaml::to_yaml_pretty(&tree.to_value()).expect("what was read can be written");
    // go-yaml writes the key `<<` as it is, and reads it as a merge.
    if let Ok(yaml) = goyaml::to_yaml_tree(tree)
        && !has_merge_key(tree)
    {
        let read = goyaml::read(&yaml);
        let again = goyaml::to_yaml_tree(&read.clone().unwrap_or_default());
        assert_eq!(
            again.as_ref(),
            Ok(&yaml),
            "{:?} came back as {read:?}",
            String::from_utf8_lossy(&yaml)
        );
    }
    let _ = goyaml::read(&pretty);
}

fn has_merge_key(tree: &Tree) -> bool {
    match tree {
        Tree::List(items) => items.iter().any(has_merge_key),
        Tree::Map(entries) => entries
            .iter()
            .any(|(key, value)| key.as_bytes() == b"<<" || has_merge_key(value)),
        _ => false,
    }
}

#[test]
fn random_texts_are_read_or_refused() {
    let end = Instant::now() + Duration::from_secs(seconds());
    let seed = u64::from(std::process::id());
    let mut random = Random::new(seed);
    println!("seed {seed}");
    let mut pool: Vec<Vec<u8>> = (0..50).map(|_| document(&mut random, 0, 0)).collect();
    while Instant::now() < end {
        let text = match random.below(3) {
            0 => soup(&mut random),
            1 => document(&mut random, 0, 0),
            _ => {
                let text = pool[random.below(pool.len())].clone();
                mutate(&mut random, &text)
            }
        };
        try_all(&text);
        let place = random.below(pool.len());
        if text.len() < 4_000 {
            pool[place] = text;
        }
    }
}

#[test]
fn texts_that_were_once_trouble_are_read_or_refused() {
    for text in [
        b"{}: a".as_slice(),
        b"[]: [",
        b"\"\\u12\xF0\x9F\x98\x80\xE2\x80",
        b"\xEF\xBB\xBF\xEF\xBB\xBFa: 1\nb: 2\n",
        b"t: |\n a",
        b"\"x\\",
        b"[!!str, a]",
        b"? ? ? ? ?",
        b"&a [*a]",
        b"<<: *a",
        b"!!binary =",
        b"\xFF\xFE\x00",
    ] {
        try_all(text);
    }
}

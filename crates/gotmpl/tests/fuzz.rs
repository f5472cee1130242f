//! Changed copies of the golden texts, for a bounded time: `GOTMPL_FUZZ_SECONDS`, 2 by default, and
//! `GOTMPL_FUZZ_SEED`. Nothing may panic, hang, or print beyond its budget.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what cannot be run is a failed test"
)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{run, unquote};
use gotmpl::{Budget, Limits};

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    " ",
    ".",
    "$",
    "\"",
    "`",
    "'",
    "(",
    ")",
    "|",
    ":=",
    "=",
    "\n",
    "{{end}}",
    "{{else}}",
    "{{if ",
    "{{range ",
    "{{with ",
    "{{define \"x\"}}",
    "{{template \"x\" .}}",
    "/*",
    "*/",
    "nil",
    "1",
    "0x",
    "e9",
    "i",
    "+",
    "-",
    ",",
    "\\",
    "é",
    "\u{1E}",
    "%",
    "*",
    "999999",
    "[3]",
    "include",
    "tpl",
    "printf",
    "index",
    "and",
    "or",
    "{{break}}",
    "{{tpl .s .}}",
    "$x := ",
    ".l",
    ".m",
    ".o",
];

/// One of the texts with some changes.
fn mutate(random: &mut Random, texts: &[Vec<u8>]) -> Vec<u8> {
    let mut text = random.pick(texts).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let to = (at + random.below(12)).min(text.len());
        match random.below(6) {
            0 | 1 => {
                let piece = random.pick(PIECES).as_bytes();
                text.splice(at..at, piece.iter().copied());
            }
            2 => drop(text.splice(at..to, [])),
            3 => {
                let other = random.pick(texts);
                let from = random.below(other.len() + 1);
                text.splice(at..to, other[from..].iter().copied());
            }
            4 => {
                let copy = text[at..to].to_vec();
                text.splice(at..at, copy);
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    text.truncate(4096);
    text
}

fn golden_texts() -> Vec<Vec<u8>> {
    let folder = Path::new("tests/golden");
    let mut texts = Vec::new();
    for name in ["exec", "parse", "nested", "fmt", "random"] {
        let rows = std::fs::read_to_string(folder.join(name).with_extension("tsv")).unwrap();
        let rows = rows.lines().filter(|row| !row.starts_with('#'));
        texts.extend(rows.filter_map(|row| Some(unquote(row.split('\t').nth(1)?))));
    }
    texts.retain(|text| text.len() < 600);
    texts
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn changed_texts_neither_panic_nor_hang() {
    let texts = golden_texts();
    let seed = setting("GOTMPL_FUZZ_SEED", 1);
    let end = Instant::now() + Duration::from_secs(setting("GOTMPL_FUZZ_SECONDS", 2));
    let mut random = Random(seed);
    let limits = Limits {
        steps: 50_000,
        depth: 200,
        output: 1 << 20,
        memory: 16 << 20,
        time: None,
    };
    let mut cases = 0u64;
    while Instant::now() < end {
        let text = mutate(&mut random, &texts);
        let parts: Vec<&[u8]> = text.split(|&byte| byte == 0x1E).collect();
        let mode = random.pick(&["zero", "default", "error"]);
        let started = Instant::now();
        let outcome = run(mode, &parts, &mut Budget::new(limits));
        let took = started.elapsed();
        let source = String::from_utf8_lossy(&text);
        assert!(took < Duration::from_secs(5), "{took:?}: {source}");
        assert!(
            outcome.status != "out" || outcome.text.len() <= limits.output,
            "{} bytes: {source}",
            outcome.text.len()
        );
        cases += 1;
    }
    assert!(cases > 100, "only {cases} texts");
}

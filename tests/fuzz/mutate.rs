//! Changing inputs.

use std::collections::HashSet;

/// Longest input; longer ones only take longer.
const MAX_BYTES: usize = 64 << 10;
/// Most inputs that are kept; beyond, new ones replace old ones.
const MAX_KEPT: usize = 4_000;

/// Numbers at which readers go wrong.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "127",
    "255",
    "256",
    "65535",
    "65536",
    "65537",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "1e309",
    "-0",
    "1e-400",
    "0x7fffffffffffffff",
    "99999999999999999999999999999999",
];

/// Splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The inputs that did something new so far.
pub(crate) struct Pool {
    inputs: Vec<Vec<u8>>,
    pieces: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    next: usize,
}

impl Pool {
    pub(crate) fn new(seeds: Vec<Vec<u8>>, pieces: &[&str]) -> Self {
        Self {
            inputs: seeds,
            pieces: pieces
                .iter()
                .map(|piece| piece.as_bytes().to_vec())
                .collect(),
            seen: HashSet::new(),
            next: 0,
        }
    }

    pub(crate) fn seeds(&self) -> Vec<Vec<u8>> {
        self.inputs.clone()
    }

    pub(crate) fn behaviours(&self) -> usize {
        self.seen.len()
    }

    /// Keeps an input that did something new.
    pub(crate) fn learn(&mut self, behaviour: u64, text: &[u8]) {
        if !self.seen.insert(behaviour) || text.is_empty() {
            return;
        }
        if self.inputs.len() < MAX_KEPT {
            self.inputs.push(text.to_vec());
        } else {
            self.next = (self.next + 1) % MAX_KEPT;
            self.inputs[self.next] = text.to_vec();
        }
    }

    /// One of the inputs with some changes.
    pub(crate) fn mutate(&self, random: &mut Random) -> Vec<u8> {
        let mut text = random.pick(&self.inputs).clone();
        for _ in 0..=random.below(4) {
            self.change(random, &mut text);
            text.truncate(MAX_BYTES);
        }
        text
    }

    fn change(&self, random: &mut Random, text: &mut Vec<u8>) {
        let at = random.below(text.len() + 1);
        let to = (at + random.below(16)).min(text.len());
        match random.below(12) {
            0..=2 => {
                let piece = random.pick(&self.pieces).clone();
                drop(text.splice(at..at, piece));
            }
            3 => drop(text.splice(at..to, [])),
            4 => {
                let other = random.pick(&self.inputs);
                let from = random.below(other.len() + 1);
                drop(text.splice(at..to, other[from..].iter().copied()));
            }
            5 => {
                let copy = text[at..to].to_vec();
                drop(text.splice(at..at, copy));
            }
            6 => repeat(random, text, at, to),
            7 => replace_number(random, text, at),
            8 | 9 => move_line(random, text),
            10 => {
                if let Some(byte) = text.get_mut(at) {
                    *byte = u8::try_from(random.below(256)).unwrap();
                }
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// Many copies of a part: depth, and long runs.
fn repeat(random: &mut Random, text: &mut Vec<u8>, at: usize, to: usize) {
    let part = text[at..to].to_vec();
    let times = 1 << random.below(13);
    let copies = part.repeat(times.min(MAX_BYTES / part.len().max(1)));
    drop(text.splice(at..at, copies));
}

/// Puts an extreme number where the next number is.
fn replace_number(random: &mut Random, text: &mut Vec<u8>, at: usize) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = text[at..].iter().position(is_digit).map(|found| at + found) else {
        return;
    };
    let length = text[start..]
        .iter()
        .take_while(|byte| is_digit(byte))
        .count();
    let number = random.pick(NUMBERS).bytes();
    drop(text.splice(start..start + length, number));
}

/// Moves, doubles or indents a line.
fn move_line(random: &mut Random, text: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = text
        .split_inclusive(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.is_empty() {
        return;
    }
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(4) {
        0 => lines.swap(from, to),
        1 => lines.insert(to, lines[from].clone()),
        2 => drop(lines.remove(from)),
        _ => drop(lines[from].splice(0..0, *b"  ")),
    }
    *text = lines.concat();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stay_within_the_bound_and_differ() {
        let pool = Pool::new(vec![b"a: 1\nb: [2, 3]\n".to_vec()], &["{{", "}}"]);
        let mut random = Random::new(7);
        let texts: HashSet<_> = (0..2_000).map(|_| pool.mutate(&mut random)).collect();
        assert!(texts.len() > 1_000, "{}", texts.len());
        assert!(texts.iter().all(|text| text.len() <= MAX_BYTES));
    }

    #[test]
    fn only_what_is_new_is_kept() {
        let mut pool = Pool::new(vec![b"a".to_vec()], &["b"]);
        pool.learn(1, b"x");
        pool.learn(1, b"y");
        pool.learn(2, b"z");
        assert_eq!(pool.seeds(), [b"a".to_vec(), b"x".to_vec(), b"z".to_vec()]);
    }
}

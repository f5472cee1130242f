//! Random documents, made from a seed.

/// A small generator of random numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, pool: &[T]) -> T {
        pool[self.below(pool.len())]
    }
}

/// What documents are made of: all that a scanner looks at, and what is near it.
pub(crate) const PIECES: &[&[u8]] = &[
    b"a",
    b"key",
    b"x: ",
    b"- ",
    b"? ",
    b": ",
    b":",
    b"-",
    b"\n",
    b"\n  ",
    b"\n    ",
    b"\n- ",
    b"\n  - ",
    b"\nb: ",
    b" ",
    b"  ",
    b"\t",
    b"#",
    b" # c",
    b"'",
    b"\"",
    b"\\",
    b"\\n",
    b"\\x41",
    b"\\u00e9",
    b"\\U0001F600",
    b"\\'",
    b"\\/",
    b"|",
    b"|-",
    b"|+",
    b"|2",
    b">",
    b">-",
    b">+1",
    b"&a ",
    b"*a",
    b"*b",
    b"&b ",
    b"!!str ",
    b"!!int ",
    b"!!float ",
    b"!!binary ",
    b"!t ",
    b"! ",
    b"!<x> ",
    b"!!",
    b"!e!x ",
    b"%41",
    b"%YAML 1.1\n",
    b"%TAG !e! tag:e.com:\n",
    b"---",
    b"--- ",
    b"\n---\n",
    b"\n...\n",
    b"...",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b", ",
    b"<<: ",
    b"<<: *a",
    b"<<: [*a, *b]",
    b"yes",
    b"no",
    b"~",
    b"null",
    b"true",
    b"0x1F",
    b"0o17",
    b"017",
    b"08",
    b"1_000",
    b"1e3",
    b".5",
    b"-0",
    b".inf",
    b".nan",
    b"12:30",
    b"2001-01-01",
    b"18446744073709551615",
    b"-9223372036854775809",
    b"\xC3\xA9",
    b"\xE2\x80\xA8",
    b"\xC2\x85",
    b"\xEF\xBB\xBF",
    b"\xF0\x9F\x98\x80",
    b"\xC2\xA0",
    b"\r",
    b"\r\n",
    b"\0",
    b"\x07",
    b"\x7F",
    b"\xEF\xBF\xBE",
    b"\xFF",
    b"\xC3",
    b"@",
    b"`",
    b"%",
    b"=",
    b"{{ .Values.x }}",
    b"plain text of some length",
    b"'single ''q'''",
    b"\"double \\\"q\\\"\"",
    b"|\n  lit\n   more\n",
    b">\n  fold\n  ed\n\n  x\n",
    b"[a, {b: c}]",
    b"{a: 1, b: [x], c}",
];

/// A document of some pieces.
pub(crate) fn soup(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..1 + random.below(24) {
        text.extend_from_slice(random.pick(PIECES));
    }
    text
}

/// A document that looks like one: mappings and sequences, indented.
pub(crate) fn document(random: &mut Random, indent: usize, depth: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let sequence = random.chance(30);
    for _ in 0..1 + random.below(4) {
        text.resize(text.len() + indent, b' ');
        if sequence {
            text.extend_from_slice(b"- ");
        } else {
            text.extend_from_slice(random.pick(&[
                b"a".as_slice(),
                b"b",
                b"key",
                b"<<",
                b"'q'",
                b"\"d\"",
                b"1",
                b"1.5",
                b"true",
                b"~",
                b"x y",
                b"*a",
                b"&k k",
                b"[a]",
                b"{}",
                b"a.b/c",
            ]));
            text.push(b':');
        }
        if depth < 4 && random.chance(40) {
            text.extend_from_slice(random.pick(&[b"".as_slice(), b" ", b" # c", b" &a", b" &b"]));
            text.push(b'\n');
            let deeper = indent + random.below(4);
            text.extend(document(random, deeper, depth + 1));
        } else {
            text.push(b' ');
            text.extend_from_slice(random.pick(PIECES));
            text.push(b'\n');
        }
    }
    text
}

/// The text with some bytes taken out, put in, doubled or replaced.
pub(crate) fn mutate(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..1 + random.below(5) {
        let at = random.below(text.len() + 1);
        let end = (at + 1 + random.below(12)).min(text.len());
        match random.below(4) {
            0 => {
                let piece = random.pick(PIECES);
                text.splice(at..at, piece.iter().copied());
            }
            1 => drop(text.drain(at..end)),
            2 => {
                let copy = text[at..end].to_vec();
                let place = random.below(text.len() + 1);
                text.splice(place..place, copy);
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte = random.pick(b" :-#\n'\"{}[],&*!|>%@`?\t\\\xFF\0");
                }
            }
        }
    }
    text
}

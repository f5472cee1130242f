//! Checksums.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use gotmpl::{Functions, Type, Value};

use crate::arguments::{define, string};

pub(super) fn register(functions: &mut Functions) {
    for (name, algorithm) in [
        ("sha1sum", &SHA1_FOR_LEGACY_USE_ONLY as &'static Algorithm),
        ("sha256sum", &SHA256),
        ("sha512sum", &SHA512),
    ] {
        define(functions, name, &[Type::String], move |_, a| {
            Ok(Value::string(
                hex(digest(algorithm, string(a, 0)?).as_ref()),
            ))
        });
    }
    define(functions, "adler32sum", &[Type::String], |_, a| {
        Ok(Value::string(adler32(string(a, 0)?).to_string()))
    });
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or(b'0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // The most bytes whose sums fit 32 bits.
    const BLOCK: usize = 5_552;
    let (mut low, mut high) = (1, 0);
    for block in bytes.chunks(BLOCK) {
        for byte in block {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

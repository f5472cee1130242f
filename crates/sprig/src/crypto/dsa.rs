//! DSA keys, which no current crypto library makes any more: 2048 and 256 bits, by Go's method.
//!
//! The arithmetic does not run in constant time. It makes a key that is printed at once, and signs
//! nothing.

use num_bigint::BigInt;
use num_bigint::{BigUint, Sign};

use super::der;
use crate::Random;

const P_BITS: u64 = 2_048;
const Q_BITS: u64 = 256;

/// Rounds of Miller and Rabin's test; a wrong prime is less likely than 4^-64.
const ROUNDS: usize = 64;

/// A new key in the form that OpenSSL has for them: version, p, q, g, y, x.
pub(super) fn generate(random: &dyn Random) -> Result<Vec<u8>, String> {
    let (p, q) = parameters(random)?;
    let one = BigUint::from(1u32);
    let exponent = (&p - &one) / &q;
    let mut base = BigUint::from(2u32);
    let mut g = base.modpow(&exponent, &p);
    while g == one {
        base += &one;
        g = base.modpow(&exponent, &p);
    }
    let x = loop {
        let x = bits(random, Q_BITS)?;
        if x != BigUint::ZERO && x < q {
            break x;
        }
    };
    let y = g.modpow(&x, &p);
    let numbers = [BigUint::ZERO, p, q, g, y, x];
    Ok(der::sequence(
        &numbers.map(|number| der::unsigned(&number.to_bytes_be())),
    ))
}

/// A prime q, and a prime p such that q divides p - 1.
fn parameters(random: &dyn Random) -> Result<(BigUint, BigUint), String> {
    let one = BigUint::from(1u32);
    loop {
        let mut q = bits(random, Q_BITS)?;
        q.set_bit(0, true);
        q.set_bit(Q_BITS - 1, true);
        if !is_prime(random, &q)? {
            continue;
        }
        for _ in 0..4 * P_BITS {
            let mut p = bits(random, P_BITS)?;
            p.set_bit(0, true);
            p.set_bit(P_BITS - 1, true);
            let remainder = &p % &q;
            p = p + &one - remainder;
            if p.bit(0) && p.bits() == P_BITS && is_prime(random, &p)? {
                return Ok((p, q));
            }
        }
    }
}

/// A number of at most so many random bits.
fn bits(random: &dyn Random, count: u64) -> Result<BigUint, String> {
    let length = usize::try_from(count / 8).unwrap_or(0);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes)?;
    Ok(BigUint::from_bytes_be(&bytes))
}

fn is_prime(random: &dyn Random, number: &BigUint) -> Result<bool, String> {
    if (3..2_000u32).step_by(2).any(|small| {
        let small = BigUint::from(small);
        number % &small == BigUint::ZERO && number != &small
    }) {
        return Ok(false);
    }
    let one = BigUint::from(1u32);
    let last = number - &one;
    let zeros = last.trailing_zeros().unwrap_or(0);
    let odd = &last >> zeros;
    for round in 0..ROUNDS {
        // A composite number nearly always fails the first round; base 2 needs no randomness.
        let base = match round {
            0 => BigUint::from(2u32),
            _ => bits(random, number.bits())? % (number - 3u32) + 2u32,
        };
        if !passes(number, &last, &base.modpow(&odd, number), zeros) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether squaring reaches -1 before it reaches 1.
fn passes(number: &BigUint, last: &BigUint, start: &BigUint, zeros: u64) -> bool {
    let one = BigUint::from(1u32);
    let mut power = start.clone();
    if power == one {
        return true;
    }
    for _ in 0..zeros {
        if power == *last {
            return true;
        }
        power = &power * &power % number;
    }
    false
}

/// Whether the bytes are a key in that form.
pub(super) fn is_key(bytes: &[u8]) -> bool {
    let Some((mut numbers, _)) = der::expect(bytes, der::SEQUENCE) else {
        return false;
    };
    for _ in 0..6 {
        let Some((number, rest)) = der::expect(numbers, der::INTEGER) else {
            return false;
        };
        if BigInt::from_signed_bytes_be(number).sign() == Sign::Minus {
            return false;
        }
        numbers = rest;
    }
    numbers.is_empty()
}

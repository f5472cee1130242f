//! New RSA keys: two primes, found on the cores that there are, and what follows from them.
//!
//! The primes come from a library that sieves before it tests, which finds them in less than half of the time of a
//! library that draws each candidate anew; `genPrivateKey "rsa"` is the slowest of all functions. Nothing here runs in
//! constant time: a key is made once, at a time that nobody chooses, and printed at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use crypto_bigint::BoxedUint;
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use num_bigint::BigUint;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::der;
use super::keys::RSA;

/// The public exponent of every key, as in Go.
const EXPONENT: u32 = 65_537;

/// More threads than this find the two primes no sooner.
const THREADS: usize = 8;

/// A new key of so many bits, as PKCS#8 DER.
///
/// # Errors
/// The system gives no randomness.
pub(super) fn generate(bits: u32) -> Result<Vec<u8>, String> {
    loop {
        let [p, q] = primes(bits / 2)?;
        if let Some(key) = Key::new(p, q) {
            return Ok(key.to_pkcs8());
        }
    }
}

/// Two primes of so many bits, of which the two highest are set so that their product has twice as many.
///
/// Every thread looks for primes from a random number of its own until two are found by any of them: that takes as
/// long as one prime takes one thread, if there are two.
fn primes(bits: u32) -> Result<[BigUint; 2], String> {
    let threads = available_parallelism().map_or(1, |count| count.get().min(THREADS));
    let seeds = (0..threads)
        .map(|_| seed())
        .collect::<Result<Vec<_>, _>>()?;
    let search = Search::default();
    thread::scope(|scope| {
        let mut seeds = seeds.into_iter();
        let own = seeds.next();
        let search = &search;
        for seed in seeds {
            // Without a thread it takes longer, no more.
            let _ = thread::Builder::new().spawn_scoped(scope, move || search.run(seed, bits));
        }
        if let Some(seed) = own {
            search.run(seed, bits);
        }
    });
    let mut found = search.found.into_inner().unwrap_or_default();
    match (found.pop(), found.pop()) {
        (Some(p), Some(q)) => Ok([p, q]),
        _ => Err("no primes were found".to_owned()),
    }
}

fn seed() -> Result<[u8; 32], String> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
    Ok(seed)
}

/// Threads that look for two different primes.
#[derive(Default)]
struct Search {
    found: Mutex<Vec<BigUint>>,
    is_over: AtomicBool,
}

impl Search {
    fn run(&self, seed: [u8; 32], bits: u32) {
        let mut random = StdRng::from_seed(seed);
        while !self.is_over.load(Ordering::Relaxed) {
            let sieve =
                SmallFactorsSieveFactory::<BoxedUint>::new(Flavor::Any, bits, SetBits::TwoMsb);
            let prime = sieve.and_then(|sieve| {
                sieve_and_find(&mut random, sieve, |_, candidate| {
                    self.is_over.load(Ordering::Relaxed) || is_prime(Flavor::Any, candidate)
                })
            });
            match prime {
                Ok(Some(prime)) => self.keep(&prime),
                _ => return,
            }
        }
    }

    /// Keeps a prime, unless two are there: then the number may be one that was not tested any more.
    fn keep(&self, prime: &BoxedUint) {
        let prime = BigUint::from_bytes_be(&prime.to_be_bytes());
        let Ok(mut found) = self.found.lock() else {
            return;
        };
        if found.len() < 2 && !found.contains(&prime) && !self.is_over.load(Ordering::Relaxed) {
            found.push(prime);
        }
        if found.len() == 2 {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// The numbers of a key, in the order of PKCS#1 (RFC 8017, A.1.2) without the version.
struct Key([BigUint; 8]);

impl Key {
    /// The key of two primes; `None` if the public exponent does not go with them.
    fn new(p: BigUint, q: BigUint) -> Option<Self> {
        let one = BigUint::from(1u32);
        let exponent = BigUint::from(EXPONENT);
        let (below_p, below_q) = (&p - &one, &q - &one);
        let private = exponent.modinv(&(&below_p * &below_q))?;
        let coefficient = q.modinv(&p)?;
        let (of_p, of_q) = (&private % &below_p, &private % &below_q);
        Some(Self([
            &p * &q,
            exponent,
            private,
            p,
            q,
            of_p,
            of_q,
            coefficient,
        ]))
    }

    fn to_pkcs8(&self) -> Vec<u8> {
        let version = || der::unsigned(&[0]);
        let numbers = self
            .0
            .iter()
            .map(|number| der::unsigned(&number.to_bytes_be()));
        let numbers: Vec<Vec<u8>> = std::iter::once(version()).chain(numbers).collect();
        let algorithm = [
            der::value(der::OBJECT_IDENTIFIER, RSA),
            der::value(der::NULL, &[]),
        ];
        der::sequence(&[
            version(),
            der::sequence(&algorithm),
            der::value(der::OCTET_STRING, &der::sequence(&numbers)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
    };

    use super::*;

    #[test]
    fn keys_of_both_sizes_sign_what_another_library_verifies() {
        for bits in [2_048, 4_096] {
            let key = RsaKeyPair::from_pkcs8(&generate(bits).unwrap()).unwrap();
            assert_eq!(key.public_modulus_len() * 8, bits as usize);
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                b"text",
                &mut signature,
            )
            .unwrap();
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key())
                .verify(b"text", &signature)
                .unwrap();
        }
    }

    #[test]
    fn the_primes_differ_and_have_their_two_highest_bits() {
        let [p, q] = primes(256).unwrap();
        assert_ne!(p, q);
        for prime in [p, q] {
            assert_eq!((prime.bits(), prime.bit(254)), (256, true));
        }
    }

    #[test]
    fn a_prime_that_the_exponent_divides_one_less_of_makes_no_key() {
        let prime = BigUint::from(EXPONENT) * 2u32 + 1u32;
        assert!(Key::new(prime, BigUint::from(101u32)).is_none());
    }

    #[test]
    fn the_smallest_key_has_the_numbers_of_the_standard() {
        let key = Key::new(BigUint::from(61u32), BigUint::from(53u32)).unwrap();
        let numbers = key.0.map(|number| number.try_into().unwrap_or(0u64));
        assert_eq!(numbers, [3_233, 65_537, 2_753, 61, 53, 53, 49, 38]);
    }
}

//! What functions that take long are charged for.
//!
//! There is no budget of time, so time is charged as memory: with the 512 MiB that a render may use
//! by default, the slowest of these functions can be called for about a quarter of a minute.

/// Two primes of 2048 bits: half a second of work. The parameters of DSA: as long.
pub(super) const RSA_4096: usize = 16 << 20;
/// Two primes of 1024 bits: a twentieth of a second of work.
pub(super) const RSA_2048: usize = 4 << 20;
/// A key on a curve.
pub(super) const SMALL_KEY: usize = 64 << 10;
/// A hash of cost 10: a twentieth of a second.
pub(super) const BCRYPT: usize = 2 << 20;
/// scrypt with N = 32768 and r = 8, which takes that much memory too.
pub(super) const SCRYPT: usize = 32 << 20;

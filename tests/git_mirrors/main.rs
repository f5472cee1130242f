//! Mirrors against real git servers on loopback.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod basics;
mod damage;
mod hostile;
mod https;
mod refs;
mod support;
mod tls;

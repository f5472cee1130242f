//! Mirrors against real git servers on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests"
)]

mod basics;
mod damage;
mod disk;
mod hostile;
mod https;
mod memory;
mod monorepo;
mod noexec;
mod refs;
mod secrecy;
mod ssh;
mod submodules;
mod support;
mod tls;

//! The helm-operator binary.

use std::process::ExitCode;

/// The allocator that heap profiles are made by.
#[cfg(feature = "profiling")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    helm_operator::cli::run()
}

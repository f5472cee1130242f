//! The helm-operator binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    helm_operator::cli::run()
}

//! A GitOps daemon that keeps Helm releases equal to what git says.

pub mod admission;
pub mod api;
pub mod cli;
pub mod gitsync;
pub mod lock;
pub mod operator;
pub mod server;
pub mod source;
pub mod status;
pub mod telemetry;
pub mod watch;

//! Logs and metrics.

mod actions;
mod logs;
mod metrics;
mod process;
mod series;

pub use actions::{Action, ActionTimer};
pub use logs::{LogFormat, LogHandle, init_logs};
pub use metrics::{Metrics, MirrorMetrics};

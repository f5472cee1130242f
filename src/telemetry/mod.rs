//! Logs and metrics.

mod actions;
mod logs;
mod metrics;
mod process;
mod series;
mod traces;

pub use actions::{Action, ActionTimer};
pub use logs::{LogFormat, LogHandle, init_logs};
pub use metrics::{Metrics, MirrorMetrics};
pub(crate) use traces::TRACE;
pub use traces::Traces;

//! The process's own metrics, as the usual client libraries name them.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self` when it is scraped.
#[derive(Debug)]
pub(super) struct Process {
    started: f64,
}

/// The kernel's clock ticks in a second, in every Linux ABI.
const TICKS: f64 = 100.0;

/// The size of a page where the daemon runs; 4 KiB on the platforms that are built for.
const PAGE: f64 = 4096.0;

impl Process {
    pub(super) fn new() -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: now.as_secs_f64(),
        }
    }
}

/// User and system time in seconds.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; what follows it does not.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Virtual and resident memory in bytes.
fn memory_bytes() -> Option<(f64, f64)> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut fields = statm.split_ascii_whitespace().map(str::parse::<f64>);
    Some((fields.next()?.ok()? * PAGE, fields.next()?.ok()? * PAGE))
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let help = "User and system CPU time spent in seconds.";
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        let memory = memory_bytes();
        let gauges = [
            (
                "process_start_time_seconds",
                "Start time since the epoch.",
                Some(self.started),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size.",
                memory.map(|m| m.0),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory size.",
                memory.map(|m| m.1),
            ),
            (
                "process_open_fds",
                "Number of open file descriptors.",
                open_files(),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(metric)?;
            }
        }
        Ok(())
    }
}

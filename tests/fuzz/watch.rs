//! Watching a target from outside: an input that takes too long or too much memory ends the process.
//!
//! The input is in a file before it is tried, so that it is there after a stack overflow as well.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most memory of the process.
const MAX_MIB: u64 = 512;
/// Longest time of one input, at least half of it at work; ten times that without optimisation.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Watches one target as long as it lives.
pub(crate) struct Guard {
    name: &'static str,
    file: Mutex<File>,
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    started: Instant,
    /// When the input that is being tried began, in milliseconds after `started`.
    since: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap()
    }
}

impl Guard {
    pub(crate) fn new(name: &'static str) -> Self {
        let path = std::env::temp_dir().join(format!("fuzz-{name}-{}", std::process::id()));
        let shared = Arc::new(Shared {
            started: Instant::now(),
            since: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let shown = path.clone();
        let thread = std::thread::spawn(move || watch(&watched, name, &shown.to_string_lossy()));
        Self {
            name,
            file: Mutex::new(File::create(&path).unwrap()),
            path,
            shared,
            thread: Some(thread),
        }
    }

    /// Notes what is tried next.
    pub(crate) fn input(&self, text: &[u8]) {
        let mut file = self.file.lock().unwrap();
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(text).unwrap();
        self.shared
            .since
            .store(self.shared.now(), Ordering::Relaxed);
    }

    /// Says what was done.
    pub(crate) fn finish(self, inputs: u64, behaviours: usize) {
        let name = self.name;
        let peak = status("VmHWM:");
        eprintln!("{name}: {inputs} inputs, {behaviours} behaviours, peak {peak} MiB");
        assert!(inputs > 0, "{name} tried nothing");
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: the input is in {}", self.name, self.path.display());
        } else {
            // What is left is one small file.
            let _ = std::fs::remove_file(&self.path);
        }
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only looks, and cannot panic.
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Shared, name: &str, path: &str) {
    let limit = match cfg!(debug_assertions) {
        true => MAX_TIME * 10,
        false => MAX_TIME,
    };
    let limit = u64::try_from(limit.as_millis()).unwrap();
    let (mut since, mut worked) = (u64::MAX, 0);
    while !shared.over.load(Ordering::Relaxed) {
        // The pace of looking, not a wait for something.
        std::thread::sleep(Duration::from_millis(10));
        let memory = status("VmRSS:");
        if memory > MAX_MIB {
            eprintln!("{name}: {memory} MiB of memory; the input is in {path}");
            std::process::abort();
        }
        let began = shared.since.load(Ordering::Relaxed);
        if began != since {
            (since, worked) = (began, processor_time());
        }
        let taken = shared.now().saturating_sub(since);
        // A busy machine may not let us work; one that waits for something hangs all the same.
        let works = processor_time().saturating_sub(worked) > limit / 2;
        if (taken > limit && works) || taken > limit * 10 {
            eprintln!("{name}: still busy after {taken} ms; the input is in {path}");
            std::process::abort();
        }
    }
}

/// What the process has used of processors, in milliseconds; 0 where it is not known.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold blanks: user and system time are the 12th and 13th field, in
    // hundredths of a second.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let numbers = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = numbers.filter_map(|text| text.parse::<u64>().ok()).sum();
    ticks * 10
}

/// A line of `/proc/self/status`, in MiB; 0 where there is none.
fn status(line: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = text.lines().find_map(|text| text.strip_prefix(line));
    let number = found.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    number.unwrap_or(0) / 1024
}

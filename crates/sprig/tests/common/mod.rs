//! Executing snippets the way Helm's engine does.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gotmpl::{Budget, Functions, Map, MissingKey, Options, TemplateSet, Value};
use sprig::helm::RenderHost;
use sprig::{Clock, Environment, Random};

/// Templates that all snippets see.
pub(crate) const DEFINITIONS: &str = "{{define \"hello\"}}Hello {{.}}{{end}}\
{{define \"loop\"}}{{include \"loop\" .}}{{end}}{{define \"none\"}}[{{.missing}}]{{end}}";

/// Executes a snippet on some data.
pub(crate) fn run_with(
    text: &str,
    functions: &Functions,
    data: &Map,
    host: &mut RenderHost,
    budget: &mut Budget,
) -> Result<Vec<u8>, String> {
    let mut set = TemplateSet::new("gotpl");
    set.parse("defs", DEFINITIONS, functions)
        .map_err(|error| error.to_string())?;
    set.parse("t", text, functions)
        .map_err(|error| error.to_string())?;
    let options = Options {
        missing_key: MissingKey::Zero,
    };
    set.execute(
        "t",
        &Value::Map(data.clone()),
        functions,
        host,
        options,
        budget,
    )
    .map_err(|error| error.to_string())
}

/// Executes a snippet on no data.
pub(crate) fn run(text: &str, environment: &Environment) -> Result<String, String> {
    let functions = sprig::functions(environment);
    let printed = run_with(
        text,
        &functions,
        &Map::new(),
        &mut RenderHost::default(),
        &mut Budget::default(),
    )?;
    Ok(lossy(&printed))
}

/// Text with one U+FFFD for each invalid byte, as Go writes it into JSON.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// A generator that gives the same bytes in every run: splitmix64.
#[derive(Default)]
pub(crate) struct Dice(AtomicU64);

impl Random for Dice {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), String> {
        for chunk in buffer.chunks_mut(8) {
            let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = (mixed ^ (mixed >> 31)).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        Ok(())
    }
}

/// A clock that stands still.
pub(crate) struct Stopped(pub(crate) i64);

impl Clock for Stopped {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.0).unwrap()
    }
}

/// Fixed chance, 2 January 2024 03:04:05 UTC, UTC.
pub(crate) fn fixed() -> Environment {
    Environment {
        random: Arc::new(Dice::default()),
        clock: Arc::new(Stopped(1_704_164_645)),
        time_zone: jiff::tz::TimeZone::UTC.into(),
        ..Environment::default()
    }
}

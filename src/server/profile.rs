//! `/debug/pprof/…`: where time and memory go, for who is on the machine itself.
//!
//! Only in builds with the cargo feature `profiling`, and there only with `--profiling`: a profile shows nothing of
//! values, but it costs time while it is taken.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::debug::from_this_machine;

/// The longest profile: the server gives no request more than a minute.
const LONGEST: u64 = 50;
/// Samples a second. A number that timers of the daemon do not share.
const FREQUENCY: i32 = 99;

/// The kernel has one profiling timer for a process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// `GET /debug/pprof/profile?seconds=30` and `GET /debug/pprof/heap`.
pub fn profile_routes() -> Router {
    Router::new()
        .route("/debug/pprof/profile", get(cpu))
        .route("/debug/pprof/heap", get(heap))
        .layer(middleware::from_fn(from_this_machine))
}

#[derive(Debug, Deserialize)]
struct Length {
    seconds: Option<u64>,
}

/// Folded stacks, which speedscope, inferno and flamegraph.pl read: a line for each stack, outermost function
/// first, with its samples.
async fn cpu(Query(length): Query<Length>) -> Response {
    let Ok(_one) = ONE_AT_A_TIME.try_lock() else {
        return failed(StatusCode::CONFLICT, "another profile is being taken");
    };
    let seconds = length.seconds.unwrap_or(30).clamp(1, LONGEST);
    let guard = pprof::ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        // Their unwinding may deadlock in a signal handler.
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build();
    let guard = match guard {
        Ok(guard) => guard,
        Err(error) => return failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    match guard.report().build() {
        Ok(report) => folded(&report).into_response(),
        Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn folded(report: &pprof::Report) -> String {
    let mut stacks: BTreeMap<String, isize> = BTreeMap::new();
    for (stack, count) in &report.data {
        let names = stack
            .frames
            .iter()
            .rev()
            .flat_map(|frame| frame.iter().rev());
        let names = names.map(|symbol| symbol.name().replace([';', '\n'], ":"));
        let line: Vec<String> = std::iter::once(stack.thread_name.clone())
            .chain(names)
            .collect();
        *stacks.entry(line.join(";")).or_default() += count;
    }
    let lines = stacks.into_iter();
    lines
        .map(|(stack, count)| format!("{stack} {count}\n"))
        .collect()
}

/// What is allocated now, by where it was: a gzipped profile for `go tool pprof` and its like.
async fn heap() -> Response {
    let Some(control) = jemalloc_pprof::PROF_CTL.as_ref() else {
        let text = "heap profiles are off: start the daemon with _RJEM_MALLOC_CONF=prof:true,lg_prof_sample:19";
        return failed(StatusCode::NOT_IMPLEMENTED, text);
    };
    let mut control = control.lock().await;
    match control.dump_pprof() {
        Ok(profile) => (
            [(header::CONTENT_TYPE, "application/octet-stream")],
            profile,
        )
            .into_response(),
        Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn failed(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}

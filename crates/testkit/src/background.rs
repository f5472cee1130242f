//! One runtime for the servers of a test process, on threads of its own.
//!
//! A test may block its own thread (a `git push`, a `kubectl apply`) while a server of ours has to answer; and a server
//! may be shared by tests that each have their own runtime. So no server runs on the runtime of a test.

use std::future::Future;
use std::sync::{OnceLock, mpsc};

use anyhow::{Context, Result, anyhow};
use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime's handle.
pub(crate) fn handle() -> Result<Handle> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("testkit")
                .enable_all()
                .build()
                .map_err(|error| format!("starting the runtime of the test servers: {error}"))
        })
        .as_ref()
        .map(|runtime| runtime.handle().clone())
        .map_err(|error| anyhow!("{error}"))
}

/// Runs `future` there and blocks this thread until it is done; allowed inside an async test as well.
pub(crate) fn wait_for<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // The receiver waits below for as long as this task runs.
        let _ = sender.send(future.await);
    });
    receiver
        .recv()
        .context("a background task of the test servers panicked")
}

//! Reading bodies within limits.

use std::time::{Duration, Instant};

use super::client::{printable, timeout, transport_error};
use crate::source::{Reason, SourceError};

/// Bytes that must arrive within each window of one stall time: a server that drips one byte a
/// second is as good as one that sends nothing.
const BYTES_PER_WINDOW: u64 = 1024;

/// Reads a body piece by piece into `sink`, at most `limit` bytes of it (after decompression).
///
/// # Errors
/// `TooLarge` above the limit, `Timeout` without progress, `InvalidData` where the body ends before
/// its announced end, and whatever the sink says.
pub(in crate::source) async fn read_body(
    mut response: reqwest::Response,
    limit: u64,
    stall: Duration,
    mut sink: impl FnMut(&[u8]) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let url = printable(response.url());
    let too_large = || {
        let text = format!("{url} sends more than the limit of {limit} bytes");
        SourceError::new(Reason::TooLarge, text)
    };
    if response
        .content_length()
        .is_some_and(|announced| announced > limit)
    {
        return Err(too_large());
    }
    let mut pace = Pace::new(stall);
    let mut read = 0_u64;
    loop {
        let next = tokio::time::timeout(stall, response.chunk());
        let chunk = next.await.map_err(|_| timeout(&url, stall))?;
        let Some(chunk) = chunk.map_err(|error| cut(&url, &error))? else {
            return Ok(());
        };
        read += chunk.len() as u64;
        if read > limit {
            return Err(too_large());
        }
        if !pace.keeps_up(chunk.len() as u64) {
            return Err(timeout(&url, stall).context("too slow"));
        }
        sink(&chunk)?;
    }
}

/// A whole body of at most `limit` bytes.
///
/// # Errors
/// As [`read_body`].
pub(in crate::source) async fn read_whole(
    response: reqwest::Response,
    limit: u64,
    stall: Duration,
) -> Result<Vec<u8>, SourceError> {
    let mut content = Vec::new();
    read_body(response, limit, stall, |chunk| {
        content.extend_from_slice(chunk);
        Ok(())
    })
    .await?;
    Ok(content)
}

/// Whether bytes arrive faster than a drip.
struct Pace {
    window: Duration,
    since: Instant,
    bytes: u64,
}

impl Pace {
    fn new(window: Duration) -> Self {
        Self {
            window,
            since: Instant::now(),
            bytes: 0,
        }
    }

    fn keeps_up(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        if self.bytes >= BYTES_PER_WINDOW {
            *self = Self::new(self.window);
            return true;
        }
        self.since.elapsed() <= self.window
    }
}

fn cut(url: &str, error: &reqwest::Error) -> SourceError {
    if error.is_timeout() {
        return transport_error(url, error);
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = format!("the answer of {url} is cut short or not readable: {cause}");
    SourceError::new(Reason::InvalidData, text)
}

//! A response that arrives in its own time: bounded in bytes, and given up on when it makes no progress.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{Instant, timeout_at},
};

use crate::gitsync::{Reason, SourceError};

/// A window with fewer bytes than this is a slow one.
const MIN_WINDOW_BYTES: u64 = 1024;
/// After this time the whole body must have come with at least [`MIN_RATE`].
const LONG: Duration = Duration::from_secs(600);
/// Bytes a second, on average over a long body.
const MIN_RATE: u64 = 16 << 10;
const PIPE_CHUNK: usize = 64 << 10;

/// What a remote was asked and what it sent, over the life of a mirror.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// HTTP requests and started connections.
    pub(crate) requests: AtomicU64,
    /// Bytes of responses, unpacked.
    pub(crate) received: AtomicU64,
}

impl Counters {
    /// Counts one request.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long to wait for progress. A whole window without a byte ends the exchange; windows with a trickle are borne
/// `slow_windows` times, because a server that counts objects sends a few bytes of keep-alive only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Length of a window.
    pub(crate) window: Duration,
    /// Windows in a row with less than a kilobyte that are borne.
    pub(crate) slow_windows: u32,
}

impl Pace {
    /// The error of an exchange that does not move.
    pub(crate) fn stalled(&self, what: &str) -> SourceError {
        SourceError::new(
            Reason::Timeout,
            format!("{what} made no progress for {:?}", self.window),
        )
    }
}

enum Source {
    Http(Box<reqwest::Response>),
    Pipe(Box<dyn AsyncRead + Send + Sync + Unpin>),
}

/// The bytes of a response.
pub(crate) struct Body<'c> {
    source: Source,
    pace: Pace,
    counters: &'c Counters,
    limit: u64,
    received: u64,
    started: Instant,
    window_end: Instant,
    window_bytes: u64,
    slow: u32,
    buffer: BytesMut,
}

impl<'c> Body<'c> {
    /// The body of an HTTP response, at most `limit` bytes long.
    pub(crate) fn http(
        response: reqwest::Response,
        pace: Pace,
        limit: u64,
        counters: &'c Counters,
    ) -> Self {
        Self::new(Source::Http(Box::new(response)), pace, limit, counters)
    }

    /// The output of a program, at most `limit` bytes of it.
    pub(crate) fn pipe(
        pipe: impl AsyncRead + Send + Sync + Unpin + 'static,
        pace: Pace,
        limit: u64,
        counters: &'c Counters,
    ) -> Self {
        Self::new(Source::Pipe(Box::new(pipe)), pace, limit, counters)
    }

    fn new(source: Source, pace: Pace, limit: u64, counters: &'c Counters) -> Self {
        Self {
            source,
            pace,
            counters,
            limit,
            received: 0,
            started: Instant::now(),
            window_end: Instant::now() + pace.window,
            window_bytes: 0,
            slow: 0,
            buffer: BytesMut::new(),
        }
    }

    /// Sets how many slow windows are borne from here on, and how many more bytes may come.
    pub(crate) fn expect(&mut self, slow_windows: u32, limit: u64) {
        self.pace.slow_windows = slow_windows;
        self.limit = self.received.saturating_add(limit);
        self.slow = 0;
    }

    /// Exactly `count` bytes.
    ///
    /// # Errors
    /// `InvalidData` when the body ends before.
    pub(crate) async fn take(&mut self, count: usize) -> Result<Bytes, SourceError> {
        while self.buffer.len() < count {
            if !self.fill().await? {
                return Err(cut());
            }
        }
        Ok(self.buffer.split_to(count).freeze())
    }

    /// Some bytes, at least one.
    pub(crate) async fn take_some(&mut self) -> Result<Bytes, SourceError> {
        if self.buffer.is_empty() && !self.fill().await? {
            return Err(cut());
        }
        Ok(self.buffer.split().freeze())
    }

    /// True when the next packet, after its `skip` bytes of length, starts with one of `texts`. Nothing is taken.
    pub(crate) async fn starts_with(
        &mut self,
        texts: &[&[u8]],
        skip: usize,
    ) -> Result<bool, SourceError> {
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        while self.buffer.len() < skip + longest {
            if !self.fill().await? {
                break;
            }
        }
        let next = self.buffer.get(skip..).unwrap_or_default();
        Ok(texts.iter().any(|text| next.starts_with(text)))
    }

    /// True when every byte was taken and no more come.
    pub(crate) async fn at_end(&mut self) -> Result<bool, SourceError> {
        Ok(self.buffer.is_empty() && !self.fill().await?)
    }

    /// Adds what comes next to the buffer; false at the end of the body.
    async fn fill(&mut self) -> Result<bool, SourceError> {
        loop {
            let read = timeout_at(self.window_end, self.source.read(&mut self.buffer)).await;
            let Ok(read) = read else {
                self.end_window()?;
                continue;
            };
            let count = read? as u64;
            self.received += count;
            self.window_bytes += count;
            self.counters.received.fetch_add(count, Ordering::Relaxed);
            if self.received > self.limit {
                return Err(too_large(self.limit));
            }
            self.check_rate()?;
            if self.window_bytes >= MIN_WINDOW_BYTES {
                self.start_window();
                self.slow = 0;
            }
            return Ok(count > 0);
        }
    }

    /// A body that comes just quickly enough for its windows must not come for days.
    fn check_rate(&self) -> Result<(), SourceError> {
        let took = self.started.elapsed();
        if took > LONG && self.received < MIN_RATE * took.as_secs() {
            return Err(SourceError::new(
                Reason::Timeout,
                format!("the remote sends less than {MIN_RATE} bytes a second"),
            ));
        }
        Ok(())
    }

    fn end_window(&mut self) -> Result<(), SourceError> {
        self.slow += 1;
        if self.window_bytes == 0 || self.slow > self.pace.slow_windows {
            return Err(self.pace.stalled("the remote"));
        }
        self.start_window();
        Ok(())
    }

    fn start_window(&mut self) {
        self.window_end = Instant::now() + self.pace.window;
        self.window_bytes = 0;
    }
}

impl Source {
    /// Adds the next bytes to `buffer` and says how many; zero at the end. Safe to cancel.
    async fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, SourceError> {
        match self {
            Self::Http(response) => match response.chunk().await {
                Ok(Some(chunk)) if chunk.is_empty() => Ok(0),
                Ok(Some(chunk)) => {
                    buffer.extend_from_slice(&chunk);
                    Ok(chunk.len())
                }
                Ok(None) => Ok(0),
                Err(error) => Err(super::http::transport_error(&error)),
            },
            Self::Pipe(pipe) => {
                buffer.reserve(PIPE_CHUNK);
                pipe.read_buf(buffer).await.map_err(|error| {
                    SourceError::new(
                        Reason::Unreachable,
                        format!("the connection broke: {error}"),
                    )
                })
            }
        }
    }
}

/// A response that ends in the middle.
pub(crate) fn cut() -> SourceError {
    SourceError::new(
        Reason::InvalidData,
        "the remote closed the connection in mid-answer",
    )
}

fn too_large(limit: u64) -> SourceError {
    SourceError::new(
        Reason::TooLarge,
        format!("the remote sent more than the limit of {limit} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn pace(slow_windows: u32) -> Pace {
        Pace {
            window: Duration::from_secs(20),
            slow_windows,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_after_one_window() {
        let (_writer, reader) = tokio::io::duplex(64);
        let counters = Counters::default();
        let mut body = Body::pipe(reader, pace(9), 1000, &counters);
        let started = Instant::now();
        let error = body.take(1).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Timeout);
        assert_eq!(started.elapsed().as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_ends_after_the_windows_that_are_borne() {
        let (mut writer, reader) = tokio::io::duplex(64);
        tokio::spawn(async move {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let counters = Counters::default();
        let mut body = Body::pipe(reader, pace(2), 100_000, &counters);
        let started = Instant::now();
        let error = body.take(50_000).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Timeout);
        assert_eq!(started.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn s13_a_body_that_takes_days_is_given_up() {
        let (mut writer, reader) = tokio::io::duplex(4096);
        tokio::spawn(async move {
            while writer.write_all(&[7; 1100]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(15)).await;
            }
        });
        let counters = Counters::default();
        let mut body = Body::pipe(reader, pace(0), 2 << 30, &counters);
        let started = Instant::now();
        let error = body.take(1 << 30).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Timeout);
        assert_eq!(started.elapsed().as_secs() / 60, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_but_steady_body_may_take_its_time() {
        let (mut writer, reader) = tokio::io::duplex(64 << 10);
        tokio::spawn(async move {
            for _ in 0..100 {
                writer.write_all(&[7; 512 << 10]).await.unwrap();
                tokio::time::sleep(Duration::from_secs(15)).await;
            }
        });
        let counters = Counters::default();
        let mut body = Body::pipe(reader, pace(0), 200 << 20, &counters);
        let started = Instant::now();
        assert_eq!(body.take(50 << 20).await.unwrap().len(), 50 << 20);
        assert!(started.elapsed().as_secs() > 1400);
    }

    #[tokio::test]
    async fn more_bytes_than_the_limit_are_refused() {
        let counters = Counters::default();
        let mut body = Body::pipe(tokio::io::repeat(1), pace(0), 100_000, &counters);
        assert_eq!(
            body.take(1_000_000).await.unwrap_err().reason(),
            Reason::TooLarge
        );
        assert!(counters.received.load(Ordering::Relaxed) < 300_000);
    }

    #[tokio::test]
    async fn an_early_end_is_no_clean_end() {
        let counters = Counters::default();
        let mut body = Body::pipe(&b"abc"[..], pace(0), 100, &counters);
        assert_eq!(body.take(2).await.unwrap(), "ab");
        assert_eq!(
            body.take(2).await.unwrap_err().reason(),
            Reason::InvalidData
        );
    }
}

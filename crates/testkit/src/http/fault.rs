//! What can go wrong with a request, and the front of a server that makes it so.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::json;
use tokio::sync::watch;

use super::traffic::Streams;
use super::{Body, BodySender, Traffic, bytes_body, stream_body};
use crate::process::Controls;

/// One way in which a request goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answered with this status, and `Retry-After` in seconds if given; not forwarded.
    Status(u16, Option<u32>),
    /// Forwarded and done; then answered with this status.
    StatusAfter(u16),
    /// Answered with a redirect to this base, such as `http://127.0.0.1:81`, with the path and query of the request.
    Redirect(u16, String),
    /// Answered with 200 and these bytes; not forwarded.
    Reply(Vec<u8>),
    /// Forwarded after this time.
    Delay(Duration),
    /// Never answered.
    Hang,
    /// The connection is closed without a reply; not forwarded.
    Cut,
    /// Forwarded and done; then the connection is closed without the reply.
    CutReply,
    /// The body of the reply is cut after so many bytes.
    CutBody(usize),
    /// The body of the reply goes silent after so many bytes, and the connection stays open.
    StallBody(usize),
    /// The body of the reply comes in pieces of so many bytes, with this pause before each.
    Drip(usize, Duration),
    /// Lines of the reply that hold this text are left out: an event of a watch that nobody gets to see.
    HideLines(String),
    /// The victim is killed with SIGKILL; not forwarded.
    KillBefore(Victim),
    /// Forwarded and done; then the victim is killed before it has seen the reply.
    KillAfter(Victim),
}

/// A program to be killed, which may be named later: a fault that needs it waits until it is.
#[derive(Clone, Debug, Default)]
pub struct Victim {
    inner: Arc<(Mutex<Option<Controls>>, Condvar)>,
}

impl Victim {
    /// Names the program.
    pub fn set(&self, controls: Controls) {
        let (slot, named) = &*self.inner;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(controls);
        named.notify_all();
    }

    /// Kills it and returns when it is gone.
    fn kill(&self) -> Result<()> {
        let (slot, named) = &*self.inner;
        let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = named.wait_timeout_while(slot, Duration::from_secs(60), |slot| slot.is_none());
        let (slot, _) = wait.unwrap_or_else(PoisonError::into_inner);
        let controls = slot.clone().context("nobody has named the victim")?;
        drop(slot);
        controls.kill()
    }
}

impl From<Controls> for Victim {
    fn from(controls: Controls) -> Self {
        let victim = Self::default();
        victim.set(controls);
        victim
    }
}

/// The front of a server: writes requests down, applies their faults, and has the others answered.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    traffic: Traffic,
}

impl Front {
    pub(crate) fn new(traffic: Traffic) -> Self {
        Self { traffic }
    }

    /// Answers a request. An error closes the connection.
    pub(crate) async fn answer<F>(
        &self,
        request: Request<Incoming>,
        forward: impl FnOnce(Request<Bytes>) -> F,
    ) -> Result<Response<Body>>
    where
        F: Future<Output = Result<Response<Body>>>,
    {
        let (parts, body) = request.into_parts();
        let (ticket, fault) = self.traffic.enter(&parts);
        let body = body
            .collect()
            .await
            .context("reading the request")?
            .to_bytes();
        let reply = self
            .apply(fault, Request::from_parts(parts, body), forward)
            .await?;
        ticket.answered(reply.status().as_u16());
        Ok(reply)
    }

    async fn apply<F>(
        &self,
        fault: Option<Fault>,
        request: Request<Bytes>,
        forward: impl FnOnce(Request<Bytes>) -> F,
    ) -> Result<Response<Body>>
    where
        F: Future<Output = Result<Response<Body>>>,
    {
        match fault {
            None => Ok(self.watched(forward(request).await?, Shape::default())),
            Some(Fault::Status(code, retry_after)) => status(code, retry_after),
            Some(Fault::StatusAfter(code)) => {
                finish(forward(request).await?).await?;
                status(code, None)
            }
            Some(Fault::Redirect(code, base)) => redirect(code, &base, &request),
            Some(Fault::Reply(bytes)) => Ok(Response::new(bytes_body(bytes))),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(self.watched(forward(request).await?, Shape::default()))
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Cut) => bail!("cut before the request"),
            Some(Fault::CutReply) => {
                finish(forward(request).await?).await?;
                bail!("cut after the request")
            }
            Some(Fault::CutBody(bytes)) => {
                let shape = Shape {
                    cut: Some(bytes),
                    ..Shape::default()
                };
                Ok(self.watched(forward(request).await?, shape))
            }
            Some(Fault::StallBody(bytes)) => {
                let shape = Shape {
                    stall: Some(bytes),
                    ..Shape::default()
                };
                Ok(self.watched(forward(request).await?, shape))
            }
            Some(Fault::Drip(bytes, pause)) => {
                let shape = Shape {
                    drip: Some((bytes.max(1), pause)),
                    ..Shape::default()
                };
                Ok(self.watched(forward(request).await?, shape))
            }
            Some(Fault::HideLines(text)) => {
                let shape = Shape {
                    hide: Some(Hidden {
                        text,
                        line: BytesMut::new(),
                    }),
                    ..Shape::default()
                };
                Ok(self.watched(forward(request).await?, shape))
            }
            Some(Fault::KillBefore(victim)) => {
                kill(victim).await?;
                bail!("killed before the request")
            }
            Some(Fault::KillAfter(victim)) => {
                finish(forward(request).await?).await?;
                kill(victim).await?;
                bail!("killed after the request")
            }
        }
    }

    /// The same reply with its body passed on piece by piece, so that it can be cut or stalled while it is open.
    fn watched(&self, reply: Response<Body>, shape: Shape) -> Response<Body> {
        let streams = self.traffic.streams();
        let (parts, source) = reply.into_parts();
        let (sink, body) = stream_body();
        tokio::spawn(
            Pump {
                source,
                sink,
                shape,
                sent: 0,
            }
            .run(streams),
        );
        Response::from_parts(parts, body)
    }
}

/// How a body is bent.
#[derive(Debug, Default)]
struct Shape {
    cut: Option<usize>,
    stall: Option<usize>,
    drip: Option<(usize, Duration)>,
    hide: Option<Hidden>,
}

/// A text that marks lines, and the line that has begun.
#[derive(Debug)]
struct Hidden {
    text: String,
    line: BytesMut,
}

impl Hidden {
    /// The whole lines so far that do not hold the text.
    fn filter(&mut self, data: &[u8]) -> Bytes {
        self.line.extend_from_slice(data);
        let mut kept = BytesMut::new();
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line = self.line.split_to(end + 1);
            if !String::from_utf8_lossy(&line).contains(&self.text) {
                kept.extend_from_slice(&line);
            }
        }
        kept.freeze()
    }
}

struct Pump {
    source: Body,
    sink: BodySender,
    shape: Shape,
    sent: usize,
}

impl Pump {
    /// Ends when the source or the reader does. Dropping the source cancels what it streams from.
    async fn run(mut self, mut streams: watch::Receiver<Streams>) {
        let before = *streams.borrow_and_update();
        loop {
            tokio::select! {
                // What was told comes before what arrives after it.
                biased;
                changed = streams.changed() => {
                    if changed.is_err() { return self.cut().await; }
                    let now = *streams.borrow_and_update();
                    if now.cuts != before.cuts { return self.cut().await; }
                    if now.stalls != before.stalls { return self.stall().await; }
                }
                () = self.sink.closed() => return,
                piece = self.source.frame() => match piece {
                    None => return,
                    Some(Err(_)) => return self.cut().await,
                    Some(Ok(frame)) => {
                        let Ok(data) = frame.into_data() else { continue };
                        if !self.pass(data).await { return; }
                    }
                },
            }
        }
    }

    /// Sends a piece as far as the shape lets it; false when nothing shall follow.
    async fn pass(&mut self, mut data: Bytes) -> bool {
        if let Some(hidden) = &mut self.shape.hide {
            data = hidden.filter(&data);
        }
        while !data.is_empty() {
            let mut size = data.len();
            if let Some((bytes, pause)) = self.shape.drip {
                tokio::time::sleep(pause).await;
                size = size.min(bytes);
            }
            let limit = self.shape.cut.or(self.shape.stall).unwrap_or(usize::MAX);
            size = size.min(limit.saturating_sub(self.sent));
            self.sent += size;
            let piece = data.split_to(size);
            if !piece.is_empty() && self.sink.send(Ok(piece)).await.is_err() {
                return false;
            }
            if self.sent >= limit {
                self.end().await;
                return false;
            }
        }
        true
    }

    async fn end(&mut self) {
        match self.shape.cut {
            Some(_) => self.cut().await,
            None => self.stall().await,
        }
    }

    async fn cut(&mut self) {
        // The reader may be gone already.
        let _ = self.sink.send(Err(anyhow!("cut in the body"))).await;
    }

    async fn stall(&mut self) {
        self.sink.closed().await;
    }
}

async fn kill(victim: Victim) -> Result<()> {
    tokio::task::spawn_blocking(move || victim.kill()).await?
}

/// Reads a reply to its end: only then has the server surely done what was asked.
async fn finish(reply: Response<Body>) -> Result<()> {
    reply.into_body().collect().await.map(drop)
}

/// A failure in the form of the Kubernetes API, which other clients may ignore.
fn status(code: u16, retry_after: Option<u32>) -> Result<Response<Body>> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "message": format!("injected fault {code}"), "reason": reason, "code": code,
    });
    let mut reply = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        reply = reply.header("retry-after", seconds);
    }
    Ok(reply.body(bytes_body(body.to_string()))?)
}

fn redirect(code: u16, base: &str, request: &Request<Bytes>) -> Result<Response<Body>> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let reply = Response::builder()
        .status(code)
        .header("location", format!("{base}{path}"));
    Ok(reply.body(bytes_body(Bytes::new()))?)
}

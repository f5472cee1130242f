//! No write leaves a process that may not lead any more.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Leadership;

/// Refuses every request that could change something while leadership is not held. It stands in front of
/// the client that all of the operator's requests go through, so that a process that was stopped and goes
/// on after its lease has ended finds here that its time has passed.
///
/// It looks twice: when the request is made, and when its body is taken to be sent, which is later if a
/// connection has to be made first. A request without its whole body is not carried out.
#[derive(Clone, Debug)]
pub struct LeaderGuard {
    leadership: Leadership,
}

impl LeaderGuard {
    /// A guard that asks `leadership` before each write.
    #[must_use]
    pub fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }

    /// The request with a body that looks again when it is sent.
    pub(super) fn watch_body(&self, request: Request<Body>) -> Request<GuardedBody> {
        let leadership = (!is_read(&request)).then(|| self.leadership.clone());
        request.map(|inner| GuardedBody { inner, leadership })
    }

    /// See [`Leadership::margin`].
    pub(super) fn margin(&self) -> Option<Duration> {
        self.leadership.margin()
    }
}

impl<S> Layer<S> for LeaderGuard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            leadership: self.leadership.clone(),
        }
    }
}

/// A service behind a [`LeaderGuard`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    leadership: Leadership,
}

/// A write was refused, because leadership is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica is not the leader any more: nothing is written")]
pub struct NotLeader;

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>>,
    S::Error: Into<BoxError>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_read(&request) && !self.leadership.is_held() {
            return std::future::ready(Err(NotLeader.into())).boxed();
        }
        self.inner
            .call(request)
            .map(|answer| answer.map_err(Into::into))
            .boxed()
    }
}

fn is_read<B>(request: &Request<B>) -> bool {
    matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS")
}

/// The body of a request; that of a write breaks off if leadership is lost before it is sent.
pub(super) struct GuardedBody {
    inner: Body,
    /// Of writes only.
    leadership: Option<Leadership>,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.leadership.as_ref().is_none_or(Leadership::is_held) {
            return Poll::Ready(Some(Err(NotLeader.into())));
        }
        Pin::new(&mut self.inner)
            .poll_frame(context)
            .map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::watch;

    use super::*;

    /// Answers every request with its method.
    #[derive(Clone)]
    struct Echo;

    impl Service<Request<Body>> for Echo {
        type Response = String;
        type Error = BoxError;
        type Future = std::future::Ready<Result<String, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            std::future::ready(Ok(request.method().to_string()))
        }
    }

    async fn ask(leadership: Leadership, method: &str) -> Result<String, String> {
        let mut service = LeaderGuard::new(leadership).layer(Echo);
        let request = Request::builder()
            .method(method)
            .uri("/")
            .body(Body::empty())
            .unwrap();
        service
            .call(request)
            .await
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_a_leader_writes_and_everyone_reads() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(
                ask(Leadership::always(), method).await.as_deref(),
                Ok(method)
            );
            let follower = ask(Leadership::never(), method).await;
            assert_eq!(follower.is_ok(), method == "GET", "{method}");
        }
    }

    #[tokio::test]
    async fn a_write_that_waited_for_its_connection_too_long_is_not_sent() {
        for lost in [false, true] {
            let (until, receiver) = watch::channel(Some(Duration::from_secs(1 << 40)));
            let leadership = Leadership::new(receiver, Duration::from_secs(5));
            let guard = LeaderGuard::new(leadership);
            let request = |method: &str| {
                let body = Body::from(b"{}".to_vec());
                Request::builder().method(method).body(body).unwrap()
            };
            let body = guard.watch_body(request("PATCH")).into_body();
            let read = guard.watch_body(request("GET")).into_body();
            assert_eq!(body.size_hint().exact(), Some(2));
            if lost {
                until.send_replace(None);
            }
            let sent = body.collect().await.map(|sent| sent.to_bytes().to_vec());
            assert!(read.collect().await.is_ok());
            assert_eq!(sent.ok(), (!lost).then(|| b"{}".to_vec()));
        }
    }
}

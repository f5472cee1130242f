//! No write leaves a process that may not lead any more.

use std::task::{Context, Poll};

use axum::http::Request;
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Leadership;

/// Refuses every request that could change something while leadership is not held. It stands in front of
/// the client that all of the operator's requests go through, so that a process that was stopped and goes
/// on after its lease has ended finds here that its time has passed.
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
        let reads = matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
        if !reads && !self.leadership.is_held() {
            return std::future::ready(Err(NotLeader.into())).boxed();
        }
        self.inner
            .call(request)
            .map(|answer| answer.map_err(Into::into))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
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
}

//! Slowing down when the API server says that it has too much to do.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::client::Body;
use tokio::time::Instant;
use tower::{Layer, Service};

/// How long no new work begins when the API server does not say how long to stay away.
const USUAL: Duration = Duration::from_secs(1);
/// The longest that it is believed: what is due for longer is asked about again.
const LONGEST: Duration = Duration::from_secs(60);

/// Holds new work back for as long as the API server asks.
///
/// Each request that it refuses is tried again by whoever made it. But an API server that refuses one
/// release's request has none to spare for the next release either, so while it asks to stay away no
/// further release is begun with. What is under way goes on, at its own pace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brake {
    until: Arc<Mutex<Option<Instant>>>,
}

impl Brake {
    /// Takes notice of a refusal.
    fn hold(&self, asked: Option<Duration>) {
        let pause = asked.unwrap_or(USUAL).min(LONGEST);
        let until = Instant::now() + pause;
        let mut known = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known <= Instant::now()) {
            tracing::warn!(
                ?pause,
                "the API server has too much to do: no new work begins"
            );
        }
        *known = (*known).max(Some(until));
    }

    fn until(&self) -> Option<Instant> {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > Instant::now())
    }

    /// Returns when new work may begin.
    pub(crate) async fn released(&self) {
        while let Some(until) = self.until() {
            tokio::time::sleep_until(until).await;
        }
    }
}

impl<S> Layer<S> for Brake {
    type Service = Braked<S>;

    fn layer(&self, inner: S) -> Braked<S> {
        Braked {
            inner,
            brake: self.clone(),
        }
    }
}

/// A service whose refusals a [`Brake`] takes notice of.
#[derive(Clone, Debug)]
pub(crate) struct Braked<S> {
    inner: S,
    brake: Brake,
}

impl<S, B> Service<Request<Body>> for Braked<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let brake = self.brake.clone();
        self.inner
            .call(request)
            .inspect(move |answer| {
                if let Ok(answer) = answer
                    && answer.status() == StatusCode::TOO_MANY_REQUESTS
                {
                    brake.hold(retry_after(answer.headers()));
                }
            })
            .boxed()
    }
}

/// `Retry-After` in seconds; the API server sends no dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every request with a status and a `Retry-After`.
    #[derive(Clone)]
    struct Server(u16, Option<&'static str>);

    impl Service<Request<Body>> for Server {
        type Response = Response<()>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Response<()>, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let mut answer = Response::builder().status(self.0);
            if let Some(seconds) = self.1 {
                answer = answer.header("retry-after", seconds);
            }
            std::future::ready(Ok(answer.body(()).unwrap()))
        }
    }

    /// How long new work is held back by one answer.
    async fn held(code: u16, retry_after: Option<&'static str>) -> Duration {
        let brake = Brake::default();
        let mut service = brake.layer(Server(code, retry_after));
        let request = Request::new(Body::empty());
        service.call(request).await.unwrap();
        let start = Instant::now();
        brake.released().await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn new_work_waits_as_long_as_the_api_server_asks() {
        let rows = [
            (200, None, 0),
            (200, Some("30"), 0),
            (409, Some("30"), 0),
            (500, None, 0),
            (429, None, 1),
            (429, Some("30"), 30),
            (429, Some("soon"), 1),
            (429, Some("86400"), 60),
        ];
        for (code, retry_after, seconds) in rows {
            assert_eq!(
                held(code, retry_after).await,
                Duration::from_secs(seconds),
                "{code} {retry_after:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_refusal_prolongs_the_wait_and_never_shortens_it() {
        let brake = Brake::default();
        let start = Instant::now();
        brake.hold(Some(Duration::from_secs(10)));
        brake.hold(Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(4)).await;
        brake.hold(Some(Duration::from_secs(8)));
        brake.released().await;
        assert_eq!(start.elapsed(), Duration::from_secs(12));
    }
}

//! The daemon's HTTP server: health, metrics, 1.4's `sync-git`, and push webhooks.

mod debug;
mod forward;
mod hooks;
#[cfg(feature = "profiling")]
mod profile;
mod sources;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use tokio::net::TcpListener;

use crate::telemetry::Metrics;

pub use debug::debug_routes;
pub use forward::{ToLeader, to_leader};
pub use hooks::{Hooks, SyncRepository, hook_routes};
#[cfg(feature = "profiling")]
pub use profile::profile_routes;
pub use sources::{RefReport, SourceReport, sources_routes};

/// What `/readyz` looks at.
#[derive(Debug, Default)]
pub struct Health {
    caches: AtomicBool,
}

impl Health {
    /// The caches are filled (or are not any more).
    pub fn set_caches_filled(&self, filled: bool) {
        self.caches.store(filled, Ordering::Relaxed);
    }

    /// Whether requests of the cluster's state make sense: caches are filled.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.caches.load(Ordering::Relaxed)
    }
}

/// Something that the server does when it is asked.
pub type Hook = Arc<dyn Fn() + Send + Sync>;

/// What the server answers from.
#[derive(Clone)]
pub struct ServerState {
    /// The numbers behind `/metrics`.
    pub metrics: Metrics,
    /// What the probes say.
    pub health: Arc<Health>,
    /// Brings gauges up to date before a scrape.
    pub before_scrape: Hook,
    /// Refreshes all git mirrors in the background: `POST /api/v1/sync-git`.
    pub sync_git: Hook,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState")
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

/// The longest that a request may take; `/metrics` of a thousand releases takes milliseconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The OpenMetrics content type.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of 1.4. The same text is valid in both.
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes of 1.4, and `/readyz`.
pub fn routes(state: ServerState) -> Router {
    Router::new()
        // 1.4 answered every method.
        .route("/healthz", any(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/sync-git", post(sync_git))
        .with_state(state)
}

/// Serves until `stop` is done, then lets requests in flight end for five seconds.
///
/// # Errors
/// Fails when the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let stop = async move {
        stop.await;
        stopping.send(()).ok();
    };
    let router = router.layer(middleware::from_fn(limit_time));
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .into_future();
    let give_up = async {
        stopped.await.ok();
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    tokio::select! {
        result = server => result,
        () = give_up => Ok(()),
    }
}

async fn limit_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// A process that answers is alive: one whose loops die ends by itself.
async fn healthz() -> &'static str {
    "OK"
}

async fn readyz(State(state): State<ServerState>) -> (StatusCode, &'static str) {
    if state.health.is_ready() {
        (StatusCode::OK, "OK")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the caches are not filled yet",
        )
    }
}

async fn metrics(State(state): State<ServerState>, headers: HeaderMap) -> Response {
    (state.before_scrape)();
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let open = accept.is_some_and(|types| types.contains("application/openmetrics-text"));
    let content_type = if open { OPEN_METRICS } else { PLAIN_METRICS };
    ([(header::CONTENT_TYPE, content_type)], state.metrics.text()).into_response()
}

async fn sync_git(State(state): State<ServerState>) -> &'static str {
    (state.sync_git)();
    "OK"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A server on loopback, its address, its health and its count of syncs.
    async fn server() -> (String, Arc<Health>, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (health, syncs) = (Arc::<Health>::default(), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&syncs);
        let state = ServerState {
            metrics: Metrics::new(),
            health: Arc::clone(&health),
            before_scrape: Arc::new(|| {}),
            sync_git: Arc::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            }),
        };
        tokio::spawn(serve(listener, routes(state), std::future::pending()));
        (url, health, syncs)
    }

    async fn ask(method: &str, url: String) -> (u16, String) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let answer = reqwest::Client::new()
            .request(method, url)
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    #[tokio::test]
    async fn the_routes_of_1_4_answer_as_they_did() {
        let (url, _, syncs) = server().await;
        let table = [
            ("GET", "/healthz", 200),
            ("GET", "/metrics", 200),
            ("POST", "/api/v1/sync-git", 200),
            ("GET", "/api/v1/sync-git", 405),
            ("GET", "/api/v1/other", 404),
            ("POST", "/api/", 404),
        ];
        for (method, path, status) in table {
            assert_eq!(
                ask(method, format!("{url}{path}")).await.0,
                status,
                "{method} {path}"
            );
        }
        assert_eq!(syncs.load(Ordering::Relaxed), 1);
        assert_eq!(ask("GET", format!("{url}/healthz")).await.1, "OK");
    }

    #[tokio::test]
    async fn readiness_follows_the_caches_and_liveness_does_not() {
        let (url, health, _) = server().await;
        assert_eq!(ask("GET", format!("{url}/readyz")).await.0, 503);
        assert_eq!(ask("GET", format!("{url}/healthz")).await.0, 200);
        health.set_caches_filled(true);
        assert_eq!(ask("GET", format!("{url}/readyz")).await.0, 200);
        health.set_caches_filled(false);
        assert_eq!(ask("GET", format!("{url}/readyz")).await.0, 503);
        assert_eq!(ask("GET", format!("{url}/healthz")).await.0, 200);
    }
}

//! `/debug/…`: for who is on the machine itself, which `kubectl port-forward` also is. Anybody else is refused.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::telemetry::LogHandle;

/// The most bytes of a log level.
const MAX_DIRECTIVES: usize = 1024;

/// `GET` and `PUT /debug/loglevel`: the level of the running daemon, as `--log-level` takes it.
pub fn debug_routes(logs: LogHandle) -> Router {
    Router::new()
        .route("/debug/loglevel", get(level).put(set_level))
        .layer(DefaultBodyLimit::max(MAX_DIRECTIVES))
        .with_state(logs)
        .layer(middleware::from_fn(from_this_machine))
}

/// The server asks nobody who they are, so it has to matter where they are.
pub(super) async fn from_this_machine(request: Request, next: Next) -> Response {
    let from = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0.ip().to_canonical());
    if from.is_some_and(|from| from.is_loopback()) {
        return next.run(request).await;
    }
    let text = "only from the machine itself: use kubectl port-forward\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn level(State(logs): State<LogHandle>) -> String {
    format!("{}\n", logs.get())
}

async fn set_level(State(logs): State<LogHandle>, directives: String) -> Response {
    let directives = directives.trim();
    if directives.is_empty() {
        let text = "write a level, such as debug\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    let before = logs.get();
    if let Err(error) = logs.set(directives) {
        let text = format!("{error}: write a level, such as debug, or info,helm_operator=debug\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    tracing::warn!(before, now = directives, "the log level was changed");
    format!("{}\n", logs.get()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt as _;

    async fn ask(from: &str, method: &str, body: &str) -> (u16, String) {
        let logs = LogHandle::detached("info");
        let mut request = Request::builder()
            .method(method)
            .uri("/debug/loglevel")
            .body(axum::body::Body::from(body.to_owned()))
            .unwrap();
        let from: SocketAddr = from.parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(from));
        let answer = debug_routes(logs).oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await;
        (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_level_is_told_and_changed_from_the_machine_itself_only() {
        for near in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(ask(near, "GET", "").await, (200, "info\n".to_owned()));
            assert_eq!(
                ask(near, "PUT", "debug\n").await,
                (200, "debug\n".to_owned())
            );
        }
        for far in ["10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[2001:db8::1]:1"] {
            assert_eq!(ask(far, "GET", "").await.0, 403, "{far}");
            assert_eq!(ask(far, "PUT", "debug").await.0, 403, "{far}");
        }
    }

    #[tokio::test]
    async fn what_is_no_level_changes_nothing() {
        let near = "127.0.0.1:1";
        for wrong in ["", " ", "helm_operator=loud"] {
            assert_eq!(ask(near, "PUT", wrong).await.0, 400, "{wrong}");
        }
        assert_eq!(ask(near, "PUT", &"a".repeat(2000)).await.0, 413);
        assert_eq!(ask(near, "POST", "debug").await.0, 405);
    }
}

//! What is asked of the daemon is asked of its leader: a Service leads to any replica, and a push that a standby
//! hears of would be lost until the next poll.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use tokio::sync::Semaphore;

use crate::lock::Leadership;

/// The most bytes that are passed on: those of a hook.
const MAX_BODY: usize = 4 << 20;
/// The most bytes of the leader's answer, which is a line of text.
const MAX_ANSWER: usize = 64 << 10;
/// How long a body may take to come.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The most requests that are passed on at a time.
const MAX_AT_ONCE: usize = 16;
/// How long the leader may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Marks what was passed on already, so that it goes no further.
static FORWARDED: HeaderName = HeaderName::from_static("helm-operator-forwarded");
/// Headers of one connection.
static HOP: [HeaderName; 4] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// Passes requests on to the leader.
#[derive(Clone, Debug)]
pub struct ToLeader {
    leadership: Leadership,
    client: reqwest::Client,
    at_once: Arc<Semaphore>,
}

impl ToLeader {
    /// Passes on while `leadership` is another's.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(leadership: Leadership) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .timeout(TIMEOUT)
            .build()?;
        Ok(Self {
            leadership,
            client,
            at_once: Arc::new(Semaphore::new(MAX_AT_ONCE)),
        })
    }

    async fn pass(&self, to: &str, request: Request) -> Result<Response, Box<Request>> {
        let (parts, body) = request.into_parts();
        let Ok(_permit) = self.at_once.try_acquire() else {
            return Ok(StatusCode::TOO_MANY_REQUESTS.into_response());
        };
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response());
        }
        let body = match tokio::time::timeout(MAX_TIME, to_bytes(body, MAX_BODY)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response()),
            Err(_) => return Ok(StatusCode::REQUEST_TIMEOUT.into_response()),
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = parts.headers.clone();
        HOP.iter().for_each(|name| drop(headers.remove(name)));
        headers.insert(&FORWARDED, HeaderValue::from_static("1"));
        let sent = self
            .client
            .request(parts.method.clone(), format!("{to}{path}"))
            .headers(headers)
            .body(body.clone())
            .send();
        let mut leadership = self.leadership.clone();
        let why = tokio::select! {
            answer = sent => match answer {
                Ok(answer) => return Ok(answered(answer).await),
                Err(error) => error.without_url().to_string(),
            },
            // It was silent for so long that it leads no more.
            () = leadership.acquired() => "this replica leads now".to_owned(),
        };
        tracing::warn!(
            leader = to,
            "{why}: not passed on to the leader, it is done here"
        );
        Err(Box::new(Request::from_parts(parts, Body::from(body))))
    }
}

async fn answered(answer: reqwest::Response) -> Response {
    let (status, mut headers) = (answer.status(), HeaderMap::new());
    if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    let body = Body::from_stream(answer.bytes_stream());
    match to_bytes(body, MAX_ANSWER).await {
        Ok(body) => (status, headers, body).into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// The middleware: what would do something goes to the leader, if it says in its Lease where it is.
pub async fn to_leader(State(to): State<ToLeader>, request: Request, next: Next) -> Response {
    let is_ours = to.leadership.is_held()
        || request.method() != Method::POST
        || request.headers().contains_key(&FORWARDED);
    match to.leadership.leader() {
        Some(leader) if !is_ours => match to.pass(&leader, request).await {
            Ok(answer) => answer,
            Err(request) => next.run(*request).await,
        },
        _ => next.run(request).await,
    }
}

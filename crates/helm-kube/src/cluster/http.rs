//! Calls over HTTP: bounded in time and bytes, tried again when the API server is busy.

use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use kube::client::Body;
use serde_json::Value;

use super::Cluster;
use crate::request::{Accept, ApiStatus, Call, Content, Failure, Reply, Response, Verb, short};

impl Cluster {
    pub(super) async fn call(&self, call: &Call) -> Response {
        self.call_accepting(call, None).await
    }

    pub(super) async fn call_accepting(&self, call: &Call, accept: Option<&str>) -> Response {
        let mut pause = Duration::from_millis(50);
        for _ in 1..self.options.tries.max(1) {
            let failure = match self.try_once(call, accept).await {
                Err(failure) if is_worth_retrying(&failure) => failure,
                answer => return answer,
            };
            let asked = asked_pause(&failure);
            if asked > self.options.max_pause {
                return Err(failure);
            }
            tokio::time::sleep(pause.max(asked)).await;
            pause = (pause * 2).min(self.options.max_pause);
        }
        self.try_once(call, accept).await
    }

    async fn try_once(&self, call: &Call, accept: Option<&str>) -> Response {
        let limit = self.options.request_timeout;
        match tokio::time::timeout(limit, self.exchange(call, accept)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Deadline(limit)),
        }
    }

    async fn exchange(&self, call: &Call, accept: Option<&str>) -> Response {
        let request = request(call, accept)?;
        let answer = self
            .client
            .send(request)
            .await
            .map_err(|error| transport(&error))?;
        let code = answer.status().as_u16();
        let retry_after = retry_after(answer.headers());
        let limit = match call.accept {
            Accept::Text(limit) => limit,
            Accept::Full | Accept::Metadata => self.options.max_answer,
        };
        let is_text = matches!(call.accept, Accept::Text(_));
        let body = read(answer.into_body(), limit, is_text).await?;
        if !(200..300).contains(&code) {
            return Err(Failure::Status(ApiStatus::parse(code, &body, retry_after)));
        }
        if is_text {
            return Ok(Reply::Text(String::from_utf8_lossy(&body).into_owned()));
        }
        let body = serde_json::from_slice::<Value>(&body)
            .map_err(|error| Failure::Undecodable(error.to_string()))?;
        Ok(Reply::Object { code, body })
    }
}

fn request(call: &Call, accept: Option<&str>) -> Result<http::Request<Body>, Failure> {
    let method = match call.verb {
        Verb::Get => http::Method::GET,
        Verb::Create => http::Method::POST,
        Verb::Replace => http::Method::PUT,
        Verb::Patch => http::Method::PATCH,
        Verb::Delete => http::Method::DELETE,
    };
    let mut builder = http::Request::builder()
        .method(method)
        .uri(&call.uri)
        .header(
            http::header::ACCEPT,
            accept.unwrap_or_else(|| accepted(call)),
        );
    if let Some((content, _)) = &call.body {
        builder = builder.header(http::header::CONTENT_TYPE, content_type(*content));
    }
    let bytes = call
        .body
        .as_ref()
        .map(|(_, bytes)| bytes.clone())
        .unwrap_or_default();
    builder
        .body(Body::from(bytes))
        .map_err(|error| Failure::Undecodable(format!("{error}: {}", call.uri)))
}

fn accepted(call: &Call) -> &'static str {
    let is_list = call.verb == Verb::Get && call.uri.contains("labelSelector=");
    match call.accept {
        Accept::Full => "application/json",
        Accept::Metadata if is_list => {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        }
        Accept::Metadata => {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
        Accept::Text(_) => "*/*",
    }
}

fn content_type(content: Content) -> &'static str {
    match content {
        Content::Json => "application/json",
        Content::Apply => "application/apply-patch+yaml",
        Content::JsonPatch => "application/json-patch+json",
        Content::MergePatch => "application/merge-patch+json",
    }
}

/// Reads a body up to a limit; a text is cut there, anything else is refused.
async fn read(body: Body, limit: usize, cut: bool) -> Result<Vec<u8>, Failure> {
    let mut chunks = std::pin::pin!(chunks(body));
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let room = limit - bytes.len();
        if chunk.len() > room {
            if !cut {
                let cause = format!("it has more than {limit} bytes");
                return Err(Failure::Undecodable(cause));
            }
            bytes.extend_from_slice(chunk.get(..room).unwrap_or_default());
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn chunks(body: Body) -> impl Stream<Item = Result<Vec<u8>, Failure>> {
    use http_body_util::BodyExt;

    body.into_data_stream()
        .map_ok(|chunk| chunk.to_vec())
        .map_err(|error| transport(&error))
}

fn transport(error: &kube::Error) -> Failure {
    let mut causes = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !causes.iter().any(|known| known.contains(&text)) {
            causes.push(text);
        }
        source = cause.source();
    }
    Failure::Transport(short(&causes.join(": "), 512))
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

/// Whether the same request may succeed in a moment. All requests of the actions may be sent
/// twice: applies and deletes by nature, records because they are compared when they are there.
fn is_worth_retrying(failure: &Failure) -> bool {
    match failure {
        Failure::Transport(_) => true,
        Failure::Status(status) => match status.code {
            429 | 502 | 503 | 504 => true,
            500 => {
                status.message.contains("etcdserver: leader changed")
                    || status.message.contains("raft proposal dropped")
                    || status.message.contains("etcdserver: request timed out")
            }
            _ => false,
        },
        Failure::Deadline(_) | Failure::Undecodable(_) => false,
    }
}

fn asked_pause(failure: &Failure) -> Duration {
    match failure {
        Failure::Status(status) => status.retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

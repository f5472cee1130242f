//! Push webhooks: `POST /hook/{github,gitlab,gitea,bitbucket,generic}`.
//!
//! A hook is a hint and nothing more: it says which repository to look at now. What it says about branches and commits
//! is not read, so that a forged, late or doubled one can do no harm. It must carry the shared secret all the same, or
//! everyone could make the daemon ask its git servers.

mod payload;
mod verify;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::StreamExt;
use tokio::sync::Semaphore;

use self::verify::Secrets;
use crate::gitsync::RepositoryUrl;

/// Most bytes of a hook. The largest hosts send at most a few hundred kilobytes for a push.
const MAX_BODY: usize = 4 << 20;
/// Longest time for a whole request.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Hooks that are read at once; more are told to come again.
const MAX_AT_ONCE: usize = 16;

/// Polls the mirrors of a repository (of all, for `None`), and says how many there are.
pub type SyncRepository = Arc<dyn Fn(Option<&RepositoryUrl>) -> usize + Send + Sync>;

/// Who sends a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    GitHub,
    GitLab,
    Gitea,
    Bitbucket,
    Generic,
}

impl Provider {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "github" => Self::GitHub,
            "gitlab" => Self::GitLab,
            "gitea" | "forgejo" | "gogs" => Self::Gitea,
            "bitbucket" => Self::Bitbucket,
            "generic" => Self::Generic,
            _ => return None,
        })
    }

    /// The name of its file of secrets.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Gitea => "gitea",
            Self::Bitbucket => "bitbucket",
            Self::Generic => "generic",
        }
    }
}

/// What the hook routes need.
#[derive(Clone)]
pub struct Hooks {
    secrets: Arc<Secrets>,
    sync: SyncRepository,
    at_once: Arc<Semaphore>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
    /// Hooks that must carry a secret of `secrets`: a file with one secret a line, or a directory (a mounted Secret)
    /// with such a file for each provider (`github`, `gitlab`, `gitea`, `bitbucket`, `generic`) or one named `secret`
    /// for all. It is read again for each hook. Without it, every hook is refused.
    #[must_use]
    pub fn new(secrets: Option<PathBuf>, sync: SyncRepository) -> Self {
        Self {
            secrets: Arc::new(Secrets::new(secrets)),
            sync,
            at_once: Arc::new(Semaphore::new(MAX_AT_ONCE)),
        }
    }
}

/// The hook routes.
pub fn hook_routes(hooks: Hooks) -> Router {
    Router::new()
        .route("/hook/{provider}", post(hook))
        .with_state(hooks)
}

/// Why a hook is refused. The text tells a stranger nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unknown,
    Off,
    Busy,
    Unsigned,
    Forged,
    TooLarge,
    TooSlow,
    Unreadable,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Unknown => (StatusCode::NOT_FOUND, "no such kind of hook"),
            Self::Off => (
                StatusCode::FORBIDDEN,
                "hooks are off: give the daemon --hook-secrets",
            ),
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "too many hooks at once"),
            Self::Unsigned => (StatusCode::UNAUTHORIZED, "the hook carries no signature"),
            Self::Forged => (StatusCode::UNAUTHORIZED, "the signature does not match"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the hook is too large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the hook came too slowly"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "the hook names no repository"),
        };
        (status, text).into_response()
    }
}

async fn hook(
    State(hooks): State<Hooks>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match answer(&hooks, &provider, &headers, body).await {
        Ok(count) => {
            tracing::debug!(provider, mirrors = count, "push hook");
            (
                StatusCode::OK,
                format!("{count} mirrors are being fetched\n"),
            )
                .into_response()
        }
        Err(refusal) => {
            tracing::debug!(provider, ?refusal, "push hook refused");
            refusal.into_response()
        }
    }
}

async fn answer(
    hooks: &Hooks,
    provider: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<usize, Refusal> {
    let provider = Provider::parse(provider).ok_or(Refusal::Unknown)?;
    let _permit = hooks.at_once.try_acquire().map_err(|_| Refusal::Busy)?;
    // Before the body: without a signature it is not worth reading.
    let proof = verify::proof(provider, headers)?;
    let secrets = hooks.secrets.read(provider).await?;
    let body = tokio::time::timeout(MAX_TIME, read(headers, body))
        .await
        .map_err(|_| Refusal::TooSlow)??;
    if !proof.matches(&secrets, &body) {
        return Err(Refusal::Forged);
    }
    if !payload::is_push(provider, headers) {
        return Ok(0);
    }
    let urls = payload::urls(provider, headers, &body)?;
    if urls.is_empty() && provider == Provider::Generic {
        return Ok((hooks.sync)(None));
    }
    // The same mirror may answer to more than one spelling.
    let mut seen = std::collections::HashSet::new();
    let fresh = urls.iter().filter(|url| seen.insert(url.repository_id()));
    Ok(fresh.map(|url| (hooks.sync)(Some(url))).sum())
}

/// The body, up to its limit.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if length
        .and_then(|text| text.parse().ok())
        .is_some_and(|length: usize| length > MAX_BODY)
    {
        return Err(Refusal::TooLarge);
    }
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Refusal::Unreadable)?;
        if bytes.len() + chunk.len() > MAX_BODY {
            return Err(Refusal::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests;

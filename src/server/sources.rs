//! `GET /api/v1/sources`: what the git mirrors are doing, for `helm-operator sources` and people with curl.
//!
//! Nothing in it is secret: URLs come without user info, and errors are what Events show too.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::gitsync::{MirrorState, MirrorStatus, Mirrors, RepositoryUrl};

/// One mirror.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceReport {
    /// The remote, without credentials.
    pub url: String,
    /// `Ready`, `Cloning`, or the reason of the failure (`AuthFailed`, `Unreachable` …).
    pub state: String,
    /// The last error, if the last exchange failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The refs in use.
    pub refs: Vec<RefReport>,
    /// Releases that use it.
    pub releases: usize,
    /// Seconds since the remote last answered; none when it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Requests since the start of the daemon.
    pub requests: u64,
    /// Bytes received since the start of the daemon.
    pub received_bytes: u64,
}

/// One ref of a mirror.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefReport {
    /// As releases write it.
    pub name: String,
    /// The commit that it stands at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SourceReport {
    /// The report of a mirror at `now`.
    #[must_use]
    pub fn new(status: &MirrorStatus, now: SystemTime) -> Self {
        let (state, message) = match &status.state {
            MirrorState::Ready => ("Ready", None),
            MirrorState::Cloning => ("Cloning", None),
            MirrorState::Failed(error) => (error.reason().as_str(), Some(error.to_string())),
        };
        let refs = status.refs.iter().map(|known| RefReport {
            name: known.name.clone(),
            commit: known.commit.clone(),
            error: known.error.as_ref().map(ToString::to_string),
        });
        let age = status
            .last_success
            .and_then(|at| now.duration_since(at).ok());
        Self {
            url: status.url.to_string(),
            state: state.to_owned(),
            message,
            refs: refs.collect(),
            releases: status.releases,
            age_seconds: age.as_ref().map(Duration::as_secs),
            disk_bytes: status.disk_bytes,
            requests: status.requests,
            received_bytes: status.received_bytes,
        }
    }
}

/// Syncs that are waited for at once; more are told to come again.
const MAX_AT_ONCE: usize = 64;

#[derive(Clone)]
struct Sources {
    mirrors: Mirrors,
    at_once: Arc<Semaphore>,
}

/// The routes of the sources: `GET /api/v1/sources`, and `POST /api/v1/sources/sync?url=…`, which has the mirrors of a
/// remote asked (no sooner than a hook would) and answers when they have been.
pub fn sources_routes(mirrors: Mirrors) -> Router {
    let sources = Sources {
        mirrors,
        at_once: Arc::new(Semaphore::new(MAX_AT_ONCE)),
    };
    Router::new()
        .route("/api/v1/sources", get(list))
        .route("/api/v1/sources/sync", post(sync))
        .with_state(sources)
}

fn reports(statuses: &[MirrorStatus]) -> Json<Vec<SourceReport>> {
    let now = SystemTime::now();
    Json(
        statuses
            .iter()
            .map(|status| SourceReport::new(status, now))
            .collect(),
    )
}

async fn list(State(sources): State<Sources>) -> Json<Vec<SourceReport>> {
    reports(&sources.mirrors.states())
}

#[derive(Deserialize)]
struct Which {
    url: String,
}

async fn sync(
    State(sources): State<Sources>,
    Query(which): Query<Which>,
) -> Result<Json<Vec<SourceReport>>, StatusCode> {
    let url = RepositoryUrl::parse(&which.url).map_err(|_| StatusCode::BAD_REQUEST)?;
    let _permit = sources
        .at_once
        .try_acquire()
        .map_err(|_| StatusCode::TOO_MANY_REQUESTS)?;
    Ok(reports(&sources.mirrors.sync_when_due(&url).await))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gitsync::{Reason, RefStatus, SourceError};

    #[test]
    fn a_report_has_no_credentials_and_says_why_a_mirror_failed() {
        let status = MirrorStatus {
            url: RepositoryUrl::parse("https://canary:canary@h/x").unwrap(),
            state: MirrorState::Failed(SourceError::new(Reason::AuthFailed, "it refuses")),
            refs: vec![RefStatus {
                name: "main".into(),
                commit: Some("c".into()),
                error: None,
            }],
            releases: 2,
            last_success: Some(SystemTime::UNIX_EPOCH),
            last_duration: None,
            requests: 3,
            received_bytes: 4,
            disk_bytes: 5,
        };
        let report = SourceReport::new(&status, SystemTime::UNIX_EPOCH + Duration::from_secs(60));
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(
            json,
            r#"{"url":"https://h/x","state":"AuthFailed","message":"it refuses","refs":[{"name":"main","commit":"c"}],"releases":2,"ageSeconds":60,"diskBytes":5,"requests":3,"receivedBytes":4}"#
        );
        assert_eq!(serde_json::from_str::<SourceReport>(&json).unwrap(), report);
    }
}

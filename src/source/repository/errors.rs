//! What goes wrong with a repository, in words that say what there is.

use std::time::Duration;

use reqwest::{StatusCode, Url};

use crate::source::fresh::FAILURE_MEMORY;
use crate::source::http::printable;
use crate::source::index::{self, ChartVersion, IndexError, Layout};
use crate::source::{Reason, SourceError};

/// Longest time that a `Retry-After` is obeyed for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

pub(super) fn chart_not_found(layout: &Layout, repository: &Url, name: &str) -> SourceError {
    let near = index::nearest(layout.charts.keys().map(String::as_str), name);
    let hint = match near.is_empty() {
        true => format!("it has {} others", layout.charts.len()),
        false => format!("the nearest names are {}", near.join(", ")),
    };
    let shown = printable(repository);
    let text = format!("{shown} has no chart {name:?}: {hint}");
    SourceError::new(Reason::ChartNotFound, text)
}

pub(super) fn version_not_found(
    repository: &Url,
    name: &str,
    version: Option<&str>,
    near: &[&ChartVersion],
) -> SourceError {
    let near: Vec<_> = near.iter().map(|entry| entry.version.original()).collect();
    let hint = match near.is_empty() {
        true => "it has no version at all".to_owned(),
        false => format!("the newest that come near are {}", near.join(", ")),
    };
    let wanted = match version {
        Some(version) => format!("no version of {name} that satisfies {version:?}"),
        None => format!("no released version of {name}"),
    };
    let shown = printable(repository);
    SourceError::new(
        Reason::VersionNotFound,
        format!("{shown} has {wanted}: {hint}"),
    )
}

/// A status that is no success, as a reason.
pub(in crate::source) fn refused(response: &reqwest::Response, what: &str) -> SourceError {
    let status = response.status();
    let url = printable(response.url());
    let (reason, hint) = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (
            Reason::AuthFailed,
            ": check the credentials for this address",
        ),
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            (Reason::RepositoryNotFound, ": check the address")
        }
        StatusCode::TOO_MANY_REQUESTS => (Reason::Unreachable, ": it asks for a pause"),
        _ => (Reason::Unreachable, ""),
    };
    SourceError::new(
        reason,
        format!("{what} at {url} is answered with {status}{hint}"),
    )
}

pub(super) fn retry_after(response: &reqwest::Response) -> Duration {
    let seconds = response
        .headers()
        .get(reqwest::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(FAILURE_MEMORY, |seconds| {
        Duration::from_secs(seconds).clamp(FAILURE_MEMORY, LONGEST_RETRY_AFTER)
    })
}

pub(super) fn unexpected(url: &Url) -> SourceError {
    let text = format!(
        "{} says that nothing changed, and nothing is known",
        printable(url)
    );
    SourceError::new(Reason::InvalidData, text)
}

pub(super) fn bad_index(shown: &str, error: &IndexError) -> SourceError {
    let reason = match error {
        IndexError::TooLarge(_) => Reason::TooLarge,
        IndexError::Io(_) => Reason::StorageFailed,
        _ => Reason::InvalidData,
    };
    SourceError::new(
        reason,
        format!("the index of {shown} is not usable: {error}"),
    )
}

//! Which repository a hook is about.

use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;

use super::{Provider, Refusal};
use crate::gitsync::RepositoryUrl;

/// Most URLs of one hook.
const MAX_URLS: usize = 16;

/// False for events that change no ref: a ping, an issue.
pub(super) fn is_push(provider: Provider, headers: &HeaderMap) -> bool {
    let event = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match provider {
        Provider::GitHub => is_ref_event(event("x-github-event")),
        Provider::Gitea => is_ref_event(event("x-gitea-event").or(event("x-gogs-event"))),
        Provider::GitLab => event("x-gitlab-event")
            .is_none_or(|name| ["Push Hook", "Tag Push Hook", "System Hook"].contains(&name)),
        Provider::Bitbucket => event("x-event-key").is_none_or(|name| {
            ["repo:push", "repo:refs_changed", "mirror:repo_synchronized"].contains(&name)
        }),
        Provider::Generic => true,
    }
}

fn is_ref_event(name: Option<&str>) -> bool {
    name.is_none_or(|name| ["push", "create", "delete"].contains(&name))
}

/// The fields of all providers that may name a repository; everything else is skipped unread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload {
    repository: Value,
    project: Value,
    url: Value,
}

/// The URLs that a hook names.
///
/// # Errors
/// `Unreadable` when it is no JSON, or names none (but for a generic hook without a body, which means all).
pub(super) fn urls(
    provider: Provider,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Vec<RepositoryUrl>, Refusal> {
    let form;
    let json = if is_form(headers, body) {
        form = form_payload(body).ok_or(Refusal::Unreadable)?;
        form.as_bytes()
    } else {
        body
    };
    if provider == Provider::Generic && json.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let payload: Payload = serde_json::from_slice(json).map_err(|_| Refusal::Unreadable)?;
    let mut texts = Vec::new();
    for name in [
        "clone_url",
        "ssh_url",
        "git_http_url",
        "git_ssh_url",
        "http_url",
        "url",
        "html_url",
        "web_url",
    ] {
        for place in [&payload.repository, &payload.project] {
            texts.extend(place.get(name).and_then(Value::as_str).map(str::to_owned));
        }
    }
    texts.extend(
        [&payload.url, &payload.repository]
            .into_iter()
            .filter_map(Value::as_str)
            .map(str::to_owned),
    );
    texts.extend(links(&payload.repository));
    let urls: Vec<RepositoryUrl> = texts
        .iter()
        .take(MAX_URLS)
        .filter_map(|text| RepositoryUrl::parse(text).ok())
        .collect();
    // A hook that says something and names nothing (a typing error in a field) does not mean all.
    if urls.is_empty() {
        return Err(Refusal::Unreadable);
    }
    Ok(urls)
}

/// True for a form with the JSON in a field. `curl -d` calls everything a form, so the body is looked at too: a form
/// begins with the name of a field, and JSON with a brace.
fn is_form(headers: &HeaderMap, body: &[u8]) -> bool {
    let says_so = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes()
            .starts_with(b"application/x-www-form-urlencoded")
    });
    says_so
        && body
            .trim_ascii_start()
            .first()
            .is_some_and(|byte| *byte != b'{')
}

/// `links` of Bitbucket: objects or lists of objects with a `href`.
fn links(repository: &Value) -> Vec<String> {
    let links = repository.get("links").and_then(Value::as_object);
    let places = links.into_iter().flat_map(|links| links.values());
    let entries = places.flat_map(|place| match place {
        Value::Array(entries) => entries.as_slice(),
        single => std::slice::from_ref(single),
    });
    let hrefs = entries.filter_map(|entry| entry.get("href")?.as_str());
    hrefs
        .map(|href| server_clone_url(href).unwrap_or_else(|| href.to_owned()))
        .collect()
}

/// Bitbucket Server names the page of a repository, `https://host/projects/TEAM/repos/app/browse`; it is cloned from
/// `https://host/scm/team/app.git`.
fn server_clone_url(href: &str) -> Option<String> {
    let (base, rest) = href.split_once("/projects/")?;
    let mut parts = rest.split('/');
    let (project, "repos", name) = (parts.next()?, parts.next()?, parts.next()?) else {
        return None;
    };
    Some(format!("{base}/scm/{project}/{name}.git"))
}

/// The JSON in the `payload` field of a form.
fn form_payload(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let encoded = text
        .split('&')
        .find_map(|pair| pair.strip_prefix("payload="))?;
    let url = reqwest::Url::parse(&format!("http://h/?payload={encoded}")).ok()?;
    url.query_pairs()
        .next()
        .map(|(_, value)| value.into_owned())
}

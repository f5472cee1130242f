//! Values behind URLs: bounded in time and bytes, and not from where tenants have no business.

use std::time::Duration;

use futures::StreamExt;
use reqwest::Url;
use reqwest::redirect::{Attempt, Policy};

use crate::gitsync::{GuardedResolver, check_literal};

/// Longest answer, in bytes.
const MOST: usize = 5 << 20;
/// How long an answer may take, from the first byte of the request to the last of the answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// Reads values from URLs.
///
/// The URLs are written by tenants, and what stands behind them ends up in objects that tenants read. So
/// addresses of a cloud's metadata service and of the machine's own link are refused wherever they turn up
/// (written, resolved, or redirected to), and so are those of the machine itself unless it is told
/// otherwise.
#[derive(Clone, Debug)]
pub(crate) struct ExternalReader {
    client: reqwest::Client,
    allow_local: bool,
    timeout: Duration,
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The cause, without the URL.
    pub(crate) why: String,
    /// It may be otherwise the next time.
    pub(crate) transient: bool,
}

impl Unread {
    fn passing(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            transient: true,
        }
    }

    fn lasting(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            transient: false,
        }
    }
}

impl ExternalReader {
    /// A reader; `allow_local` lets it read from this machine.
    ///
    /// # Errors
    /// The system's certificates cannot be read.
    pub(crate) fn new(allow_local: bool) -> Result<Self, reqwest::Error> {
        let resolver = GuardedResolver {
            allow_loopback: allow_local,
        };
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .dns_resolver(resolver)
            .redirect(Policy::custom(move |attempt| follow(attempt, allow_local)))
            .build()?;
        Ok(Self {
            client,
            allow_local,
            timeout: TIMEOUT,
        })
    }

    /// The document behind `url`.
    ///
    /// # Errors
    /// Anything but a complete answer 200 within the limits.
    pub(crate) async fn read(&self, url: &str) -> Result<Vec<u8>, Unread> {
        let url = Url::parse(url).map_err(|error| Unread::lasting(format!("{error}")))?;
        check(&url, self.allow_local).map_err(Unread::lasting)?;
        match tokio::time::timeout(self.timeout, self.exchange(url)).await {
            Ok(read) => read.map_err(Unread::passing),
            Err(_) => Err(Unread::passing(format!(
                "no complete answer within {:?}",
                self.timeout
            ))),
        }
    }

    async fn exchange(&self, url: Url) -> Result<Vec<u8>, String> {
        let answer = self.client.get(url).send().await.map_err(innermost)?;
        if answer.status().as_u16() != 200 {
            return Err(format!("the server answered {}", answer.status()));
        }
        let mut content = Vec::new();
        let mut stream = answer.bytes_stream();
        while let Some(part) = stream.next().await {
            content.extend_from_slice(&part.map_err(innermost)?);
            if content.len() > MOST {
                return Err(format!("it has more than {MOST} bytes"));
            }
        }
        Ok(content)
    }
}

fn check(url: &Url, allow_local: bool) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https are read".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    check_literal(host, allow_local).map_err(|refused| refused.to_string())
}

fn follow(attempt: Attempt<'_>, allow_local: bool) -> reqwest::redirect::Action {
    let is_downgrade = attempt.url().scheme() == "http"
        && attempt
            .previous()
            .last()
            .is_some_and(|from| from.scheme() == "https");
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("it redirects too often");
    }
    if is_downgrade {
        return attempt.error("it redirects from https to http, which is not followed");
    }
    match check(attempt.url(), allow_local) {
        Ok(()) => attempt.follow(),
        Err(why) => attempt.error(format!("it redirects to where nothing is read: {why}")),
    }
}

/// The cause at the bottom, which is the one that says something, without the URL, which may hold a secret.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{ChartAnswer, ChartServer};

    async fn read(url: &str, allow_local: bool) -> Result<Vec<u8>, Unread> {
        ExternalReader::new(allow_local).unwrap().read(url).await
    }

    #[tokio::test]
    async fn a_document_is_read_and_anything_else_is_said() {
        let server = ChartServer::start().unwrap();
        let url = server.url();
        server.put("/values.yaml", b"a: 1\n".to_vec());
        let moved = vec![("location".to_owned(), "/values.yaml".to_owned())];
        server.answer("/moved", ChartAnswer::Canned(302, moved, Vec::new()));
        let round = vec![("location".to_owned(), "/round".to_owned())];
        server.answer("/round", ChartAnswer::Canned(302, round, Vec::new()));
        server.answer("/endless", ChartAnswer::Endless(vec![b'#'; 1 << 16]));
        server.answer("/cut", ChartAnswer::Truncated(100));
        server.answer("/empty", ChartAnswer::Canned(204, Vec::new(), Vec::new()));
        for path in ["values.yaml", "moved"] {
            let content = read(&format!("{url}/{path}"), true).await;
            assert_eq!(content.as_deref(), Ok(&b"a: 1\n"[..]), "{path}");
        }
        for (path, words) in [
            ("none", "404"),
            ("empty", "204"),
            ("round", "too often"),
            ("endless", "more than 5242880 bytes"),
            ("cut", ""),
        ] {
            let unread = read(&format!("{url}/{path}?token=canary"), true).await;
            let unread = unread.expect_err(path);
            assert!(unread.transient && unread.why.contains(words), "{unread:?}");
            assert!(!unread.why.contains("canary"), "{unread:?}");
        }
    }

    #[tokio::test]
    async fn s09_nothing_is_read_from_where_tenants_have_no_business() {
        let server = ChartServer::start().unwrap();
        server.put("/values.yaml", b"a: 1\n".to_vec());
        let local = format!("{}/values.yaml", server.url());
        for url in [
            local.as_str(),
            "http://localhost/x",
            "http://[::1]/x",
            "http://169.254.169.254/latest",
            "http://[::ffff:169.254.169.254]/latest",
            "https://100.100.100.200/latest",
            "file:///etc/passwd",
            "no URL",
        ] {
            let unread = read(url, false).await;
            assert!(unread.is_err(), "{url}");
        }
        let to = |place: &str| vec![("location".to_owned(), place.to_owned())];
        for place in ["http://169.254.169.254/latest", "file:///etc/passwd"] {
            server.answer("/away", ChartAnswer::Canned(307, to(place), Vec::new()));
            let unread = read(&format!("{}/away", server.url()), true).await;
            let why = unread.expect_err(place).why;
            assert!(
                why.contains("nothing is read") || why.contains("answered 307"),
                "{why}"
            );
        }
        assert!(read("http://169.254.169.254/latest", true).await.is_err());
    }

    #[tokio::test]
    async fn a_server_that_goes_silent_or_drips_is_given_up() {
        let server = ChartServer::start().unwrap();
        server.answer("/silent", ChartAnswer::Silent);
        server.answer("/dripping", ChartAnswer::Dripping);
        let reader = ExternalReader {
            timeout: Duration::from_millis(200),
            ..ExternalReader::new(true).unwrap()
        };
        for path in ["silent", "dripping"] {
            let unread = reader.read(&format!("{}/{path}", server.url())).await;
            let why = unread.expect_err(path).why;
            assert!(why.contains("no complete answer within 200ms"), "{why}");
        }
    }
}

//! Requests, redirects and credentials.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode, Url};

use crate::gitsync::{check_literal, tls_error};
use crate::source::access::Access;
use crate::source::{Reason, SourceError};

/// Longest time to a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Redirects that are followed.
const REDIRECTS: usize = 10;
/// Sets of TLS settings whose connections are kept.
const CLIENTS: usize = 64;

/// What a server said of the age of a document, to ask for it only if it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::source) struct Validators {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::source) etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::source) last_modified: Option<String>,
}

/// A GET.
pub(in crate::source) struct Request<'a> {
    /// What to get.
    pub(in crate::source) url: Url,
    /// With which credentials and certificates.
    pub(in crate::source) access: &'a Access,
    /// Whose credentials they are: another origin gets them only if the access passes them on.
    pub(in crate::source) home: &'a Url,
    /// An `Authorization` value instead of that of the access (a registry's token).
    pub(in crate::source) authorization: Option<HeaderValue>,
    /// The `Accept` value.
    pub(in crate::source) accept: Option<&'static str>,
    /// What is known of the document already.
    pub(in crate::source) validators: Option<&'a Validators>,
}

/// The head of an answer.
pub(in crate::source) enum Answer {
    /// The document is as it was.
    NotModified,
    /// Status 200: the body is still to be read.
    Found(reqwest::Response),
    /// Any other status.
    Refused(reqwest::Response),
}

/// Connections, shared by everything with the same TLS settings.
#[derive(Debug)]
pub(in crate::source) struct Http {
    clients: Mutex<HashMap<[u8; 32], Client>>,
    stall: Duration,
}

impl Http {
    /// Connections that are given up after `stall` without a byte.
    pub(in crate::source) fn new(stall: Duration) -> Self {
        Self {
            clients: Mutex::default(),
            stall,
        }
    }

    /// The longest time without a byte.
    pub(in crate::source) fn stall(&self) -> Duration {
        self.stall
    }

    /// Sends a GET and follows redirects.
    pub(in crate::source) async fn get(&self, request: Request<'_>) -> Result<Answer, SourceError> {
        let client = self.client(request.access)?;
        let mut url = request.url.clone();
        for _ in 0..=REDIRECTS {
            let response = self.send(&client, &request, url.clone()).await?;
            match response.status() {
                StatusCode::NOT_MODIFIED => return Ok(Answer::NotModified),
                StatusCode::OK => return Ok(Answer::Found(response)),
                status if status.is_redirection() => url = redirected(&url, response.headers())?,
                _ => return Ok(Answer::Refused(response)),
            }
        }
        let text = format!(
            "{} is redirected more than {REDIRECTS} times",
            printable(&request.url)
        );
        Err(SourceError::new(Reason::Unreachable, text))
    }

    async fn send(
        &self,
        client: &Client,
        request: &Request<'_>,
        url: Url,
    ) -> Result<reqwest::Response, SourceError> {
        let mut headers = HeaderMap::new();
        if let Some(accept) = request.accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(known) = request.validators {
            insert(&mut headers, header::IF_NONE_MATCH, known.etag.as_deref());
            insert(
                &mut headers,
                header::IF_MODIFIED_SINCE,
                known.last_modified.as_deref(),
            );
        }
        if let Some(value) = authorization(request, &url) {
            headers.insert(header::AUTHORIZATION, value);
        }
        let shown = printable(&url);
        let sent = client.get(without_login(url)).headers(headers).send();
        tokio::time::timeout(self.stall + CONNECT_TIMEOUT, sent)
            .await
            .map_err(|_| timeout(&shown, self.stall))?
            .map_err(|error| transport_error(&shown, &error))
    }

    fn client(&self, access: &Access) -> Result<Client, SourceError> {
        let id = access.tls_id();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&id) {
            return Ok(client.clone());
        }
        let client = build_client(access, self.stall)?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(id, client.clone());
        Ok(client)
    }
}

fn build_client(access: &Access, stall: Duration) -> Result<Client, SourceError> {
    let refused = |what: &str| {
        let text = format!("{what} is not usable: give PEM");
        SourceError::new(Reason::AuthFailed, text)
    };
    let mut builder = Client::builder()
        .user_agent(concat!("helm-operator/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(stall)
        .pool_max_idle_per_host(2)
        .pool_idle_timeout(Duration::from_secs(30))
        .referer(false);
    if let Some(pem) = access.ca() {
        let bundle = reqwest::Certificate::from_pem_bundle(pem)
            .map_err(|_| refused("the CA certificate (caFile)"))?;
        builder = builder.tls_certs_merge(bundle);
    }
    if let Some(pem) = access.identity() {
        let identity = reqwest::Identity::from_pem(pem)
            .map_err(|_| refused("the client certificate (certFile with keyFile)"))?;
        builder = builder.identity(identity);
    }
    if access.skips_tls_verification() {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder
        .build()
        .map_err(|_| refused("the set of certificates"))
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: Option<&str>) {
    if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
        headers.insert(name, value);
    }
}

/// The credentials for this URL: those of its home and nobody else's.
fn authorization(request: &Request<'_>, url: &Url) -> Option<HeaderValue> {
    let at_home = same_origin(request.home, url);
    if let Some(value) = &request.authorization {
        return at_home.then(|| value.clone());
    }
    if !at_home && !request.access.passes_credentials() {
        return None;
    }
    let mut value = match request.access.bearer() {
        Some(token) => HeaderValue::from_str(&format!("Bearer {token}")).ok()?,
        None => basic(request.access, url)?,
    };
    value.set_sensitive(true);
    Some(value)
}

/// Basic credentials of the access, or those that stand in the URL of the repository itself.
fn basic(access: &Access, url: &Url) -> Option<HeaderValue> {
    use base64::Engine as _;
    let encode = |user: &str, password: &str| {
        let pair = zeroize::Zeroizing::new(format!("{user}:{password}"));
        let text = base64::engine::general_purpose::STANDARD.encode(pair.as_bytes());
        HeaderValue::from_str(&format!("Basic {text}")).ok()
    };
    if let Some(login) = access.login(&host_and_port(url)) {
        return encode(&login.user, &login.password);
    }
    let user = percent_decode(url.username());
    (!user.is_empty())
        .then(|| encode(&user, &percent_decode(url.password().unwrap_or_default())))?
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// `host`, or `host:port` where the port is not the scheme's own: how registries are named.
pub(in crate::source) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether two URLs have the same scheme, host and port.
pub(in crate::source) fn same_origin(left: &Url, right: &Url) -> bool {
    left.scheme() == right.scheme()
        && left.host_str() == right.host_str()
        && left.port_or_known_default() == right.port_or_known_default()
}

fn without_login(mut url: Url) -> Url {
    // Both fail only for URLs without a host, which have no login either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// The URL for messages: no login and no query, since signed URLs carry a secret there.
pub(in crate::source) fn printable(url: &Url) -> String {
    let mut url = without_login(url.clone());
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Where a redirect leads, if it may be followed: https stays https, and neither this machine nor
/// the metadata service of a cloud is reached from anywhere else.
fn redirected(from: &Url, headers: &HeaderMap) -> Result<Url, SourceError> {
    let refuse = |why: &str| {
        let text = format!("{} redirects {why}", printable(from));
        SourceError::new(Reason::Unreachable, text)
    };
    let to = headers
        .get(header::LOCATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| from.join(text).ok())
        .ok_or_else(|| refuse("without a usable address"))?;
    match to.scheme() {
        "https" => {}
        "http" if from.scheme() == "http" => {}
        scheme => {
            return Err(refuse(&format!(
                "to a {scheme} address, which is not followed"
            )));
        }
    }
    if is_internal(&to) && !is_internal(from) {
        return Err(refuse(
            "to an address of this machine, its link or its cloud, which is not followed",
        ));
    }
    Ok(to)
}

fn is_internal(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || check_literal(host, false).is_err()
}

pub(in crate::source) fn timeout(url: &str, stall: Duration) -> SourceError {
    let text = format!("{url} sent nothing for {} s", stall.as_secs());
    SourceError::new(Reason::Timeout, text)
}

/// A failure below HTTP, with the innermost cause, which is the one that says something.
pub(in crate::source) fn transport_error(url: &str, error: &reqwest::Error) -> SourceError {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    let mut is_no_tls = false;
    while let Some(inner) = cause.source() {
        cause = inner;
        is_no_tls |= matches!(
            tls_error(cause),
            Some(rustls::Error::InvalidMessage(
                rustls::InvalidMessage::InvalidContentType
            ))
        );
    }
    if is_no_tls {
        let text = format!(
            "{url} does not speak TLS: check the scheme and the port; a registry with plain http has to be allowed \
             (--plain-http, --plain-http-registries of the daemon)"
        );
        return SourceError::new(Reason::Unreachable, text);
    }
    let cause = cause.to_string();
    let is_certificate = cause.contains("certificate") || cause.contains("UnknownIssuer");
    let reason = match () {
        () if error.is_timeout() => Reason::Timeout,
        () if is_certificate => Reason::HostKeyMismatch,
        () => Reason::Unreachable,
    };
    SourceError::new(reason, format!("{url} cannot be reached: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_internal_however_they_are_written() {
        for (address, internal) in [
            ("http://127.0.0.1/", true),
            ("http://[::1]:8080/", true),
            ("http://[::ffff:169.254.169.254]/", true),
            ("http://[64:ff9b::a9fe:a9fe]/", true),
            ("http://0/", true),
            ("http://charts.localhost/", true),
            ("http://10.0.0.1/", false),
            ("http://[fd00::7]/", false),
            ("https://charts.example.com/", false),
        ] {
            assert_eq!(
                is_internal(&Url::parse(address).unwrap()),
                internal,
                "{address}"
            );
        }
    }
}

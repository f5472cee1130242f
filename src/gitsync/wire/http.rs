//! Smart HTTP (gitprotocol-http).
//!
//! What the server can do is remembered, so that a poll is one request. A redirect is followed for the first request
//! only, as git does, and takes no credentials to another origin.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER},
};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::{
    Listing, MAX_LISTING, Remembered,
    address::{AddressRefused, GuardedResolver, check_literal},
    body::{Body, Counters, Pace},
    fetch::{self, FetchRequest, PackStream, SLOW_WHILE_COUNTING, ShallowInfo},
    refs::{self, Advertisement, Capabilities, Found, RefFilter},
};
use crate::gitsync::{
    Options, Policy, Reason, RepositoryUrl, SourceError,
    credentials::{Auth, Credentials},
};

const MAX_REDIRECTS: usize = 3;
const MAX_CLIENTS: usize = 128;
const QUERY: &str = "info/refs?service=git-upload-pack";

/// One HTTP client for all mirrors, and one more for each set of certificates.
#[derive(Debug)]
pub(crate) struct Clients {
    timeout: Duration,
    allow_loopback: bool,
    proxy: Option<SecretString>,
    clients: Mutex<HashMap<[u8; 32], Client>>,
}

impl Clients {
    /// No client yet.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            timeout: options.timeout,
            allow_loopback: options.policy.allow_local,
            proxy: options.proxy.clone(),
            clients: Mutex::default(),
        }
    }

    /// The client for these certificates.
    ///
    /// # Errors
    /// `AuthFailed` when a certificate or key cannot be read.
    pub(crate) fn get(&self, credentials: &Credentials) -> Result<Client, SourceError> {
        let key = tls_key(credentials);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = self.build(credentials)?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn build(&self, credentials: &Credentials) -> Result<Client, SourceError> {
        let mut builder = Client::builder()
            .user_agent(super::USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.timeout)
            .pool_max_idle_per_host(4)
            .dns_resolver(GuardedResolver {
                allow_loopback: self.allow_loopback,
            });
        if let Some(proxy) = &self.proxy {
            let proxy = reqwest::Proxy::all(proxy.expose_secret()).map_err(|_| {
                SourceError::new(Reason::InvalidSource, "the proxy of the daemon is no URL")
            })?;
            builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_env()));
        }
        if let Some(pem) = &credentials.ca {
            let roots = reqwest::Certificate::from_pem_bundle(pem)
                .map_err(|_| bad_pem(credentials, "the CA certificate"))?;
            if roots.is_empty() {
                return Err(bad_pem(credentials, "the CA certificate"));
            }
            builder = if credentials.ca_adds {
                builder.tls_certs_merge(roots)
            } else {
                builder.tls_certs_only(roots)
            };
        }
        if let Some(pem) = &credentials.client_certificate {
            let identity = reqwest::Identity::from_pem(pem)
                .map_err(|_| bad_pem(credentials, "the client certificate or its key"))?;
            builder = builder.identity(identity);
        }
        builder.build().map_err(|error| transport_error(&error))
    }
}

fn tls_key(credentials: &Credentials) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix([u8::from(credentials.ca_adds)]);
    for pem in [&credentials.ca, &credentials.client_certificate] {
        let bytes = pem.as_deref().map(Vec::as_slice).unwrap_or_default();
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    hash.finalize().into()
}

fn bad_pem(credentials: &Credentials, what: &str) -> SourceError {
    SourceError::new(
        Reason::AuthFailed,
        format!("{what} in {} is not valid PEM", credentials.origin),
    )
}

/// A remote over HTTP for the length of one exchange.
pub(crate) struct HttpRemote<'c> {
    pub(crate) client: Client,
    pub(crate) url: &'c RepositoryUrl,
    pub(crate) credentials: &'c Credentials,
    pub(crate) policy: &'c Policy,
    pub(crate) remembered: &'c Remembered,
    pub(crate) counters: &'c Counters,
    pub(crate) pace: Pace,
}

impl<'c> HttpRemote<'c> {
    /// The refs of the remote that `filter` wants.
    pub(crate) async fn list(&self, filter: &RefFilter) -> Result<Listing, SourceError> {
        if let Some((base, capabilities @ Capabilities::V2 { .. })) = self.remembered.get() {
            match self.ls_refs(&base, filter).await {
                Ok(found) => return Ok(Listing::new(found, capabilities)),
                // A repository that moved or a server of another version: ask as if for the first time.
                Err(error) if !is_final(&error) => return Err(error),
                Err(_) => self.remembered.forget(),
            }
        }
        let (base, advertisement) = self.handshake(filter).await?;
        let found = match advertisement.capabilities {
            Capabilities::V2 { .. } => self.ls_refs(&base, filter).await?,
            Capabilities::V0(_) => advertisement.found,
        };
        Ok(Listing::new(found, advertisement.capabilities))
    }

    /// Asks for objects; what [`list`](Self::list) found out must be remembered.
    pub(crate) async fn fetch(
        &self,
        request: &FetchRequest,
        pack_limit: u64,
    ) -> Result<(ShallowInfo, PackStream<'c>), SourceError> {
        let (base, capabilities) = match self.remembered.get() {
            Some(known) => known,
            None => {
                let (base, advertisement) = self.handshake(&RefFilter::default()).await?;
                (base, advertisement.capabilities)
            }
        };
        let v2 = matches!(capabilities, Capabilities::V2 { .. });
        let response = self
            .post(
                &base,
                fetch::encode(request, &capabilities),
                v2,
                SLOW_WHILE_COUNTING,
            )
            .await?;
        let body = Body::http(response, self.pace, pack_limit, self.counters);
        fetch::read_response(body, request, &capabilities, pack_limit).await
    }

    async fn ls_refs(&self, base: &Url, filter: &RefFilter) -> Result<Found, SourceError> {
        let response = self
            .post(base, refs::ls_refs_request(filter), true, 0)
            .await?;
        let mut body = Body::http(response, self.pace, MAX_LISTING, self.counters);
        refs::read_ls_refs(&mut body, filter).await
    }

    async fn post(
        &self,
        base: &Url,
        body: Vec<u8>,
        v2: bool,
        slow_windows: u32,
    ) -> Result<Response, SourceError> {
        let url = append(base, "git-upload-pack")?;
        let mut request = self
            .client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/x-git-upload-pack-request")
            .header(ACCEPT, "application/x-git-upload-pack-result")
            .body(body);
        if v2 {
            request = request.header("Git-Protocol", "version=2");
        }
        let response = self
            .send(self.authorize(request, &url)?, slow_windows)
            .await?;
        self.check_status(&response)?;
        check_type(&response, "application/x-git-upload-pack-result")?;
        Ok(response)
    }

    /// The first request: what the server can do, to be remembered. Returns the base URL that answered.
    async fn handshake(&self, filter: &RefFilter) -> Result<(Url, Advertisement), SourceError> {
        let mut base = self.base()?;
        let mut is_permanent = true;
        for _ in 0..=MAX_REDIRECTS {
            let url = append(&base, QUERY)?;
            let request = self
                .client
                .get(url.clone())
                .header("Git-Protocol", "version=2");
            let response = self.send(self.authorize(request, &url)?, 0).await?;
            if response.status().is_redirection() {
                is_permanent &= matches!(response.status().as_u16(), 301 | 308);
                base = self.redirected(&url, &response)?;
                continue;
            }
            self.check_status(&response)?;
            check_type(&response, "application/x-git-upload-pack-advertisement")?;
            let mut body = Body::http(response, self.pace, MAX_LISTING, self.counters);
            let advertisement = refs::read_advertisement(&mut body, filter).await?;
            // Where a passing redirect leads is asked for anew each time.
            if is_permanent {
                let capabilities = advertisement.capabilities.clone();
                self.remembered.set(base.clone(), capabilities);
            }
            return Ok((base, advertisement));
        }
        Err(redirect_refused("more than three of them"))
    }

    fn base(&self) -> Result<Url, SourceError> {
        let text = self.url.without_credentials();
        let url = Url::parse(&text).map_err(|error| {
            SourceError::new(
                Reason::InvalidSource,
                format!("{text} is not a URL: {error}"),
            )
        })?;
        self.check_allowed(&url)?;
        Ok(url)
    }

    fn check_allowed(&self, url: &Url) -> Result<(), SourceError> {
        let allowed = url.scheme() == "https" || url.scheme() == "http" && self.policy.allow_http;
        if !allowed {
            return Err(SourceError::new(
                Reason::InvalidSource,
                format!("{}:// is not allowed for repositories here", url.scheme()),
            ));
        }
        check_literal(url.host_str().unwrap_or_default(), self.policy.allow_local)?;
        Ok(())
    }

    /// Where a redirect leads, as a new base URL.
    fn redirected(&self, from: &Url, response: &Response) -> Result<Url, SourceError> {
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let to = location
            .and_then(|location| from.join(location).ok())
            .ok_or_else(|| redirect_refused("to no valid URL"))?;
        if from.scheme() == "https" && to.scheme() != "https" {
            return Err(redirect_refused(
                "from https to a scheme without encryption",
            ));
        }
        if !to.username().is_empty() || to.password().is_some() {
            return Err(redirect_refused("to a URL with credentials"));
        }
        self.check_allowed(&to)?;
        let base = to
            .as_str()
            .strip_suffix(QUERY)
            .and_then(|base| Url::parse(base).ok());
        base.ok_or_else(|| redirect_refused("to something that is not a repository; log in there?"))
    }

    /// Adds credentials, if `url` is of the origin that they are for.
    fn authorize(&self, request: RequestBuilder, url: &Url) -> Result<RequestBuilder, SourceError> {
        if url.origin() != self.base()?.origin() {
            return Ok(request);
        }
        Ok(match &self.credentials.auth {
            Auth::None => request,
            Auth::Basic { user, password } => request.basic_auth(user, Some(password.as_str())),
            Auth::Bearer(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.as_str()))
                    .map_err(|_| self.bad_token())?;
                value.set_sensitive(true);
                request.header(AUTHORIZATION, value)
            }
        })
    }

    fn bad_token(&self) -> SourceError {
        SourceError::new(
            Reason::AuthFailed,
            format!(
                "the token in {} holds characters that no header may",
                self.credentials.origin
            ),
        )
    }

    async fn send(
        &self,
        request: RequestBuilder,
        slow_windows: u32,
    ) -> Result<Response, SourceError> {
        self.counters.request();
        let patience = self.pace.window * slow_windows.clamp(1, 3);
        match timeout(patience, request.send()).await {
            Err(_) => Err(Pace {
                window: patience,
                ..self.pace
            }
            .stalled("the remote")
            .about(self.url)),
            Ok(Err(error)) => Err(transport_error(&error).about(self.url)),
            Ok(Ok(response)) => Ok(response),
        }
    }

    fn check_status(&self, response: &Response) -> Result<(), SourceError> {
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let (reason, hint) = match status {
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                (Reason::AuthFailed, self.credentials.refused_hint())
            }
            StatusCode::FORBIDDEN => (Reason::AuthFailed, self.credentials.refused_hint()),
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                (Reason::RepositoryNotFound, self.credentials.missing_hint())
            }
            status if status.is_redirection() => (
                Reason::RepositoryNotFound,
                "the repository moved".to_owned(),
            ),
            StatusCode::TOO_MANY_REQUESTS => (
                Reason::Unreachable,
                "the remote limits the rate of requests".to_owned(),
            ),
            _ => (Reason::Unreachable, "the remote failed".to_owned()),
        };
        let text = format!("{} answered HTTP {status}: {hint}", self.url);
        let error = SourceError::new(reason, text);
        Err(match retry_after(response) {
            Some(pause) => error.with_retry_after(pause),
            None => error,
        })
    }
}

/// `Retry-After` in seconds, an hour at most; a date is not worth reading for a poll.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(3600)))
}

/// An error that a fresh start may not have: the server is there, but is another one than remembered.
fn is_final(error: &SourceError) -> bool {
    matches!(
        error.reason(),
        Reason::RepositoryNotFound | Reason::InvalidData
    )
}

fn append(base: &Url, tail: &str) -> Result<Url, SourceError> {
    let text = format!("{}/{tail}", base.as_str().trim_end_matches('/'));
    Url::parse(&text)
        .map_err(|error| SourceError::new(Reason::InvalidSource, format!("not a URL: {error}")))
}

fn check_type(response: &Response, wanted: &str) -> Result<(), SourceError> {
    let found = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let found = found
        .unwrap_or("nothing")
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if found == wanted {
        return Ok(());
    }
    Err(SourceError::new(
        Reason::InvalidData,
        format!(
            "the remote answered with {found} and not with {wanted}: it is no smart git server"
        ),
    ))
}

fn redirect_refused(why: &str) -> SourceError {
    SourceError::new(Reason::InvalidSource, format!("the remote redirects {why}"))
}

/// The class of a failed HTTP exchange, by what caused it. The URL is left out: it is in the context.
pub(crate) fn transport_error(error: &reqwest::Error) -> SourceError {
    let mut causes = Vec::new();
    let mut is_no_tls = false;
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(refused) = cause.downcast_ref::<AddressRefused>() {
            return refused.clone().into();
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = tls_error(cause) {
            return SourceError::new(
                Reason::HostKeyMismatch,
                format!("the TLS certificate of the remote is not trusted: {why}"),
            );
        }
        is_no_tls |= matches!(tls_error(cause), Some(rustls::Error::InvalidMessage(_)));
        causes.push(cause.to_string());
        next = cause.source();
    }
    let text = causes
        .pop()
        .unwrap_or_else(|| "the request failed".to_owned());
    if is_no_tls {
        return SourceError::new(
            Reason::Unreachable,
            format!(
                "the remote does not speak TLS ({text}): check the scheme and the port of the URL"
            ),
        );
    }
    if error.is_timeout() {
        return SourceError::new(
            Reason::Timeout,
            format!("the remote does not answer: {text}"),
        );
    }
    if error.is_decode() || error.is_body() {
        let text = format!("the connection broke in mid-answer: {text}");
        return SourceError::new(Reason::Unreachable, text);
    }
    SourceError::new(
        Reason::Unreachable,
        format!("the remote cannot be reached: {text}"),
    )
}

/// A TLS error, also where it hides inside I/O errors.
pub(crate) fn tls_error<'e>(
    cause: &'e (dyn std::error::Error + 'static),
) -> Option<&'e rustls::Error> {
    if let Some(found) = cause.downcast_ref::<rustls::Error>() {
        return Some(found);
    }
    let inner = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
    tls_error(inner)
}

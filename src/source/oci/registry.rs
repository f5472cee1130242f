//! Pulling charts from registries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{self, HeaderValue};
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use sprig::semver::Version;
use zeroize::Zeroizing;

use super::challenge::{self, Challenge};
use crate::source::access::Access;
use crate::source::cache::{ArtifactCache, digest_of, hex_of};
use crate::source::fresh::{Freshness, Remembered, Slots};
use crate::source::http::{Answer, Http, Request, host_and_port, printable, read_whole};
use crate::source::index::{self, Selection};
use crate::source::pins::{PinKey, Pins, is_exact};
use crate::source::repository::refused;
use crate::source::{Reason, SourceError};

/// Bytes of a manifest, a token or a page of tags.
pub(super) const DOCUMENT_BYTES: u64 = 4 << 20;
/// Pages of tags that are read.
const TAG_PAGES: usize = 100;
/// Lifetime of a token whose service says none (the specification's default).
const TOKEN_LIFETIME: Duration = Duration::from_secs(60);
/// What manifests are asked for as.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// The layers that hold a chart: Helm's, and what it wrote at first.
const CHART_LAYERS: [&str; 2] = [
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    "application/tar+gzip",
];

/// A chart in a registry: `oci://host/path/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The registry, as an http or https URL without a path.
    registry: Url,
    /// `path/name`.
    repository: String,
}

impl Reference {
    /// A chart below a registry's host; `plain` for http, which no registry outside this machine
    /// should need.
    ///
    /// # Errors
    /// `InvalidSource` where the host or the path cannot be those of a registry.
    pub fn new(host: &str, path: &str, plain: bool) -> Result<Self, SourceError> {
        let bad = |why: &str| {
            let text = format!("oci://{host}/{path} names no chart: {why}");
            SourceError::new(Reason::InvalidSource, text)
        };
        let repository = path.trim_matches('/').to_owned();
        if repository.is_empty() {
            return Err(bad("a path to a chart is expected"));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._/".contains(c);
        let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !repository.chars().all(allowed) || !repository.split('/').all(is_part) {
            return Err(bad("a path has lower-case letters, digits, and - . _ /"));
        }
        let scheme = if plain { "http" } else { "https" };
        let registry =
            Url::parse(&format!("{scheme}://{host}/")).map_err(|_| bad("the host is not valid"))?;
        Ok(Self {
            registry,
            repository,
        })
    }

    /// The last part of the path: the name of the chart.
    #[must_use]
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The address of the chart as a URL, for the search of credentials.
    #[must_use]
    pub fn url(&self) -> Url {
        let mut url = self.registry.clone();
        url.set_path(&self.repository);
        url
    }

    pub(super) fn endpoint(&self, tail: &str) -> Url {
        let mut url = self.registry.clone();
        url.set_path(&format!("/v2/{}/{tail}", self.repository));
        url
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "oci://{}/{}",
            host_and_port(&self.registry),
            self.repository
        )
    }
}

/// All registries of the daemon.
#[derive(Debug)]
pub(in crate::source) struct Registries {
    http: Arc<Http>,
    artifacts: Arc<ArtifactCache>,
    pins: Arc<Pins>,
    archive_bytes: u64,
    /// How long a list of tags serves, and what a tag was found to be.
    interval: Duration,
    tokens: Mutex<HashMap<String, Token>>,
    tags: Slots<Remembered<Arc<Vec<Version>>>>,
    /// The digest of the chart layer behind a tag; digests keep theirs for ever.
    layers: Slots<Remembered<String>>,
}

struct Token {
    value: Zeroizing<String>,
    until: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A manifest of an image, or what is like one.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

/// A content by its digest.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    #[serde(default)]
    pub(super) size: u64,
    pub(super) artifact_type: Option<String>,
    #[serde(default)]
    pub(super) annotations: HashMap<String, String>,
}

impl Descriptor {
    /// Whether it is a Helm chart.
    pub(super) fn is_chart(&self) -> bool {
        CHART_LAYERS.contains(&self.media_type.as_str())
    }
}

#[derive(Deserialize)]
struct TagPage {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Registries {
    /// Registries over these connections and this cache.
    pub(in crate::source) fn new(
        http: Arc<Http>,
        artifacts: Arc<ArtifactCache>,
        pins: Arc<Pins>,
        archive_bytes: u64,
        interval: Duration,
    ) -> Self {
        Self {
            http,
            artifacts,
            pins,
            archive_bytes,
            interval,
            tokens: Mutex::default(),
            tags: Slots::default(),
            layers: Slots::default(),
        }
    }

    /// The archive of a chart: of a version or the newest in a range (`version`), or of a
    /// manifest's digest. Returns the version (or the digest) and the bytes.
    ///
    /// # Errors
    /// `ChartNotFound`, `VersionNotFound`, `AuthFailed`, and everything that a server can do.
    pub(in crate::source) async fn archive(
        &self,
        chart: &Reference,
        access: &Access,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<(String, Vec<u8>), SourceError> {
        let shown = chart.url();
        let pin = PinKey::new(&[b"oci", shown.as_str().as_bytes(), &access.id()], version);
        if let Some(pinned) = self.pins.get(pin.as_ref()) {
            return Ok(pinned);
        }
        let version = self.resolve(chart, access, version, freshness).await?;
        let content = self
            .pull(chart, access, &tag_of(&version), freshness)
            .await?;
        self.pins
            .put(pin.as_ref(), &version, &digest_of(&content))?;
        Ok((version, content))
    }

    /// The archive behind a tag, whatever the tag is.
    ///
    /// # Errors
    /// As [`archive`](Self::archive), and `InvalidSource` where it cannot be a tag.
    pub(in crate::source) async fn tagged(
        &self,
        chart: &Reference,
        access: &Access,
        tag: &str,
        freshness: Freshness,
    ) -> Result<Vec<u8>, SourceError> {
        let tag = tag_of(tag);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if tag.len() > 128 || tag.starts_with(['.', '-']) || !tag.bytes().all(allowed) {
            let text = format!("{tag:?} cannot be a tag: it has letters, digits, and _ . -");
            return Err(SourceError::new(Reason::InvalidSource, text));
        }
        self.pull(chart, access, &tag, freshness).await
    }

    /// Which version is meant: an exact one and a digest are taken as they are.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(in crate::source) async fn resolve(
        &self,
        chart: &Reference,
        access: &Access,
        version: Option<&str>,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        match version {
            Some(exact) if is_exact(exact) => Ok(exact.to_owned()),
            range => self.newest(chart, access, range, freshness).await,
        }
    }

    /// The versions that a repository's tags are, newest first.
    ///
    /// # Errors
    /// As [`archive`](Self::archive).
    pub(in crate::source) async fn versions(
        &self,
        chart: &Reference,
        access: &Access,
        freshness: Freshness,
    ) -> Result<Arc<Vec<Version>>, SourceError> {
        let key = format!("{chart} {}", id_text(access));
        let slot = self.tags.slot(&key);
        let mut listed = slot.lock().await;
        if let Some(known) = listed.serve(freshness, self.interval) {
            return known;
        }
        let asked = Instant::now();
        let tags = self.list_tags(chart, access).await;
        listed.keep(asked, tags.map(Arc::new))
    }

    async fn newest(
        &self,
        chart: &Reference,
        access: &Access,
        range: Option<&str>,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        let versions = self.versions(chart, access, freshness).await?;
        let listed: Vec<&Version> = versions.iter().collect();
        let text = |at: &usize| listed.get(*at).map(|it| it.original().to_owned());
        match index::select(&listed, range) {
            Selection::Found(at) => text(&at).ok_or_else(|| self.no_version(chart, range, &[])),
            Selection::None(near) => {
                let near: Vec<String> = near.iter().filter_map(text).collect();
                Err(self.no_version(chart, range, &near))
            }
            Selection::NotARange(why) => {
                let wanted = range.unwrap_or_default();
                let text = format!("{wanted:?} is no version and no range of versions ({why})");
                Err(SourceError::new(Reason::InvalidSource, text))
            }
        }
    }

    fn no_version(&self, chart: &Reference, range: Option<&str>, near: &[String]) -> SourceError {
        let hint = match near.is_empty() {
            true => "no tag of it is a version".to_owned(),
            false => format!("the newest that come near are {}", near.join(", ")),
        };
        let wanted = range.unwrap_or("*");
        let text = format!("{chart} has no version that satisfies {wanted:?}: {hint}");
        SourceError::new(Reason::VersionNotFound, text)
    }

    async fn list_tags(
        &self,
        chart: &Reference,
        access: &Access,
    ) -> Result<Vec<Version>, SourceError> {
        let mut versions = Vec::new();
        let mut next = Some({
            let mut url = chart.endpoint("tags/list");
            url.set_query(Some("n=1000"));
            url
        });
        for _ in 0..TAG_PAGES {
            let Some(url) = next.take() else { break };
            let response = self
                .get(chart, access, url.clone(), "application/json")
                .await?;
            next = next_page(&url, &response);
            let page: TagPage = self.document(response).await?;
            let tags = page.tags.unwrap_or_default();
            // `+` is not allowed in a tag: Helm writes `_`.
            let parsed = tags
                .iter()
                .map(|tag| Version::parse_strict(&tag.replace('_', "+")));
            versions.extend(parsed.filter_map(Result::ok));
        }
        versions.sort_by(|left, right| right.cmp(left));
        Ok(versions)
    }

    /// Gets the chart layer behind a tag or a digest. All who want the same wait for one download.
    async fn pull(
        &self,
        chart: &Reference,
        access: &Access,
        tag: &str,
        freshness: Freshness,
    ) -> Result<Vec<u8>, SourceError> {
        let key = format!("{chart} {} {tag}", id_text(access));
        let slot = self.layers.slot(&key);
        let mut known = slot.lock().await;
        let (freshness, interval) = match tag.starts_with("sha256:") {
            true => (Freshness::by_interval(), Duration::MAX),
            false => (freshness, self.interval),
        };
        if let Some(known) = known.serve(freshness, interval)
            && let Some(found) = self.artifacts.get(&known?)
        {
            return Ok(found);
        }
        let asked = Instant::now();
        let pulled = self.pull_layer(chart, access, tag).await;
        let outcome = pulled.as_ref().map(|(digest, _)| digest.clone());
        known.keep(asked, outcome.map_err(Clone::clone))?;
        pulled.map(|(_, content)| content)
    }

    /// The digest of the chart layer behind a tag, and its content.
    async fn pull_layer(
        &self,
        chart: &Reference,
        access: &Access,
        tag: &str,
    ) -> Result<(String, Vec<u8>), SourceError> {
        let layer = self.chart_layer(chart, access, tag).await?;
        let content = match self.artifacts.get(&layer.digest) {
            Some(found) => found,
            None => {
                let content = self.blob(chart, access, &layer, self.archive_bytes).await?;
                self.artifacts.put(&content)?;
                content
            }
        };
        Ok((layer.digest, content))
    }

    async fn chart_layer(
        &self,
        chart: &Reference,
        access: &Access,
        tag: &str,
    ) -> Result<Descriptor, SourceError> {
        let (_, manifest) = self.manifest(chart, access, tag).await?;
        let mut layers = manifest.layers.into_iter();
        layers.find(Descriptor::is_chart).ok_or_else(|| {
            let text = format!("{chart}:{tag} holds no Helm chart: push it with `helm push`");
            SourceError::new(Reason::InvalidData, text)
        })
    }

    /// The content of a layer, of at most `limit` bytes, its digest checked.
    pub(super) async fn blob(
        &self,
        chart: &Reference,
        access: &Access,
        layer: &Descriptor,
        limit: u64,
    ) -> Result<Vec<u8>, SourceError> {
        let bad = |text: String| SourceError::new(Reason::InvalidData, text);
        if hex_of(&layer.digest).is_none() {
            return Err(bad(format!("a layer of {chart} has no sha256 digest")));
        }
        if layer.size > limit {
            let text = format!(
                "a layer of {chart} has {} bytes, the limit is {limit}",
                layer.size
            );
            return Err(SourceError::new(Reason::TooLarge, text));
        }
        let url = chart.endpoint(&format!("blobs/{}", layer.digest));
        let response = self.get(chart, access, url, "*/*").await?;
        let content = self.bytes(response, limit).await?;
        match digest_of(&content) == layer.digest {
            true => Ok(content),
            false => Err(bad(format!("a layer of {chart} is not {}", layer.digest))),
        }
    }

    /// A GET with whatever the registry asks for: a token that has run out is renewed once.
    pub(super) async fn get(
        &self,
        chart: &Reference,
        access: &Access,
        url: Url,
        accept: &'static str,
    ) -> Result<reqwest::Response, SourceError> {
        let key = format!("{chart} {}", id_text(access));
        let first = self
            .send(chart, access, url.clone(), accept, self.token(&key))
            .await?;
        let Answer::Refused(response) = first else {
            return found(first, chart);
        };
        if response.status() != StatusCode::UNAUTHORIZED {
            return Err(self.refusal(&response, chart));
        }
        let Some(authorization) = self.answer(chart, access, &response, &key).await? else {
            return Err(self.refusal(&response, chart));
        };
        let second = self
            .send(chart, access, url, accept, Some(authorization))
            .await?;
        match second {
            Answer::Refused(response) => {
                self.tokens().remove(&key);
                Err(self.refusal(&response, chart))
            }
            other => found(other, chart),
        }
    }

    async fn send(
        &self,
        chart: &Reference,
        access: &Access,
        url: Url,
        accept: &'static str,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, SourceError> {
        // Without a token nothing is sent before the registry has said what it wants.
        let silent = access.without_credentials();
        let request = Request {
            url,
            access: &silent,
            home: &chart.registry,
            authorization,
            accept: Some(accept),
            validators: None,
        };
        self.http.get(request).await
    }

    fn refusal(&self, response: &reqwest::Response, chart: &Reference) -> SourceError {
        if response.status() == StatusCode::NOT_FOUND {
            let text = format!("{chart} is not there: {}", printable(response.url()));
            return SourceError::new(Reason::ChartNotFound, text);
        }
        refused(response, "the chart")
    }

    /// What to send to satisfy a challenge; `None` where there is nothing to send.
    async fn answer(
        &self,
        chart: &Reference,
        access: &Access,
        response: &reqwest::Response,
        key: &str,
    ) -> Result<Option<HeaderValue>, SourceError> {
        let challenges = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let mut known = challenges.filter_map(|value| challenge::parse(value.to_str().ok()?));
        match known.next() {
            None => Ok(None),
            Some(Challenge::Basic) => Ok(basic(access, chart)),
            Some(Challenge::Bearer { realm, service }) => {
                let token = self
                    .fetch_token(chart, access, &realm, service.as_deref())
                    .await?;
                let value = bearer(&token.value);
                let mut tokens = self.tokens();
                // Those of credentials that were rotated since are asked for no more.
                tokens.retain(|_, known| Instant::now() < known.until);
                tokens.insert(key.to_owned(), token);
                Ok(value)
            }
        }
    }

    async fn fetch_token(
        &self,
        chart: &Reference,
        access: &Access,
        realm: &str,
        service: Option<&str>,
    ) -> Result<Token, SourceError> {
        let bad = |why: &str| {
            let text = format!("the registry of {chart} names a token service that {why}");
            SourceError::new(Reason::AuthFailed, text)
        };
        let mut url = Url::parse(realm).map_err(|_| bad("has no valid address"))?;
        let is_plain = url.scheme() != "https";
        if is_plain && chart.registry.scheme() == "https" {
            return Err(bad("is not reached over https"));
        }
        let scope = format!("repository:{}:pull", chart.repository);
        url.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        let request = Request {
            url: url.clone(),
            access,
            home: &url,
            authorization: basic(access, chart),
            accept: Some("application/json"),
            validators: None,
        };
        let answer: TokenAnswer = match self.http.get(request).await? {
            Answer::Found(response) => self.document(response).await?,
            Answer::Refused(response) => return Err(refused(&response, "the token")),
            Answer::NotModified => return Err(bad("gives no token")),
        };
        let value = answer
            .token
            .or(answer.access_token)
            .ok_or_else(|| bad("gives no token"))?;
        let lifetime = answer
            .expires_in
            .map_or(TOKEN_LIFETIME, Duration::from_secs);
        // Renewed a little early, so that it does not run out on its way.
        let until = Instant::now() + lifetime.min(Duration::from_secs(86_400)).mul_f32(0.8);
        Ok(Token {
            value: Zeroizing::new(value),
            until,
        })
    }

    async fn document<T: for<'a> Deserialize<'a>>(
        &self,
        response: reqwest::Response,
    ) -> Result<T, SourceError> {
        let shown = printable(response.url());
        let bytes = self.bytes(response, DOCUMENT_BYTES).await?;
        parsed(&shown, &bytes)
    }

    pub(super) async fn bytes(
        &self,
        response: reqwest::Response,
        limit: u64,
    ) -> Result<Vec<u8>, SourceError> {
        read_whole(response, limit, self.http.stall()).await
    }

    fn token(&self, key: &str) -> Option<HeaderValue> {
        let tokens = self.tokens();
        let token = tokens
            .get(key)
            .filter(|token| Instant::now() < token.until)?;
        bearer(&token.value)
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, HashMap<String, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn found(answer: Answer, chart: &Reference) -> Result<reqwest::Response, SourceError> {
    match answer {
        Answer::Found(response) => Ok(response),
        Answer::NotModified | Answer::Refused(_) => {
            let text = format!("the registry of {chart} answers nonsense");
            Err(SourceError::new(Reason::InvalidData, text))
        }
    }
}

pub(super) fn parsed<T: for<'a> Deserialize<'a>>(
    what: &impl std::fmt::Display,
    bytes: &[u8],
) -> Result<T, SourceError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = format!("the answer of the registry for {what} is not readable: {error}");
        SourceError::new(Reason::InvalidData, text)
    })
}

/// The address of the next page, on the same registry only.
fn next_page(url: &Url, response: &reqwest::Response) -> Option<Url> {
    let link = response.headers().get(header::LINK)?.to_str().ok()?;
    let target = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let target = target.split_once('<')?.1.split_once('>')?.0;
    let next = url.join(target).ok()?;
    (next.origin() == url.origin() && next != *url).then_some(next)
}

/// The tag of a version: `+` is not allowed in one.
pub(super) fn tag_of(version: &str) -> String {
    version.replace('+', "_")
}

fn basic(access: &Access, chart: &Reference) -> Option<HeaderValue> {
    use base64::Engine as _;
    let login = access.login(&host_and_port(&chart.registry))?;
    let pair = Zeroizing::new(format!("{}:{}", login.user, *login.password));
    let text = base64::engine::general_purpose::STANDARD.encode(pair.as_bytes());
    sensitive(format!("Basic {text}"))
}

fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(format!("Bearer {token}"))
}

fn sensitive(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&Zeroizing::new(text)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn id_text(access: &Access) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(access.id())
}

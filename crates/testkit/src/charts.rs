//! A Helm repository over HTTP, and the archives in it.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::background;

/// A request that a [`ChartServer`] got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartRequest {
    /// Path and query.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `If-None-Match` header.
    pub if_none_match: Option<String>,
}

/// What a server answers instead of a file.
#[derive(Clone, Debug)]
pub enum ChartAnswer {
    /// A status with headers and a body.
    Canned(u16, Vec<(String, String)>, Vec<u8>),
    /// These bytes over and over, without an end.
    Endless(Vec<u8>),
    /// The head of an answer that announces many bytes, and then this many of them.
    Truncated(usize),
    /// A head, and then nothing.
    Silent,
    /// One byte a second.
    Dripping,
}

#[derive(Default)]
struct Shelf {
    files: HashMap<String, File>,
    answers: HashMap<String, ChartAnswer>,
    login: Option<String>,
    requests: Vec<ChartRequest>,
}

/// Content and ETag; both are made once, so that a large index costs its server nothing.
#[derive(Clone)]
struct File {
    content: bytes::Bytes,
    etag: String,
}

/// A repository of charts on loopback, with an `index.yaml` made from what was put there.
pub struct ChartServer {
    address: SocketAddr,
    shelf: Arc<Mutex<Shelf>>,
    task: JoinHandle<()>,
    listed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Drop for ChartServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ChartServer {
    /// Starts an empty repository.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start() -> Result<Self> {
        let shelf: Arc<Mutex<Shelf>> = Arc::default();
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shelf));
        let (address, task) = background::wait_for(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?;
            let task = tokio::spawn(async move {
                // It ends with the abort of its task.
                let _ = axum::serve(listener, router).await;
            });
            anyhow::Ok((address, task))
        })??;
        let server = Self {
            address,
            shelf,
            task,
            listed: Mutex::default(),
        };
        server.write_index();
        Ok(server)
    }

    /// The address of the repository.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an archive and lists it in the index, with its digest. Returns the digest.
    pub fn add_chart(&self, name: &str, version: &str, archive: Vec<u8>) -> String {
        let digest = sha256(&archive);
        let file = format!("{name}-{version}.tgz");
        let entry = format!(
            "  - apiVersion: v2\n    name: {name}\n    version: \"{version}\"\n    digest: {digest}\n    urls:\n    - {file}\n"
        );
        self.put(&format!("/{file}"), archive);
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.entry(name.to_owned()).or_default().push(entry);
        drop(listed);
        self.write_index();
        digest
    }

    /// Puts a file at a path, whatever the index says.
    pub fn put(&self, path: &str, content: Vec<u8>) {
        let etag = format!("\"{}\"", sha256(&content));
        let content = content.into();
        self.shelf()
            .files
            .insert(path.to_owned(), File { content, etag });
    }

    /// Answers a path in its own way.
    pub fn answer(&self, path: &str, answer: ChartAnswer) {
        self.shelf().answers.insert(path.to_owned(), answer);
    }

    /// Goes back to the file at a path.
    pub fn heal(&self, path: &str) {
        self.shelf().answers.remove(path);
    }

    /// Asks for this login from now on.
    pub fn require_login(&self, user: &str, password: &str) {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        self.shelf().login = Some(format!("Basic {pair}"));
    }

    /// What was asked for so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ChartRequest> {
        self.shelf().requests.clone()
    }

    /// Forgets what was asked for.
    pub fn forget(&self) {
        self.shelf().requests.clear();
    }

    fn write_index(&self) {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let charts = listed
            .iter()
            .map(|(name, entries)| format!("  {name}:\n{}", entries.concat()));
        let charts: String = charts.collect();
        let entries = if charts.is_empty() {
            " {}\n".to_owned()
        } else {
            format!("\n{charts}")
        };
        let index =
            format!("apiVersion: v1\nentries:{entries}generated: \"2026-01-01T00:00:00Z\"\n");
        self.put("/index.yaml", index.into_bytes());
    }

    fn shelf(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chart archive with one ConfigMap that shows its name and version, and these files besides.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn chart_archive(name: &str, version: &str, more: &[(&str, &str)]) -> Result<Vec<u8>> {
    let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name }}\ndata:\n  version: {{ .Chart.Version }}\n";
    let mut files = BTreeMap::from([
        ("Chart.yaml", chart.as_str()),
        ("templates/config.yaml", template),
    ]);
    files.extend(more.iter().copied());
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("{name}/{path}"), text.as_bytes())
            .context("writing a chart archive")?;
    }
    let mut gzip = archive.into_inner().context("ending a chart archive")?;
    gzip.flush().context("ending a chart archive")?;
    gzip.finish().context("ending a chart archive")
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn serve(State(shelf): State<Arc<Mutex<Shelf>>>, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let text = |headers: &HeaderMap, name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = ChartRequest {
        path: request
            .uri()
            .path_and_query()
            .map_or(path.clone(), ToString::to_string),
        authorization: text(request.headers(), "authorization"),
        if_none_match: text(request.headers(), "if-none-match"),
    };
    shelf.requests.push(seen.clone());
    if let Some(answer) = shelf.answers.get(&path) {
        return special(answer.clone());
    }
    if shelf.login.is_some() && shelf.login != seen.authorization {
        return plain(StatusCode::UNAUTHORIZED, Body::empty());
    }
    let Some(File { content, etag }) = shelf.files.get(&path) else {
        return plain(StatusCode::NOT_FOUND, Body::from("no such file"));
    };
    let mut response = match seen.if_none_match.as_deref() == Some(etag) {
        true => plain(StatusCode::NOT_MODIFIED, Body::empty()),
        false => plain(StatusCode::OK, Body::from(content.clone())),
    };
    if let Ok(value) = etag.parse() {
        response.headers_mut().insert("etag", value);
    }
    response
}

fn special(answer: ChartAnswer) -> Response<Body> {
    use futures::stream;
    type Chunk = std::io::Result<Vec<u8>>;
    let endless = |chunk: Vec<u8>, pause: std::time::Duration| {
        Body::from_stream(stream::unfold((), move |()| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(pause).await;
                Some((Chunk::Ok(chunk), ()))
            }
        }))
    };
    match answer {
        ChartAnswer::Canned(status, headers, body) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut response = plain(status, Body::from(body));
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) =
                    (name.parse::<axum::http::HeaderName>(), value.parse())
                {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        ChartAnswer::Endless(chunk) => {
            plain(StatusCode::OK, endless(chunk, std::time::Duration::ZERO))
        }
        ChartAnswer::Dripping => plain(
            StatusCode::OK,
            endless(vec![b' '], std::time::Duration::from_secs(1)),
        ),
        ChartAnswer::Silent => plain(
            StatusCode::OK,
            Body::from_stream(stream::pending::<Chunk>()),
        ),
        ChartAnswer::Truncated(bytes) => {
            // The first part has to be on its way before the connection is cut.
            let parts = stream::unfold(0, move |step| async move {
                match step {
                    0 => Some((Chunk::Ok(vec![b'#'; bytes]), 1)),
                    _ => {
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                        Some((Err(std::io::Error::other("cut")), 2))
                    }
                }
            });
            plain(StatusCode::OK, Body::from_stream(parts))
        }
    }
}

fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

//! git's own HTTP backend behind a small server of ours.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::HeaderMap;
use hyper::{Request, Response, StatusCode};

use super::GitRepository;
use super::cgi::Backend;
use crate::http::{Body, Front, Host, Traffic, bytes_body};
use crate::pki::{Authority, Identity};
use crate::scratch::ScratchDir;

/// How a git server is started.
#[derive(Clone, Debug, Default)]
pub struct GitOptions {
    /// Serve HTTPS with a certificate for 127.0.0.1 and localhost by an authority of its own,
    /// see [`GitServer::certificate_authority`].
    pub tls: bool,
    /// Ask for this user and password.
    pub credentials: Option<(String, String)>,
    /// Speak protocol version 0 even to clients that ask for version 2, as old servers do.
    pub protocol_v0: bool,
}

/// A git server on loopback. It reads and takes pushes, keeps a record of requests, and misbehaves on demand:
/// see [`GitServer::traffic`].
#[derive(Debug)]
pub struct GitServer {
    host: Option<Host>,
    port: u16,
    shared: Arc<Shared>,
    authority: Option<String>,
    identity: Option<Identity>,
    scratch: ScratchDir,
}

#[derive(Debug)]
struct Shared {
    backend: Backend,
    credentials: Mutex<Option<(String, String)>>,
    protocol_v0: bool,
    traffic: Traffic,
}

impl GitServer {
    /// Starts a server without repositories.
    ///
    /// # Errors
    /// When git is missing or nothing can listen on loopback.
    pub fn start(options: GitOptions) -> Result<Self> {
        let scratch = ScratchDir::new("git")?;
        let projects = scratch.join("served");
        std::fs::create_dir(&projects).context("making the directory of the repositories")?;
        let shared = Arc::new(Shared {
            backend: Backend::new(projects)?,
            credentials: Mutex::new(options.credentials),
            protocol_v0: options.protocol_v0,
            traffic: Traffic::new(),
        });
        let (authority, identity) = if options.tls {
            let authority = Authority::new("git server")?;
            (
                Some(authority.pem()),
                Some(authority.server(&["127.0.0.1", "localhost"])?),
            )
        } else {
            (None, None)
        };
        let mut server = Self {
            host: None,
            port: 0,
            shared,
            authority,
            identity,
            scratch,
        };
        server.resume()?;
        Ok(server)
    }

    /// Makes an empty repository `NAME.git` with a work tree to commit from.
    ///
    /// # Errors
    /// When it exists already.
    pub fn repository(&self, name: &str) -> Result<GitRepository> {
        let bare = self.shared.backend.projects().join(format!("{name}.git"));
        let work = self.scratch.join("work").join(name);
        GitRepository::create(bare, work, self.url(name))
    }

    /// The URL of a repository, without credentials.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}.git", self.base())
    }

    /// The URL of the server, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn base(&self) -> String {
        let scheme = if self.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The authority of the server's certificate in PEM, if it serves HTTPS.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// The authority's certificate in a file, for programs that want one.
    ///
    /// # Errors
    /// When the server does not serve HTTPS, or the file cannot be written.
    pub fn certificate_authority_file(&self) -> Result<PathBuf> {
        let pem = self
            .authority
            .as_deref()
            .context("the server does not serve HTTPS")?;
        let path = self.scratch.join("ca.crt");
        std::fs::write(&path, pem).context("writing the authority's certificate")?;
        Ok(path)
    }

    /// The requests so far, and the faults of the next ones.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    /// From now on asks for this user and password, or for none.
    pub fn set_credentials(&self, credentials: Option<(&str, &str)>) {
        *self.shared.lock_credentials() =
            credentials.map(|(user, password)| (user.to_owned(), password.to_owned()));
    }

    /// Closes the port: connections are refused until [`GitServer::resume`].
    pub fn stop(&mut self) {
        self.host = None;
    }

    /// Listens again, on the same port.
    ///
    /// # Errors
    /// When the port is taken by another program meanwhile.
    pub fn resume(&mut self) -> Result<()> {
        if self.host.is_none() {
            let shared = Arc::clone(&self.shared);
            let service = move |request| Arc::clone(&shared).answer(request);
            let host = Host::start(self.port, self.identity.as_ref(), service)?;
            self.port = host.port();
            self.host = Some(host);
        }
        Ok(())
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>> {
        let front = Front::new(self.traffic.clone());
        front.answer(request, |request| self.serve(request)).await
    }

    async fn serve(&self, mut request: Request<Bytes>) -> Result<Response<Body>> {
        let user = match self.authenticate(request.headers()) {
            Ok(user) => user,
            Err(reply) => return Ok(*reply),
        };
        if self.protocol_v0 {
            request.headers_mut().remove("git-protocol");
        }
        self.backend.serve(request, &user).await
    }

    /// The user, or the reply that asks for one.
    fn authenticate(&self, headers: &HeaderMap) -> Result<String, Box<Response<Body>>> {
        let credentials = self.lock_credentials().clone();
        let Some((user, password)) = credentials else {
            return Ok("anonymous".to_owned());
        };
        let wanted = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        if headers
            .get("authorization")
            .is_some_and(|sent| sent.as_bytes() == wanted.as_bytes())
        {
            return Ok(user);
        }
        let mut reply = Response::new(bytes_body("authentication is needed\n"));
        *reply.status_mut() = StatusCode::UNAUTHORIZED;
        let realm = hyper::http::HeaderValue::from_static("Basic realm=\"git\"");
        reply.headers_mut().insert("www-authenticate", realm);
        Err(Box::new(reply))
    }

    fn lock_credentials(&self) -> MutexGuard<'_, Option<(String, String)>> {
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

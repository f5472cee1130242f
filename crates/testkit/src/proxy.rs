//! A reverse proxy in front of the API server that makes requests go wrong.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::{HeaderMap, HeaderName, header};
use hyper::{Request, Response};

use crate::controlplane::ControlPlane;
use crate::http::{Body, Front, Host, Traffic, stream_body};

/// A way to the API server of a [`ControlPlane`] on which every request is written down and may go wrong, see
/// [`FaultProxy::traffic`]. It has a certificate of the control plane's authority and passes the client's token on.
#[derive(Debug)]
pub struct FaultProxy<'a> {
    plane: &'a ControlPlane,
    host: Host,
    traffic: Traffic,
}

impl<'a> FaultProxy<'a> {
    /// Starts a proxy in front of `plane`.
    ///
    /// # Errors
    /// When nothing can listen on loopback.
    pub fn start(plane: &'a ControlPlane) -> Result<Self> {
        let traffic = Traffic::new();
        let way = Arc::new(Way {
            front: Front::new(traffic.clone()),
            server: Server::new(plane)?,
        });
        let identity = plane.authority().server(&["127.0.0.1", "localhost"])?;
        let host = Host::start(0, Some(&identity), move |request| {
            Arc::clone(&way).answer(request)
        })?;
        Ok(Self {
            plane,
            host,
            traffic,
        })
    }

    /// The address of the proxy, such as `https://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.host.port())
    }

    /// Writes the administrator's kubeconfig with the proxy's address.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig_for(self.plane.token())
    }

    /// Writes a kubeconfig with the proxy's address and another user's token.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig_for(&self, token: &str) -> Result<PathBuf> {
        self.plane.kubeconfig_for(&self.url(), token)
    }

    /// A client through the proxy with the administrator's rights.
    ///
    /// # Errors
    /// As [`ControlPlane::client`].
    pub fn client(&self) -> Result<kube::Client> {
        self.plane.client_for(&self.url(), self.plane.token())
    }

    /// The requests so far, and the faults of the next ones.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

#[derive(Debug)]
struct Way {
    front: Front,
    server: Server,
}

impl Way {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>> {
        self.front
            .answer(request, |request| self.server.ask(request))
            .await
    }
}

#[derive(Debug)]
struct Server {
    client: reqwest::Client,
    url: String,
}

impl Server {
    fn new(plane: &ControlPlane) -> Result<Self> {
        let authority = reqwest::Certificate::from_pem(plane.authority().pem().as_bytes())
            .context("reading the certificate of the authority")?;
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .redirect(reqwest::redirect::Policy::none())
            // The reply is passed on as it is, compressed if the client asked for it.
            .no_gzip()
            .no_proxy()
            .build()
            .context("making a client")?;
        Ok(Self {
            client,
            url: plane.url().to_owned(),
        })
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let reply = self
            .client
            .request(parts.method, format!("{}{path}", self.url))
            .headers(end_to_end(&parts.headers))
            .body(body)
            .send()
            .await?;
        let mut passed = Response::builder().status(reply.status());
        if let Some(headers) = passed.headers_mut() {
            *headers = end_to_end(reply.headers());
        }
        let (sender, body) = stream_body();
        tokio::spawn(pass_on(reply, sender));
        Ok(passed.body(body)?)
    }
}

async fn pass_on(mut reply: reqwest::Response, sender: crate::http::BodySender) {
    loop {
        let piece = tokio::select! {
            piece = reply.chunk() => piece,
            () = sender.closed() => return,
        };
        let sent = match piece {
            Ok(Some(piece)) => sender.send(Ok(piece)).await,
            Ok(None) => return,
            Err(error) => sender.send(Err(error.into())).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The headers that belong to the message and not to the connection (RFC 9110 §7.6.1). The length is set anew.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    const HOP: [HeaderName; 7] = [
        header::CONNECTION,
        header::HOST,
        header::CONTENT_LENGTH,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    let kept = headers.iter().filter(|(name, _)| !HOP.contains(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

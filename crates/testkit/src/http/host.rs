//! Listening, TLS, and one task per connection.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::Body;
use crate::background;
use crate::pki::Identity;

/// A listening server. Dropping it closes the port and every connection.
#[derive(Debug)]
pub(crate) struct Host {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Host {
    /// Listens on loopback, on `port` or on a free one for 0, with TLS when there is an identity.
    ///
    /// A service that returns an error closes the connection without a reply.
    pub(crate) fn start<S, F>(port: u16, identity: Option<&Identity>, service: S) -> Result<Self>
    where
        S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<Body>>> + Send + 'static,
    {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, port)).context("listening")?;
        listener.set_nonblocking(true).context("listening")?;
        let address = listener.local_addr().context("listening")?;
        let tls = identity.map(acceptor).transpose()?;
        let runtime = background::handle()?;
        let _context = runtime.enter();
        let listener = TcpListener::from_std(listener).context("listening")?;
        let accepting = runtime.spawn(accept(listener, tls, service));
        Ok(Self { address, accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The task owns the listener and the connections; wait for its end, so that the port is free afterwards.
        self.accepting.abort();
        while !self.accepting.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

async fn accept<S, F>(listener: TcpListener, tls: Option<TlsAcceptor>, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(stream, tls.clone(), service.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse<S, F>(stream: TcpStream, tls: Option<TlsAcceptor>, service: S)
where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>>> + Send + 'static,
{
    // Without it small replies wait for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, service).await,
        // A client that does not trust us ends here.
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, service).await;
            }
        }
    }
}

async fn serve<I, S, F>(stream: I, service: S)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>>> + Send + 'static,
{
    // A connection ends with an error when the client leaves or a fault cuts it: both are what the test wants.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(service))
        .await;
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("reading the server certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("reading the key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("configuring TLS")?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .context("configuring TLS")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

//! TLS for the webhook, with a certificate that can be changed while it serves.

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::{CertificateError, not_after};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The most handshakes at a time.
const HANDSHAKES: usize = 64;

/// The certificate that is served, if there is one yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Identity(Arc<RwLock<Option<Served>>>);

#[derive(Debug)]
struct Served {
    certificate: String,
    not_after: i64,
    key: Arc<CertifiedKey>,
}

impl Identity {
    /// Serves this certificate, in PEM, from now on; `false` if it is served already.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn set(&self, certificate: &str, key: &str) -> Result<bool, CertificateError> {
        if self.is(certificate) {
            return Ok(false);
        }
        let read = |error: &dyn std::fmt::Display| CertificateError::Read(error.to_string());
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let chain = chain.map_err(|error| read(&error))?;
        // The reader's text does not quote the key.
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| read(&error))?;
        let provider = CryptoProvider::get_default();
        let provider = provider.ok_or_else(|| read(&"no TLS provider is installed"))?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| read(&error))?;
        let served = Served {
            certificate: certificate.to_owned(),
            not_after: not_after(certificate)?,
            key: Arc::new(key),
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(served);
        Ok(true)
    }

    fn is(&self, certificate: &str) -> bool {
        let served = self.0.read().unwrap_or_else(PoisonError::into_inner);
        served
            .as_ref()
            .is_some_and(|served| served.certificate == certificate)
    }

    /// When the certificate ends, in seconds since 1970; `None` while there is none.
    #[must_use]
    pub fn not_after(&self) -> Option<i64> {
        let served = self.0.read().unwrap_or_else(PoisonError::into_inner);
        served.as_ref().map(|served| served.not_after)
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let served = self.0.read().unwrap_or_else(PoisonError::into_inner);
        served.as_ref().map(|served| Arc::clone(&served.key))
    }
}

/// Accepts connections whose handshake is over. Handshakes run beside each other, so that a slow client holds
/// up nobody.
#[derive(Debug)]
pub struct TlsListener {
    address: SocketAddr,
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// Serves `identity` behind a listener.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn new(listener: TcpListener, identity: Identity) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(identity));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (sender, accepted) = mpsc::channel(1);
        tokio::spawn(accept(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            sender,
        ));
        Ok(Self { address, accepted })
    }
}

/// Ends when nobody takes connections any more.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, most likely: others may close some.
                tracing::warn!(%error, "accepting a connection of the webhook");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    sender.send((stream, from)).await.ok();
                }
                Ok(Err(error)) => tracing::debug!(%from, %error, "TLS handshake of the webhook"),
                Err(_) => tracing::debug!(%from, "TLS handshake of the webhook took too long"),
            }
        });
    }
}

/// Serves the webhook until `stop` is done; questions that are open then are not answered.
///
/// # Errors
/// The listener fails.
pub async fn serve_webhook(
    listener: TlsListener,
    routes: axum::Router,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    tokio::select! {
        result = axum::serve(listener, routes).into_future() => result,
        () = stop => Ok(()),
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Issued;
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn install() {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
    }

    fn issued() -> Issued {
        Issued::new(&["localhost".to_owned()], DAY).unwrap()
    }

    #[test]
    fn a_certificate_and_the_key_of_another_are_refused() {
        install();
        let identity = Identity::default();
        let (one, other) = (issued(), issued());
        assert!(identity.set(&one.certificate, &other.key).is_err());
        assert!(identity.set("nothing", &one.key).is_err());
        assert_eq!(identity.not_after(), None);
        assert!(identity.set(&one.certificate, &one.key).unwrap());
        assert!(!identity.set(&one.certificate, &one.key).unwrap());
        assert!(identity.not_after().is_some());
    }

    async fn get(address: SocketAddr, authority: &str) -> Result<String, reqwest::Error> {
        let authority = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .no_proxy()
            .build()
            .unwrap();
        let url = format!("https://localhost:{}/", address.port());
        client.get(url).send().await?.text().await
    }

    #[tokio::test]
    async fn a_certificate_is_changed_without_a_restart_and_a_silent_client_holds_up_nobody() {
        install();
        let identity = Identity::default();
        let (old, new) = (issued(), issued());
        identity.set(&old.certificate, &old.key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TlsListener::new(listener, identity.clone()).unwrap();
        let address = listener.address;
        let hello = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
        tokio::spawn(async move { axum::serve(listener, hello).await });
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(get(address, &old.authorities).await.unwrap(), "hello");
        assert!(get(address, &new.authorities).await.is_err());
        identity.set(&new.certificate, &new.key).unwrap();
        assert_eq!(get(address, &new.authorities).await.unwrap(), "hello");
        assert!(get(address, &old.authorities).await.is_err());
    }
}

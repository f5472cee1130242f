//! A TLS front for a server that speaks plain HTTP, with any certificate, and the certificates for it.

use std::sync::Arc;

use rcgen::{
    CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// A certificate authority for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn sign(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A running front.
pub(crate) struct Front {
    port: u16,
    acceptor: watch::Sender<TlsAcceptor>,
}

impl Front {
    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Shows another certificate from now on, and closes all connections.
    pub(crate) fn show(&self, pair: &Pair) {
        self.acceptor.send_replace(acceptor(pair, None));
    }
}

/// Listens with TLS and passes on to `target`. With `clients`, only clients with a certificate of that authority get
/// through.
pub(crate) async fn front(target: u16, pair: &Pair, clients: Option<&Authority>) -> Front {
    let (sender, mut receiver) = watch::channel(acceptor(pair, clients));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let stream = tokio::select! {
                changed = receiver.changed() => match changed {
                    Ok(()) => {
                        connections.abort_all();
                        continue;
                    }
                    Err(_) => return,
                },
                Ok((stream, _)) = listener.accept() => stream,
            };
            let acceptor = receiver.borrow().clone();
            connections.spawn(async move {
                let mut inner = acceptor.accept(stream).await.ok()?;
                let mut outer = TcpStream::connect(("127.0.0.1", target)).await.ok()?;
                tokio::io::copy_bidirectional(&mut inner, &mut outer)
                    .await
                    .ok()
            });
        }
    });
    Front {
        port,
        acceptor: sender,
    }
}

fn acceptor(pair: &Pair, clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

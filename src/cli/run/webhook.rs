//! The validating webhook of the daemon, if there is one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::flags::Webhook;
use crate::admission::{
    CertificateKeeper, CertificateSource, Identity, Reviewer, SelfMade, TlsListener, review_routes,
    serve_webhook,
};
use crate::lock::Leadership;

/// How often the certificate is looked after.
const INTERVAL: Duration = Duration::from_secs(10);

/// What the webhook needs of the daemon.
pub(super) struct Parts {
    pub(super) client: Client,
    pub(super) leadership: Leadership,
    pub(super) reviewer: Reviewer,
    /// The certificate that is served, to be shown in the metrics.
    pub(super) identity: Identity,
}

/// Starts the webhook: what it is made of runs until the set is dropped. Every replica answers, leader or not.
///
/// # Errors
/// Nothing can listen on its address.
pub(super) async fn start(flags: &Webhook, namespace: &str, parts: Parts) -> Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let Some(address) = flags.webhook_listen else {
        return Ok(tasks);
    };
    let Parts {
        client,
        leadership,
        reviewer,
        identity,
    } = parts;
    let source = match &flags.webhook_cert_dir {
        Some(directory) => CertificateSource::Directory(directory.clone()),
        None => CertificateSource::SelfMade(SelfMade {
            namespace: namespace.to_owned(),
            secret: flags.webhook_secret.clone(),
            service: flags.webhook_service.clone(),
            configuration: flags.webhook_configuration.clone(),
            lasts: flags.webhook_cert_lifetime,
        }),
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("listening on {address} for the webhook"))?;
    let listener = TlsListener::new(listener, identity.clone())?;
    tracing::info!("starting the validating webhook on {address}");
    let keeper = CertificateKeeper {
        identity,
        source,
        interval: INTERVAL,
    };
    tasks.spawn(keeper.run(client, leadership));
    tasks.spawn(async move {
        let routes = review_routes(reviewer);
        if let Err(error) = serve_webhook(listener, routes, std::future::pending()).await {
            tracing::error!(%error, "the validating webhook ended");
        }
    });
    Ok(tasks)
}

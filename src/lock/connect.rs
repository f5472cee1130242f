//! A client whose writes end with the leadership.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

use super::LeaderGuard;
use super::guard::GuardedBody;

/// How long a connection may take to be there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client behind `guard`, that does not try again by itself: retries with deadlines are the callers'
/// business.
///
/// What the kernel has taken from us it sends again and again, for minutes, and also after this process is
/// gone: after a lost network is back, a write would arrive that belongs to a leadership long past. So a
/// connection on which nothing is acknowledged ends before another process can lead. Through an HTTP proxy
/// it is the proxy's kernel that sends, which knows nothing of this.
///
/// # Errors
/// The configuration's certificates or credentials cannot be used.
pub fn guarded_client(mut config: Config, guard: &LeaderGuard) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.with_layer(guard).build());
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_tcp_user_timeout(guard.margin());
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let http: HttpClient<_, GuardedBody> =
        HttpClient::builder(TokioExecutor::new()).build(connector);
    let gzip = DecompressionLayer::new()
        .no_br()
        .no_deflate()
        .no_zstd()
        .gzip(!config.disable_compression);
    let bodies = guard.clone();
    let service = ServiceBuilder::new()
        .layer(guard.clone())
        .layer(config.base_uri_layer())
        .layer(gzip)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(move |request| bodies.watch_body(request))
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

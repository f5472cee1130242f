//! Talking to a running daemon over HTTP.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use reqwest::{Method, Response, Url};

use crate::server::SourceReport;

/// Longest time for one answer; the daemon gives up after a minute.
const TIMEOUT: Duration = Duration::from_secs(65);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// Where the daemon is.
#[derive(Args, Clone, Debug)]
pub(crate) struct DaemonFlags {
    /// address of the daemon: its own within its pod (`kubectl exec`), or that of a `kubectl port-forward`
    #[arg(
        long,
        value_name = "URL",
        env = "HELM_OPERATOR_SERVER",
        default_value = "http://127.0.0.1:3030"
    )]
    server: Url,
}

impl DaemonFlags {
    /// The mirrors of the daemon.
    pub(crate) async fn sources(&self) -> Result<Vec<SourceReport>> {
        self.reports(Method::GET, "api/v1/sources", None).await
    }

    /// Has the mirrors of `url` asked now, and waits for them.
    pub(crate) async fn sync(&self, url: &str) -> Result<Vec<SourceReport>> {
        self.reports(Method::POST, "api/v1/sources/sync", Some(url))
            .await
    }

    async fn reports(
        &self,
        method: Method,
        path: &str,
        source: Option<&str>,
    ) -> Result<Vec<SourceReport>> {
        let mut url = self.server.join(path).context("reading --server")?;
        if let Some(source) = source {
            url.query_pairs_mut().append_pair("url", source);
        }
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(TIMEOUT)
            .build()?;
        let answer = client.request(method, url).send().await.with_context(|| {
            format!(
                "no daemon answers at {}: run this in its pod, or give the address of a kubectl port-forward with --server",
                self.server
            )
        })?;
        let status = answer.status();
        if !status.is_success() {
            bail!("the daemon at {} answered HTTP {status}", self.server);
        }
        let body = bounded(answer).await?;
        serde_json::from_slice(&body).context("reading the answer of the daemon")
    }
}

async fn bounded(mut answer: Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .context("reading the answer of the daemon")?
    {
        if body.len() + chunk.len() > MAX_ANSWER {
            bail!("the daemon answers more than {MAX_ANSWER} bytes");
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

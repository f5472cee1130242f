//! The few requests that the control plane makes of itself.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::files::Files;
use crate::background;

/// A client as administrator that may be called from anywhere, also from a thread without a runtime.
#[derive(Clone, Debug)]
pub(super) struct Api {
    client: reqwest::Client,
    url: String,
    token: String,
}

impl Api {
    pub(super) fn new(files: &Files) -> Result<Self> {
        let authority = reqwest::Certificate::from_pem(files.authority.pem().as_bytes())
            .context("reading the certificate of the authority")?;
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .timeout(Duration::from_secs(30))
            .no_proxy()
            .build()
            .context("making a client")?;
        Ok(Self {
            client,
            url: files.url.clone(),
            token: files.token.clone(),
        })
    }

    pub(super) fn get(&self, path: &str) -> Result<Value> {
        serde_json::from_str(&self.text(path)?).with_context(|| format!("reading GET {path}"))
    }

    pub(super) fn text(&self, path: &str) -> Result<String> {
        self.send(
            self.client.get(format!("{}{path}", self.url)),
            &format!("GET {path}"),
        )
    }

    pub(super) fn post(&self, path: &str, body: Value) -> Result<Value> {
        let request = self.client.post(format!("{}{path}", self.url)).json(&body);
        let reply = self.send(request, &format!("POST {path}"))?;
        serde_json::from_str(&reply).with_context(|| format!("reading POST {path}"))
    }

    fn send(&self, request: reqwest::RequestBuilder, line: &str) -> Result<String> {
        let request = request.bearer_auth(&self.token);
        let (status, text) = background::wait_for(async move {
            let reply = request.send().await?;
            let status = reply.status();
            Ok::<_, reqwest::Error>((status, reply.text().await?))
        })?
        .with_context(|| line.to_owned())?;
        ensure!(
            status.is_success(),
            "{line} was answered with {status}: {text}"
        );
        Ok(text)
    }
}

//! Helm repositories and OCI registries against real servers on loopback.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first thing that fails"
)]

mod commands;
mod dependency;
mod git;
mod hostile;
mod oci;
mod repository;
mod search;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use helm_operator::source::{
    ChartArtifact, Charts, Freshness, HelmRepositorySource, OciSource, RepositoryOptions,
    RepositoryUrl, SecretData, SecretRef, SourceError,
};
use testkit::ScratchDir;

/// A cache in a directory of its own, over these Secrets of the namespace `apps`.
struct Bench {
    scratch: Arc<ScratchDir>,
    secrets: Vec<(String, SecretData)>,
    interval: Duration,
    timeout: Duration,
}

impl Bench {
    fn new() -> Self {
        Self {
            scratch: Arc::new(ScratchDir::new("sources").unwrap()),
            secrets: Vec::new(),
            interval: Duration::ZERO,
            timeout: Duration::from_secs(5),
        }
    }

    fn secret(mut self, name: &str, entries: &[(&str, &str)]) -> Self {
        self.secrets
            .push((name.to_owned(), entries.iter().copied().collect()));
        self
    }

    fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    fn stalling_after(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn charts(&self) -> Opened {
        self.charts_speaking_http(&[])
    }

    /// Charts of these registries too, over http.
    fn charts_speaking_http(&self, registries: &[&str]) -> Opened {
        let hosts = registries.iter().map(|host| (*host).to_owned());
        Opened {
            charts: self.open().with_plain_registries(hosts.collect()),
            freshness: Freshness::by_interval(),
            _scratch: Arc::clone(&self.scratch),
        }
    }

    fn open(&self) -> Charts {
        let options = RepositoryOptions {
            interval: self.interval,
            timeout: self.timeout,
            index_bytes: 4 << 20,
            archive_bytes: 1 << 20,
            ..RepositoryOptions::new(self.scratch.join("cache"))
        };
        let secrets = self
            .secrets
            .iter()
            .map(|(name, data)| (secret_ref(name), data.clone()));
        let secrets = helm_operator::gitsync::StaticSecrets(secrets.collect());
        Charts::new(options, Arc::new(secrets)).unwrap()
    }
}

/// Charts whose cache lives as long as they do.
struct Opened {
    charts: Charts,
    freshness: Freshness,
    _scratch: Arc<ScratchDir>,
}

impl Opened {
    async fn repository_chart(
        &self,
        source: &HelmRepositorySource,
    ) -> Result<ChartArtifact, SourceError> {
        self.charts.from_repository(source, self.freshness).await
    }

    async fn registry_chart(&self, source: &OciSource) -> Result<ChartArtifact, SourceError> {
        self.charts.from_registry(source, self.freshness).await
    }

    /// From now on, answers have to be as new as this.
    fn want(&mut self, freshness: Freshness) {
        self.freshness = freshness;
    }
}

impl std::ops::Deref for Opened {
    type Target = Charts;
    fn deref(&self) -> &Charts {
        &self.charts
    }
}

fn secret_ref(name: &str) -> SecretRef {
    SecretRef {
        namespace: "apps".to_owned(),
        name: name.to_owned(),
    }
}

fn source(url: &str, name: &str, version: &str) -> HelmRepositorySource {
    HelmRepositorySource {
        url: RepositoryUrl::parse_chart_repository(url).unwrap(),
        name: name.to_owned(),
        version: Some(version.to_owned()).filter(|text| !text.is_empty()),
        secret: None,
        pull_secret: None,
        verify: None,
    }
}

/// The revision and a look into the chart: what `Chart.yaml` calls its version.
fn seen(found: Result<ChartArtifact, SourceError>) -> (String, String) {
    let found = found.unwrap();
    let chart = found.chart.unwrap();
    (found.revision, chart.version)
}

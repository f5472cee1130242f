//! What a HelmRelease would be deployed as now. Nothing is written.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use helm_engine::{Chart, Limits, Release, RenderOptions, Rendered, load_files, render};
use helm_kube::{Cluster, Driver, History, ReleaseKey};
use tokio::time::Instant;

use super::context::Settings;
use super::external::ExternalReader;
use super::identity::Clusters;
use super::trouble::Trouble;
use super::values::ValuesReader;
use crate::api::HelmRelease;
use crate::source::{ChartArtifact, Freshness, Reason, SourceRef, Sources};

/// How long a mirror that is not there yet may take.
const CLONE_TIMEOUT: Duration = Duration::from_secs(120);

/// What a HelmRelease would be deployed as, beside what is deployed.
#[derive(Debug)]
pub struct Preview {
    /// The record of the deployed revision, or of the newest; `None` if there is none.
    pub recorded: Option<Release>,
    /// What the chart renders to.
    pub rendered: Rendered,
    /// The chart's version or commit.
    pub revision: String,
}

/// Renders a HelmRelease as a sync would, with the rights that it has.
///
/// # Errors
/// Whatever would fail the release before its first write: no chart, no values, a template that
/// fails, no rights.
pub async fn preview(
    clusters: &Clusters,
    sources: &Sources,
    settings: &Settings,
    release: &HelmRelease,
) -> Result<Preview> {
    let account = settings.default_service_account.as_deref();
    let local = clusters.local(release, account).map_err(told)?;
    let target = clusters.target(release, account).await.map_err(told)?;
    let source = super::chart::source_of(release, settings).map_err(told)?;
    let artifact = fetch(sources, &source, release).await?;
    let reader = ValuesReader {
        client: local.client().clone(),
        external: ExternalReader::new(settings.allow_local)?,
        own_namespace_only: settings.own_namespace_only,
    };
    let values = reader.compose(release, &artifact).await.map_err(told)?;
    let name = release.release_key();
    let key = ReleaseKey::new(&*name.name, &*name.namespace);
    let history = target
        .run(helm_kube::history(key.clone(), Driver::Secret))
        .await?;
    let recorded = recorded(&target, &key, &history).await?;
    let chart = Arc::new(load(&artifact)?);
    let last = recorded.as_ref().filter(|_| !release.spec.reset_values());
    let values = super::compare::with_old_values(values, last);
    let chart = super::compare::with_old_defaults(&chart, last);
    // As the revision that is there, so that a chart which prints it shows no difference.
    let revision = recorded.as_ref().map_or(1, |release| release.revision);
    let options = RenderOptions {
        release_name: key.name,
        namespace: key.namespace,
        revision,
        is_install: revision == 1,
        is_upgrade: revision > 1,
        capabilities: target.capabilities().await?,
        lookup: Some(Arc::new(target.lookup(tokio::runtime::Handle::current()))),
        skip_schema: !release.spec.checks_schemas(),
        ..RenderOptions::default()
    };
    let rendered = tokio::task::spawn_blocking(move || render(&chart, &values, &options));
    Ok(Preview {
        recorded,
        rendered: rendered.await.context("rendering the chart")??,
        revision: artifact.revision,
    })
}

fn told(trouble: Trouble) -> anyhow::Error {
    anyhow!(trouble.text())
}

pub(super) async fn fetch(
    sources: &Sources,
    source: &SourceRef,
    release: &HelmRelease,
) -> Result<ChartArtifact> {
    let key = crate::gitsync::ReleaseKey {
        namespace: release.key().namespace,
        name: release.key().name,
    };
    sources.declare(&key, source);
    let end = Instant::now() + CLONE_TIMEOUT;
    loop {
        match sources.fetch(source, Freshness::by_interval()).await {
            Ok(artifact) => return Ok(artifact),
            Err(error) if error.reason() == Reason::Cloning && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => bail!("failed to prepare chart for release: {error}"),
        }
    }
}

fn load(artifact: &ChartArtifact) -> Result<Chart> {
    let files = artifact
        .files
        .iter()
        .map(|(path, data)| (path.clone(), data.as_slice()));
    Ok(load_files(files, &Limits::default())
        .context("chart unavailable")?
        .chart)
}

async fn recorded(
    cluster: &Cluster,
    key: &ReleaseKey,
    history: &History,
) -> Result<Option<Release>> {
    let Some(found) = history.deployed().or_else(|| history.newest()) else {
        return Ok(None);
    };
    let read = helm_kube::get(key.clone(), Driver::Secret, Some(found.revision));
    Ok(Some(cluster.run(read).await?.release))
}

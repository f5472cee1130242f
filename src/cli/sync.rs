//! `helm-operator sync`: fetch now, and reconcile now.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use super::charts::block_on;
use super::daemon::DaemonFlags;
use super::output::print;
use super::release::{ClusterFlags, parse_duration};
use crate::api::{ConditionType, HelmRelease, RECONCILE_ANNOTATION};
use crate::server::SourceReport;

/// How often the object is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Fetch what releases use now: the chart and the values of one HelmRelease, which is reconciled
/// then, or without a name all git remotes. Waits, and says how it went.
#[derive(Args, Clone, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Arguments {
    /// Name of a HelmRelease
    name: Option<String>,

    /// how long to wait, such as 5m0s
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration)]
    timeout: Duration,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    daemon: DaemonFlags,
}

/// Syncs; a failure of a mirror or of the release is a failure of the verb.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    block_on(async {
        match &arguments.name {
            Some(name) => release(arguments, name).await,
            None => mirrors(arguments).await,
        }
    })
}

/// Asks all remotes at once, and prints a line as each of them has answered.
async fn mirrors(arguments: &Arguments) -> Result<()> {
    let known = arguments.daemon.sources().await?;
    let mut urls: Vec<String> = known.into_iter().map(|report| report.url).collect();
    urls.dedup();
    let count = urls.len();
    let mut running: FuturesUnordered<_> =
        urls.iter().map(|url| arguments.daemon.sync(url)).collect();
    let mut failed = 0;
    let work = async {
        while let Some(reports) = running.next().await {
            for report in reports? {
                failed += usize::from(report.state != "Ready");
                print(&line(&report))?;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(arguments.timeout, work)
        .await
        .context("not all remotes have answered in time; the daemon goes on")??;
    if failed > 0 {
        bail!("{failed} of {count} mirrors failed");
    }
    Ok(())
}

fn line(report: &SourceReport) -> String {
    match &report.message {
        None => format!("{}\t{}\n", report.state, report.url),
        Some(message) => format!("{}\t{}\t{message}\n", report.state, report.url),
    }
}

/// Annotates the object, and waits until the daemon has acted on that.
async fn release(arguments: &Arguments, name: &str) -> Result<()> {
    let config = arguments.cluster.config().await?;
    let namespace = arguments.cluster.namespace(&config);
    let releases: Api<HelmRelease> = Api::namespaced(Client::try_from(config)?, &namespace);
    let request = jiff::Timestamp::now().to_string();
    let patch =
        serde_json::json!({ "metadata": { "annotations": { RECONCILE_ANNOTATION: request } } });
    releases
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("asking for a sync of {namespace}/{name}"))?;
    let deadline = Instant::now() + arguments.timeout;
    let mut shown = String::new();
    loop {
        let found = releases
            .get(name)
            .await
            .with_context(|| format!("reading {namespace}/{name}"))?;
        let state = state(&found);
        if state != shown {
            print(&format!("{state}\n"))?;
            shown = state;
        }
        let status = found.status.unwrap_or_default();
        if status.last_handled_reconcile_at.as_deref() == Some(&request) {
            if status.is_true(ConditionType::Ready) {
                return Ok(());
            }
            if !status.is_true(ConditionType::Reconciling) {
                bail!("{namespace}/{name} is not ready: {shown}");
            }
        }
        if Instant::now() > deadline {
            bail!("{namespace}/{name} was not ready in time: {shown}; the daemon goes on");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Phase, revision and the message of `Ready`, in a line.
fn state(release: &HelmRelease) -> String {
    let Some(status) = &release.status else {
        return "waiting for the daemon".to_owned();
    };
    let phase = status
        .phase
        .map_or_else(|| "Pending".to_owned(), |phase| phase.to_string());
    let revision = status.last_attempted_revision.as_deref().unwrap_or("-");
    let message = status.condition(&ConditionType::Ready.to_string());
    let message = message
        .and_then(|ready| ready.message.as_deref())
        .unwrap_or_default();
    format!("{phase}\t{revision}\t{message}")
}

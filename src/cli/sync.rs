//! `helm-operator sync`: fetch now, and reconcile now.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;

use super::charts::block_on;
use super::daemon::DaemonFlags;
use super::output::print;
use super::release::{ClusterFlags, Format, encode, parse_duration};
use crate::api::{ConditionType, HelmRelease, HelmReleaseStatus, Phase, RECONCILE_ANNOTATION};
use crate::server::SourceReport;

/// How often the object is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Fetch now what a HelmRelease uses, and reconcile it; without a name, fetch all git remotes.
///
/// Chart and values are fetched anew. Waits, and says how it went.
///
/// With `--output json` or `yaml` one document is printed at the end: for a HelmRelease an object
/// with its `outcome` (`Synced`, `Failed`, `Suspended`, `TimedOut`), phase, revision and message;
/// without a name the list that `sources` prints.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::SYNC, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// Name of a HelmRelease
    name: Option<String>,

    /// how long to wait, such as 5m0s
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration)]
    timeout: Duration,

    /// prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

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
    let mut running: FuturesUnordered<_> =
        urls.iter().map(|url| arguments.daemon.sync(url)).collect();
    let mut answered = Vec::new();
    let work = async {
        while let Some(reports) = running.next().await {
            for report in reports? {
                if arguments.output == Format::Table {
                    print(&line(&report))?;
                }
                answered.push(report);
            }
        }
        anyhow::Ok(())
    };
    let done = tokio::time::timeout(arguments.timeout, work).await;
    if arguments.output != Format::Table {
        answered.sort_by(|left, right| left.url.cmp(&right.url));
        print(&encode(&answered, arguments.output)?)?;
    }
    done.context("not all remotes have answered in time; the daemon goes on")??;
    let failed = answered.iter().filter(|report| report.state != "Ready");
    match failed.count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} mirrors failed", answered.len()),
    }
}

fn line(report: &SourceReport) -> String {
    match &report.message {
        None => format!("{}\t{}\n", report.state, report.url),
        Some(message) => format!("{}\t{}\t{message}\n", report.state, report.url),
    }
}

/// How the sync of a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Outcome {
    Synced,
    Failed,
    Suspended,
    TimedOut,
}

/// What is printed of the sync of a release.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    namespace: String,
    name: String,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// The commit or chart version that was attempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Report {
    fn new(namespace: &str, name: &str, outcome: Outcome, status: &HelmReleaseStatus) -> Self {
        let ready = status.condition(&ConditionType::Ready.to_string());
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            outcome,
            phase: status.phase,
            revision: attempted(status).map(str::to_owned),
            release_status: status.release_status.clone(),
            reason: ready.and_then(|ready| ready.reason.clone()),
            message: ready.and_then(|ready| ready.message.clone()),
        }
    }

    /// Success, or why it is none.
    fn verdict(&self, shown: &str) -> Result<()> {
        let id = format!("{}/{}", self.namespace, self.name);
        match self.outcome {
            Outcome::Synced => Ok(()),
            Outcome::Failed => bail!("{id} is not ready: {shown}"),
            Outcome::Suspended => {
                bail!("{id} is suspended and was not synced: set spec.suspend to false")
            }
            Outcome::TimedOut => {
                bail!("{id} was not ready in time: {shown}; the daemon goes on")
            }
        }
    }
}

/// Annotates the object, and waits until the daemon has acted on that.
async fn release(arguments: &Arguments, name: &str) -> Result<()> {
    let config = arguments.cluster.config().await?;
    let namespace = arguments.cluster.namespace(&config);
    let releases: Api<HelmRelease> = Api::namespaced(Client::try_from(config)?, &namespace);
    let read = async || {
        let found = releases.get(name).await;
        found.with_context(|| format!("reading {namespace}/{name}"))
    };
    let mut found = read().await?;
    let request = jiff::Timestamp::now().to_string();
    if !found.spec.suspended() {
        let patch =
            serde_json::json!({ "metadata": { "annotations": { RECONCILE_ANNOTATION: request } } });
        found = releases
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("asking for a sync of {namespace}/{name}"))?;
    }
    let before = state(&found);
    let mut shown = String::new();
    let deadline = Instant::now() + arguments.timeout;
    let outcome = loop {
        let now = progress(&found, &request, &before);
        if arguments.output == Format::Table && now != shown && !found.spec.suspended() {
            print(&format!("{now}\n"))?;
        }
        shown = now;
        if let Some(outcome) = outcome(&found, &request) {
            break outcome;
        }
        if Instant::now() > deadline {
            break Outcome::TimedOut;
        }
        tokio::time::sleep(LOOK).await;
        found = read().await?;
    };
    let status = found.status.unwrap_or_default();
    let report = Report::new(&namespace, name, outcome, &status);
    if arguments.output != Format::Table {
        print(&encode(&report, arguments.output)?)?;
    }
    report.verdict(&shown)
}

/// How the sync that `request` asks for has ended; none while it goes on.
fn outcome(release: &HelmRelease, request: &str) -> Option<Outcome> {
    if release.spec.suspended() {
        return Some(Outcome::Suspended);
    }
    let status = release.status.as_ref()?;
    if status.last_handled_reconcile_at.as_deref() != Some(request) {
        return None;
    }
    if status.is_true(ConditionType::Ready) {
        return Some(Outcome::Synced);
    }
    (!status.is_true(ConditionType::Reconciling)).then_some(Outcome::Failed)
}

/// The state in a line; of what was so `before` the request nothing, as it says nothing of this sync.
fn progress(release: &HelmRelease, request: &str, before: &str) -> String {
    let handled = release
        .status
        .as_ref()
        .and_then(|status| status.last_handled_reconcile_at.as_deref());
    let now = state(release);
    if handled != Some(request) && now == before {
        return "waiting for the daemon".to_owned();
    }
    now
}

/// What was attempted: not what an earlier sync attempted, when this one has not got as far as a revision.
fn attempted(status: &HelmReleaseStatus) -> Option<&str> {
    let revision = status.last_attempted_revision.as_deref();
    revision.filter(|_| status.phase != Some(Phase::ChartFetchFailed))
}

/// Phase, revision and the message of `Ready`, in a line.
fn state(release: &HelmRelease) -> String {
    let Some(status) = &release.status else {
        return "waiting for the daemon".to_owned();
    };
    let phase = status
        .phase
        .map_or_else(|| "Pending".to_owned(), |phase| phase.to_string());
    let revision = attempted(status).unwrap_or("-");
    let message = status.condition(&ConditionType::Ready.to_string());
    let message = message
        .and_then(|ready| ready.message.as_deref())
        .unwrap_or_default();
    format!("{phase}\t{revision}\t{message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(suspend: bool, status: serde_json::Value) -> HelmRelease {
        let spec =
            serde_json::json!({"chart": {"git": "https://h/x", "path": "."}, "suspend": suspend});
        let mut release = HelmRelease::new("web", serde_json::from_value(spec).unwrap());
        release.status = Some(serde_json::from_value(status).unwrap());
        release
    }

    fn status(phase: &str, ready: &str, handled: &str) -> serde_json::Value {
        serde_json::json!({"phase": phase, "lastAttemptedRevision": "c0ffee", "lastHandledReconcileAt": handled,
            "conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "as it is"}]})
    }

    #[test]
    fn only_what_came_of_this_request_is_its_outcome() {
        for (suspend, phase, ready, handled, wanted) in [
            (false, "Succeeded", "True", "now", Some(Outcome::Synced)),
            (false, "Failed", "False", "now", Some(Outcome::Failed)),
            (false, "Succeeded", "True", "earlier", None),
            (false, "Failed", "False", "earlier", None),
            (true, "Succeeded", "True", "now", Some(Outcome::Suspended)),
        ] {
            let release = release(suspend, status(phase, ready, handled));
            assert_eq!(outcome(&release, "now"), wanted, "{phase} {handled}");
        }
    }

    #[test]
    fn a_sync_that_got_no_chart_names_no_earlier_revision() {
        let failed = release(false, status("ChartFetchFailed", "False", "now"));
        assert_eq!(state(&failed), "ChartFetchFailed\t-\tas it is");
        let failed = release(false, status("DeployFailed", "False", "now"));
        assert_eq!(state(&failed), "DeployFailed\tc0ffee\tas it is");
    }

    #[test]
    fn what_was_before_the_request_is_no_progress() {
        let old = release(false, status("Succeeded", "True", "earlier"));
        let before = state(&old);
        assert_eq!(progress(&old, "now", &before), "waiting for the daemon");
        let new = release(false, status("Succeeded", "True", "now"));
        assert_eq!(progress(&new, "now", &before), before);
    }
}

//! `helm-operator rollback`: back to an earlier revision, as `helm rollback`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use helm_kube::{Options, Rollback, WaitFor, rollback};

use super::output::print;
use super::release::{ActionFlags, ClusterFlags, with_cluster};

/// Roll a release back to an earlier revision.
///
/// Of a release that a HelmRelease object keeps, the daemon sees within seconds that it is not as the
/// object says, and upgrades it again. To stay at the older revision, set `spec.suspend: true` before,
/// or change what the object says (its chart version, git ref or values).
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::ROLLBACK)]
pub(crate) struct Arguments {
    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// The revision; without it, the last one before the current that was deployed
    revision: Option<i64>,

    /// take fields that other managers own
    #[arg(long)]
    force_conflicts: bool,

    /// with --wait: wait until all Jobs have completed, too
    #[arg(long)]
    wait_for_jobs: bool,

    /// delete new objects of this rollback when it fails
    #[arg(long)]
    cleanup_on_fail: bool,

    /// look whether there is such a revision, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// limit the maximum number of revisions saved per release. Use 0 for no limit
    #[arg(long, default_value_t = 10, env = "HELM_MAX_HISTORY")]
    history_max: usize,

    /// add a custom description
    #[arg(long)]
    description: Option<String>,

    #[command(flatten)]
    action: ActionFlags,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Rolls back.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let history = session.history().await?;
            let action = Rollback {
                release: session.release.clone(),
                plan: session.plan(&history),
                history,
                to: arguments.revision.filter(|revision| *revision != 0),
                description: arguments.description.clone(),
                annotations: BTreeMap::new(),
                options: options(arguments, session.options(&arguments.action)),
            };
            if arguments.dry_run {
                helm_kube::rollback_target(&action)?;
            } else {
                session.cluster.run(rollback(action)).await?;
            }
            print("Rollback was a success! Happy Helming!\n")
        },
    )
}

fn options(arguments: &Arguments, common: Options) -> Options {
    let wait = match common.wait {
        WaitFor::Ready if arguments.wait_for_jobs => WaitFor::ReadyAndJobs,
        wait => wait,
    };
    Options {
        force_conflicts: arguments.force_conflicts,
        max_history: arguments.history_max,
        cleanup_on_fail: arguments.cleanup_on_fail,
        wait,
        ..common
    }
}

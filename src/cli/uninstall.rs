//! `helm-operator uninstall`: takes a release out of the cluster, as `helm uninstall`.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use helm_kube::{ChangeKind, Report, Uninstall, uninstall};

use super::output::print;
use super::release::{ActionFlags, ClusterFlags, with_cluster};

/// Uninstall a release.
///
/// A release of a HelmRelease object comes back at the next sync: delete the object instead.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// remove all associated resources and mark the release as deleted, but retain the history
    #[arg(long)]
    keep_history: bool,

    /// treat "release not found" as a successful uninstall
    #[arg(long)]
    ignore_not_found: bool,

    /// add a custom description
    #[arg(long)]
    description: Option<String>,

    #[command(flatten)]
    action: ActionFlags,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Uninstalls.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let history = match session.history().await {
                Err(_) if arguments.ignore_not_found => helm_kube::History::default(),
                history => history?,
            };
            let action = Uninstall {
                release: session.release.clone(),
                plan: session.plan(&history),
                history,
                keep_history: arguments.keep_history,
                description: arguments.description.clone(),
                options: session.options(&arguments.action),
            };
            let done = session.cluster.run(uninstall(action)).await?;
            let kept = told(&done.report);
            print(&format!(
                "{kept}release \"{}\" uninstalled\n",
                arguments.release
            ))
        },
    )
}

/// What is still there, in Helm's words.
fn told(report: &Report) -> String {
    let mut text = String::new();
    for (kind, head) in [
        (
            ChangeKind::Kept,
            "These resources were kept due to the resource policy:",
        ),
        (
            ChangeKind::NotOwned,
            "These resources were not deleted because they are not owned by this release:",
        ),
    ] {
        let objects = report.changes.iter().filter(|change| change.kind == kind);
        for (at, change) in objects.enumerate() {
            if at == 0 {
                let _ = writeln!(text, "{head}");
            }
            let _ = writeln!(text, "[{}] {}", change.object.kind, change.object.name);
        }
    }
    text
}

//! `helm-operator uninstall`: takes a release out of the cluster, as `helm uninstall`.

use std::fmt::Write;

use anyhow::Result;
use clap::{Args, ValueEnum};
use helm_kube::{ChangeKind, Options, Propagation, Report, Uninstall, uninstall};

use super::output::print;
use super::release::{ActionFlags, ClusterFlags, Session, with_cluster};

/// Uninstall releases.
///
/// A release of a HelmRelease object comes back at the next sync: delete the object instead.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::UNINSTALL)]
pub(crate) struct Arguments {
    /// Names of the releases
    #[arg(value_name = "RELEASE_NAME", required = true)]
    releases: Vec<String>,

    /// remove all associated resources and mark the release as deleted, but retain the history
    #[arg(long)]
    keep_history: bool,

    /// say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// what becomes of the dependents of what is deleted
    #[arg(long, value_enum, default_value_t = Cascade::Background)]
    cascade: Cascade,

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

/// What becomes of the dependents of what is deleted, in the words of the flag.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

impl From<Cascade> for Propagation {
    fn from(cascade: Cascade) -> Self {
        match cascade {
            Cascade::Background => Self::Background,
            Cascade::Foreground => Self::Foreground,
            Cascade::Orphan => Self::Orphan,
        }
    }
}

/// Uninstalls one after the other; the first failure ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for release in &arguments.releases {
        with_cluster(&arguments.cluster, release, |session| async move {
            let kept = remove(&session, arguments).await?;
            print(&format!("{kept}release \"{release}\" uninstalled\n"))
        })?;
    }
    Ok(())
}

async fn remove(session: &Session, arguments: &Arguments) -> Result<String> {
    let history = session.any_history().await?;
    if history.is_empty() {
        if arguments.ignore_not_found {
            return Ok(String::new());
        }
        anyhow::bail!("release: not found");
    }
    if arguments.dry_run {
        return Ok(String::new());
    }
    let action = Uninstall {
        release: session.release.clone(),
        plan: session.plan(&history),
        history,
        keep_history: arguments.keep_history,
        description: arguments.description.clone(),
        options: Options {
            propagation: arguments.cascade.into(),
            ..session.options(&arguments.action)
        },
    };
    let done = session.cluster.run(uninstall(action)).await?;
    Ok(told(&done.report))
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

//! `helm-operator status`: what a release is like, on record and live.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use helm_engine::{HookEvent, HookPhase, Release};
use helm_kube::{ObjectStatus, ReleaseStatus};

use super::output::print;
use super::release::{ClusterFlags, Format, ansic, encode, with_cluster};

/// Print the status of a release, and of its live objects.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::STATUS)]
pub(crate) struct Arguments {
    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// if set, display the status of the named release with revision
    #[arg(long)]
    revision: Option<i64>,

    /// print what is recorded only, and do not look at the live objects
    #[arg(long)]
    record_only: bool,

    /// prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Prints the status.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let key = session.release.clone();
            let found = if arguments.record_only {
                let read = helm_kube::get(key, session.options.driver, arguments.revision);
                ReleaseStatus {
                    release: session.cluster.run(read).await?.release,
                    objects: Vec::new(),
                }
            } else {
                let read = helm_kube::status(key, session.options.clone(), arguments.revision);
                session.cluster.run(read).await?
            };
            print(&match arguments.output {
                Format::Table => text(&found),
                format => encode(&found.release, format)?,
            })
        },
    )
}

fn text(status: &ReleaseStatus) -> String {
    let release = &status.release;
    let mut text = head(release);
    if !status.objects.is_empty() {
        text.push_str("RESOURCES:\n");
        for object in &status.objects {
            text.push_str(&line(object));
        }
        text.push('\n');
    }
    text.push_str(&tests(release));
    if !release.info.notes.is_empty() {
        text.push_str("NOTES:\n");
        text.push_str(release.info.notes.trim());
        text.push('\n');
    }
    text
}

pub(super) fn head(release: &Release) -> String {
    top(release) + &bottom(release)
}

/// The head with the chart, as `get all` has it.
pub(super) fn head_with_chart(release: &Release) -> String {
    let metadata = &release.chart.metadata;
    format!(
        "{}CHART: {}\nVERSION: {}\nAPP_VERSION: {}\n{}",
        top(release),
        metadata.name,
        metadata.version,
        metadata.app_version,
        bottom(release)
    )
}

fn top(release: &Release) -> String {
    format!(
        "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\n",
        release.name,
        ansic(release.info.last_deployed),
        release.namespace,
        release.info.status,
        release.revision,
    )
}

fn bottom(release: &Release) -> String {
    format!("DESCRIPTION: {}\n", release.info.description)
}

fn line(object: &ObjectStatus) -> String {
    let ObjectStatus { object, readiness } = object;
    format!(
        "{object}: {}, {}\n",
        readiness.state.as_str(),
        readiness.message
    )
}

pub(super) fn tests(release: &Release) -> String {
    let tests: Vec<_> = release
        .hooks
        .iter()
        .filter(|hook| hook.events.contains(&HookEvent::Test))
        .collect();
    if tests.is_empty() {
        return "TEST SUITE: None\n".to_owned();
    }
    let mut text = String::new();
    for hook in tests {
        let run = &hook.last_run;
        if run.started_at.is_none() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "TEST SUITE:     {}\nLast Started:   {}\nLast Completed: {}\nPhase:          {}",
            hook.name,
            ansic(run.started_at),
            ansic(run.completed_at),
            phase(run.phase),
        );
    }
    text
}

fn phase(phase: HookPhase) -> &'static str {
    match phase {
        HookPhase::None => "",
        HookPhase::Running => "Running",
        HookPhase::Succeeded => "Succeeded",
        HookPhase::Failed => "Failed",
        HookPhase::Unknown => "Unknown",
    }
}

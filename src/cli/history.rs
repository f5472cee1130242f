//! `helm-operator history`: the revisions of a release, as `helm history`.

use anyhow::Result;
use clap::Args;
use helm_engine::Release;
use serde::Serialize;

use super::output::print;
use super::release::{ClusterFlags, Format, ansic, encode, with_cluster};
use super::table::table;

/// Print the history of a release.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::HISTORY)]
pub(crate) struct Arguments {
    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// maximum number of revision to include in history
    #[arg(long, default_value_t = 256)]
    max: usize,

    /// prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Prints the newest revisions, oldest first.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let read = helm_kube::records(session.release.clone(), session.options.driver);
            let records = session.cluster.run(read).await?;
            if records.is_empty() {
                anyhow::bail!("release: not found");
            }
            let first = records.len().saturating_sub(arguments.max);
            let records: Vec<_> = records
                .iter()
                .skip(first)
                .map(|stored| &stored.release)
                .collect();
            print(&match arguments.output {
                Format::Table => rows(&records),
                format => encode(
                    &records.iter().copied().map(Entry::from).collect::<Vec<_>>(),
                    format,
                )?,
            })
        },
    )
}

fn chart(release: &Release) -> String {
    let metadata = &release.chart.metadata;
    format!("{}-{}", metadata.name, metadata.version)
}

fn rows(records: &[&Release]) -> String {
    let head = [
        "REVISION",
        "UPDATED",
        "STATUS",
        "CHART",
        "APP VERSION",
        "DESCRIPTION",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for release in records {
        rows.push([
            release.revision.to_string(),
            ansic(release.info.last_deployed),
            release.info.status.to_string(),
            chart(release),
            release.chart.metadata.app_version.clone(),
            release.info.description.clone(),
        ]);
    }
    table(&rows)
}

/// A revision in the JSON of Helm.
#[derive(Serialize)]
struct Entry<'a> {
    revision: i64,
    updated: String,
    status: &'static str,
    chart: String,
    app_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback_revision: Option<i64>,
    description: &'a str,
}

impl<'a> From<&'a Release> for Entry<'a> {
    fn from(release: &'a Release) -> Self {
        Self {
            revision: release.revision,
            updated: release.info.last_deployed.unwrap_or_default().to_string(),
            status: release.info.status.as_str(),
            chart: chart(release),
            app_version: &release.chart.metadata.app_version,
            rollback_revision: Some(release.info.rollback_revision).filter(|to| *to > 0),
            description: &release.info.description,
        }
    }
}

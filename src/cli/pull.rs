//! `helm-operator pull`: fetches a chart into a file or a directory, as `helm pull`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use helm_engine::{Limits, read_archive};

use super::charts::{ChartFlags, archive_url, block_on, place};
use crate::source::Freshness;

/// Download a chart from a repository or a registry and (optionally) unpack it in a directory.
///
/// Examples:
///   helm-operator pull podinfo --repo https://charts.example.com --version '~6.5'
///   helm-operator pull oci://registry.example.com/charts/podinfo --untar
#[derive(Args, Clone, Debug)]
#[command(disable_version_flag = true, verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// URLs of archives, `oci://…`, `ALIAS/NAME`, or names with --repo
    #[arg(value_name = "CHART", required = true)]
    charts: Vec<String>,

    #[command(flatten)]
    flags: ChartFlags,

    /// location to write the chart. If this and untardir are specified, untardir is appended to this
    #[arg(short, long, default_value = ".")]
    destination: PathBuf,

    /// if set to true, will untar the chart after downloading it
    #[arg(long)]
    untar: bool,

    /// if untar is specified, this flag specifies the name of the directory into which the chart is expanded
    #[arg(long, default_value = ".")]
    untardir: PathBuf,
}

/// Fetches each chart.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    block_on(async {
        for reference in &arguments.charts {
            pull(arguments, reference).await?;
        }
        Ok(())
    })
}

async fn pull(arguments: &Arguments, reference: &str) -> Result<()> {
    let repository = arguments.flags.repo.as_deref();
    let registries = [repository.unwrap_or_default(), reference];
    let charts = arguments.flags.login.charts(&registries)?;
    if let Some(url) = archive_url(reference).filter(|_| repository.is_none()) {
        let place = crate::source::ChartPlace::Repository(url.clone());
        let access = arguments.flags.login.access(&charts, &place)?;
        let content = charts.download(&url, &access).await?;
        let name = url.path().rsplit('/').next().unwrap_or_default();
        return save(arguments, name, &content);
    }
    let (place, name) = place(&charts, repository, reference)?;
    let access = arguments.flags.login.access(&charts, &place)?;
    let wanted = arguments.flags.wanted();
    let (version, content) = charts
        .archive(&place, &access, &name, wanted, Freshness::by_interval())
        .await?;
    save(arguments, &format!("{name}-{version}.tgz"), &content)
}

fn save(arguments: &Arguments, name: &str, content: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
        bail!("the chart would be written to {name:?}, which is no name for a file");
    }
    if arguments.untar {
        return unpack(&arguments.destination.join(&arguments.untardir), content);
    }
    fs::create_dir_all(&arguments.destination)
        .with_context(|| format!("cannot make {}", arguments.destination.display()))?;
    let path = arguments.destination.join(name);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the files of an archive below a directory of the chart's name.
fn unpack(directory: &Path, content: &[u8]) -> Result<()> {
    let files = read_archive(content, &Limits::default())?;
    let loaded = helm_engine::load_archive(content, &Limits::default())?;
    let target = directory.join(loaded.chart.name());
    if target.exists() {
        bail!(
            "failed to untar: a file or directory with the name {} already exists",
            target.display()
        );
    }
    for file in files {
        // The reader refuses such paths; nothing is written outside even if it did not.
        let relative = Path::new(&file.name);
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            bail!(
                "the archive holds the path {:?}, which leads elsewhere",
                file.name
            );
        }
        let path = target.join(relative);
        let parent = path.parent().unwrap_or(&target);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(&path, &*file.data)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

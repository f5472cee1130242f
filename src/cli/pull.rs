//! `helm-operator pull`: fetches a chart into a file or a directory, as `helm pull`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use helm_engine::{Limits, read_archive};

use super::charts::{ChartFlags, block_on};
use super::fetch::{Fetched, Signature, fetch};
use super::output::print;
use crate::source::Signer;

/// Download a chart from a repository or a registry and (optionally) unpack it in a directory.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::PULL, disable_version_flag = true)]
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

    /// fetch the provenance file, but don't perform verification
    #[arg(long)]
    prov: bool,

    /// verify the package before using it
    #[arg(long)]
    verify: bool,

    /// location of public keys used for verification [default: ~/.gnupg/pubring.gpg]
    #[arg(long)]
    keyring: Option<PathBuf>,

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
    let signature = match (arguments.verify, arguments.prov) {
        (true, _) => Signature::Needed,
        (false, true) => Signature::IfThere,
        (false, false) => Signature::Unasked,
    };
    let fetched = fetch(&arguments.flags, reference, signature).await?;
    if fetched.name.contains(['/', '\\'])
        || fetched.name.starts_with('.')
        || fetched.name.is_empty()
    {
        bail!(
            "the chart would be written to {:?}, which is no name for a file",
            fetched.name
        );
    }
    if arguments.verify {
        print(&told(&fetched.verify(arguments.keyring.as_deref())?))?;
    }
    save(arguments, &fetched)
}

/// Says who signed, as helm does.
fn told(signer: &Signer) -> String {
    let names = signer
        .names
        .iter()
        .map(|name| format!("Signed by: {name}\n"));
    format!(
        "{}Using Key With Fingerprint: {}\nChart Hash Verified: {}\n",
        names.collect::<String>(),
        signer.fingerprint,
        signer.digest
    )
}

fn save(arguments: &Arguments, fetched: &Fetched) -> Result<()> {
    if arguments.untar {
        let directory = arguments.destination.join(&arguments.untardir);
        return unpack(&directory, &fetched.content);
    }
    let directory = &arguments.destination;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let write = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&fetched.name, &fetched.content)?;
    match &fetched.provenance {
        Some(provenance) => write(&format!("{}.prov", fetched.name), provenance),
        None => Ok(()),
    }
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

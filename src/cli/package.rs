//! `helm-operator package`: packs charts into archives, as `helm package`.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use helm_engine::{Limits, check_version, load_directory, package};
use jiff::Timestamp;

use super::charts::LoginFlags;
use super::dependency;
use super::ignored::{ClientFlags, Ignored};
use super::output::{log, print};

/// Package a chart directory into a chart archive.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::PACKAGE, args_override_self = true, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// Directories of charts
    #[arg(value_name = "CHART_PATH", required = true)]
    paths: Vec<PathBuf>,

    /// set the version on the chart to this semver version
    #[arg(long)]
    version: Option<String>,

    /// set the appVersion on the chart to this version
    #[arg(long)]
    app_version: Option<String>,

    /// location to write the chart
    #[arg(short, long, default_value = ".")]
    destination: PathBuf,

    /// update dependencies from Chart.yaml to charts/ before packaging
    #[arg(short = 'u', long)]
    dependency_update: bool,

    #[arg(long, hide = true)]
    sign: bool,
    #[arg(long, hide = true)]
    key: Option<String>,
    #[arg(long, hide = true)]
    keyring: Option<Ignored>,
    #[arg(long, hide = true)]
    passphrase_file: Option<Ignored>,
    #[arg(long, hide = true)]
    debug: bool,
    #[arg(short, long, hide = true)]
    namespace: Option<Ignored>,

    #[command(flatten)]
    login: LoginFlags,

    #[command(flatten)]
    client: ClientFlags,
}

/// Packs each chart and says where its archive is.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.sign {
        match arguments.key.as_deref() {
            None | Some("") => bail!("--key is required for signing a package"),
            Some(_) => bail!(
                "packages are not signed here, since no private key is read; leave out --sign and \
                 sign the archive afterwards"
            ),
        }
    }
    let time = source_date_epoch()?;
    for path in &arguments.paths {
        let archive = pack(arguments, path, time)?;
        print(&format!(
            "Successfully packaged chart and saved it to: {}\n",
            archive.display()
        ))?;
    }
    Ok(())
}

/// The time that `SOURCE_DATE_EPOCH` asks every file to have, for archives that are equal byte for
/// byte.
fn source_date_epoch() -> anyhow::Result<Option<Timestamp>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    if text.is_empty() {
        return Ok(None);
    }
    let seconds: i64 = text
        .parse()
        .with_context(|| format!("invalid SOURCE_DATE_EPOCH {text:?}"))?;
    Ok(Some(Timestamp::from_second(seconds)?))
}

fn pack(arguments: &Arguments, path: &Path, time: Option<Timestamp>) -> anyhow::Result<PathBuf> {
    if !path.exists() {
        bail!("stat {}: no such file or directory", path.display());
    }
    if arguments.dependency_update {
        dependency::update_before(path, &arguments.login, true)?;
    }
    let loaded = load_directory(path, &Limits::default())?;
    log(&loaded.warnings);
    let mut chart = loaded.chart;
    if let Some(version) = arguments
        .version
        .as_ref()
        .filter(|version| !version.is_empty())
    {
        chart.metadata.version.clone_from(version);
    }
    if let Some(version) = arguments
        .app_version
        .as_ref()
        .filter(|version| !version.is_empty())
    {
        chart.metadata.app_version.clone_from(version);
    }
    check_version(&chart.metadata.version)?;
    chart.validate()?;
    let missing = chart.missing_dependencies();
    if !missing.is_empty() {
        bail!(
            "found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        );
    }
    let folder = if arguments.destination == Path::new(".") {
        std::env::current_dir().context("cannot find the working directory")?
    } else {
        arguments.destination.clone()
    };
    fs::create_dir_all(&folder).with_context(|| format!("mkdir {}", folder.display()))?;
    let name = format!("{}-{}.tgz", chart.name(), chart.metadata.version);
    let archive = folder.join(name);
    write(&chart, time, &archive).inspect_err(|_| {
        // Half an archive is worse than none.
        let _ = fs::remove_file(&archive);
    })?;
    Ok(archive)
}

fn write(
    chart: &helm_engine::Chart,
    time: Option<Timestamp>,
    archive: &Path,
) -> anyhow::Result<()> {
    let file = File::create(archive).with_context(|| format!("open {}", archive.display()))?;
    let mut out = BufWriter::new(file);
    package(chart, time, &mut out).context("failed to save")?;
    out.flush().context("failed to save")
}

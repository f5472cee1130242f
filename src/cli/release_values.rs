//! `helm-operator values`: what a HelmRelease's values come to, and where each of them comes from.

use anyhow::{Context, Result};
use clap::{ArgAction, Args};
use kube::Api;
use serde::Serialize;

use super::output::print;
use super::release::{ClusterFlags, Format, encode, encode_tree, runtime};
use super::table::table;
use crate::api::HelmRelease;
use crate::operator::{Composed, compose_with_origins};

/// Show the values of a HelmRelease object, all sources merged.
///
/// The sources are read as the daemon reads them, with your rights. With `--origin` the source that
/// set each value is shown instead of the value.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::VALUES)]
pub(crate) struct Arguments {
    /// Name of the HelmRelease object
    #[arg(value_name = "HELMRELEASE")]
    release: String,

    /// show which source set each value
    #[arg(long)]
    origin: bool,

    /// prints the values in the specified format (default: yaml, and with --origin a table)
    #[arg(short, long, value_enum)]
    output: Option<Format>,

    /// allow git URLs of local paths
    #[arg(long)]
    git_allow_local: bool,

    /// allow git URLs with http, as the daemon does by default
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    git_allow_http: bool,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Prints the values or their origins.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = runtime()?;
    let composed = runtime.block_on(composed(arguments));
    // A fetch that is still under way is not waited for.
    runtime.shutdown_background();
    let composed = composed?;
    let text = match (arguments.origin, arguments.output) {
        (true, None | Some(Format::Table)) => origins(&composed),
        (true, Some(format)) => encode(&origin_objects(&composed), format)?,
        (false, Some(Format::Json)) => encode_tree(&composed.values, Format::Json)?,
        (false, _) => encode_tree(&composed.values, Format::Yaml)?,
    };
    print(&text)
}

async fn composed(arguments: &Arguments) -> Result<Composed> {
    let config = arguments.cluster.config().await?;
    let namespace = arguments.cluster.namespace(&config);
    let parts =
        super::run::preview_parts(config, arguments.git_allow_local, arguments.git_allow_http)?;
    let releases: Api<HelmRelease> = Api::namespaced(parts.client.clone(), &namespace);
    let name = &arguments.release;
    let read = releases.get(name).await;
    let release = read.with_context(|| format!("reading HelmRelease {namespace}/{name}"))?;
    compose_with_origins(&parts.clusters, &parts.sources, &parts.settings, &release).await
}

/// A value's path and the source that has set it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct OriginObject<'a> {
    value: &'a str,
    source: &'a str,
}

fn origin_objects(composed: &Composed) -> Vec<OriginObject<'_>> {
    let origins = composed.origins.iter();
    origins
        .map(|(value, source)| OriginObject { value, source })
        .collect()
}

fn origins(composed: &Composed) -> String {
    let head = ["VALUE", "SOURCE"].map(str::to_owned);
    let rows = composed
        .origins
        .iter()
        .map(|(path, origin)| [path.clone(), origin.clone()]);
    let rows: Vec<[String; 2]> = [head].into_iter().chain(rows).collect();
    table(&rows)
}

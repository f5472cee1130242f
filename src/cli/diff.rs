//! `helm-operator diff`: what the next sync of a HelmRelease would change, secrets masked.

mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{ArgAction, Args};
use kube::Api;

use super::output::print;
use super::release::{ClusterFlags, runtime};
use crate::api::HelmRelease;
use crate::operator::{Preview, preview};

/// Show what the next sync of a HelmRelease object would change.
///
/// The chart is fetched and rendered as the daemon does it, with your rights, and compared with
/// what is recorded of the release. Data of Secrets are masked; the exit codes are those of
/// `kubectl diff`.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::DIFF)]
pub(crate) struct Arguments {
    /// Name of the HelmRelease object
    #[arg(value_name = "HELMRELEASE")]
    release: String,

    /// lines around each change
    #[arg(long, default_value_t = 3)]
    context: usize,

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

/// Prints the difference; the exit code tells whether there is one.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let differs = runtime().and_then(|runtime| {
        let differs = runtime.block_on(differs(arguments));
        // A fetch that is still under way is not waited for.
        runtime.shutdown_background();
        differs
    });
    match differs {
        Ok(differs) => ExitCode::from(u8::from(differs)),
        Err(error) => {
            // Nothing can be said if the terminal is gone.
            super::output::note(&format!("Error: {}", super::told(&error)));
            ExitCode::from(2)
        }
    }
}

async fn differs(arguments: &Arguments) -> Result<bool> {
    let config = arguments.cluster.config().await?;
    let namespace = arguments.cluster.namespace(&config);
    let parts =
        super::run::preview_parts(config, arguments.git_allow_local, arguments.git_allow_http)?;
    let releases: Api<HelmRelease> = Api::namespaced(parts.client.clone(), &namespace);
    let release = releases
        .get(&arguments.release)
        .await
        .with_context(|| format!("reading HelmRelease {namespace}/{}", arguments.release))?;
    let found = preview(&parts.clusters, &parts.sources, &parts.settings, &release).await?;
    let text = difference(&found, arguments.context)?;
    print(&text)?;
    Ok(!text.is_empty())
}

/// The difference of objects and hooks, recorded and rendered.
fn difference(found: &Preview, context: usize) -> Result<String> {
    let recorded = found.recorded.as_ref();
    let old = recorded.map(|release| text::stream(&release.manifest, &release.hooks));
    let new = text::stream(&found.rendered.manifest, &found.rendered.hooks);
    let old_name = recorded.map_or_else(String::new, |release| {
        format!("revision {}", release.revision)
    });
    text::diff(
        &old.unwrap_or_default(),
        &new,
        &old_name,
        &found.revision,
        context,
    )
}

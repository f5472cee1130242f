//! `helm-operator approve`: opens a `ManualApproval` gate.

use anyhow::{Context, Result, bail};
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::output::print;
use super::release::{ClusterFlags, runtime};
use crate::api::HelmRelease;
use crate::operator::approval_name;

/// Approve what waits at a ManualApproval gate of a HelmRelease object.
///
/// The approval is for the digest that waits now, and for no later change; it is kept in a ConfigMap
/// beside the object.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::APPROVE)]
pub(crate) struct Arguments {
    /// Name of the HelmRelease object
    #[arg(value_name = "HELMRELEASE")]
    release: String,

    /// approve this digest, be it the one that waits or not
    #[arg(long, value_name = "DIGEST", conflicts_with = "all_changes")]
    digest: Option<String>,

    /// approve every change from now on
    #[arg(long)]
    all_changes: bool,

    /// take an approval back
    #[arg(long, conflicts_with_all = ["digest", "all_changes"])]
    revoke: bool,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Writes the approval and prints what was approved.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    runtime()?.block_on(approve(arguments))
}

async fn approve(arguments: &Arguments) -> Result<()> {
    let config = arguments.cluster.config().await?;
    let namespace = arguments.cluster.namespace(&config);
    let client = Client::try_from(config).context("making a client")?;
    let name = &arguments.release;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let map = approval_name(name);
    if arguments.revoke {
        let data = json!({"approved": "false"});
        apply(&maps, &map, data).await?;
        return print(&format!("approval of {namespace}/{name} taken back\n"));
    }
    if arguments.all_changes {
        apply(&maps, &map, json!({"approved": "true"})).await?;
        return print(&format!("every change of {namespace}/{name} approved\n"));
    }
    let digest = match &arguments.digest {
        Some(digest) => digest.clone(),
        None => waiting(client, &namespace, name).await?,
    };
    apply(&maps, &map, json!({"approved": "true", "digest": digest})).await?;
    print(&format!("{digest} of {namespace}/{name} approved\n"))
}

/// The digest that waits.
async fn waiting(client: Client, namespace: &str, name: &str) -> Result<String> {
    let releases: Api<HelmRelease> = Api::namespaced(client, namespace);
    let read = releases.get(name).await;
    let release = read.with_context(|| format!("reading HelmRelease {namespace}/{name}"))?;
    match release.status.and_then(|status| status.waiting_digest) {
        Some(digest) => Ok(digest),
        None => bail!(
            "nothing of HelmRelease {namespace}/{name} waits for approval: give --digest to approve ahead"
        ),
    }
}

/// Writes the whole approval: what an earlier one said is gone.
async fn apply(maps: &Api<ConfigMap>, name: &str, data: serde_json::Value) -> Result<()> {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let params = PatchParams::apply("helm-operator-approve").force();
    maps.patch(name, &params, &Patch::Apply(&map))
        .await
        .context("writing the approval")?;
    Ok(())
}

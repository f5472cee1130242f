//! A control plane, a git server and the daemon between them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::controlplane::ControlPlane;
use crate::daemon::{Daemon, DaemonOptions};
use crate::git::{GitOptions, GitServer};
use crate::process::LOOK_AGAIN;
use crate::tools::repository;

/// A control plane with the CRD, a git server, and a daemon that is ready.
#[derive(Debug)]
pub struct Rig<'a> {
    /// The control plane.
    pub plane: &'a ControlPlane,
    /// The git server.
    pub git: GitServer,
    /// The daemon.
    pub daemon: Daemon,
}

impl<'a> Rig<'a> {
    /// Applies the CRD, and starts a git server and a daemon as administrator, with these flags besides those that let
    /// it use a git server on loopback.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn start(
        plane: &'a ControlPlane,
        binary: impl Into<PathBuf>,
        flags: &[&str],
    ) -> Result<Self> {
        Self::start_with(
            plane,
            DaemonOptions::local(binary, plane.kubeconfig(), flags),
        )
    }

    /// The same with other ways to the API server or other variables of the environment.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn start_with(plane: &'a ControlPlane, options: DaemonOptions) -> Result<Self> {
        apply_crd(plane)?;
        let git = GitServer::start(GitOptions::default())?;
        let daemon = Daemon::start(options)?;
        Ok(Self { plane, git, daemon })
    }

    /// Applies a manifest in a namespace, server-side.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn apply(&self, namespace: &str, manifest: &str) -> Result<String> {
        apply(self.plane, namespace, manifest)
    }

    /// A HelmRelease as it is now.
    ///
    /// # Errors
    /// When there is none.
    pub fn release(&self, namespace: &str, name: &str) -> Result<Value> {
        let base = "/apis/helm.fluxcd.io/v1/namespaces";
        self.plane
            .get(&format!("{base}/{namespace}/helmreleases/{name}"))
    }

    /// Waits until a HelmRelease is such that `enough` holds, and returns it.
    ///
    /// # Errors
    /// When it does not hold after `limit`: then with the HelmRelease, its Events and the end of the daemon's log.
    pub fn wait_for(
        &self,
        namespace: &str,
        name: &str,
        limit: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let end = Instant::now() + limit;
        loop {
            let release = self.release(namespace, name)?;
            if enough(&release) {
                return Ok(release);
            }
            if Instant::now() > end {
                bail!(
                    "waited {limit:?} in vain for {namespace}/{name}\n{}",
                    self.story(&release)
                );
            }
            // The API server is asked, not the daemon: often enough for a person, seldom enough for two cores.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a HelmRelease is `Ready` at its newest generation.
    ///
    /// # Errors
    /// As [`Rig::wait_for`].
    pub fn wait_until_ready(&self, namespace: &str, name: &str, limit: Duration) -> Result<Value> {
        self.wait_for(namespace, name, limit, is_ready)
    }

    fn story(&self, release: &Value) -> String {
        let namespace = release
            .pointer("/metadata/namespace")
            .and_then(Value::as_str);
        let events = namespace.and_then(|namespace| {
            self.plane
                .get(&format!("/api/v1/namespaces/{namespace}/events"))
                .ok()
        });
        let events = events.as_ref().and_then(|list| list["items"].as_array());
        let lines: Vec<String> = events
            .into_iter()
            .flatten()
            .map(|event| format!("{} {}", event["reason"], event["message"]))
            .collect();
        let log = self.daemon.log();
        let log: Vec<&str> = log.lines().collect();
        let tail = log[log.len().saturating_sub(40)..].join("\n");
        format!(
            "status: {:#}\nevents:\n{}\nlog:\n{tail}",
            release["status"],
            lines.join("\n")
        )
    }
}

/// Applies `crds/helmreleases.yaml` and waits until it is served.
///
/// # Errors
/// When the API server refuses it.
pub fn apply_crd(plane: &ControlPlane) -> Result<()> {
    let file = repository().join("crds/helmreleases.yaml");
    let mut apply = plane.kubectl()?;
    apply
        .args(["apply", "--server-side", "--filename"])
        .arg(file);
    crate::run(&mut apply)?;
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/helmreleases.helm.fluxcd.io";
    let end = Instant::now() + Duration::from_secs(30);
    while !is_established(&plane.get(path)?) {
        if Instant::now() > end {
            bail!("the CRD was not established within 30 s");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// A definition that is new has no conditions at all.
fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Applies a manifest in a namespace, server-side, and returns what kubectl says.
///
/// # Errors
/// When the API server refuses.
pub fn apply(plane: &ControlPlane, namespace: &str, manifest: &str) -> Result<String> {
    let mut command = plane.kubectl()?;
    command.args([
        "apply",
        "--server-side",
        "--namespace",
        namespace,
        "--filename=-",
    ]);
    with_input(&mut command, manifest)
}

fn with_input(command: &mut Command, input: &str) -> Result<String> {
    // A file, not a pipe: nobody has to write while the program runs.
    let mut file = tempfile::tempfile().context("making a temporary file")?;
    std::io::Write::write_all(&mut file, input.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    crate::run(command.stdin(Stdio::from(file)))
}

/// Whether an object is `Ready` at its newest generation, by its conditions.
#[must_use]
pub fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && (condition["observedGeneration"].is_null()
                || condition["observedGeneration"] == *generation)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ready_counts_at_the_newest_generation_only() {
        let object = |status: &str, observed: Value| {
            json!({
                "metadata": { "generation": 3 },
                "status": { "conditions": [
                    { "type": "Released", "status": "True" },
                    { "type": "Ready", "status": status, "observedGeneration": observed },
                ] },
            })
        };
        assert!(is_ready(&object("True", json!(3))));
        assert!(is_ready(&object("True", Value::Null)));
        assert!(!is_ready(&object("True", json!(2))));
        assert!(!is_ready(&object("False", json!(3))));
        assert!(!is_ready(&json!({ "metadata": { "generation": 1 } })));
    }
}

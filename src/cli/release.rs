//! What the verbs on releases share: the cluster they talk to, and how they print.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use goyaml::Tree;
use helm_kube::{
    Cluster, ClusterOptions, Driver, History, Options, RecoverContext, RecoveryPlan, ReleaseKey,
    WaitFor, history, recover,
};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Serialize;

/// Which cluster, and which namespace of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterFlags {
    /// namespace scope for this request
    #[arg(short, long, env = "HELM_NAMESPACE")]
    namespace: Option<String>,

    /// path to the kubeconfig file
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,

    /// name of the kubeconfig context to use
    #[arg(long, value_name = "CONTEXT", env = "HELM_KUBECONTEXT")]
    kube_context: Option<String>,

    /// what keeps the records of releases
    #[arg(long, env = "HELM_DRIVER", default_value = "secret", value_parser = parse_driver)]
    storage_driver: Driver,
}

fn parse_driver(text: &str) -> Result<Driver, String> {
    match text {
        "" | "secret" | "secrets" => Ok(Driver::Secret),
        "configmap" | "configmaps" => Ok(Driver::ConfigMap),
        other => Err(format!(
            "unknown driver {other:?}: secret and configmap are possible"
        )),
    }
}

/// How long a wait may take.
#[derive(Args, Clone, Debug)]
pub(crate) struct TimeoutFlag {
    /// time to wait for any individual Kubernetes operation, such as 5m0s
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// How an action is waited for.
#[derive(Args, Clone, Debug)]
pub(crate) struct ActionFlags {
    #[command(flatten)]
    timeout: TimeoutFlag,

    /// wait until everything is ready, or gone
    #[arg(long)]
    wait: bool,

    /// prevent hooks from running during the operation
    #[arg(long)]
    no_hooks: bool,
}

/// A duration as Go writes it, or a number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("time: invalid duration {text:?}"))?;
    Duration::try_from(span).map_err(|_| format!("time: negative duration {text:?}"))
}

/// The form in which something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

/// A cluster, and a release in it.
pub(crate) struct Session {
    pub(crate) cluster: Cluster,
    pub(crate) release: ReleaseKey,
    pub(crate) options: Options,
}

/// Runs a verb that talks to a cluster.
pub(crate) fn with_cluster<F>(
    flags: &ClusterFlags,
    name: &str,
    work: impl FnOnce(Session) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    runtime()?.block_on(async {
        let session = Session::open(flags, name).await?;
        work(session).await
    })
}

/// A runtime, and the one provider of TLS.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    // Another provider can only be there if this was called before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("starting the runtime")
}

impl Session {
    async fn open(flags: &ClusterFlags, name: &str) -> Result<Self> {
        super::chart::check_release_name(name)
            .map_err(|_| anyhow!("release name is invalid: {name}"))?;
        let config = flags.config().await?;
        let namespace = flags.namespace(&config);
        Ok(Self {
            cluster: Cluster::connect(config, ClusterOptions::default())
                .context("making a client")?,
            release: ReleaseKey::new(name, namespace),
            options: Options {
                driver: flags.storage_driver,
                holder: holder(),
                ..Options::default()
            },
        })
    }

    /// Reads the history; a release without one is an error in Helm's words.
    pub(crate) async fn history(&self) -> Result<History> {
        let found = self.any_history().await?;
        if found.is_empty() {
            bail!("release: not found");
        }
        Ok(found)
    }

    /// Reads the history, which may be empty.
    pub(crate) async fn any_history(&self) -> Result<History> {
        let read = history(self.release.clone(), self.options.driver);
        Ok(self.cluster.run(read).await?)
    }

    /// What is to be mended before an action. A person has asked for it, so that nobody else's
    /// pending revision is waited for: a client that still works on it notices, and stops.
    pub(crate) fn plan(&self, history: &History) -> RecoveryPlan {
        recover(
            history,
            &RecoverContext {
                now: Timestamp::now(),
                holder: &self.options.holder,
                digest: None,
                patience: Duration::ZERO,
            },
        )
    }

    /// The options of an action.
    pub(crate) fn options(&self, flags: &ActionFlags) -> Options {
        Options {
            timeout: flags.timeout.timeout,
            wait: if flags.wait {
                WaitFor::Ready
            } else {
                WaitFor::Nothing
            },
            hooks: !flags.no_hooks,
            ..self.options.clone()
        }
    }
}

impl ClusterFlags {
    /// The namespace that was asked for, or that of the kubeconfig.
    pub(super) fn namespace(&self, config: &kube::Config) -> String {
        let given = self.namespace.clone();
        given.unwrap_or_else(|| config.default_namespace.clone())
    }

    pub(super) async fn config(&self) -> Result<kube::Config> {
        if self.kubeconfig.is_none() && self.kube_context.is_none() {
            return kube::Config::infer()
                .await
                .context("kubernetes cluster unreachable");
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions {
            context: self.kube_context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = kube::Config::from_custom_kubeconfig(
            kubeconfig.context("reading the kubeconfig")?,
            &options,
        );
        config.await.context("kubernetes cluster unreachable")
    }
}

/// Nobody else has this name, so that a daemon lets us finish.
fn holder() -> String {
    format!(
        "helm-operator-cli/{}/{}",
        std::process::id(),
        Timestamp::now().as_nanosecond()
    )
}

/// A time as Go's `time.ANSIC`: `Mon Jan _2 15:04:05 2006`.
pub(crate) fn ansic(time: Option<Timestamp>) -> String {
    let time = time.unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    time.strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// A value as JSON on one line with the escapes of Go, or as YAML with sorted keys.
pub(crate) fn encode(value: &impl Serialize, format: Format) -> Result<String> {
    let json = serde_json::to_string(value)?;
    if format == Format::Yaml {
        let tree = goyaml::read_json(json.as_bytes())?;
        return encode_tree(&tree, format);
    }
    // These can only stand inside of strings.
    let escaped = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    Ok(escaped + "\n")
}

/// A tree as JSON on one line, or as YAML.
pub(crate) fn encode_tree(tree: &Tree, format: Format) -> Result<String> {
    let mut bytes = match format {
        Format::Yaml => goyaml::to_yaml_tree(tree)?,
        _ => goyaml::to_json_tree(tree)?,
    };
    if format != Format::Yaml {
        bytes.push(b'\n');
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [("5m0s", 300), ("90s", 90), ("1h2m", 3720), ("7", 7)] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert!(
            parse_duration("soon")
                .unwrap_err()
                .contains("invalid duration")
        );
        assert!(parse_duration("-5s").is_err());
    }

    #[test]
    fn times_are_printed_as_go_prints_them() {
        let time = "2026-03-04T05:06:07Z".parse().ok();
        assert_eq!(ansic(time), "Wed Mar  4 05:06:07 2026");
    }
}

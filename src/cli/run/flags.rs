//! The flags of the daemon: all of 1.4, and those that it did not have.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use secrecy::SecretString;

use crate::gitsync::Schedule;
use crate::operator::Shard;

/// Reads a Go duration: `3m`, `90s`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = crate::api::Duration::parse(text).map_err(|error| error.to_string())?;
    Ok(parsed.get())
}

/// Reads a Go duration or a cron expression.
fn schedule(text: &str) -> Result<Schedule, String> {
    match duration(text) {
        Ok(interval) => Schedule::every(interval).map_err(|error| error.to_string()),
        Err(_) if text.contains(' ') => Schedule::cron(text).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    }
}

/// Reads `:3030` and `127.0.0.1:3030`.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') {
        format!("[::]{text}")
    } else {
        text.to_owned()
    };
    let invalid = |_| format!("{text:?} is no address: write it as :3030 or 127.0.0.1:3030");
    whole.parse().map_err(invalid)
}

/// Reads `2/3`: the second of three shards.
fn shard(text: &str) -> Result<Shard, String> {
    let parsed = text.split_once('/').and_then(|(index, count)| {
        Some(Shard {
            index: index.parse().ok()?,
            count: count.parse().ok()?,
        })
    });
    parsed
        .filter(|shard| (1..=shard.count).contains(&shard.index))
        .ok_or_else(|| format!("{text:?} is no shard: write it as 1/3, 2/3, 3/3"))
}

/// Runs the daemon.
///
/// Of a flag that is given twice the last one counts, as in 1.4: manifests are patched by appending.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(in crate::cli) struct Flags {
    /// Format of the logs: fmt (logfmt) or json.
    #[arg(long, default_value = "fmt")]
    pub(super) log_format: String,
    /// Level of the logs: error, warn, info, debug, trace, or directives.
    #[arg(long, env = "HELM_OPERATOR_LOG", default_value = "info")]
    pub(super) log_level: String,
    /// Path of a kubeconfig; in a cluster none is needed.
    #[arg(long, default_value = "")]
    pub(super) kubeconfig: String,
    /// URL of the API server, instead of that of the kubeconfig.
    #[arg(long, default_value = "")]
    pub(super) master: String,
    /// Watch this namespace only; all when empty.
    #[arg(long, default_value = "")]
    pub(super) allow_namespace: String,
    /// Watch only HelmReleases with these labels.
    #[arg(long, default_value = "")]
    pub(super) watch_label_selector: String,
    /// How long a watch stays open before it is made anew: one whose connection was lost without a
    /// word is noticed by then.
    #[arg(long, value_parser = duration, default_value = "1m")]
    pub(super) watch_timeout: Duration,
    /// Work on a part of the releases, by hash of namespace and name: I/N.
    #[arg(long, value_parser = shard, default_value = "1/1")]
    pub(super) shard: Shard,
    /// How many releases are worked on at a time; those that wait do not count.
    #[arg(long, default_value_t = 2)]
    pub(super) workers: usize,
    /// Address of the HTTP server.
    #[arg(long, short = 'l', value_parser = listen, default_value = ":3030")]
    pub(super) listen: SocketAddr,
    /// How often each release is verified when nothing tells of a change.
    #[arg(long, value_parser = duration, default_value = "3m")]
    pub(super) charts_sync_interval: Duration,
    /// How often statuses are refreshed from the release records.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub(super) status_update_interval: Duration,
    /// Log what differs when a release is upgraded; values, and so secrets, are never logged.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(super) log_release_diffs: bool,
    /// Resolve the dependencies of git charts.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(super) update_chart_deps: bool,
    /// How long a git remote may send nothing.
    #[arg(long, value_parser = duration, default_value = "20s")]
    pub(super) git_timeout: Duration,
    /// How often git remotes are polled: a duration, or a cron expression in UTC ("*/5 * * * *").
    #[arg(long, value_parser = schedule, default_value = "5m")]
    pub(super) git_poll_interval: Schedule,
    /// Proxy for git over http(s): http://[USER:PASSWORD@]HOST:PORT; else that of the environment.
    #[arg(long, env = "HELM_OPERATOR_GIT_PROXY", hide_env_values = true)]
    pub(super) git_proxy: Option<SecretString>,
    /// Certificates (PEM) to trust for git over https, besides those of the system.
    #[arg(long)]
    pub(super) git_ca_file: Option<PathBuf>,
    /// Bytes that all git mirrors together may take on disk.
    #[arg(long, default_value_t = 10 << 30)]
    pub(super) git_cache_bytes: u64,
    /// Secrets of push webhooks: a file with one a line, or a directory with a file for each
    /// provider (github, gitlab, gitea, bitbucket, generic) or one named secret for all. Without
    /// it, hooks are refused.
    #[arg(long)]
    pub(super) hook_secrets: Option<PathBuf>,
    /// Ref of git charts that name none; HEAD is the default branch of the remote.
    #[arg(long, default_value = "HEAD")]
    pub(super) git_default_ref: String,
    /// Allow git over plain http.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(super) git_allow_http: bool,
    /// Allow git remotes on this machine: for development.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(super) git_allow_local: bool,
    /// Directory of git mirrors and chart caches.
    #[arg(long, env = "HELM_OPERATOR_CACHE_DIR")]
    pub(super) cache_dir: Option<PathBuf>,
    /// Directory of lock files.
    #[arg(long)]
    pub(super) lock_dir: Option<PathBuf>,
    /// Import Helm repositories and their credentials from files: VERSION:PATH.
    #[arg(long, value_delimiter = ',')]
    pub(super) helm_repository_import: Vec<String>,
    /// OCI registries (host or host:port) that speak http: for registries on this machine.
    #[arg(long, value_delimiter = ',')]
    pub(super) plain_http_registries: Vec<String>,
    /// Helm versions; only v3 is served.
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELM_VERSION",
        default_value = "v3"
    )]
    pub(super) enabled_helm_versions: Vec<String>,
    /// Refuse references into other namespaces.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(super) no_cross_namespace_refs: bool,
    /// ServiceAccount that releases which name none are deployed as.
    #[arg(long, default_value = "")]
    pub(super) default_service_account: String,
    /// Work only while holding a Lease, so that more than one replica may run.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(super) leader_election: bool,
    /// Namespace of the Lease; the pod's own when empty.
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub(super) leader_election_namespace: String,
    /// Address of this replica, which its Lease tells the others, so that a push webhook that reaches
    /// them is passed on.
    #[arg(long, env = "POD_IP")]
    pub(super) pod_ip: Option<std::net::IpAddr>,
    /// How long others believe in a leader that they do not hear of.
    #[arg(long, value_parser = duration, default_value = "15s")]
    pub(super) leader_election_lease_duration: Duration,
    /// How long a leader that cannot renew its Lease goes on: shorter than the lease.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub(super) leader_election_renew_deadline: Duration,
    /// Time between two tries to take or renew the Lease.
    #[arg(long, value_parser = duration, default_value = "2s")]
    pub(super) leader_election_retry_period: Duration,
    /// How long waits may go on after SIGTERM.
    #[arg(long, value_parser = duration, default_value = "20s")]
    pub(super) shutdown_grace: Duration,
    /// Serve CPU and heap profiles at /debug/pprof, to the machine itself; needs a build with the
    /// feature profiling.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(super) profiling: bool,
    #[command(flatten)]
    pub(super) webhook: Webhook,
    #[command(flatten)]
    pub(super) helm_2: Helm2,
}

/// The validating webhook.
#[derive(Debug, Args)]
pub(super) struct Webhook {
    /// Address of the validating webhook, such as :9443; without it there is none.
    #[arg(long, value_parser = listen)]
    pub(super) webhook_listen: Option<SocketAddr>,
    /// Directory with tls.crt and tls.key for the webhook, as cert-manager's Secrets are mounted; without
    /// it the daemon makes them itself.
    #[arg(long)]
    pub(super) webhook_cert_dir: Option<PathBuf>,
    /// Service by which the API server calls the webhook, in the namespace of the Lease.
    #[arg(long, default_value = "helm-operator-webhook")]
    pub(super) webhook_service: String,
    /// Secret with the certificate that the daemon makes, in the namespace of the Lease.
    #[arg(long, default_value = "helm-operator-webhook")]
    pub(super) webhook_secret: String,
    /// ValidatingWebhookConfiguration that is told whom to trust.
    #[arg(long, default_value = "helm-operator")]
    pub(super) webhook_configuration: String,
    /// How long a certificate that the daemon makes lasts; it is renewed when a third of that is left.
    #[arg(long, value_parser = duration, default_value = "2160h")]
    pub(super) webhook_cert_lifetime: Duration,
}

/// Flags of 1.4 for Helm 2 and Tiller. They are accepted and have no effect.
#[derive(Debug, Args)]
pub(super) struct Helm2 {
    #[arg(long, hide = true)]
    tiller_ip: Option<String>,
    #[arg(long, hide = true)]
    tiller_port: Option<String>,
    #[arg(long, hide = true)]
    tiller_namespace: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tiller_tls_enable: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tiller_tls_verify: Option<String>,
    #[arg(long, hide = true)]
    tiller_tls_key_path: Option<String>,
    #[arg(long, hide = true)]
    tiller_tls_cert_path: Option<String>,
    #[arg(long, hide = true)]
    tiller_tls_ca_cert_path: Option<String>,
    #[arg(long, hide = true)]
    tiller_tls_hostname: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    convert_tiller_out_cluster: Option<String>,
    #[arg(long, hide = true)]
    convert_release_storage: Option<String>,
}

impl Helm2 {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        [
            ("--tiller-ip", &self.tiller_ip),
            ("--tiller-port", &self.tiller_port),
            ("--tiller-namespace", &self.tiller_namespace),
            ("--tiller-tls-enable", &self.tiller_tls_enable),
            ("--tiller-tls-verify", &self.tiller_tls_verify),
            ("--tiller-tls-key-path", &self.tiller_tls_key_path),
            ("--tiller-tls-cert-path", &self.tiller_tls_cert_path),
            ("--tiller-tls-ca-cert-path", &self.tiller_tls_ca_cert_path),
            ("--tiller-tls-hostname", &self.tiller_tls_hostname),
            (
                "--convert-tiller-out-cluster",
                &self.convert_tiller_out_cluster,
            ),
            ("--convert-release-storage", &self.convert_release_storage),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|_| name))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(arguments: &[&str]) -> Result<Flags, clap::Error> {
        let all = ["helm-operator"].iter().chain(arguments);
        Cli::try_parse_from(all).map(|cli| cli.flags)
    }

    /// The table of flags of 1.4, each as its manifests write it.
    #[test]
    fn every_flag_of_1_4_is_accepted() {
        let flags = parse(&[
            "--log-format=json",
            "--kubeconfig=/root/.kube/config",
            "--master=https://127.0.0.1:6443",
            "--allow-namespace=demo",
            "--workers=4",
            "--listen=:3031",
            "--charts-sync-interval=1m30s",
            "--status-update-interval=30s",
            "--log-release-diffs",
            "--update-chart-deps=false",
            "--git-timeout=20s",
            "--git-poll-interval=5m",
            "--git-default-ref=main",
            "--helm-repository-import=v2:/a,v3:/b",
            "--helm-repository-import=v3:/c",
            "--enabled-helm-versions=v2,v3",
            "--tiller-ip=10.0.0.1",
            "--tiller-port=44134",
            "--tiller-namespace=kube-system",
            "--tiller-tls-enable",
            "--tiller-tls-verify=true",
            "--tiller-tls-key-path=/k",
            "--tiller-tls-cert-path=/c",
            "--tiller-tls-ca-cert-path=/ca",
            "--tiller-tls-hostname=h",
            "--convert-tiller-out-cluster",
            "--convert-release-storage=secrets",
        ])
        .unwrap();
        assert_eq!(flags.listen.port(), 3031);
        assert_eq!(flags.charts_sync_interval, Duration::from_secs(90));
        assert!(flags.log_release_diffs && !flags.update_chart_deps);
        assert_eq!(flags.helm_repository_import, ["v2:/a", "v3:/b", "v3:/c"]);
        assert_eq!(flags.helm_2.given().len(), 11);
    }

    #[test]
    fn the_last_of_a_flag_counts_and_lists_add_up() {
        let twice = [
            "--workers=2",
            "--workers=4",
            "--log-release-diffs",
            "--log-release-diffs=false",
        ];
        let flags = parse(&twice).unwrap();
        assert!(flags.workers == 4 && !flags.log_release_diffs);
        let imports = [
            "--helm-repository-import=v3:/a",
            "--helm-repository-import=v3:/b",
        ];
        assert_eq!(parse(&imports).unwrap().helm_repository_import.len(), 2);
    }

    #[test]
    fn defaults_are_those_of_1_4() {
        let flags = parse(&[]).unwrap();
        assert_eq!((flags.workers, flags.listen.port()), (2, 3030));
        assert_eq!(flags.charts_sync_interval, Duration::from_secs(180));
        assert_eq!(flags.status_update_interval, Duration::from_secs(10));
        assert_eq!(flags.git_timeout, Duration::from_secs(20));
        let five_minutes = Duration::from_secs(300);
        assert!(matches!(flags.git_poll_interval, Schedule::Every(every) if every == five_minutes));
        // The one that differs: a remote knows its default branch better than a flag.
        assert_eq!(flags.git_default_ref, "HEAD");
        assert!(flags.update_chart_deps && !flags.log_release_diffs);
        assert!(flags.helm_2.given().is_empty());
    }

    #[test]
    fn a_wrong_flag_says_how_it_is_written() {
        for (arguments, hint) in [
            (["--charts-sync-interval=5"], "write it as 90s"),
            (["--shard=4/3"], "write it as 1/3"),
            (["--listen=3030"], "write it as :3030"),
        ] {
            let error = parse(&arguments).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}

//! `helm-operator run`: the daemon.

mod disk;
mod flags;
mod lean;
mod webhook;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use axum::middleware::from_fn_with_state;
use futures::future::BoxFuture;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use disk::Disk;
pub(super) use flags::Flags;

use crate::admission::{Identity, Reviewer};
use crate::api::SourceUrl;
use crate::gitsync::{
    DaemonCredentials, Limits, MirrorState, Mirrors, Options as GitOptions, Policy,
};
use crate::lock::{LeaderLease, Leadership, LeaseSettings};
use crate::operator::{ClusterSecrets, Clusters, Operator, Parts, Settings, Stopped};
use crate::server::{
    Health, Hooks, ServerState, ToLeader, debug_routes, hook_routes, routes, serve, sources_routes,
    to_leader,
};
use crate::source::{Charts, ImportedRepository, RepositoryOptions, SecretReader, Sources, import};
use crate::telemetry::{LogFormat, LogHandle, Metrics, MirrorMetrics, Traces, init_logs};
use crate::watch::{Caches, Scope};

/// Runs the daemon until it is told to stop.
pub(super) fn run(flags: &Flags) -> Result<()> {
    lean::start_again();
    let traces = Traces::from_environment(super::version::VERSION).map_err(anyhow::Error::msg)?;
    let format = LogFormat::from(flags.log_format.as_str());
    let logs = init_logs(format, &flags.log_level, &traces)
        .map_err(|error| anyhow::anyhow!("{error}: --log-level"))?;
    if traces.is_missing() {
        tracing::warn!("no traces are sent: this build is without the feature otel");
    }
    install_tls()?;
    warn_of_old_flags(flags);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let result = runtime.block_on(daemon(flags, logs));
    // Blocking work, such as a fetch that hangs, is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Chooses one TLS provider for every connection; the first to ask would choose otherwise.
pub(super) fn install_tls() -> Result<()> {
    match rustls::crypto::aws_lc_rs::default_provider().install_default() {
        Ok(()) => Ok(()),
        Err(_) => bail!("a TLS provider was installed before ours"),
    }
}

fn warn_of_old_flags(flags: &Flags) {
    let mut old: Vec<String> = flags
        .helm_2
        .given()
        .into_iter()
        .map(|flag| flag.to_owned())
        .collect();
    if flags
        .enabled_helm_versions
        .iter()
        .any(|version| version == "v2")
    {
        old.push("--enabled-helm-versions v2".to_owned());
    }
    if !old.is_empty() {
        tracing::warn!(
            "Helm 2 and Tiller are not served any more: {} has no effect",
            old.join(", ")
        );
    }
    for version in &flags.enabled_helm_versions {
        if version != "v2" && version != "v3" {
            tracing::error!(
                "unknown Helm version {version:?} in --enabled-helm-versions is skipped"
            );
        }
    }
}

async fn daemon(flags: &Flags, logs: LogHandle) -> Result<()> {
    let mut stop = Stop::listen()?;
    let config = config(flags).await?;
    let plain = Client::try_from(config.clone()).context("making a client")?;
    let repositories = imported(&flags.helm_repository_import);
    let Some(disk) = disk::open(flags, &plain, &repositories, &mut stop).await? else {
        return Ok(());
    };
    let Disk {
        locks,
        identity,
        sources,
    } = disk;
    let instance = identity.name().to_owned();
    let namespace = match flags.leader_election_namespace.as_str() {
        "" => config.default_namespace.clone(),
        namespace => namespace.to_owned(),
    };
    let lease = lease_settings(flags, &namespace, &instance);
    lease.check().map_err(anyhow::Error::msg)?;
    let holder = format!("helm-operator/{}/{}", lease.namespace, lease.name);
    let (election, leadership) = election(flags, &plain, lease);
    let clusters = Clusters::new(config, leadership.clone()).context("making a client")?;
    let metrics = Metrics::new();
    let health = Arc::<Health>::default();
    let served = Identity::default();
    let state = ServerState {
        metrics: metrics.clone(),
        health: Arc::clone(&health),
        before_scrape: show_at_scrape(&metrics, sources.mirrors(), &served),
        sync_git: sync_git(sources.mirrors()),
    };
    let pages = routes(state).merge(more_routes(flags, sources.mirrors(), logs));
    let server = start_server(flags.listen, pages, leadership.clone()).await?;
    let scope = scope(flags);
    let settings = Settings {
        aliases: aliases(&repositories),
        ..settings(flags, holder, scope.clone())
    };
    let reviewer = Reviewer {
        settings: settings.clone(),
        sources: sources.clone(),
        metrics: metrics.clone(),
    };
    let webhook = webhook::Parts {
        client: plain,
        leadership: leadership.clone(),
        reviewer,
        identity: served,
    };
    let webhook = webhook::start(&flags.webhook, &namespace, webhook).await?;
    let (caches, changes) = Caches::start(clusters.objects(), &scope);
    let parts = Parts {
        settings,
        clusters,
        caches,
        changes,
        sources,
        locks,
        metrics,
        instance,
    };
    tracing::info!(version = super::version::VERSION, "starting operator");
    let operator = Operator::new(parts).context("making a client for values")?;
    let election = election.map(|election| Background::start(|stopped| election.run(stopped)));
    let on_filled = move || health.set_caches_filled(true);
    let why = operator.run(leadership, stop.asked(), on_filled).await;
    drop(webhook);
    // The Lease goes last: until then nobody else may work.
    if let Some(election) = election {
        election.end().await;
    }
    server.end().await;
    drop(identity);
    ended(why)
}

fn ended(why: Stopped) -> Result<()> {
    match why {
        Stopped::Asked => {
            tracing::info!("stopped");
            Ok(())
        }
        Stopped::LeadershipLost => {
            bail!("leadership was lost: a restart takes part in the election again")
        }
        Stopped::Died(words) => {
            bail!("{words}: a fault of the daemon, which a restart mends: please report it")
        }
    }
}

/// The election of a leader; none where every replica leads.
fn election(
    flags: &Flags,
    client: &Client,
    lease: LeaseSettings,
) -> (Option<LeaderLease>, Leadership) {
    if !flags.leader_election {
        return (None, Leadership::always());
    }
    let (election, leadership) = LeaderLease::new(client.clone(), lease);
    (Some(election), leadership)
}

/// Serves pages; what only the leader can answer is handed on to it.
async fn start_server(
    address: SocketAddr,
    pages: axum::Router,
    leadership: Leadership,
) -> Result<Background> {
    let others = ToLeader::new(leadership).context("making a client")?;
    let pages = pages.layer(from_fn_with_state(others, to_leader));
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("listening on {address}"))?;
    tracing::info!("starting HTTP server on {address}");
    Ok(Background::start(|stopped| serve(listener, pages, stopped)))
}

/// Work beside the operator, until it is told to end.
struct Background {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Background {
    /// Starts `work`, which ends when what it is given is ready.
    fn start<W, F>(work: F) -> Self
    where
        W: Future<Output: Send> + Send + 'static,
        F: FnOnce(BoxFuture<'static, ()>) -> W,
    {
        let (stop, stopped) = oneshot::channel();
        let work = work(Box::pin(async move {
            stopped.await.ok();
        }));
        let task = tokio::spawn(async move {
            work.await;
        });
        Self { stop, task }
    }

    async fn end(self) {
        self.stop.send(()).ok();
        self.task.await.ok();
    }
}

/// What `POST /api/v1/sync-git` does.
fn sync_git(mirrors: &Mirrors) -> crate::server::Hook {
    let mirrors = mirrors.clone();
    Arc::new(move || {
        tracing::info!("starting sync of git mirror(s)");
        mirrors.sync_now(None);
    })
}

/// What the server has besides the routes of 1.4.
fn more_routes(flags: &Flags, mirrors: &Mirrors, logs: LogHandle) -> axum::Router {
    let polled = mirrors.clone();
    let hooks = Hooks::new(
        flags.hook_secrets.clone(),
        Arc::new(move |url| polled.sync_now(url)),
    );
    hook_routes(hooks)
        .merge(sources_routes(mirrors.clone()))
        .merge(debug_routes(logs))
        .merge(profiles(flags.profiling))
}

#[cfg(feature = "profiling")]
fn profiles(wanted: bool) -> axum::Router {
    let routes = wanted.then(crate::server::profile_routes);
    routes.unwrap_or_default()
}

#[cfg(not(feature = "profiling"))]
fn profiles(wanted: bool) -> axum::Router {
    if wanted {
        tracing::warn!("no profiles are served: this build is without the feature profiling");
    }
    axum::Router::new()
}

/// SIGTERM and SIGINT.
struct Stop {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("listening to signals");
        Ok(Self {
            term: listen(SignalKind::terminate())?,
            int: listen(SignalKind::interrupt())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

async fn config(flags: &Flags) -> Result<Config> {
    let mut config = if flags.kubeconfig.is_empty() {
        Config::infer()
            .await
            .context("finding the cluster: give --kubeconfig outside of one")?
    } else {
        let kubeconfig = Kubeconfig::read_from(&flags.kubeconfig)
            .with_context(|| format!("reading {}", flags.kubeconfig))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("using {}", flags.kubeconfig))?
    };
    if !flags.master.is_empty() {
        config.cluster_url = flags.master.parse().context("reading --master")?;
    }
    config.connect_timeout = Some(Duration::from_secs(10));
    // A watch that is never answered, or whose connection died without a word, ends by this. One that
    // is alive is ended earlier, by the API server.
    config.read_timeout = Some(flags.watch_timeout + Duration::from_secs(5));
    // Audit logs tell clients apart by it.
    let agent = concat!("helm-operator/", env!("CARGO_PKG_VERSION"));
    let agent = axum::http::HeaderValue::from_static(agent);
    config.headers.push((axum::http::header::USER_AGENT, agent));
    Ok(config)
}

/// Name of the pod, or of the machine.
fn host() -> String {
    let names = ["POD_NAME", "HOSTNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut names = names
        .chain([kernel.trim().to_owned()])
        .filter(|name| !name.is_empty());
    names.next().unwrap_or_else(|| "helm-operator".to_owned())
}

/// Each part of a fleet has a Lease of its own.
fn lease_settings(flags: &Flags, namespace: &str, instance: &str) -> LeaseSettings {
    let mut parts = vec!["helm-operator".to_owned()];
    if flags.shard.count > 1 {
        parts.push(format!("{}-of-{}", flags.shard.index, flags.shard.count));
    }
    if !flags.allow_namespace.is_empty() {
        parts.push(flags.allow_namespace.clone());
    }
    if !flags.watch_label_selector.is_empty() {
        let selector = goyaml::Tree::String(flags.watch_label_selector.as_str().into());
        let digest = crate::operator::values_digest(&selector);
        let short = digest.strip_prefix("sha256:").and_then(|hex| hex.get(..12));
        parts.push(short.unwrap_or_default().to_owned());
    }
    let port = flags.listen.port();
    let address = flags
        .pod_ip
        .map(|ip| format!("http://{}", SocketAddr::new(ip, port)));
    LeaseSettings {
        address,
        lease: flags.leader_election_lease_duration,
        renew_deadline: flags.leader_election_renew_deadline,
        retry: flags.leader_election_retry_period,
        ..LeaseSettings::new(namespace, parts.join("-"), instance)
    }
}

fn scope(flags: &Flags) -> Scope {
    let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Scope {
        namespace: filled(&flags.allow_namespace),
        selector: filled(&flags.watch_label_selector),
        watch_timeout: Some(flags.watch_timeout),
    }
}

fn settings(flags: &Flags, holder: String, scope: Scope) -> Settings {
    let account = flags.default_service_account.clone();
    Settings {
        workers: flags.workers,
        sync_interval: flags.charts_sync_interval,
        status_interval: flags.status_update_interval,
        holder,
        own_namespace_only: flags.no_cross_namespace_refs,
        update_dependencies: flags.update_chart_deps,
        default_service_account: Some(account).filter(|account| !account.is_empty()),
        log_diffs: flags.log_release_diffs,
        allow_local: flags.git_allow_local,
        grace: flags.shutdown_grace,
        scope,
        shard: flags.shard,
        aliases: Arc::default(),
    }
}

/// What a preview needs of the daemon.
pub(super) struct PreviewParts {
    pub(super) client: Client,
    pub(super) clusters: Clusters,
    pub(super) sources: Sources,
    pub(super) settings: Settings,
}

/// The parts of a daemon with default flags, for a preview: mirrors are kept apart from those of
/// the daemon.
pub(super) fn preview_parts(
    config: Config,
    allow_local: bool,
    allow_http: bool,
) -> Result<PreviewParts> {
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        flags: Flags,
    }
    let Defaults { mut flags } = clap::Parser::try_parse_from(["helm-operator"])?;
    flags.git_allow_local = allow_local;
    flags.git_allow_http = allow_http;
    let scratch = std::env::temp_dir().join("helm-operator-preview");
    flags.cache_dir = Some(scratch);
    let client = Client::try_from(config.clone()).context("making a client")?;
    Ok(PreviewParts {
        sources: sources(&flags, client.clone(), &[])?,
        clusters: Clusters::new(config, Leadership::always()).context("making a client")?,
        settings: settings(&flags, String::new(), scope(&flags)),
        client,
    })
}

fn sources(flags: &Flags, client: Client, repositories: &[ImportedRepository]) -> Result<Sources> {
    let default_ref = Some(flags.git_default_ref.clone());
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let options = GitOptions {
        poll: flags.git_poll_interval.clone(),
        proxy: flags.git_proxy.clone(),
        limits: Limits {
            cache_bytes: flags.git_cache_bytes,
            ..Limits::default()
        },
        timeout: flags.git_timeout,
        default_ref: default_ref.filter(|name| !name.is_empty() && name != "HEAD"),
        policy: Policy {
            allow_http: flags.git_allow_http,
            allow_local: flags.git_allow_local,
        },
        daemon_credentials: DaemonCredentials {
            ssh_identities: ["/etc/fluxd/ssh/identity", "/var/fluxd/keygen/identity"]
                .map(PathBuf::from)
                .to_vec(),
            known_hosts: [
                home.join(".ssh/known_hosts"),
                "/etc/ssh/ssh_known_hosts".into(),
            ]
            .to_vec(),
            ssh_config: Some(home.join(".ssh/config")),
            netrc: Some(home.join(".netrc")),
            ca_file: flags.git_ca_file.clone(),
        },
        ..GitOptions::new(directory(flags.cache_dir.as_ref(), "cache").join("git"))
    };
    let secrets = Arc::new(ClusterSecrets::new(client));
    let mirrors = Mirrors::new(options, Arc::clone(&secrets) as Arc<dyn SecretReader>)?;
    let options = RepositoryOptions {
        interval: flags.charts_sync_interval,
        timeout: flags.git_timeout,
        ..RepositoryOptions::new(directory(flags.cache_dir.as_ref(), "cache").join("charts"))
    };
    let charts = Charts::new(options, secrets)?
        .with_imported(repositories.to_vec())
        .with_plain_registries(flags.plain_http_registries.clone());
    Ok(Sources::new(mirrors).with_charts(Arc::new(charts)))
}

/// The address behind each alias.
fn aliases(repositories: &[ImportedRepository]) -> Arc<BTreeMap<String, SourceUrl>> {
    let entry = |it: &ImportedRepository| (it.name().to_owned(), SourceUrl::new(it.url().as_str()));
    Arc::new(repositories.iter().map(entry).collect())
}

/// The repositories of `--helm-repository-import`. As in 1.4 nothing here stops the daemon: what
/// cannot be used is logged, and the rest is used.
fn imported(flags: &[String]) -> Vec<ImportedRepository> {
    let mut all = Vec::new();
    for flag in flags {
        let path = match flag.split_once(':') {
            Some(("v3", path)) => path,
            Some((version, _)) => {
                tracing::warn!(
                    "repositories for helm {version} are not imported: only v3 is served"
                );
                continue;
            }
            None => flag,
        };
        match import(Path::new(path)) {
            Ok((read, failed)) => {
                for error in failed {
                    tracing::error!("{error}");
                }
                all.extend(read);
            }
            Err(error) => tracing::error!("{error}"),
        }
    }
    all
}

/// A directory that was given, or one of ours below the temporary directory.
fn directory(given: Option<&PathBuf>, name: &str) -> PathBuf {
    given
        .cloned()
        .unwrap_or_else(|| std::env::temp_dir().join("helm-operator").join(name))
}

/// Brings the gauges of the mirrors and of the webhook up to date before a scrape.
fn show_at_scrape(metrics: &Metrics, mirrors: &Mirrors, webhook: &Identity) -> crate::server::Hook {
    let (metrics, mirrors) = (metrics.clone(), mirrors.clone());
    let webhook = webhook.clone();
    Arc::new(move || {
        if let Some(end) = webhook.not_after() {
            metrics.set_webhook_certificate(end);
        }
        let now = SystemTime::now();
        let shown: Vec<MirrorMetrics> = mirrors
            .states()
            .into_iter()
            .map(|mirror| MirrorMetrics {
                url: mirror.url.to_string(),
                ready: mirror.state == MirrorState::Ready,
                fetch_seconds: mirror.last_duration.map_or(0.0, |took| took.as_secs_f64()),
                age_seconds: mirror
                    .last_success
                    .and_then(|at| now.duration_since(at).ok())
                    .map_or(-1.0, |age| age.as_secs_f64()),
                requests: mirror.requests,
                received_bytes: mirror.received_bytes,
                disk_bytes: mirror.disk_bytes,
            })
            .collect();
        metrics.set_mirrors(&shown);
    })
}

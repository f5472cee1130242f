//! A Kubernetes control plane: etcd and kube-apiserver, with or without the controllers.

mod api;
mod audit;
mod counts;
mod files;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use crate::pki::Authority;
use crate::process::Process;
use crate::scratch::ScratchDir;
use crate::tools::{ToolSet, Tools};

pub use audit::AuditEntry;
pub use counts::RequestCounts;

use api::Api;
use files::Files;
use servers::Ports;

/// How a control plane is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Also start kube-controller-manager, kube-scheduler and kwok with one fake node, so that Deployments become
    /// available, Jobs complete, namespaces go away and garbage is collected.
    ///
    /// Without it the API server accepts objects and nothing acts on them: a namespace that is deleted stays
    /// `Terminating`, and there are no default service accounts.
    pub full: bool,
    /// Write an audit log of every request, see [`ControlPlane::audit`].
    pub audit: bool,
    /// More flags for kube-apiserver; they come last and win.
    pub api_server_flags: Vec<String>,
}

/// What etcd had stored at one moment.
#[derive(Debug)]
pub struct Backup {
    scratch: ScratchDir,
}

/// Copies a directory tree.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    crate::run(command.arg("-a").arg(from).arg(to)).map(drop)
}

/// A running control plane. Everything that belongs to it is gone when it is dropped or the test process dies.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields drop in this order: clients of the API server, the API server, its store, the files.
    controllers: Vec<Process>,
    api_server: Mutex<Option<Process>>,
    etcd: Mutex<Option<Process>>,
    api: Api,
    tools: Tools,
    files: Files,
    ports: Ports,
    options: Options,
    _scratch: ScratchDir,
}

impl ControlPlane {
    /// Starts a control plane and returns when it is ready, which takes about three seconds.
    ///
    /// # Errors
    /// One line when a program is missing; else the end of the log of the program that failed.
    pub fn start(options: Options) -> Result<Self> {
        let set = if options.full {
            ToolSet::Full
        } else {
            ToolSet::Base
        };
        let tools = Tools::locate(set)?;
        // A free port may be taken by another program before ours has bound it.
        let first = Self::start_once(&options, &tools);
        first
            .or_else(|_| Self::start_once(&options, &tools))
            .context("starting a control plane")
    }

    /// The control plane that all tests of this process share; started by the first who asks.
    ///
    /// # Errors
    /// As [`ControlPlane::start`]; a failure is not tried again.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        Self::once(&SHARED, Options::default())
    }

    /// As [`ControlPlane::shared`], with the controllers.
    ///
    /// # Errors
    /// As [`ControlPlane::start`]; a failure is not tried again.
    pub fn shared_full() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        Self::once(
            &SHARED,
            Options {
                full: true,
                ..Options::default()
            },
        )
    }

    fn once(
        cell: &'static OnceLock<Result<Self, String>>,
        options: Options,
    ) -> Result<&'static Self> {
        cell.get_or_init(|| Self::start(options).map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("{error}"))
    }

    fn start_once(options: &Options, tools: &Tools) -> Result<Self> {
        let scratch = ScratchDir::new("controlplane")?;
        let ports = Ports::pick()?;
        let files = Files::write(&scratch, ports.api_server)?;
        let api = Api::new(&files)?;
        let etcd = servers::etcd(tools, &files, &ports)?;
        let api_server = servers::api_server(tools, &files, &ports, options, &api)?;
        let mut plane = Self {
            controllers: Vec::new(),
            api_server: Mutex::new(Some(api_server)),
            etcd: Mutex::new(Some(etcd)),
            api,
            tools: tools.clone(),
            files,
            ports,
            options: options.clone(),
            _scratch: scratch,
        };
        if options.full {
            plane.controllers = servers::controllers(tools, &plane.files)?;
            servers::add_node(&plane.api)?;
        }
        Ok(plane)
    }

    /// The address of the API server, such as `https://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.files.url
    }

    /// The authority that signs the certificates of the API server and of the proxies in front of it.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.files.authority
    }

    /// The administrator's bearer token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.files.token
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.files.kubeconfig()
    }

    /// Writes a kubeconfig for another way in: another address (a proxy's) or another user's token.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig_for(&self, url: &str, token: &str) -> Result<PathBuf> {
        self.files.kubeconfig_for(url, token)
    }

    /// A token for a service account, which has to exist, valid for an hour.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({ "spec": { "expirationSeconds": 3600 } });
        let reply = self.api.post(&path, request)?;
        let token = reply
            .pointer("/status/token")
            .and_then(|token| token.as_str());
        token
            .map(str::to_owned)
            .with_context(|| format!("no token in {reply}"))
    }

    /// A client with the administrator's rights. It belongs to the runtime that it is made in, so each test makes its own.
    ///
    /// # Errors
    /// When it is called outside of a Tokio runtime's context, or the certificates cannot be read.
    pub fn client(&self) -> Result<kube::Client> {
        self.client_for(self.url(), self.token())
    }

    /// A client for another way in, see [`ControlPlane::kubeconfig_for`].
    ///
    /// # Errors
    /// As [`ControlPlane::client`].
    pub fn client_for(&self, url: &str, token: &str) -> Result<kube::Client> {
        let mut config = kube::Config::new(url.parse().context("parsing the address")?);
        config.root_cert = Some(vec![self.files.authority.der()]);
        config.auth_info.token = Some(token.to_owned().into());
        kube::Client::try_from(config).context("making a client")
    }

    /// `kubectl` as administrator.
    ///
    /// # Errors
    /// When the program is missing.
    pub fn kubectl(&self) -> Result<Command> {
        self.tool("kubectl")
    }

    /// The stock `helm` (v4) as administrator, with its caches inside this control plane's directory.
    ///
    /// # Errors
    /// When the program is missing.
    pub fn helm(&self) -> Result<Command> {
        self.tool("helm")
    }

    /// A program of the tool set, with `KUBECONFIG` set and a home of its own.
    ///
    /// # Errors
    /// When the program is missing.
    pub fn tool(&self, name: &str) -> Result<Command> {
        let mut command = self.tools.command(name)?;
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.files.home());
        for variable in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        Ok(command)
    }

    /// Makes a namespace that no other test has, and returns its name, which begins with `prefix`.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn namespace(&self, prefix: &str) -> Result<String> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.api.post(
            "/api/v1/namespaces",
            json!({ "metadata": { "name": name } }),
        )?;
        Ok(name)
    }

    /// GETs an object or a list as JSON, such as `/api/v1/namespaces/default/configmaps`.
    ///
    /// # Errors
    /// When the API server does not answer with success.
    pub fn get(&self, path: &str) -> Result<serde_json::Value> {
        self.api.get(path)
    }

    /// The API server's own count of the requests that it has answered.
    ///
    /// # Errors
    /// When the metrics cannot be read.
    pub fn request_counts(&self) -> Result<RequestCounts> {
        Ok(RequestCounts::parse(&self.api.text("/metrics")?))
    }

    /// The requests so far, from the audit log.
    ///
    /// # Errors
    /// When the control plane was started without [`Options::audit`].
    pub fn audit(&self) -> Result<Vec<AuditEntry>> {
        audit::read(&self.files.audit_log())
    }

    /// Kills the API server and leaves the rest running. Its clients see refused connections.
    ///
    /// # Errors
    /// When it does not go.
    pub fn stop_api_server(&self) -> Result<()> {
        // Dropping it kills it and waits for its end.
        drop(self.lock_api_server().take());
        Ok(())
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    ///
    /// # Errors
    /// When it fails; then with the end of its log.
    pub fn start_api_server(&self) -> Result<()> {
        let mut slot = self.lock_api_server();
        if slot.is_none() {
            let started = servers::api_server(
                &self.tools,
                &self.files,
                &self.ports,
                &self.options,
                &self.api,
            )?;
            *slot = Some(started);
        }
        Ok(())
    }

    /// Kills etcd and starts it again with what it had stored. The API server goes on, and says 5xx meanwhile.
    ///
    /// # Errors
    /// When it does not go or come.
    pub fn restart_etcd(&self) -> Result<()> {
        self.with_etcd_stopped(|_| Ok(()))
    }

    /// Copies what etcd has stored, which stops it for a moment.
    ///
    /// # Errors
    /// When etcd does not go or come, or the files cannot be copied.
    pub fn back_up(&self) -> Result<Backup> {
        let scratch = ScratchDir::new("backup")?;
        self.with_etcd_stopped(|store| copy(store, &scratch.join("store")))?;
        Ok(Backup { scratch })
    }

    /// Brings back what a backup holds: everything since then never happened, and resource versions begin again
    /// where they were then. The API server is started anew, as is done after such a restore.
    ///
    /// # Errors
    /// When a server does not go or come, or the files cannot be copied.
    pub fn restore(&self, backup: &Backup) -> Result<()> {
        self.stop_api_server()?;
        self.with_etcd_stopped(|store| {
            fs::remove_dir_all(store).context("removing the store")?;
            copy(&backup.scratch.join("store"), store)
        })?;
        self.start_api_server()
    }

    fn with_etcd_stopped(&self, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let mut slot = self.etcd.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping it kills it and waits for its end.
        drop(slot.take());
        work(&self.files.path("etcd"))?;
        let etcd = servers::etcd(&self.tools, &self.files, &self.ports)?;
        if self.lock_api_server().is_some() {
            etcd.wait_until(servers::START_LIMIT, || self.api.text("/readyz").is_ok())?;
        }
        *slot = Some(etcd);
        Ok(())
    }

    fn lock_api_server(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.api_server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

//! The helm-operator binary as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::background;
use crate::ports::free_ports;
use crate::process::{Controls, Process};
use crate::scratch::ScratchDir;

/// How long a daemon may take to be ready, or to stop, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The binary, in tests of the package `env!("CARGO_BIN_EXE_helm-operator")`.
    pub binary: PathBuf,
    /// The way to the API server.
    pub kubeconfig: PathBuf,
    /// More flags for `helm-operator run`.
    pub flags: Vec<String>,
    /// More environment variables.
    pub environment: Vec<(String, String)>,
}

impl DaemonOptions {
    /// The options of a daemon that may use a git server on loopback without TLS, which it refuses otherwise, and that
    /// is the only one: it does not wait for the lease of one that was killed. Flags that are given win over these.
    #[must_use]
    pub fn local(binary: impl Into<PathBuf>, kubeconfig: PathBuf, flags: &[&str]) -> Self {
        let local = [
            "--git-allow-http",
            "--git-allow-local",
            "--leader-election=false",
        ];
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let unnamed = |local: &&&str| !flags.iter().any(|flag| name(flag) == name(local));
        let local: Vec<&str> = local.iter().filter(unnamed).copied().collect();
        let flags = local
            .iter()
            .chain(flags)
            .map(|&flag| flag.to_owned())
            .collect();
        Self {
            binary: binary.into(),
            kubeconfig,
            flags,
            environment: Vec::new(),
        }
    }
}

/// A running `helm-operator run`, in a home and temporary directory of its own.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    options: DaemonOptions,
    port: u16,
    scratch: ScratchDir,
}

impl Daemon {
    /// Starts the daemon and waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// When it ends first or is not ready after a minute; then with the end of its log.
    pub fn start(options: DaemonOptions) -> Result<Self> {
        let daemon = Self::spawn(options)?;
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    /// Starts the daemon and does not wait.
    ///
    /// # Errors
    /// When the binary is missing.
    pub fn spawn(options: DaemonOptions) -> Result<Self> {
        let scratch = ScratchDir::new("daemon")?;
        let [port] = free_ports()?;
        let process = launch(&options, port, scratch.path())?;
        Ok(Self {
            process,
            options,
            port,
            scratch,
        })
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// When the daemon ends first or the time is over.
    pub fn wait_until_ready(&self) -> Result<()> {
        self.process.wait_until(LIMIT, || {
            self.get("/readyz").is_ok_and(|(code, _)| code == 200)
        })
    }

    /// GETs a path of the daemon's HTTP server: the status and the text.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        let url = self.url(path);
        background::wait_for(async move {
            let reply = client()?.get(url).send().await?;
            Ok((reply.status().as_u16(), reply.text().await?))
        })?
    }

    /// POSTs to the daemon's HTTP server: the status and the text.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn post(&self, path: &str, body: impl Into<String>) -> Result<(u16, String)> {
        let (url, body) = (self.url(path), body.into());
        background::wait_for(async move {
            let reply = client()?.post(url).body(body).send().await?;
            Ok((reply.status().as_u16(), reply.text().await?))
        })?
    }

    /// The URL of a path of the daemon's HTTP server.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// A handle to signal it from elsewhere.
    #[must_use]
    pub fn controls(&self) -> Controls {
        self.process.controls()
    }

    /// Everything that it has logged, over restarts.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Its home and temporary directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// SIGKILL, and waits for the end.
    ///
    /// # Errors
    /// When it does not go.
    pub fn kill(&self) -> Result<()> {
        self.controls().kill()
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it has ended already, or does not end in a minute.
    pub fn terminate(&self) -> Result<ExitStatus> {
        self.controls().signal("TERM")?;
        self.controls().wait(LIMIT)
    }

    /// Starts it again, in the same directory and on the same port, and does not wait. A daemon that still runs is
    /// killed first.
    ///
    /// # Errors
    /// When the binary is missing.
    pub fn spawn_again(&mut self) -> Result<()> {
        self.kill()?;
        self.process = launch(&self.options, self.port, self.scratch.path())?;
        Ok(())
    }

    /// Starts it again and waits until it is ready.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.spawn_again()?;
        self.wait_until_ready()
    }
}

fn launch(options: &DaemonOptions, port: u16, directory: &Path) -> Result<Process> {
    let mut command = Command::new(&options.binary);
    command
        .arg("run")
        .arg(format!("--kubeconfig={}", options.kubeconfig.display()))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .args(&options.flags)
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .env_remove("KUBECONFIG")
        .envs(
            options
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        );
    Process::spawn("helm-operator", &command, &directory.join("daemon.log"))
}

fn client() -> Result<reqwest::Client> {
    let limit = Duration::from_secs(10);
    reqwest::Client::builder()
        .timeout(limit)
        .no_proxy()
        .build()
        .context("making a client")
}

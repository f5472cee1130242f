//! Settings of the mirrors.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::Schedule;

/// Settings of all mirrors of a daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory that the mirrors live in; created with mode 0700 if absent. Nothing else may use it.
    pub cache_dir: PathBuf,
    /// When to poll (`--git-poll-interval`, five minutes).
    pub poll: Schedule,
    /// Longest time without one byte of progress (`--git-timeout`, twenty seconds). There is no limit on the total: a
    /// large repository may take its time as long as it moves.
    pub timeout: Duration,
    /// Ref for sources that name none (`--git-default-ref`); `None`: the HEAD of the remote.
    pub default_ref: Option<String>,
    /// How long [`artifact`](super::Mirrors::artifact) waits for a fetch that is under way before it answers
    /// [`Cloning`](super::Reason::Cloning): long enough for a small repository, short enough to hold no worker.
    pub fetch_grace: Duration,
    /// Proxy for remotes over HTTP, `http://[user:password@]host:port`; `None`: what the environment says
    /// (`HTTPS_PROXY`, `NO_PROXY` …).
    pub proxy: Option<SecretString>,
    /// What remotes may be used.
    pub policy: Policy,
    /// Limits against large and hostile repositories.
    pub limits: Limits,
    /// Credentials for every remote without a Secret.
    pub daemon_credentials: DaemonCredentials,
}

impl Options {
    /// The defaults, with the mirrors in `cache_dir`.
    #[must_use]
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            poll: Schedule::Every(Duration::from_secs(300)),
            timeout: Duration::from_secs(20),
            default_ref: None,
            fetch_grace: Duration::from_secs(3),
            proxy: None,
            policy: Policy::default(),
            limits: Limits::default(),
            daemon_credentials: DaemonCredentials::default(),
        }
    }
}

/// Which remotes may be used; the defaults suit a cluster shared by tenants.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Allow `http://` (`--git-allow-http`). Credentials are then sent in the clear.
    pub allow_http: bool,
    /// Allow local paths, loopback addresses and `git-upload-pack` on this machine: for development and tests only.
    pub allow_local: bool,
}

/// Limits against large and hostile repositories.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one download.
    pub pack_bytes: u64,
    /// Objects of one download.
    pub pack_objects: u32,
    /// Bytes of one object of a download, unpacked.
    pub object_bytes: usize,
    /// Bytes of all mirrors together; above it the least recently used ones without releases go, then the least
    /// recently used idle ones.
    pub cache_bytes: u64,
    /// Bytes of one file of a chart. Helm's limit is that of all files together.
    pub file_bytes: u64,
    /// Bytes of all files of a chart.
    pub chart_bytes: u64,
    /// Entries below a chart directory.
    pub chart_entries: usize,
    /// Depth of directories below a chart directory.
    pub depth: usize,
    /// Downloads and rebuilds at once.
    pub concurrent_fetches: usize,
    /// Polls at once.
    pub concurrent_polls: usize,
    /// Packs of one mirror after which it is fetched anew, so that look-ups stay quick and garbage goes.
    pub packs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pack_bytes: 2 << 30,
            pack_objects: 5_000_000,
            object_bytes: 256 << 20,
            cache_bytes: 10 << 30,
            file_bytes: 100 << 20,
            chart_bytes: 100 << 20,
            chart_entries: 20_000,
            depth: 64,
            concurrent_fetches: 4,
            concurrent_polls: 32,
            packs: 50,
        }
    }
}

/// Files with credentials for every remote without a Secret, read again on every fetch.
#[derive(Debug, Clone, Default)]
pub struct DaemonCredentials {
    /// SSH keys: each file of these paths (a file or a directory, as a Secret is mounted).
    pub ssh_identities: Vec<PathBuf>,
    /// Host keys, in the format of OpenSSH.
    pub known_hosts: Vec<PathBuf>,
    /// An `ssh_config` to read.
    pub ssh_config: Option<PathBuf>,
    /// A `.netrc` with logins for https.
    pub netrc: Option<PathBuf>,
    /// Certificates (PEM) to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
}

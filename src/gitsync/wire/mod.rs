//! The git protocol, client side: versions 0, 1 and 2 over HTTP and over a program's standard streams.
//!
//! A mirror needs little of it: list some refs, fetch their tips one commit deep, end the negotiation in the first
//! request. In return every read has a deadline and a limit, and a poll is one request.

pub(crate) mod address;
pub(crate) mod body;
pub(crate) mod fetch;
pub(crate) mod http;
mod packet;
pub(crate) mod process;
pub(crate) mod refs;
pub(crate) mod ssh;

use std::sync::{Mutex, PoisonError};

use gix::ObjectId;
use reqwest::Url;

use self::{
    body::{Counters, Pace},
    fetch::{FetchRequest, PackStream, ShallowInfo},
    http::{Clients, HttpRemote},
    process::{Held, ProcessRemote},
    refs::{Capabilities, Found, RefFilter, RemoteRef},
};
use super::{Options, Reason, RepositoryUrl, Scheme, SourceError, credentials::Credentials};

/// Most bytes of a listing of refs.
const MAX_LISTING: u64 = 256 << 20;
/// The agent line of requests.
const AGENT: &str = concat!("agent=helm-operator/", env!("CARGO_PKG_VERSION"));
/// Some servers serve git clients only, and know them by the first word.
const USER_AGENT: &str = concat!("git/helm-operator-", env!("CARGO_PKG_VERSION"));

/// What a remote was seen to be able to do, so that it need not be asked again.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Option<(Url, Capabilities)>>);

impl Remembered {
    fn get(&self) -> Option<(Url, Capabilities)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, base: Url, capabilities: Capabilities) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((base, capabilities));
    }

    /// Forgets it: the next exchange starts with a handshake.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The refs of a remote.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The refs that were asked for by name, as far as they exist.
    pub(crate) refs: Vec<RemoteRef>,
    /// The ids that were asked for besides, in no order.
    pub(crate) tips: Vec<ObjectId>,
    /// The remote has listed no ref at all.
    pub(crate) is_empty: bool,
    /// What the remote can do.
    pub(crate) capabilities: Capabilities,
}

impl Listing {
    fn new(found: Found, capabilities: Capabilities) -> Self {
        Self {
            refs: found.refs,
            tips: found.tips,
            is_empty: found.listed == 0,
            capabilities,
        }
    }

    /// Whether a ref, of those that were asked for, points at `id`.
    pub(crate) fn shows(&self, id: ObjectId) -> bool {
        self.refs.iter().any(|known| known.id == id) || self.tips.contains(&id)
    }

    /// The ref of that full name.
    pub(crate) fn find(&self, name: &str) -> Option<&RemoteRef> {
        self.refs.iter().find(|found| found.name == name)
    }
}

/// A remote for the length of one exchange: a listing, then a fetch.
pub(crate) struct Remote<'c> {
    kind: Kind<'c>,
    url: &'c RepositoryUrl,
}

enum Kind<'c> {
    Http(HttpRemote<'c>),
    Ssh(ProcessRemote<'c>, ssh::SshFiles, &'c Options),
    Local(ProcessRemote<'c>),
}

/// A pack that arrives, and what keeps its sender alive.
pub(crate) struct Incoming<'c> {
    /// What the answer says about missing parents.
    pub(crate) shallow: ShallowInfo,
    /// The pack.
    pub(crate) pack: PackStream<'c>,
    _held: Option<Held>,
}

/// What belongs to the mirror and outlives an exchange.
#[derive(Debug, Default)]
pub(crate) struct RemoteMemory {
    /// What the remote can do.
    pub(crate) remembered: Remembered,
    /// What it was asked and sent.
    pub(crate) counters: Counters,
}

impl<'c> Remote<'c> {
    /// A remote at `url`; nothing is sent yet.
    ///
    /// # Errors
    /// `InvalidSource` when the options do not allow such a remote, `AuthFailed` for unreadable credentials.
    pub(crate) fn new(
        url: &'c RepositoryUrl,
        credentials: &'c Credentials,
        options: &'c Options,
        clients: &Clients,
        memory: &'c RemoteMemory,
    ) -> Result<Self, SourceError> {
        let pace = Pace {
            window: options.timeout,
            slow_windows: 0,
        };
        let counters = &memory.counters;
        check_scheme(url, options)?;
        let kind = match url.scheme() {
            Scheme::Local => {
                Kind::Local(ProcessRemote::new(counters, pace, process::explain_local))
            }
            Scheme::Ssh => Kind::Ssh(
                ProcessRemote::new(counters, pace, ssh::explain),
                ssh::SshFiles::write(credentials, options)?,
                options,
            ),
            _ => Kind::Http(HttpRemote {
                client: clients.get(credentials)?,
                url,
                credentials,
                policy: &options.policy,
                remembered: &memory.remembered,
                counters,
                pace,
            }),
        };
        Ok(Self { kind, url })
    }

    /// The refs that `filter` wants.
    ///
    /// # Errors
    /// Every way in which a remote can fail.
    pub(crate) async fn list(&mut self, filter: &RefFilter) -> Result<Listing, SourceError> {
        match &mut self.kind {
            Kind::Http(http) => http.list(filter).await,
            Kind::Ssh(ssh, files, options) => {
                ssh::check_host(self.url, options).await?;
                ssh.list(ssh::command(self.url, files, options), filter)
                    .await
            }
            Kind::Local(local) => {
                let path = self.url.path();
                let listing = local.list(process::local(path), filter).await;
                listing.map_err(|error| process::with_local_hint(error, path))
            }
        }
    }

    /// True when nothing can be fetched any more without another listing.
    pub(crate) fn is_spent(&self) -> bool {
        match &self.kind {
            Kind::Http(_) => false,
            Kind::Ssh(process, ..) | Kind::Local(process) => process.is_spent(),
        }
    }

    /// Asks for objects.
    ///
    /// # Errors
    /// Every way in which a remote can fail; `RefNotFound` when it has not what is wanted.
    pub(crate) async fn fetch(
        &mut self,
        request: &FetchRequest,
        pack_limit: u64,
    ) -> Result<Incoming<'c>, SourceError> {
        let (shallow, pack, held) = match &mut self.kind {
            Kind::Http(http) => {
                let (shallow, pack) = http.fetch(request, pack_limit).await?;
                (shallow, pack, None)
            }
            Kind::Ssh(process, ..) | Kind::Local(process) => {
                let (shallow, pack, held) = process.fetch(request, pack_limit).await?;
                (shallow, pack, Some(held))
            }
        };
        Ok(Incoming {
            shallow,
            pack,
            _held: held,
        })
    }
}

/// Whether the options allow a remote of this scheme.
///
/// # Errors
/// `InvalidSource`, with what to do.
pub(crate) fn check_scheme(url: &RepositoryUrl, options: &Options) -> Result<(), SourceError> {
    let refuse = |why: &str| Err(SourceError::new(Reason::InvalidSource, why));
    match url.scheme() {
        Scheme::Https | Scheme::Ssh => Ok(()),
        Scheme::Http if options.policy.allow_http => Ok(()),
        Scheme::Http => refuse(
            "http:// is not allowed: everyone on the way can change the charts; use https://, or allow it with \
             --git-allow-http",
        ),
        Scheme::Local if options.policy.allow_local => Ok(()),
        Scheme::Local => refuse(
            "local paths are for development: allow them with --git-allow-local, or use https://",
        ),
        Scheme::Oci => refuse("oci:// is no git remote: put it in `repository`"),
    }
}

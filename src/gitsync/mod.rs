//! Git mirrors: one bare repository per remote and credential, shared by all releases that use it.
//!
//! A mirror holds the tips of the refs that releases name, one commit deep, and no worktree. Charts are read from its
//! object database, each object checked against its id. A poll asks the remote for those refs only (one HTTP request)
//! and fetches when one moved; a release is woken when the tree of its chart moved.
//!
//! The operator [`declare`](Mirrors::declare)s what each release uses, asks for the [`artifact`](Mirrors::artifact)
//! when it reconciles, and follows [`changes`](Mirrors::changes).

mod artifact;
mod cache;
mod changes;
mod chart;
mod credentials;
mod error;
mod mirror;
mod mirrors;
mod netrc;
mod options;
mod pack;
mod reference;
mod schedule;
mod signature;
mod source;
mod store;
mod submodules;
mod tree;
mod url;
mod watch;
mod wire;

pub use artifact::{ChartArtifact, ChartFile, ChartName};
pub use changes::{Change, ChangeReason, Changes};
pub use credentials::{SecretData, SecretError, SecretReader, SecretRef, StaticSecrets};
pub use error::{Reason, SourceError};
pub use mirrors::{MirrorState, MirrorStatus, Mirrors, RefStatus};
pub use options::{DaemonCredentials, Limits, Options, Policy};
pub use schedule::{Schedule, ScheduleError};
pub(crate) use signature::{Keyring, Outcome};
pub use source::{GitSource, ReleaseKey};
pub use url::{RepositoryUrl, Scheme, UrlError};
pub(crate) use wire::address::{GuardedResolver, check_literal};
pub(crate) use wire::http::tls_error;

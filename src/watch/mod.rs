//! What the cluster says: caches that watches keep filled.
//!
//! Three watches serve everything: HelmReleases; the metadata of Secrets, which hold release records and
//! values; the metadata of ConfigMaps, which hold values, approvals and gates. Nothing but HelmReleases and
//! the metadata of release records is kept.

mod depth;
mod pack;
mod records;
mod releases;
mod stream;

pub use depth::CutDepth;
pub use records::Records;
pub use releases::{BadRelease, Cached, Releases};
pub use stream::{CacheEvent, Caches, Scope, SourceKind};

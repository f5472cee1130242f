//! Guards around a release: file locks keep two processes of one machine apart, the leader lease keeps
//! two replicas apart.

mod connect;
mod file;
mod guard;
mod leadership;
mod lease;

pub use connect::guarded_client;
pub use file::{Identity, LockError, ReleaseLock, ReleaseLocks};
pub use guard::{Guarded, LeaderGuard, NotLeader};
pub use leadership::Leadership;
pub use lease::{LeaderLease, LeaseError, LeaseSettings};

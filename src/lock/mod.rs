//! Guards around a release: file locks keep two processes of one machine apart, the leader lease keeps
//! two replicas apart.

mod file;
mod guard;
mod lease;

pub use file::{Identity, LockError, ReleaseLock, ReleaseLocks};
pub use guard::{Guarded, LeaderGuard, NotLeader};
pub use lease::{LeaderLease, Leadership, LeaseError, LeaseSettings};

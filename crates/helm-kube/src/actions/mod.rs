//! The actions on releases, each a step machine.

mod deploy;
mod finish;
mod query;
mod rollback;
mod test;
mod uninstall;

pub use deploy::{Deploy, Resume, install, mend, resume, upgrade};
pub use query::{ObjectStatus, ReleaseStatus, get, history, records, status};
pub use rollback::{Rollback, rollback, rollback_target};
pub use test::{Test, test};
pub use uninstall::{Uninstall, Uninstalled, uninstall};

use crate::error::ActionError;
use crate::outcome::Outcome;

/// How an action ends.
pub type ActionResult = Result<Outcome, ActionError>;

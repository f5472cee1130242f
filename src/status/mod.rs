//! `.status` of HelmReleases: how it follows from what happened, and its only writer.

mod edit;
mod event;
mod refresh;
mod writer;

pub use edit::{Failure, Progress, StatusEdit, stale_source};
pub use event::{EventNote, EventRecorder, Severity};
pub use refresh::refreshed;
pub use writer::{Newest, StatusWriter, WriteError, Written};

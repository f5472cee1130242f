//! What stopped a sync, with its reason, its text and what to expect next.

use helm_engine::RenderError;
use helm_kube::{ActionError, Class};

use crate::api::Reason;
use crate::source::SourceError;
use crate::status::Failure;

/// Where in a sync it stopped: 1.4's prefix of the text, and the phase that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before anything.
    Spec,
    /// The chart could not be had.
    Chart,
    /// The values could not be composed.
    Values,
    /// What to do could not be decided.
    Decision,
}

/// Why a sync stopped.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) stage: Stage,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Try again after a pause, although nothing changes.
    pub(crate) transient: bool,
}

impl Trouble {
    pub(crate) fn new(stage: Stage, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            stage,
            reason: reason.to_string(),
            message: message.into(),
            transient: false,
        }
    }

    pub(crate) fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    pub(crate) fn has_reason(&self, reason: Reason) -> bool {
        self.reason == reason.to_string()
    }

    /// The text, with 1.4's prefix.
    pub(crate) fn text(&self) -> String {
        let prefix = match self.stage {
            Stage::Spec => "",
            Stage::Chart => "failed to prepare chart for release: ",
            Stage::Values => "failed to compose values for release: ",
            Stage::Decision => "failed to determine sync action for release: ",
        };
        format!("{prefix}{}", self.message)
    }

    pub(crate) fn failure(&self) -> Failure {
        Failure {
            reason: self.reason.clone(),
            message: self.text(),
            retried: self.transient,
        }
    }

    pub(crate) fn of_source(error: &SourceError) -> Self {
        Self {
            stage: Stage::Chart,
            reason: error.reason().as_str().to_owned(),
            message: error.to_string(),
            transient: error.is_transient(),
        }
    }

    /// The cluster could not be asked before an action began.
    pub(crate) fn of_cluster(stage: Stage, error: &ActionError) -> Self {
        Self {
            stage,
            reason: error.reason.as_str().to_owned(),
            message: error.message.clone(),
            transient: true,
        }
    }
}

/// A render that failed: the same inputs fail again.
pub(crate) fn render_failure(error: &RenderError) -> Failure {
    let reason = match error {
        RenderError::Schema(_) => Reason::SchemaInvalid,
        _ => Reason::RenderFailed,
    };
    Failure::stalled(reason, error.to_string())
}

/// Whether an action that failed so is tried again with the same inputs. What heals outside of the inputs
/// is tried for ever; what the inputs or the workload itself did wrong is tried as often as `spec.retry`
/// allows.
#[must_use]
pub fn is_retried(error: &ActionError, failures: i64, limit: Option<i64>) -> bool {
    use helm_kube::Reason as R;
    let heals = error.class() == Class::Transient
        || matches!(
            error.reason,
            R::Forbidden | R::AdmissionDenied | R::Conflict | R::OwnershipConflict
        );
    heals || failures <= limit.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_kube::Reason as R;

    #[test]
    fn what_heals_by_itself_is_always_retried_and_the_rest_as_often_as_allowed() {
        let error = |reason| ActionError::new(reason, "x");
        for reason in [
            R::ClusterUnreachable,
            R::WaitTimeout,
            R::Forbidden,
            R::NamespaceNotFound,
        ] {
            assert!(is_retried(&error(reason), 100, None), "{reason}");
        }
        for reason in [
            R::HookFailed,
            R::ImmutableField,
            R::InvalidManifest,
            R::TestFailed,
        ] {
            assert!(!is_retried(&error(reason), 1, None), "{reason}");
            assert!(is_retried(&error(reason), 2, Some(2)), "{reason}");
            assert!(!is_retried(&error(reason), 3, Some(2)), "{reason}");
        }
    }

    #[test]
    fn texts_begin_as_in_1_4() {
        let trouble = Trouble::new(
            Stage::Values,
            Reason::ValuesNotFound,
            "could not find key k",
        );
        assert_eq!(
            trouble.text(),
            "failed to compose values for release: could not find key k"
        );
        assert!(!trouble.failure().retried);
        assert!(trouble.transient().failure().retried);
    }
}

//! Tests of a release: its `test` hooks.

use helm_engine::{HookEvent, Status};

use super::ActionResult;
use crate::error::{ActionError, Reason};
use crate::hooks::HookFilter;
use crate::machine::{Machine, Port};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::release::ReleaseKey;
use crate::session::Session;
use crate::storage::History;

/// A run of a release's tests.
#[derive(Clone, Debug)]
pub struct Test {
    /// The release.
    pub release: ReleaseKey,
    /// Its history.
    pub history: History,
    /// Which tests.
    pub filter: HookFilter,
    /// How.
    pub options: Options,
}

/// Runs the tests of the newest revision, which has to be deployed. The results are noted in its
/// record; a failed test is a failure, and [`ActionError::hooks`] has the logs of its Pods.
#[must_use]
pub fn test(test: Test) -> Machine<ActionResult> {
    Machine::new(|port| async move {
        let newest = test
            .history
            .newest()
            .ok_or_else(|| not_found(&test.release))?;
        if newest.status != Status::Deployed {
            return Err(not_deployed(&test.release, newest.status));
        }
        let revision = newest.revision;
        let result = run(port, test, revision).await;
        // Tests that could not be run to their end say nothing about the release.
        result.map_err(|error| ActionError {
            resumable: error.is_outage(),
            ..error
        })
    })
}

async fn run(port: Port, test: Test, revision: i64) -> ActionResult {
    let mut session = Session::open(port, test.release, test.options).await?;
    let mut record = session.storage.get(&session.port, revision).await?;
    let since = session.port.now();
    let result = session
        .run_hooks(&mut record, HookEvent::Test, since, &test.filter)
        .await;
    if let Err(error) = result {
        if !error.is_outage()
            && let Err(fault) = session.storage.update(&session.port, &mut record).await
        {
            session.warn(fault.message);
        }
        return Err(ActionError {
            hooks: session.report.hooks,
            ..error
        });
    }
    Ok(Outcome {
        release: record.release,
        report: session.report,
    })
}

fn not_found(release: &ReleaseKey) -> ActionError {
    ActionError::new(
        Reason::ReleaseNotFound,
        format!("release: not found: {release}"),
    )
}

fn not_deployed(release: &ReleaseKey, status: Status) -> ActionError {
    ActionError::new(
        Reason::InvalidState,
        format!("release {release} is {status}: only a deployed release can be tested"),
    )
}

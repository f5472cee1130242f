//! The files of `crds/`: applied before anything else, served before anything is mapped.

use std::time::Duration;

use helm_engine::Crd;

use crate::apply::{is_definition, subject};
use crate::calls::{self, ApplyMode};
use crate::error::{ActionError, Reason};
use crate::object::{self, Resource, edit_map};
use crate::options::CrdPolicy;
use crate::request::{Accept, Failure, Reply};
use crate::session::Session;
use crate::wait::{self, Goal, Subject};

/// How long definitions may take to be served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);

impl Session {
    /// Applies the files of `crds/` by the policy, and waits until new definitions are served.
    /// They get no mark of the release, and are never deleted.
    pub(crate) async fn apply_crds(&mut self, crds: &[Crd]) -> Result<(), ActionError> {
        if self.options.crds == CrdPolicy::Skip {
            return Ok(());
        }
        let mut changed = Vec::new();
        for crd in crds {
            let text = crd.data.to_text();
            let objects = object::parse(&text).map_err(|error| failed(crd, &error))?;
            for object in objects {
                let resource = self
                    .locate(object)
                    .await
                    .map_err(|error| failed(crd, &error))?;
                if self
                    .apply_crd(&resource)
                    .await
                    .map_err(|error| failed(crd, &error))?
                {
                    changed.push(resource);
                }
            }
        }
        let definitions = changed
            .iter()
            .filter(|resource| is_definition(&resource.key));
        self.await_established(definitions.map(subject).collect())
            .await
    }

    /// Applies an object of a file; tells whether it may have changed.
    async fn apply_crd(&mut self, resource: &Resource) -> Result<bool, ActionError> {
        let replace = self.options.crds == CrdPolicy::CreateReplace;
        let mut guarded = resource.clone();
        if !replace {
            // See the apply of new objects: this version refuses the change of existing ones.
            edit_map(&mut guarded.content, "metadata", |metadata| {
                metadata.insert("resourceVersion".to_owned(), "1".into());
            });
        }
        let mode = ApplyMode {
            force: true,
            ..ApplyMode::default()
        };
        let call = calls::apply(&guarded, mode, Accept::Metadata);
        let what = call.what.clone();
        match self.port.try_call(call).await {
            Ok(Reply::Object { .. }) => Ok(true),
            Ok(_) => Ok(false),
            Err(Failure::Status(status)) if status.is_stale() && !replace => Ok(false),
            Err(failure) => Err(ActionError::from_failure(&what, &failure)),
        }
    }

    /// Waits until definitions are served, and asks again what the cluster serves.
    pub(crate) async fn await_established(
        &mut self,
        definitions: Vec<Subject>,
    ) -> Result<(), ActionError> {
        if definitions.is_empty() {
            return Ok(());
        }
        let deadline = wait::deadline(self.port.now(), ESTABLISH_TIMEOUT);
        wait::until_reached(&self.port, definitions, Goal::Established, deadline)
            .await
            .map_err(not_established)?;
        self.rediscover().await
    }
}

fn not_established(error: ActionError) -> ActionError {
    match error.reason {
        Reason::WaitTimeout | Reason::ObjectFailed => ActionError {
            reason: Reason::CrdNotEstablished,
            ..error
        },
        _ => error,
    }
}

fn failed(crd: &Crd, error: &ActionError) -> ActionError {
    error
        .clone()
        .context(&format!("failed to install CRD {}", crd.path))
}

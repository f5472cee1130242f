//! `lookup` in templates, answered by the cluster.

use helm_engine::Lookup;
use serde_json::Value;
use tokio::runtime::Handle;

use super::{ApiResource, Cluster};
use crate::calls::{collection_path, object_path};
use crate::error::ActionError;
use crate::request::{Accept, Call, Reply, Verb};

/// Answers `lookup` with the identity of its cluster. Rendering is not asynchronous: it has to be
/// done on a thread that may block (`spawn_blocking`).
#[derive(Clone)]
pub struct ClusterLookup {
    cluster: Cluster,
    runtime: Handle,
}

impl Lookup for ClusterLookup {
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, String> {
        self.runtime
            .block_on(self.get(api_version, kind, namespace, name))
            .map_err(|error| error.message)
    }
}

impl ClusterLookup {
    pub(super) fn new(cluster: Cluster, runtime: Handle) -> Self {
        Self { cluster, runtime }
    }

    /// Reads an object, or the list of a kind if `name` is empty (of all namespaces if
    /// `namespace` is empty too). What does not exist is `None`; so is a kind that is not served.
    ///
    /// # Errors
    /// The cluster cannot be asked, or does not allow it.
    pub async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ActionError> {
        let what = format!("look up {kind} {namespace}/{name}");
        let failed = |failure| ActionError::from_failure(&what, &failure);
        let catalog = self.cluster.catalog(false).await.map_err(failed)?;
        let Some(api) = catalog.find(api_version, kind) else {
            return Ok(None);
        };
        let api = &ApiResource {
            // Without a namespace, the objects of all of them are meant.
            namespaced: api.namespaced && !namespace.is_empty(),
            ..api.clone()
        };
        let uri = if name.is_empty() {
            collection_path(api, namespace)
        } else {
            object_path(api, namespace, name)
        };
        let call = Call {
            verb: Verb::Get,
            uri,
            accept: Accept::Full,
            body: None,
            what: what.clone(),
        };
        match self.cluster.call(&call).await {
            Ok(Reply::Object { body, .. }) => Ok(Some(body)),
            Ok(_) => Ok(None),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failed(failure)),
        }
    }
}

//! Secrets for chart sources, read from the cluster when they are needed.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::gitsync::{SecretData, SecretError, SecretReader, SecretRef};

/// Reads Secrets with the daemon's own rights; which ones a HelmRelease may name is decided before.
#[derive(Clone)]
pub struct ClusterSecrets {
    client: Client,
}

impl std::fmt::Debug for ClusterSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSecrets")
    }
}

impl ClusterSecrets {
    /// A reader that uses `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn get(&self, secret: &SecretRef) -> Result<SecretData, SecretError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &secret.namespace);
        let limit = std::time::Duration::from_secs(15);
        let read = tokio::time::timeout(limit, api.get_opt(&secret.name)).await;
        let unavailable = |why: String| SecretError::Unavailable {
            secret: secret.clone(),
            why,
        };
        match read {
            Ok(Ok(Some(found))) => {
                let data = found.data.unwrap_or_default();
                Ok(data
                    .into_iter()
                    .map(|(key, bytes)| (key, bytes.0))
                    .collect())
            }
            Ok(Ok(None)) => Err(SecretError::NotFound(secret.clone())),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                Err(SecretError::Forbidden {
                    secret: secret.clone(),
                    why: status.message.clone(),
                })
            }
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable(format!("no answer within {limit:?}"))),
        }
    }
}

impl SecretReader for ClusterSecrets {
    fn read<'a>(&'a self, secret: &'a SecretRef) -> BoxFuture<'a, Result<SecretData, SecretError>> {
        Box::pin(self.get(secret))
    }
}

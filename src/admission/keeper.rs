//! Keeps the webhook's certificate: makes it, renews it, and tells the API server whom to trust.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use zeroize::Zeroizing;

use super::certificate::{CertificateError, Issued};
use super::tls::Identity;
use crate::lock::Leadership;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of a certificate or key file.
const MAX_FILE: u64 = 1 << 20;
/// How often a webhook that has no certificate yet looks for one.
const IMPATIENT: Duration = Duration::from_millis(500);

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// `tls.crt` and `tls.key` of a directory, as cert-manager's Secrets are mounted. The trust is its business too.
    Directory(PathBuf),
    /// We make it.
    SelfMade(SelfMade),
}

/// A certificate of our own.
#[derive(Clone, Debug)]
pub struct SelfMade {
    /// Namespace of the Secret and of the Service.
    pub namespace: String,
    /// Name of the Secret that all replicas share.
    pub secret: String,
    /// Name of the Service that the API server calls.
    pub service: String,
    /// Name of the ValidatingWebhookConfiguration whose `caBundle` is set.
    pub configuration: String,
    /// How long a certificate lasts; it is renewed when a third of that is left.
    pub lasts: Duration,
}

impl SelfMade {
    fn names(&self) -> Vec<String> {
        let Self {
            service, namespace, ..
        } = self;
        vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
            format!("{service}.{namespace}"),
            service.clone(),
        ]
    }
}

/// Why the certificate could not be kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("no answer within {TIMEOUT:?}")]
    Deadline,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("{cause}: {path}")]
    File { path: PathBuf, cause: String },
    #[error("there is no ValidatingWebhookConfiguration {0}: nobody will ask this webhook")]
    NotConfigured(String),
}

/// Keeps an [`Identity`] up to date. Every replica serves; the leader alone makes and writes.
#[derive(Debug)]
pub struct CertificateKeeper {
    /// What is served.
    pub identity: Identity,
    /// Where it comes from.
    pub source: CertificateSource,
    /// How often to look; [`SelfMade::lasts`] may ask for more.
    pub interval: Duration,
}

impl CertificateKeeper {
    /// Runs until it is dropped. What goes wrong is logged, once, and tried again: the daemon does not need
    /// the webhook.
    pub async fn run(self, client: Client, leadership: Leadership) {
        let mut said = None;
        loop {
            let result = match &self.source {
                CertificateSource::Directory(directory) => self.read(directory),
                CertificateSource::SelfMade(own) => {
                    self.keep(own, &client, leadership.is_held()).await
                }
            };
            let trouble = result.err().map(|error| error.to_string());
            if let Some(text) = trouble.as_ref().filter(|text| said.as_ref() != Some(*text)) {
                tracing::warn!("{text}: certificate of the webhook");
            }
            said = trouble;
            tokio::time::sleep(self.pause()).await;
        }
    }

    fn pause(&self) -> Duration {
        if self.identity.not_after().is_none() {
            return IMPATIENT;
        }
        match &self.source {
            CertificateSource::Directory(_) => self.interval,
            CertificateSource::SelfMade(own) => self.interval.min(own.lasts / 10),
        }
    }

    fn read(&self, directory: &Path) -> Result<(), KeepError> {
        let certificate = read_file(&directory.join("tls.crt"))?;
        let key = read_file(&directory.join("tls.key"))?;
        if self.identity.set(&certificate, &key)? {
            tracing::info!(
                "the webhook serves the certificate of {}",
                directory.display()
            );
        }
        Ok(())
    }

    async fn keep(&self, own: &SelfMade, client: &Client, leads: bool) -> Result<(), KeepError> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &own.namespace);
        let found = within(secrets.get_opt(&own.secret)).await?;
        let known = found.as_ref().and_then(issued);
        let due = known.as_ref().is_none_or(|known| known.is_due(own.lasts));
        let current = match known {
            Some(known) if !due => known,
            // Someone else renews it: what there is serves until then.
            Some(known) if !leads => known,
            None if !leads => return Ok(()),
            known => self.renew(own, client, found, known).await?,
        };
        if self.identity.set(&current.certificate, &current.key)? {
            tracing::info!(
                "the webhook serves a certificate of Secret {}/{}",
                own.namespace,
                own.secret
            );
        }
        if leads {
            trust(own, client, &current.authorities).await?;
        }
        Ok(())
    }

    /// Trust first: nobody meets a certificate that is not trusted yet.
    async fn renew(
        &self,
        own: &SelfMade,
        client: &Client,
        found: Option<Secret>,
        known: Option<Issued>,
    ) -> Result<Issued, KeepError> {
        let renewed = known
            .as_ref()
            .map(|known| known.renewed(&own.names(), own.lasts));
        let new = match renewed {
            Some(Ok(new)) => new,
            _ => Issued::new(&own.names(), own.lasts)?,
        };
        match trust(own, client, &new.authorities).await {
            // Who is not configured is asked by nobody, and needs nobody's trust.
            Ok(()) | Err(KeepError::NotConfigured(_)) => {}
            Err(error) => return Err(error),
        }
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &own.namespace);
        let post = PostParams::default();
        let wanted = secret(own, found.as_ref(), &new);
        match found {
            Some(_) => within(secrets.replace(&own.secret, &post, &wanted)).await?,
            None => within(secrets.create(&post, &wanted)).await?,
        };
        Ok(new)
    }
}

async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, KeepError> {
    let answer = tokio::time::timeout(TIMEOUT, request).await;
    Ok(answer.map_err(|_| KeepError::Deadline)??)
}

fn read_file(path: &Path) -> Result<Zeroizing<String>, KeepError> {
    let failed = |cause: String| KeepError::File {
        path: path.to_owned(),
        cause,
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if size.len() > MAX_FILE {
        return Err(failed(format!("it has more than {MAX_FILE} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Ok(Zeroizing::new(text))
}

fn issued(secret: &Secret) -> Option<Issued> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Issued {
        authorities: text("ca.crt")?,
        authority_key: Zeroizing::new(text("ca.key")?),
        certificate: text("tls.crt")?,
        key: Zeroizing::new(text("tls.key")?),
    })
}

/// The Secret of a certificate; its version makes sure that nobody else's is written over.
fn secret(own: &SelfMade, found: Option<&Secret>, issued: &Issued) -> Secret {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        ("ca.crt".to_owned(), bytes(&issued.authorities)),
        ("ca.key".to_owned(), bytes(&issued.authority_key)),
        ("tls.crt".to_owned(), bytes(&issued.certificate)),
        ("tls.key".to_owned(), bytes(&issued.key)),
    ]);
    let fresh = || Secret {
        metadata: ObjectMeta {
            name: Some(own.secret.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    };
    Secret {
        data: Some(data),
        ..found.cloned().unwrap_or_else(fresh)
    }
}

/// Writes the authorities into the configuration, if it has others.
async fn trust(own: &SelfMade, client: &Client, authorities: &str) -> Result<(), KeepError> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let Some(mut found) = within(api.get_opt(&own.configuration)).await? else {
        return Err(KeepError::NotConfigured(own.configuration.clone()));
    };
    let wanted = Some(ByteString(authorities.as_bytes().to_vec()));
    let mut changed = false;
    for webhook in found.webhooks.iter_mut().flatten() {
        changed |= webhook.client_config.ca_bundle != wanted;
        webhook.client_config.ca_bundle.clone_from(&wanted);
    }
    if changed {
        within(api.replace(&own.configuration, &PostParams::default(), &found)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> SelfMade {
        SelfMade {
            namespace: "ops".into(),
            secret: "webhook".into(),
            service: "helm-operator-webhook".into(),
            configuration: "helm-operator".into(),
            lasts: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_secret_holds_all_of_a_certificate_and_keeps_what_is_not_ours() {
        let own = own();
        let issued_first = Issued::new(&own.names(), own.lasts).unwrap();
        let mut stored = secret(&own, None, &issued_first);
        assert_eq!(stored.type_.as_deref(), Some("kubernetes.io/tls"));
        assert_eq!(issued(&stored).unwrap(), issued_first);
        stored.metadata.resource_version = Some("7".into());
        stored.metadata.labels = Some([("team".to_owned(), "ops".to_owned())].into());
        let second = issued_first.renewed(&own.names(), own.lasts).unwrap();
        let stored = secret(&own, Some(&stored), &second);
        assert_eq!(stored.metadata.resource_version.as_deref(), Some("7"));
        assert!(stored.metadata.labels.is_some());
        assert_eq!(issued(&stored).unwrap(), second);
    }

    #[test]
    fn a_secret_of_something_else_is_none_of_ours() {
        assert_eq!(issued(&Secret::default()), None);
        let data = BTreeMap::from([("tls.crt".to_owned(), ByteString(vec![0xff]))]);
        let secret = Secret {
            data: Some(data),
            ..Secret::default()
        };
        assert_eq!(issued(&secret), None);
    }

    #[test]
    fn files_that_are_missing_or_too_large_are_told_by_their_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tls.key");
        assert!(
            read_file(&path)
                .unwrap_err()
                .to_string()
                .contains("tls.key")
        );
        std::fs::write(&path, vec![b'a'; (MAX_FILE + 1) as usize]).unwrap();
        assert!(
            read_file(&path)
                .unwrap_err()
                .to_string()
                .contains("more than")
        );
    }
}

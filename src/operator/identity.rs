//! Which cluster a release is deployed to, and as whom.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Request;
use helm_kube::{Cluster, ClusterOptions};
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tower::Layer as _;

use super::brake::Brake;
use super::trouble::{Stage, Trouble};
use crate::api::{HelmRelease, NamespacedName, Reason};
use crate::lock::{LeaderGuard, Leadership, guarded_client};
use crate::watch::{CutDepth, SourceKind};

/// The most clients that are kept; those that were not used for the longest time go first.
const MOST: usize = 64;
/// The most bytes of a kubeconfig.
const MAX_KUBECONFIG: usize = 1 << 20;
/// How long reading a kubeconfig's Secret may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Clients for all identities that releases are deployed as. Behind each of them stands the guard that
/// lets nothing be written without leadership.
pub struct Clusters {
    config: Config,
    guard: LeaderGuard,
    brake: Brake,
    own: Cluster,
    objects: Client,
    others: Mutex<HashMap<Identity, (Cluster, Instant)>>,
}

/// Where to, and as whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    /// The Secret of the kubeconfig and its version; none for the daemon's own cluster.
    remote: Option<(NamespacedName, String, String)>,
    /// The ServiceAccount; none for the daemon's or the kubeconfig's own rights.
    account: Option<NamespacedName>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clusters")
    }
}

/// The ServiceAccount that a release is deployed as: always one of the object's own namespace.
pub(crate) fn account_of(release: &HelmRelease, default: Option<&str>) -> Option<NamespacedName> {
    let written = release
        .spec
        .service_account_name
        .as_deref()
        .filter(|name| !name.is_empty());
    let name = written.or(default)?;
    Some(NamespacedName::new(release.own_namespace(), name))
}

/// The Secret of the kubeconfig that a release names.
pub(crate) fn kubeconfig_of(release: &HelmRelease) -> Option<(SourceKind, NamespacedName)> {
    let secret = &release.spec.kube_config.as_ref()?.secret_ref;
    let key = NamespacedName::new(release.own_namespace(), secret.name.as_str());
    Some((SourceKind::Secret, key))
}

impl Clusters {
    /// Clients from the daemon's own configuration.
    ///
    /// # Errors
    /// Its certificates or credentials cannot be used.
    pub fn new(config: Config, leadership: Leadership) -> Result<Self, kube::Error> {
        let guard = LeaderGuard::new(leadership);
        let brake = Brake::default();
        let own = connect(config.clone(), &guard, &brake)?;
        let objects = cut(own.client());
        Ok(Self {
            config,
            guard,
            brake,
            own,
            objects,
            others: Mutex::default(),
        })
    }

    /// What holds new work back when this cluster asks for it.
    pub(crate) fn brake(&self) -> &Brake {
        &self.brake
    }

    /// The daemon's own cluster, with its own rights.
    #[must_use]
    pub fn own(&self) -> &Cluster {
        &self.own
    }

    /// A client for HelmReleases and whatever else tenants write: what is nested too deeply in it is cut, so that no
    /// object can make a list unreadable.
    #[must_use]
    pub fn objects(&self) -> &Client {
        &self.objects
    }

    /// The daemon's own cluster, asked as the release's ServiceAccount: for values and gates.
    pub(crate) fn local(
        &self,
        release: &HelmRelease,
        default_account: Option<&str>,
    ) -> Result<Cluster, Trouble> {
        let account = account_of(release, default_account);
        self.find(
            Identity {
                remote: None,
                account,
            },
            || Ok(self.config.clone()),
        )
    }

    /// The cluster that a release is deployed to, asked as it says.
    pub(crate) async fn target(
        &self,
        release: &HelmRelease,
        default_account: Option<&str>,
    ) -> Result<Cluster, Trouble> {
        let Some(reference) = &release.spec.kube_config else {
            return self.local(release, default_account);
        };
        let secret = &reference.secret_ref;
        let key = NamespacedName::new(release.own_namespace(), secret.name.as_str());
        let (text, version) = self.read(&key, secret.key.as_deref()).await?;
        let file = parse(&text).map_err(|why| invalid(&key, &why))?;
        // A default account is one of this cluster, and means nothing in another.
        let account = account_of(release, None);
        let named = secret.key.clone().unwrap_or_default();
        let identity = Identity {
            remote: Some((key.clone(), named, version)),
            account,
        };
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await;
        let config = config.map_err(|error| invalid(&key, &error.to_string()))?;
        self.find(identity, || Ok(config))
    }

    fn find(
        &self,
        identity: Identity,
        config: impl FnOnce() -> Result<Config, Trouble>,
    ) -> Result<Cluster, Trouble> {
        if identity.remote.is_none() && identity.account.is_none() {
            return Ok(self.own.clone());
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cluster, used)) = others.get_mut(&identity) {
            *used = Instant::now();
            return Ok(cluster.clone());
        }
        let mut config = config()?;
        if let Some(account) = &identity.account {
            let NamespacedName { namespace, name } = account;
            config.auth_info.impersonate =
                Some(format!("system:serviceaccount:{namespace}:{name}"));
        }
        // What another cluster has no time for is no reason to leave this one's releases alone.
        let brake = match &identity.remote {
            Some(_) => Brake::default(),
            None => self.brake.clone(),
        };
        let cluster = connect(config, &self.guard, &brake).map_err(|error| {
            let message = format!("{error}: cannot make a client for the release's cluster");
            Trouble::new(Stage::Decision, Reason::KubeConfigInvalid, message)
        })?;
        if others.len() >= MOST {
            let oldest = others
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(id, _)| id.clone());
            oldest.map(|id| others.remove(&id));
        }
        others.insert(identity, (cluster.clone(), Instant::now()));
        Ok(cluster)
    }

    /// The kubeconfig in a Secret, and the version of the Secret.
    async fn read(
        &self,
        secret: &NamespacedName,
        key: Option<&str>,
    ) -> Result<(Vec<u8>, String), Trouble> {
        let api: Api<Secret> = Api::namespaced(self.own.client().clone(), &secret.namespace);
        let unreadable = |why: String| {
            let message = format!("{why}: cannot read the kubeconfig in Secret {secret}");
            Trouble::new(Stage::Decision, Reason::KubeConfigInvalid, message).transient()
        };
        let found = tokio::time::timeout(TIMEOUT, api.get_opt(&secret.name)).await;
        let found = found.map_err(|_| unreadable(format!("no answer within {TIMEOUT:?}")))?;
        let Some(found) = found.map_err(|error| unreadable(error.to_string()))? else {
            let message = format!("Secret {secret}, which spec.kubeConfig names, does not exist");
            return Err(Trouble::new(
                Stage::Decision,
                Reason::KubeConfigNotFound,
                message,
            ));
        };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let mut data: BTreeMap<_, _> = found.data.unwrap_or_default();
        let keys: &[&str] = match &key {
            Some(key) if !key.is_empty() => &[key],
            _ => &["value", "value.yaml"],
        };
        let text = keys.iter().find_map(|key| data.remove(*key));
        let text = text.ok_or_else(|| invalid(secret, &format!("no key {}", keys.join(" or "))))?;
        Ok((text.0, version))
    }
}

fn invalid(secret: &NamespacedName, why: &str) -> Trouble {
    let message = format!("{why}: the kubeconfig in Secret {secret} cannot be used");
    Trouble::new(Stage::Decision, Reason::KubeConfigInvalid, message)
}

/// The same client, which reads nothing that is nested too deeply.
fn cut(client: &Client) -> Client {
    let (inner, namespace) = (client.clone(), client.default_namespace().to_owned());
    let send = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(CutDepth.layer(send), namespace)
}

fn connect(config: Config, guard: &LeaderGuard, brake: &Brake) -> Result<Cluster, kube::Error> {
    let namespace = config.default_namespace.clone();
    let guarded = guarded_client(config, guard)?;
    let send = tower::service_fn(move |request| {
        let guarded = guarded.clone();
        async move { guarded.send(request).await }
    });
    let client = Client::new(brake.layer(send), namespace);
    Ok(Cluster::new(client, ClusterOptions::default()))
}

/// Reads a kubeconfig that someone else wrote. What would start a program or read a file of the daemon is
/// refused; the text of the parser, which may quote a secret, is not passed on.
fn parse(text: &[u8]) -> Result<Kubeconfig, String> {
    if text.len() > MAX_KUBECONFIG {
        return Err(format!("it has more than {MAX_KUBECONFIG} bytes"));
    }
    let text = std::str::from_utf8(text).map_err(|_| "it is no UTF-8".to_owned())?;
    let file = Kubeconfig::from_yaml(text).map_err(|_| "it is no kubeconfig".to_owned())?;
    for named in &file.auth_infos {
        let Some(user) = &named.auth_info else {
            continue;
        };
        let refused = [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("tokenFile", user.token_file.is_some()),
            ("client-certificate", user.client_certificate.is_some()),
            ("client-key", user.client_key.is_some()),
        ];
        if let Some((field, _)) = refused.iter().find(|(_, is)| *is) {
            return Err(format!(
                "user {} has {field}, which is refused: give tokens and certificates inline",
                named.name
            ));
        }
    }
    for named in &file.clusters {
        let cluster = named.cluster.as_ref();
        if cluster.is_some_and(|cluster| cluster.certificate_authority.is_some()) {
            return Err(format!(
                "cluster {} has certificate-authority, which is refused: give certificate-authority-data",
                named.name
            ));
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(user: &str, cluster: &str) -> Result<Kubeconfig, String> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        );
        parse(text.as_bytes())
    }

    #[test]
    fn kubeconfigs_that_start_programs_or_read_our_files_are_refused() {
        assert!(file("token: abc", "").is_ok());
        for user in [
            "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}",
            "auth-provider: {name: gcp, config: {}}",
            "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
            "client-certificate: /etc/passwd",
            "client-key: /etc/shadow",
        ] {
            assert!(file(user, "").unwrap_err().contains("refused"), "{user}");
        }
        assert!(file("token: abc", ", certificate-authority: /etc/passwd").is_err());
    }

    #[test]
    fn what_is_no_kubeconfig_is_not_quoted() {
        let error = parse(b"canary: [").unwrap_err();
        assert!(!error.contains("canary"));
        assert!(parse(&vec![b'a'; MAX_KUBECONFIG + 1]).is_err());
    }

    #[test]
    fn accounts_are_those_of_the_objects_own_namespace() {
        let mut release = HelmRelease::new(
            "web",
            serde_json::from_value(serde_json::json!({"chart": {}, "targetNamespace": "other"}))
                .unwrap(),
        );
        release.metadata.namespace = Some("team".into());
        assert_eq!(account_of(&release, None), None);
        assert_eq!(
            account_of(&release, Some("d")),
            Some(NamespacedName::new("team", "d"))
        );
        release.spec.service_account_name = Some("deployer".into());
        assert_eq!(
            account_of(&release, Some("d")),
            Some(NamespacedName::new("team", "deployer"))
        );
    }
}

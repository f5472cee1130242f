//! Where credentials come from.
//!
//! A Secret is asked for on every fetch, so that a rotated password is used at the next poll and nothing secret is kept
//! longer than one exchange.

use std::{collections::BTreeMap, fmt, path::Path};

use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::{DaemonCredentials, Reason, RepositoryUrl, Scheme, SourceError, netrc};

/// Most bytes of one file of credentials.
const MAX_FILE: u64 = 1 << 20;
/// Most files of one directory of keys.
const MAX_FILES: usize = 64;

/// A Secret by name; the namespace is already resolved (the release's own when the reference gives none).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The decoded `data` of a Secret. `Debug` shows the keys only.
///
/// Keys that git sources read: `username` and `password` (basic), `bearerToken` (or `token`), `caFile` (or `ca.crt`),
/// `tls.crt` with `tls.key` (or `certFile` with `keyFile`), `identity`, `known_hosts`.
#[derive(Clone, Default)]
pub struct SecretData(BTreeMap<String, Zeroizing<Vec<u8>>>);

impl SecretData {
    /// The bytes under `key`: a secret.
    #[must_use]
    pub fn expose(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(|value| value.as_slice())
    }

    /// The text under `key` without a trailing line break (which editors and `echo` add): a secret.
    #[must_use]
    pub fn expose_text(&self, key: &str) -> Option<&str> {
        let text = std::str::from_utf8(self.expose(key)?).ok()?;
        Some(text.trim_end_matches(['\n', '\r']))
    }

    /// The names of the keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<K: Into<String>, V: Into<Vec<u8>>> FromIterator<(K, V)> for SecretData {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), Zeroizing::new(value.into())))
                .collect(),
        )
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys()).finish()
    }
}

/// Why a Secret cannot be read.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// There is no such Secret.
    #[error("secret {0} does not exist")]
    NotFound(SecretRef),
    /// The policy or the API server forbids it. The text says which.
    #[error("secret {secret} may not be read: {why}")]
    Forbidden {
        /// The Secret.
        secret: SecretRef,
        /// Who forbids it.
        why: String,
    },
    /// The API server could not be asked; trying again may help.
    #[error("secret {secret} could not be read: {why}")]
    Unavailable {
        /// The Secret.
        secret: SecretRef,
        /// What went wrong.
        why: String,
    },
}

/// Reads Secrets for sources; the operator implements it with its client and its cross-namespace policy.
pub trait SecretReader: Send + Sync + 'static {
    /// The current data of `secret`.
    fn read<'a>(&'a self, secret: &'a SecretRef) -> BoxFuture<'a, Result<SecretData, SecretError>>;
}

/// A reader for a daemon without a cluster and for tests: it knows what it was given.
#[derive(Debug, Default)]
pub struct StaticSecrets(pub BTreeMap<SecretRef, SecretData>);

impl SecretReader for StaticSecrets {
    fn read<'a>(&'a self, secret: &'a SecretRef) -> BoxFuture<'a, Result<SecretData, SecretError>> {
        let found = self.0.get(secret).cloned();
        Box::pin(async move { found.ok_or_else(|| SecretError::NotFound(secret.clone())) })
    }
}

/// How a request over HTTP says who it is.
#[derive(Default)]
pub(crate) enum Auth {
    /// It does not.
    #[default]
    None,
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password: a secret.
        password: Zeroizing<String>,
    },
    /// A token: a secret.
    Bearer(Zeroizing<String>),
}

type Secret = Zeroizing<Vec<u8>>;

/// The credentials of one exchange. There is no `Debug`: it holds nothing that may be shown.
#[derive(Default)]
pub(crate) struct Credentials {
    /// For HTTP.
    pub(crate) auth: Auth,
    /// Certificates to trust, PEM: these only, or besides those of the system.
    pub(crate) ca: Option<Secret>,
    /// Those of the system are trusted too.
    pub(crate) ca_adds: bool,
    /// Client certificate and key, PEM.
    pub(crate) client_certificate: Option<Secret>,
    /// Private keys for ssh.
    pub(crate) identities: Vec<Secret>,
    /// Host keys in the format of OpenSSH.
    pub(crate) known_hosts: Vec<u8>,
    /// Where they come from, for messages: `secret team/app`, `the daemon`, or nothing.
    pub(crate) origin: String,
}

impl Credentials {
    /// What to do when the remote refuses these credentials.
    pub(crate) fn refused_hint(&self) -> String {
        match self.auth {
            Auth::None => "it wants credentials: name a Secret with `username` and `password` in \
                           spec.chart.secretRef"
                .to_owned(),
            _ => format!("it refuses the credentials of {}", self.origin),
        }
    }

    /// What may be wrong when the remote says that there is no such repository.
    pub(crate) fn missing_hint(&self) -> String {
        match self.auth {
            Auth::None => "there is no such repository, or it is private and wants credentials \
                           (spec.chart.secretRef)"
                .to_owned(),
            _ => format!(
                "there is no such repository, or the credentials of {} do not reach it",
                self.origin
            ),
        }
    }

    /// The credentials for `url`, read now.
    ///
    /// # Errors
    /// `AuthFailed` for a Secret that is missing, forbidden or without a usable key; `Unreachable` when the API server
    /// cannot be asked.
    pub(crate) async fn resolve(
        url: &RepositoryUrl,
        secret: Option<&SecretRef>,
        reader: &dyn SecretReader,
        daemon: &DaemonCredentials,
    ) -> Result<Self, SourceError> {
        let mut credentials = match secret {
            None => Self::default(),
            Some(secret) => {
                let data = reader.read(secret).await.map_err(secret_error)?;
                Self::from_secret(&data, url, secret)?
            }
        };
        credentials.add_url(url);
        credentials.add_daemon(url, daemon)?;
        Ok(credentials)
    }

    fn from_secret(
        data: &SecretData,
        url: &RepositoryUrl,
        secret: &SecretRef,
    ) -> Result<Self, SourceError> {
        let origin = format!("secret {secret}");
        let bytes = |keys: &[&str]| {
            keys.iter()
                .find_map(|key| data.expose(key))
                .map(|value| Zeroizing::new(value.to_vec()))
        };
        let mut credentials = Self {
            auth: auth_from_secret(data, &origin)?,
            ca: bytes(&["caFile", "ca.crt"]),
            ca_adds: false,
            client_certificate: client_certificate(data),
            identities: data
                .keys()
                .filter(|key| key.starts_with("identity") && !key.ends_with(".pub"))
                .filter_map(|key| data.expose(key).map(|value| Zeroizing::new(value.to_vec())))
                .collect(),
            known_hosts: data.expose("known_hosts").unwrap_or_default().to_vec(),
            origin,
        };
        let usable = match url.scheme() {
            Scheme::Ssh => {
                !credentials.identities.is_empty() || !credentials.known_hosts.is_empty()
            }
            _ => {
                !matches!(credentials.auth, Auth::None)
                    || credentials.ca.is_some()
                    || credentials.client_certificate.is_some()
            }
        };
        if !usable && url.scheme() != Scheme::Local {
            let keys = match url.scheme() {
                Scheme::Ssh => "`identity`, `known_hosts`",
                _ => {
                    "`username` with `password`, `bearerToken`, `caFile`, `tls.crt` with `tls.key`"
                }
            };
            return Err(SourceError::new(
                Reason::AuthFailed,
                format!(
                    "{} holds no key that {} can use: give it {keys}",
                    credentials.origin, url
                ),
            ));
        }
        if url.scheme() != Scheme::Ssh {
            credentials.identities.clear();
        }
        Ok(credentials)
    }

    /// User and password of the URL itself, if the Secret has none.
    fn add_url(&mut self, url: &RepositoryUrl) {
        if !url.has_credentials() || !matches!(self.auth, Auth::None) {
            return;
        }
        self.auth = Auth::Basic {
            user: url.expose_user().unwrap_or_default().to_owned(),
            password: Zeroizing::new(url.expose_password().unwrap_or_default().to_owned()),
        };
        "the URL".clone_into(&mut self.origin);
    }

    /// What the daemon has for every remote, where nothing nearer was found.
    fn add_daemon(
        &mut self,
        url: &RepositoryUrl,
        daemon: &DaemonCredentials,
    ) -> Result<(), SourceError> {
        match url.scheme() {
            Scheme::Ssh => self.add_daemon_ssh(daemon),
            Scheme::Https => self.add_daemon_http(url, daemon),
            _ => Ok(()),
        }
    }

    fn add_daemon_ssh(&mut self, daemon: &DaemonCredentials) -> Result<(), SourceError> {
        if self.identities.is_empty() {
            for path in &daemon.ssh_identities {
                self.identities
                    .extend(read_files(path)?.into_iter().filter(|f| is_private_key(f)));
            }
        }
        if self.known_hosts.is_empty() {
            for path in &daemon.known_hosts {
                for file in read_files(path)? {
                    self.known_hosts.extend_from_slice(&file);
                    self.known_hosts.push(b'\n');
                }
            }
        }
        if self.origin.is_empty() {
            "the daemon".clone_into(&mut self.origin);
        }
        Ok(())
    }

    fn add_daemon_http(
        &mut self,
        url: &RepositoryUrl,
        daemon: &DaemonCredentials,
    ) -> Result<(), SourceError> {
        if self.ca.is_none()
            && let Some(path) = &daemon.ca_file
        {
            self.ca = read_files(path)?.into_iter().next();
            self.ca_adds = true;
        }
        let Some(path) = daemon
            .netrc
            .as_ref()
            .filter(|_| matches!(self.auth, Auth::None))
        else {
            return Ok(());
        };
        for file in read_files(path)? {
            if let Some((user, password)) = netrc::find(&file, url.host()) {
                self.auth = Auth::Basic { user, password };
                "the .netrc of the daemon".clone_into(&mut self.origin);
            }
        }
        Ok(())
    }
}

fn auth_from_secret(data: &SecretData, origin: &str) -> Result<Auth, SourceError> {
    let owned = |text: &str| Zeroizing::new(text.to_owned());
    let token = data
        .expose_text("bearerToken")
        .or_else(|| data.expose_text("token"));
    let lacks = |key: &str| {
        SourceError::new(
            Reason::AuthFailed,
            format!("{origin} lacks the key `{key}`: add it"),
        )
    };
    match (
        data.expose_text("username"),
        data.expose_text("password"),
        token,
    ) {
        (Some(user), Some(password), _) => Ok(Auth::Basic {
            user: user.to_owned(),
            password: owned(password),
        }),
        (_, _, Some(token)) => Ok(Auth::Bearer(owned(token))),
        (Some(_), None, None) => Err(lacks("password")),
        (None, Some(_), None) => Err(lacks("username")),
        (None, None, None) => Ok(Auth::None),
    }
}

fn client_certificate(data: &SecretData) -> Option<Secret> {
    let pairs = [("tls.crt", "tls.key"), ("certFile", "keyFile")];
    let (certificate, key) = pairs
        .iter()
        .find_map(|(c, k)| Some((data.expose(c)?, data.expose(k)?)))?;
    let mut pem = Zeroizing::new(Vec::with_capacity(certificate.len() + key.len() + 1));
    pem.extend_from_slice(certificate);
    pem.push(b'\n');
    pem.extend_from_slice(key);
    Some(pem)
}

/// The error of a source whose Secret cannot be read.
pub(crate) fn secret_error(error: SecretError) -> SourceError {
    let reason = match error {
        SecretError::NotFound(_) | SecretError::Forbidden { .. } => Reason::AuthFailed,
        SecretError::Unavailable { .. } => Reason::Unreachable,
    };
    SourceError::new(reason, error.to_string())
}

/// The file at `path`, or the files of the directory at `path` (as a Secret is mounted); nothing when it is absent.
fn read_files(path: &Path) -> Result<Vec<Secret>, SourceError> {
    let failed = |error: std::io::Error| {
        SourceError::new(
            Reason::AuthFailed,
            format!("reading {}: {error}", path.display()),
        )
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_dir() {
        return Ok(vec![read_file(path).map_err(failed)?]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)?.take(MAX_FILES) {
        let entry = entry.map_err(failed)?.path();
        // `..data` and its like are how a mounted Secret is swapped.
        let hidden = entry
            .file_name()
            .is_none_or(|name| name.to_string_lossy().starts_with(".."));
        if !hidden && entry.is_file() {
            paths.push(entry);
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| read_file(path).map_err(failed))
        .collect()
}

fn read_file(path: &Path) -> std::io::Result<Secret> {
    use std::io::Read;
    let mut bytes = Zeroizing::new(Vec::new());
    std::fs::File::open(path)?
        .take(MAX_FILE)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_private_key(file: &[u8]) -> bool {
    file.windows(11).any(|window| window == b"PRIVATE KEY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_secret_data_shows_keys_only() {
        let data = SecretData::from_iter([("password", "canary")]);
        assert_eq!(format!("{data:?}"), r#"{"password"}"#);
    }

    #[test]
    fn a_trailing_line_break_is_no_part_of_a_password() {
        let data = SecretData::from_iter([("password", "pass word \r\n")]);
        assert_eq!(data.expose_text("password"), Some("pass word "));
    }

    fn secret() -> SecretRef {
        SecretRef {
            namespace: "team".into(),
            name: "app".into(),
        }
    }

    async fn resolve(url: &str, data: &[(&str, &str)]) -> Result<Credentials, SourceError> {
        let url = RepositoryUrl::parse(url).unwrap();
        let data: SecretData = data.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let reader = StaticSecrets([(secret(), data)].into());
        Credentials::resolve(
            &url,
            Some(&secret()),
            &reader,
            &DaemonCredentials::default(),
        )
        .await
    }

    #[tokio::test]
    async fn user_and_password_of_a_secret_win_over_those_of_the_url() {
        let found = resolve(
            "https://a:b@h/x",
            &[("username", "me"), ("password", "pw\n")],
        )
        .await;
        let Auth::Basic { user, password } = found.unwrap().auth else {
            panic!("not basic")
        };
        assert_eq!((user.as_str(), password.as_str()), ("me", "pw"));
    }

    #[tokio::test]
    async fn a_secret_that_lacks_half_of_a_login_is_an_error_that_says_which() {
        for (key, missing) in [("username", "password"), ("password", "username")] {
            let error = resolve("https://h/x", &[(key, "canary")])
                .await
                .err()
                .unwrap();
            assert_eq!(error.reason(), Reason::AuthFailed);
            assert_eq!(
                error.to_string(),
                format!("secret team/app lacks the key `{missing}`: add it")
            );
        }
    }

    #[tokio::test]
    async fn a_secret_of_another_kind_is_an_error_that_says_what_is_needed() {
        let error = resolve("https://h/x", &[("identity", "canary")])
            .await
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("`username` with `password`"),
            "{error}"
        );
        let error = resolve("git@h:x", &[("password", "p"), ("username", "u")])
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("`identity`"), "{error}");
        assert!(!error.to_string().contains("canary"));
    }

    #[tokio::test]
    async fn every_identity_of_a_secret_is_used_and_public_keys_are_not() {
        let data = [
            ("identity", "a"),
            ("identity.pub", "b"),
            ("identity-2", "c"),
            ("known_hosts", "h"),
        ];
        let found = resolve("git@h:x", &data).await.unwrap();
        assert_eq!(found.identities.len(), 2);
        assert_eq!(found.known_hosts, b"h");
    }

    #[tokio::test]
    async fn a_missing_secret_is_an_auth_failure_and_an_unreachable_one_is_not() {
        let url = RepositoryUrl::parse("https://h/x").unwrap();
        let daemon = DaemonCredentials::default();
        let error = Credentials::resolve(&url, Some(&secret()), &StaticSecrets::default(), &daemon)
            .await
            .err()
            .unwrap();
        assert_eq!(error.reason(), Reason::AuthFailed);
        assert_eq!(error.to_string(), "secret team/app does not exist");
        let away = SecretError::Unavailable {
            secret: secret(),
            why: "api server away".into(),
        };
        assert!(secret_error(away).is_transient());
    }

    #[tokio::test]
    async fn daemon_wide_files_serve_remotes_without_a_secret() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
            directory.path().join(name)
        };
        std::fs::create_dir(directory.path().join("keys")).unwrap();
        write("keys/identity", "-----BEGIN OPENSSH PRIVATE KEY-----");
        write("keys/identity.pub", "ssh-ed25519 AAAA");
        let daemon = DaemonCredentials {
            ssh_identities: vec![
                directory.path().join("keys"),
                directory.path().join("absent"),
            ],
            known_hosts: vec![write("known_hosts", "h ssh-ed25519 AAAA")],
            netrc: Some(write("netrc", "machine h login me password pw")),
            ..DaemonCredentials::default()
        };
        let none = StaticSecrets::default();
        let ssh = RepositoryUrl::parse("git@h:x").unwrap();
        let found = Credentials::resolve(&ssh, None, &none, &daemon)
            .await
            .unwrap();
        assert_eq!(found.identities.len(), 1);
        assert_eq!(found.known_hosts, b"h ssh-ed25519 AAAA\n");
        let https = RepositoryUrl::parse("https://h/x").unwrap();
        let found = Credentials::resolve(&https, None, &none, &daemon)
            .await
            .unwrap();
        assert!(matches!(found.auth, Auth::Basic { .. }));
        let other = RepositoryUrl::parse("https://other/x").unwrap();
        let found = Credentials::resolve(&other, None, &none, &daemon)
            .await
            .unwrap();
        assert!(matches!(found.auth, Auth::None));
    }
}

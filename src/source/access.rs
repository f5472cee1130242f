//! What opens a chart repository or a registry: logins, tokens and certificates.

use std::fmt;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{Reason, SecretData, SourceError};

/// Credentials and certificates for one repository, registry or import entry. `Debug` shows which
/// there are, and nothing of them.
#[derive(Clone, Default)]
pub struct Access {
    basic: Option<Login>,
    bearer: Option<Zeroizing<String>>,
    ca: Option<Vec<u8>>,
    identity: Option<Zeroizing<Vec<u8>>>,
    registries: Vec<(String, Login)>,
    pass_credentials: bool,
    insecure_skip_tls_verify: bool,
}

/// A user name and a password.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Zeroizing<String>,
}

impl Access {
    /// No credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// A login with a password, as `username` and `password` of `repositories.yaml` are.
    #[must_use]
    pub fn with_login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.basic = Some(Login {
            user: user.into(),
            password: Zeroizing::new(password.into()),
        });
        self
    }

    /// Trusts the certificates of this PEM bundle besides those of the system.
    #[must_use]
    pub fn with_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Shows a client certificate: PEM of the chain and of its key.
    #[must_use]
    pub fn with_identity(mut self, certificate: &[u8], key: &[u8]) -> Self {
        let mut pem = Zeroizing::new(Vec::with_capacity(certificate.len() + key.len() + 1));
        pem.extend_from_slice(certificate);
        pem.push(b'\n');
        pem.extend_from_slice(key);
        self.identity = Some(pem);
        self
    }

    /// Sends the credentials also to the host of an archive that is not the repository's
    /// (`pass_credentials_all`).
    #[must_use]
    pub fn passing_credentials(mut self, pass: bool) -> Self {
        self.pass_credentials = pass;
        self
    }

    /// Accepts any certificate (`insecure_skip_tls_verify` of an imported `repositories.yaml`).
    #[must_use]
    pub fn skipping_tls_verification(mut self, skip: bool) -> Self {
        self.insecure_skip_tls_verify = skip;
        self
    }

    /// The same certificates without credentials.
    pub(super) fn without_credentials(&self) -> Self {
        Self {
            ca: self.ca.clone(),
            identity: self.identity.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            ..Self::default()
        }
    }

    /// Reads a Secret: `username` with `password`, `bearerToken` (or `token`), `caFile` (or
    /// `ca.crt`), `certFile` with `keyFile` (or `tls.crt` with `tls.key`), `passCredentials`, and
    /// `.dockerconfigjson`.
    ///
    /// # Errors
    /// `AuthFailed` when half of a pair is missing or a value cannot be read; the text names the
    /// key and never the value.
    pub fn from_secret(data: &SecretData) -> Result<Self, SourceError> {
        let mut access = Self::anonymous();
        if let Some((user, password)) = text_pair(data, "username", "password")? {
            access = access.with_login(user, password);
        }
        let bearer = data
            .expose_text("bearerToken")
            .or(data.expose_text("token"));
        access.bearer = bearer.map(|token| Zeroizing::new(token.to_owned()));
        access.ca = first(data, &["caFile", "ca.crt"]).map(<[u8]>::to_vec);
        let certificate = first(data, &["certFile", "tls.crt"]);
        match (certificate, first(data, &["keyFile", "tls.key"])) {
            (Some(certificate), Some(key)) => access = access.with_identity(certificate, key),
            (None, None) => {}
            (Some(_), None) => return Err(incomplete("certFile", "keyFile")),
            (None, Some(_)) => return Err(incomplete("keyFile", "certFile")),
        }
        access.pass_credentials = data.expose_text("passCredentials") == Some("true");
        if let Some(config) = data.expose(".dockerconfigjson") {
            access.registries = docker_logins(config)?;
        }
        Ok(access)
    }

    /// The login for a host: that of the docker configuration if it names the host, else the only
    /// one there is.
    pub(super) fn login(&self, host: &str) -> Option<&Login> {
        let named = self.registries.iter().find(|(name, _)| name == host);
        named.map(|(_, login)| login).or(self.basic.as_ref())
    }

    pub(super) fn bearer(&self) -> Option<&str> {
        self.bearer.as_ref().map(|token| token.as_str())
    }

    pub(super) fn ca(&self) -> Option<&[u8]> {
        self.ca.as_deref()
    }

    pub(super) fn identity(&self) -> Option<&[u8]> {
        self.identity.as_ref().map(|pem| pem.as_slice())
    }

    pub(super) fn passes_credentials(&self) -> bool {
        self.pass_credentials
    }

    pub(super) fn skips_tls_verification(&self) -> bool {
        self.insecure_skip_tls_verify
    }

    /// Names the TLS settings, so that connections with equal ones are shared.
    pub(super) fn tls_id(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update([u8::from(self.insecure_skip_tls_verify)]);
        for part in [self.ca(), self.identity()] {
            hash.update(part.map_or(0, <[u8]>::len).to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        hash.finalize().into()
    }

    /// Names everything here, so that what one login may see is not served to another.
    pub(super) fn id(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.tls_id());
        let logins = self.basic.iter().map(|login| ("", login));
        let named = self
            .registries
            .iter()
            .map(|(host, login)| (host.as_str(), login));
        for (host, login) in logins.chain(named) {
            for part in [host, &login.user, &login.password] {
                hash.update(part.len().to_be_bytes());
                hash.update(part);
            }
        }
        hash.update(self.bearer().unwrap_or_default());
        hash.finalize().into()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("login", &self.basic.is_some())
            .field("bearer", &self.bearer.is_some())
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .field("registries", &self.registries.len())
            .finish_non_exhaustive()
    }
}

fn first<'a>(data: &'a SecretData, keys: &[&str]) -> Option<&'a [u8]> {
    keys.iter().find_map(|key| data.expose(key))
}

fn text_pair<'a>(
    data: &'a SecretData,
    left: &str,
    right: &str,
) -> Result<Option<(&'a str, &'a str)>, SourceError> {
    match (data.expose_text(left), data.expose_text(right)) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(incomplete(left, right)),
        (None, Some(_)) => Err(incomplete(right, left)),
    }
}

fn incomplete(present: &str, missing: &str) -> SourceError {
    let text = format!("the secret has the key {present} and no usable {missing}: add it");
    SourceError::new(Reason::AuthFailed, text)
}

/// The logins of a docker configuration, by registry host. Entries without a password (those of
/// credential helpers) are left out: no program is started here.
fn docker_logins(config: &[u8]) -> Result<Vec<(String, Login)>, SourceError> {
    let bad = |why: &str| {
        let text = format!("the key .dockerconfigjson of the secret {why}");
        SourceError::new(Reason::AuthFailed, text)
    };
    let config: serde_json::Value =
        serde_json::from_slice(config).map_err(|_| bad("is no JSON: write it with kubectl"))?;
    let Some(entries) = config.get("auths").and_then(serde_json::Value::as_object) else {
        return Err(bad("has no auths"));
    };
    let logins = entries
        .iter()
        .filter_map(|(host, entry)| Some((registry_host(host), docker_login(entry)?)));
    Ok(logins.collect())
}

/// The host of an entry, which may be written as a URL.
fn registry_host(name: &str) -> String {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    name.split('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase()
}

fn docker_login(entry: &serde_json::Value) -> Option<Login> {
    let text = |key: &str| entry.get(key).and_then(serde_json::Value::as_str);
    if let (Some(user), Some(password)) = (text("username"), text("password")) {
        return Some(Login {
            user: user.to_owned(),
            password: Zeroizing::new(password.to_owned()),
        });
    }
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(text("auth")?)
        .ok()?;
    let decoded = Zeroizing::new(String::from_utf8(decoded).ok()?);
    let (user, password) = decoded.split_once(':')?;
    Some(Login {
        user: user.to_owned(),
        password: Zeroizing::new(password.trim_end_matches('\0').to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(entries: &[(&str, &str)]) -> SecretData {
        entries.iter().copied().collect()
    }

    #[test]
    fn debug_shows_nothing_secret() {
        let data = secret(&[
            ("username", "canary-u"),
            ("password", "canary-p"),
            ("token", "canary-t"),
        ]);
        let access = Access::from_secret(&data).unwrap();
        assert!(!format!("{access:?}").contains("canary"));
    }

    #[test]
    fn half_of_a_pair_is_an_error_that_names_the_missing_key() {
        for (key, missing) in [
            ("username", "password"),
            ("password", "username"),
            ("certFile", "keyFile"),
            ("tls.key", "certFile"),
        ] {
            let error = Access::from_secret(&secret(&[(key, "canary")])).unwrap_err();
            assert!(error.to_string().contains(missing), "{error}");
            assert!(!error.to_string().contains("canary"), "{error}");
            assert_eq!(error.reason(), Reason::AuthFailed);
        }
    }

    #[test]
    fn a_docker_configuration_is_read_in_both_forms() {
        let config = r#"{"auths":{
            "https://one.example/v1/":{"auth":"dTpw"},
            "two.example":{"username":"v","password":"q"},
            "helper.example":{}}}"#;
        let access = Access::from_secret(&secret(&[(".dockerconfigjson", config)])).unwrap();
        let seen = |host: &str| {
            access
                .login(host)
                .map(|l| format!("{}:{}", l.user, *l.password))
        };
        assert_eq!(seen("one.example").as_deref(), Some("u:p"));
        assert_eq!(seen("two.example").as_deref(), Some("v:q"));
        assert_eq!(seen("helper.example"), None);
    }

    #[test]
    fn a_broken_docker_configuration_is_an_error() {
        for config in ["", "[]", "{\"auths\": 1}"] {
            let error = Access::from_secret(&secret(&[(".dockerconfigjson", config)])).unwrap_err();
            assert_eq!(error.reason(), Reason::AuthFailed);
        }
    }

    #[test]
    fn two_logins_have_two_ids() {
        let one = Access::anonymous().with_login("ab", "c");
        let two = Access::anonymous().with_login("a", "bc");
        assert_ne!(one.id(), two.id());
        assert_eq!(one.tls_id(), two.tls_id());
    }
}

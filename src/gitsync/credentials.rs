//! Where credentials come from.
//!
//! A Secret is asked for on every fetch, so that a rotated password is used at the next poll and nothing secret is kept
//! longer than one exchange.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use zeroize::Zeroizing;

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
}

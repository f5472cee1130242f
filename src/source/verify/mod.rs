//! Who signed a chart: cosign signatures of registries, and Helm's provenance files.
//!
//! The keys come from a Secret and are read anew at every check. Expiry and revocation are not looked at: a key is
//! trusted as long as it is in the Secret. Transparency logs and certificate authorities are not asked.

mod cosign;
mod provenance;

use sha2::{Digest as _, Sha256};

use super::{Reason, SecretData, SecretRef, SourceError};
use crate::gitsync::{Keyring, Outcome};

pub use provenance::{Signer, verify_provenance};

/// The public keys of a Secret: one signature by one of them is enough.
#[derive(Debug, Default)]
pub(super) struct Keys {
    cosign: Vec<cosign::PublicKey>,
    openpgp: Keyring,
    id: [u8; 32],
    origin: String,
}

impl Keys {
    /// PEM public keys (as `cosign generate-key-pair` writes to `cosign.pub`) and OpenPGP keys, armored or not.
    ///
    /// # Errors
    /// `SignatureInvalid` where there is none: a Secret without keys must not let every chart pass.
    pub(super) fn from_secret(data: &SecretData, secret: &SecretRef) -> Result<Self, SourceError> {
        let mut keys = Self {
            origin: format!("secret {secret}"),
            ..Self::default()
        };
        let mut hash = Sha256::new();
        for key in data.keys() {
            let content = data.expose(key).unwrap_or_default();
            hash.update(content.len().to_be_bytes());
            hash.update(content);
            match data.expose_text(key) {
                Some(text) if text.contains("-----BEGIN PUBLIC KEY-----") => {
                    keys.cosign.extend(cosign::read_keys(text));
                }
                _ => keys.openpgp.extend(Keyring::read(content)),
            }
        }
        keys.id = hash.finalize().into();
        if keys.cosign.is_empty() && keys.openpgp.is_empty() {
            return Err(keys.invalid(
                "there is no key to check charts with: put PEM public keys of cosign in `*.pub`, or OpenPGP public \
                 keys in `*.asc`",
            ));
        }
        Ok(keys)
    }

    /// Names the keys, so that what was checked with them is not checked again.
    pub(super) fn id(&self) -> [u8; 32] {
        self.id
    }

    /// Whether some can check signatures of cosign.
    pub(super) fn has_cosign(&self) -> bool {
        !self.cosign.is_empty()
    }

    /// Whether some can check provenance files.
    pub(super) fn has_openpgp(&self) -> bool {
        !self.openpgp.is_empty()
    }

    /// A refusal, with where the keys are from.
    pub(super) fn invalid(&self, why: &str) -> SourceError {
        let text = format!("{why}; the keys are those of {}", self.origin);
        SourceError::new(Reason::SignatureInvalid, text)
    }

    /// Checks one signature of cosign over one payload: see [`cosign::check_payload`].
    pub(super) fn check_payload(&self, payload: &[u8], signature: &str, manifest: &str) -> Outcome {
        cosign::check_payload(&self.cosign, payload, signature, manifest)
    }

    /// Checks one bundle of sigstore: see [`cosign::check_bundle`].
    pub(super) fn check_bundle(&self, bundle: &[u8], manifest: &str) -> Outcome {
        cosign::check_bundle(&self.cosign, bundle, manifest)
    }

    /// Checks a provenance file over an archive that goes by one of `names` and has this digest.
    ///
    /// # Errors
    /// `SignatureInvalid`.
    pub(super) fn check_provenance(
        &self,
        provenance: &[u8],
        names: &[String],
        digest: &str,
    ) -> Result<Signer, SourceError> {
        provenance::check(&self.openpgp, provenance, names, digest)
            .map_err(|why| self.invalid(&why))
    }
}

//! Who signed a commit.
//!
//! The keys come from a Secret: OpenSSH public keys (`*.pub`, `allowed_signers`) and OpenPGP public keys (`*.asc`). A
//! commit passes when one of exactly these keys signed it. Expiry and revocation are not looked at: a key is trusted as
//! long as it is in the Secret.

mod cleartext;
mod openpgp;
mod ssh;

use aws_lc_rs::signature::{UnparsedPublicKey, VerificationAlgorithm};
use gix::{hash, objs::CommitRefIter};

use super::{Reason, SecretData, SecretRef, SourceError};

/// The public keys of a Secret.
#[derive(Debug, Default)]
pub(crate) struct Signers {
    ssh: Vec<ssh::PublicKey>,
    openpgp: Vec<openpgp::PublicKey>,
    origin: String,
}

impl Signers {
    /// The keys in `data`.
    ///
    /// # Errors
    /// `SignatureInvalid` when there is none: a Secret without keys must not let every commit pass.
    pub(crate) fn read(data: &SecretData, secret: &SecretRef) -> Result<Self, SourceError> {
        let mut signers = Self {
            origin: format!("secret {secret}"),
            ..Self::default()
        };
        for key in data.keys() {
            let Some(text) = data.expose_text(key) else {
                continue;
            };
            if text.contains("-----BEGIN PGP PUBLIC KEY BLOCK-----") {
                signers.openpgp.extend(openpgp::read_keys(text));
            } else {
                signers
                    .ssh
                    .extend(text.lines().filter_map(ssh::PublicKey::parse_line));
            }
        }
        if signers.ssh.is_empty() && signers.openpgp.is_empty() {
            return Err(SourceError::new(
                Reason::SignatureInvalid,
                format!(
                    "{} holds no key to check commits with: put OpenSSH public keys in `*.pub` or OpenPGP public keys \
                     in `*.asc`",
                    signers.origin
                ),
            ));
        }
        Ok(signers)
    }

    /// Checks the signature of a commit, given as its raw object.
    ///
    /// # Errors
    /// `SignatureInvalid`.
    pub(crate) fn check(&self, id: gix::ObjectId, commit: &[u8]) -> Result<(), SourceError> {
        let refuse = |why: &str| {
            let origin = &self.origin;
            SourceError::new(
                Reason::SignatureInvalid,
                format!("commit {id} {why}; it must be signed by a key of {origin}"),
            )
        };
        let found = CommitRefIter::signature(commit, hash::Kind::Sha1)
            .ok()
            .flatten();
        let Some((signature, signed)) = found else {
            return Err(refuse("is not signed"));
        };
        let signature = String::from_utf8_lossy(&signature).into_owned();
        let message = signed.to_bstring();
        let outcome = if signature.contains("-----BEGIN SSH SIGNATURE-----") {
            ssh::verify(&signature, &message, &self.ssh)
        } else {
            openpgp::verify(&signature, &message, &self.openpgp)
        };
        match outcome {
            Outcome::Good => Ok(()),
            Outcome::UnknownKey => Err(refuse("is signed by another key")),
            Outcome::Bad => Err(refuse("has a signature that does not fit its content")),
            Outcome::Unreadable => Err(refuse("has a signature of a kind that is not understood")),
        }
    }
}

/// OpenPGP keys for what is signed besides commits.
#[derive(Debug, Default)]
pub(crate) struct Keyring(Vec<openpgp::PublicKey>);

/// A text that one of the keys has signed.
#[derive(Debug)]
pub(crate) struct SignedText {
    /// The text.
    pub(crate) text: String,
    /// The fingerprint of the primary key, in upper-case hex.
    pub(crate) fingerprint: String,
    /// The user ids of the key.
    pub(crate) names: Vec<String>,
}

impl Keyring {
    /// The keys of a ring: armored, binary, or GnuPG's `pubring.kbx`.
    pub(crate) fn read(content: &[u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(content)
            && text.contains("-----BEGIN PGP ")
        {
            return Self(openpgp::read_keys(text));
        }
        if content.get(4) == Some(&1) && content.get(8..12) == Some(b"KBXf") {
            return Self(openpgp::keys_in_keybox(content));
        }
        Self(openpgp::keys_in(content))
    }

    /// Adds the keys of another ring.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there is no key that is understood.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a clear-signed message.
    ///
    /// # Errors
    /// What is wrong with the signature.
    pub(crate) fn open(&self, message: &str) -> Result<SignedText, Outcome> {
        let message = cleartext::Cleartext::parse(message).ok_or(Outcome::Unreadable)?;
        let owner = openpgp::verify_cleartext(&message, &self.0)?;
        Ok(SignedText {
            text: message.text,
            fingerprint: owner.fingerprint.clone(),
            names: owner.names.clone(),
        })
    }
}

/// What a look at a signature gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// One of the keys made it, over this content.
    Good,
    /// Another key made it.
    UnknownKey,
    /// It does not fit the content.
    Bad,
    /// It is none, or of a kind that is not understood.
    Unreadable,
}

/// The base64 between the lines of an armor that begins with `begin`, without headers and checksum.
fn unarmor(text: &str, begin: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    let body = text.split_once(begin)?.1;
    let body = body.split_once("-----END")?.0;
    let lines = body.lines().map(str::trim);
    let base64: String = lines
        .filter(|line| !line.is_empty() && !line.contains(':') && !line.starts_with('='))
        .collect();
    base64::engine::general_purpose::STANDARD
        .decode(base64)
        .ok()
}

/// Takes bytes from the front of a slice, and never more than there are.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<usize> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(usize::from(u16::from_be_bytes(*bytes)))
    }

    fn u32(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.first_chunk()?;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the key made the signature over what is signed.
fn holds(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    signed: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(algorithm, key)
        .verify(signed, signature)
        .is_ok()
}

/// `bytes` without leading zeros, filled up with zeros to `length`; `None` if it is longer.
fn fixed(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let start = bytes
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(bytes.len());
    let digits = bytes.get(start..)?;
    let mut out = vec![0; length.checked_sub(digits.len())?];
    out.extend_from_slice(digits);
    Some(out)
}

#[cfg(test)]
mod tests;

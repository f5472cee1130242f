//! SSH signatures (PROTOCOL.sshsig of OpenSSH), as `git commit -S` makes them with `gpg.format=ssh`.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents,
    VerificationAlgorithm,
};
use base64::Engine;
use sha2::{Digest, Sha256, Sha512};

use super::{Cursor, Outcome, fixed, holds, unarmor};

const MAGIC: &[u8] = b"SSHSIG";
/// What git signs in.
const NAMESPACE: &[u8] = b"git";

/// A public key in the encoding of OpenSSH (RFC 4253, 5656, 8709).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads a line of a `.pub` file or of an `allowed_signers` file: the key is the word after the name of its type.
    pub(super) fn parse_line(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut words = line
            .split_ascii_whitespace()
            .skip_while(|word| !is_key_type(word));
        let kind = words.next()?;
        let blob = base64::engine::general_purpose::STANDARD
            .decode(words.next()?)
            .ok()?;
        let mut cursor = Cursor(&blob);
        (string(&mut cursor)? == kind.as_bytes()).then_some(Self(blob))
    }
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|start| word.starts_with(start))
}

fn string<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = cursor.u32()?;
    cursor.take(length)
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Checks `armored` over `message`.
pub(super) fn verify(armored: &str, message: &[u8], keys: &[PublicKey]) -> Outcome {
    let Some(blob) = unarmor(armored, "-----BEGIN SSH SIGNATURE-----") else {
        return Outcome::Unreadable;
    };
    let Some(envelope) = Envelope::parse(&blob) else {
        return Outcome::Unreadable;
    };
    if !keys.iter().any(|key| key.0 == envelope.key) {
        return Outcome::UnknownKey;
    }
    match envelope
        .signed(message)
        .and_then(|signed| envelope.check(&signed))
    {
        Some(true) => Outcome::Good,
        Some(false) => Outcome::Bad,
        None => Outcome::Unreadable,
    }
}

struct Envelope<'a> {
    key: &'a [u8],
    hash: &'a [u8],
    reserved: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    /// Of a security key: flags and counter.
    security_key: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn parse(blob: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(blob);
        if cursor.take(MAGIC.len())? != MAGIC || cursor.u32()? != 1 {
            return None;
        }
        let key = string(&mut cursor)?;
        let namespace = string(&mut cursor)?;
        let reserved = string(&mut cursor)?;
        let hash = string(&mut cursor)?;
        let mut inner = Cursor(string(&mut cursor)?);
        let algorithm = string(&mut inner)?;
        let signature = string(&mut inner)?;
        (namespace == NAMESPACE && cursor.is_empty()).then_some(Self {
            key,
            hash,
            reserved,
            algorithm,
            signature,
            security_key: inner.0,
        })
    }

    /// The bytes that the signature is over.
    fn signed(&self, message: &[u8]) -> Option<Vec<u8>> {
        let digest = match self.hash {
            b"sha256" => Sha256::digest(message).to_vec(),
            b"sha512" => Sha512::digest(message).to_vec(),
            _ => return None,
        };
        let mut signed = MAGIC.to_vec();
        for part in [NAMESPACE, self.reserved, self.hash, &digest] {
            put_string(&mut signed, part);
        }
        Some(signed)
    }

    /// `None` for algorithms and keys that are not understood.
    fn check(&self, signed: &[u8]) -> Option<bool> {
        let mut key = Cursor(self.key);
        let kind = string(&mut key)?;
        match kind {
            b"ssh-ed25519" if self.algorithm == kind => {
                Some(holds(&ED25519, string(&mut key)?, signed, self.signature))
            }
            b"sk-ssh-ed25519@openssh.com" if self.algorithm == kind => {
                let public = string(&mut key)?;
                let signed = self.security_key_message(string(&mut key)?, signed)?;
                Some(holds(&ED25519, public, &signed, self.signature))
            }
            b"ssh-rsa" => self.check_rsa(key, signed),
            b"ecdsa-sha2-nistp256" if self.algorithm == kind => {
                self.check_ecdsa(key, signed, &ECDSA_P256_SHA256_FIXED, 32)
            }
            b"ecdsa-sha2-nistp384" if self.algorithm == kind => {
                self.check_ecdsa(key, signed, &ECDSA_P384_SHA384_FIXED, 48)
            }
            b"ecdsa-sha2-nistp521" if self.algorithm == kind => {
                self.check_ecdsa(key, signed, &ECDSA_P521_SHA512_FIXED, 66)
            }
            _ => None,
        }
    }

    /// What a security key signs: the hash of its application, a byte of flags, its counter, the hash of the message.
    fn security_key_message(&self, application: &[u8], signed: &[u8]) -> Option<Vec<u8>> {
        const FLAGS_AND_COUNTER: usize = 5;
        let mut out = Sha256::digest(application).to_vec();
        out.extend_from_slice(self.security_key.get(..FLAGS_AND_COUNTER)?);
        out.extend_from_slice(&Sha256::digest(signed));
        Some(out)
    }

    fn check_rsa(&self, mut key: Cursor<'_>, signed: &[u8]) -> Option<bool> {
        let e = string(&mut key)?;
        let n = string(&mut key)?;
        // Numbers are signed here: a leading zero is no part of the modulus.
        let n = n.strip_prefix(&[0]).unwrap_or(n);
        let parameters = match self.algorithm {
            b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
            b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
            _ => return None,
        };
        Some(
            RsaPublicKeyComponents { n, e }
                .verify(parameters, signed, self.signature)
                .is_ok(),
        )
    }

    fn check_ecdsa(
        &self,
        mut key: Cursor<'_>,
        signed: &[u8],
        algorithm: &'static dyn VerificationAlgorithm,
        length: usize,
    ) -> Option<bool> {
        let _curve = string(&mut key)?;
        let point = string(&mut key)?;
        let mut numbers = Cursor(self.signature);
        let mut signature = fixed(string(&mut numbers)?, length)?;
        signature.extend(fixed(string(&mut numbers)?, length)?);
        Some(holds(algorithm, point, signed, &signature))
    }
}

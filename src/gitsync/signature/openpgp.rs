//! OpenPGP signatures (RFC 4880, RFC 9580), as `git commit -S` makes them with GnuPG: version 4 keys and signatures
//! over binary documents, with RSA, ECDSA and EdDSA, and SHA-2.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Cursor, Outcome, fixed, unarmor};

/// Most keys of one block.
const MAX_KEYS: usize = 256;

const TAG_SIGNATURE: u8 = 2;
const TAG_PUBLIC_KEY: u8 = 6;
const TAG_PUBLIC_SUBKEY: u8 = 14;

/// A primary key or a subkey that can sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey {
    fingerprint: [u8; 20],
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Ed25519; the old algorithm signs the digest as if it were the message, and so does the new one.
    Ed25519(Vec<u8>),
    Ecdsa {
        curve: Curve,
        point: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

/// The keys of an armored block; those that are not understood are left out.
pub(super) fn read_keys(armored: &str) -> Vec<PublicKey> {
    let Some(bytes) = unarmor(armored, "-----BEGIN PGP PUBLIC KEY BLOCK-----") else {
        return Vec::new();
    };
    Packets(Cursor(&bytes))
        .filter(|(tag, _)| [TAG_PUBLIC_KEY, TAG_PUBLIC_SUBKEY].contains(tag))
        .filter_map(|(_, body)| PublicKey::parse(body))
        .take(MAX_KEYS)
        .collect()
}

/// Checks `armored` over `message`.
pub(super) fn verify(armored: &str, message: &[u8], keys: &[PublicKey]) -> Outcome {
    let blob = unarmor(armored, "-----BEGIN PGP SIGNATURE-----");
    let packet = blob.as_deref().and_then(|bytes| {
        Packets(Cursor(bytes))
            .find(|(tag, _)| *tag == TAG_SIGNATURE)
            .map(|(_, body)| body)
    });
    let Some(signature) = packet.and_then(Signature::parse) else {
        return Outcome::Unreadable;
    };
    let Some(key) = keys.iter().find(|key| signature.is_by(key)) else {
        return Outcome::UnknownKey;
    };
    match signature.check(message, key) {
        Some(true) => Outcome::Good,
        Some(false) => Outcome::Bad,
        None => Outcome::Unreadable,
    }
}

/// The packets of a message: tag and body. Partial lengths, which no key or signature has, end it.
struct Packets<'a>(Cursor<'a>);

impl<'a> Iterator for Packets<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = &mut self.0;
        let first = cursor.byte()?;
        if first & 0x80 == 0 {
            return None;
        }
        let (tag, length) = if first & 0x40 != 0 {
            (first & 0x3f, new_length(cursor)?)
        } else {
            let length = match first & 3 {
                0 => usize::from(cursor.byte()?),
                1 => cursor.u16()?,
                2 => cursor.u32()?,
                _ => return None,
            };
            ((first >> 2) & 0x0f, length)
        };
        Some((tag, cursor.take(length)?))
    }
}

/// The length of a packet in the new format, and of a subpacket.
fn new_length(cursor: &mut Cursor<'_>) -> Option<usize> {
    match cursor.byte()? {
        short @ 0..=191 => Some(usize::from(short)),
        high @ 192..=223 => {
            Some((usize::from(high - 192) << 8) + usize::from(cursor.byte()?) + 192)
        }
        255 => cursor.u32(),
        _ => None,
    }
}

fn number<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let bits = cursor.u16()?;
    cursor.take(bits.div_ceil(8))
}

impl PublicKey {
    fn parse(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(body);
        if cursor.byte()? != 4 {
            return None;
        }
        let _created = cursor.u32()?;
        let material = match cursor.byte()? {
            1 | 3 => {
                let n = number(&mut cursor)?.to_vec();
                Material::Rsa {
                    n,
                    e: number(&mut cursor)?.to_vec(),
                }
            }
            19 => {
                let curve = Curve::parse(oid(&mut cursor)?)?;
                Material::Ecdsa {
                    curve,
                    point: number(&mut cursor)?.to_vec(),
                }
            }
            22 => {
                const ED25519_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
                if oid(&mut cursor)? != ED25519_OID {
                    return None;
                }
                Material::Ed25519(number(&mut cursor)?.strip_prefix(&[0x40])?.to_vec())
            }
            27 => Material::Ed25519(cursor.take(32)?.to_vec()),
            _ => return None,
        };
        let mut hash = Sha1::new();
        hash.update([0x99]);
        hash.update(u16::try_from(body.len()).ok()?.to_be_bytes());
        hash.update(body);
        Some(Self {
            fingerprint: hash.finalize().into(),
            material,
        })
    }
}

fn oid<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::from(cursor.byte()?);
    cursor.take(length)
}

impl Curve {
    fn parse(oid: &[u8]) -> Option<Self> {
        Some(match oid {
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => Self::P256,
            [0x2b, 0x81, 0x04, 0x00, 0x22] => Self::P384,
            [0x2b, 0x81, 0x04, 0x00, 0x23] => Self::P521,
            _ => return None,
        })
    }

    fn length(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

/// A version 4 signature over a binary document.
struct Signature<'a> {
    hash: u8,
    /// The packet up to the end of the hashed subpackets: a part of what is signed.
    hashed: &'a [u8],
    issuer_fingerprint: Option<&'a [u8]>,
    issuer_id: Option<&'a [u8]>,
    numbers: Cursor<'a>,
    algorithm: u8,
}

impl<'a> Signature<'a> {
    fn parse(body: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(body);
        let [4, 0, algorithm, hash] = *cursor.take(4)?.first_chunk()? else {
            return None;
        };
        let hashed_length = cursor.u16()?;
        let hashed_subpackets = cursor.take(hashed_length)?;
        let hashed = body.get(..6 + hashed_length)?;
        let unhashed_length = cursor.u16()?;
        let unhashed_subpackets = cursor.take(unhashed_length)?;
        let _start_of_digest = cursor.take(2)?;
        let find = |wanted: u8| {
            subpacket(hashed_subpackets, wanted).or_else(|| subpacket(unhashed_subpackets, wanted))
        };
        Some(Self {
            hash,
            hashed,
            // Its first byte is the version of the key.
            issuer_fingerprint: find(33).and_then(|body| body.strip_prefix(&[4])),
            issuer_id: find(16),
            numbers: cursor,
            algorithm,
        })
    }

    fn is_by(&self, key: &PublicKey) -> bool {
        match (self.issuer_fingerprint, self.issuer_id) {
            (Some(fingerprint), _) => key.fingerprint == fingerprint,
            (None, Some(id)) => id.len() == 8 && key.fingerprint.ends_with(id),
            (None, None) => false,
        }
    }

    /// The message and what the signature adds to it.
    fn signed(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut signed = Vec::with_capacity(message.len() + self.hashed.len() + 6);
        signed.extend_from_slice(message);
        signed.extend_from_slice(self.hashed);
        signed.extend_from_slice(&[4, 0xff]);
        signed.extend_from_slice(&u32::try_from(self.hashed.len()).ok()?.to_be_bytes());
        Some(signed)
    }

    /// `None` for what is not understood; SHA-1 and older are not, on purpose.
    fn check(&self, message: &[u8], key: &PublicKey) -> Option<bool> {
        let signed = self.signed(message)?;
        let mut numbers = self.numbers;
        match (&key.material, self.algorithm) {
            (Material::Rsa { n, e }, 1 | 3) => {
                let parameters = match self.hash {
                    8 => &RSA_PKCS1_2048_8192_SHA256,
                    9 => &RSA_PKCS1_2048_8192_SHA384,
                    10 => &RSA_PKCS1_2048_8192_SHA512,
                    _ => return None,
                };
                let signature = fixed(number(&mut numbers)?, n.len())?;
                let key = RsaPublicKeyComponents {
                    n: n.as_slice(),
                    e: e.as_slice(),
                };
                Some(key.verify(parameters, &signed, &signature).is_ok())
            }
            (Material::Ed25519(point), 22) => {
                let mut signature = fixed(number(&mut numbers)?, 32)?;
                signature.extend(fixed(number(&mut numbers)?, 32)?);
                Some(holds(&ED25519, point, &self.digest(&signed)?, &signature))
            }
            (Material::Ed25519(point), 27) => Some(holds(
                &ED25519,
                point,
                &self.digest(&signed)?,
                numbers.take(64)?,
            )),
            (Material::Ecdsa { curve, point }, 19) => {
                let algorithm: &'static dyn VerificationAlgorithm = match (curve, self.hash) {
                    (Curve::P256, 8) => &ECDSA_P256_SHA256_FIXED,
                    (Curve::P384, 9) => &ECDSA_P384_SHA384_FIXED,
                    (Curve::P521, 10) => &ECDSA_P521_SHA512_FIXED,
                    _ => return None,
                };
                let mut signature = fixed(number(&mut numbers)?, curve.length())?;
                signature.extend(fixed(number(&mut numbers)?, curve.length())?);
                Some(holds(algorithm, point, &signed, &signature))
            }
            _ => None,
        }
    }

    fn digest(&self, signed: &[u8]) -> Option<Vec<u8>> {
        Some(match self.hash {
            8 => Sha256::digest(signed).to_vec(),
            9 => Sha384::digest(signed).to_vec(),
            10 => Sha512::digest(signed).to_vec(),
            _ => return None,
        })
    }
}

fn subpacket(area: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut cursor = Cursor(area);
    while !cursor.is_empty() {
        let length = new_length(&mut cursor)?;
        let (kind, body) = cursor.take(length)?.split_first()?;
        if kind & 0x7f == wanted {
            return Some(body);
        }
    }
    None
}

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

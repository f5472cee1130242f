//! OpenPGP signatures (RFC 4880, RFC 9580), as `git commit -S` and `helm package --sign` make them: version 4 keys and
//! signatures over documents and texts, with RSA, ECDSA and EdDSA, and SHA-2.

use std::sync::Arc;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, VerificationAlgorithm,
};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Cursor, Outcome, cleartext::Cleartext, fixed, holds, unarmor};

/// Most keys of one block.
const MAX_KEYS: usize = 256;

const TAG_SIGNATURE: u8 = 2;
const TAG_PUBLIC_KEY: u8 = 6;
const TAG_PUBLIC_SUBKEY: u8 = 14;
/// Secret keys begin with the public ones.
const TAG_SECRET_KEY: u8 = 5;
const TAG_SECRET_SUBKEY: u8 = 7;
const TAG_USER_ID: u8 = 13;

/// Signature over the bytes of a document.
const BINARY: u8 = 0;
/// Signature over a text whose lines end in CR LF.
const TEXT: u8 = 1;

/// A primary key or a subkey that can sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey {
    fingerprint: [u8; 20],
    material: Material,
    owner: Arc<Owner>,
}

/// Whose key it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    /// The fingerprint of the primary key, in upper-case hex.
    pub(super) fingerprint: String,
    /// The user ids, as they are written in the key.
    pub(super) names: Vec<String>,
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

/// The keys of all armored blocks; those that are not understood are left out.
pub(super) fn read_keys(armored: &str) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    for begin in [
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    ] {
        let mut rest = armored;
        while let Some(at) = rest.find(begin) {
            let block = rest.get(at..).unwrap_or_default();
            keys.extend(keys_in(&unarmor(block, begin).unwrap_or_default()));
            rest = block.get(begin.len()..).unwrap_or_default();
        }
    }
    keys.truncate(MAX_KEYS);
    keys
}

/// The keys of a ring as GnuPG exports it, without an armor.
pub(super) fn keys_in(ring: &[u8]) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    let (mut owner, mut parts) = (Owner::default(), Vec::new());
    for (tag, body) in Packets(Cursor(ring)) {
        match tag {
            TAG_PUBLIC_KEY | TAG_SECRET_KEY => {
                keys.extend(owned(
                    std::mem::take(&mut owner),
                    std::mem::take(&mut parts),
                ));
                let part = public_part(body);
                owner.fingerprint = part.as_ref().map(|it| hex(&it.0)).unwrap_or_default();
                parts.extend(part);
            }
            TAG_PUBLIC_SUBKEY | TAG_SECRET_SUBKEY => parts.extend(public_part(body)),
            TAG_USER_ID => owner.names.push(String::from_utf8_lossy(body).into_owned()),
            _ => {}
        }
        if keys.len() + parts.len() >= MAX_KEYS {
            break;
        }
    }
    keys.extend(owned(owner, parts));
    keys
}

/// The keys of a `pubring.kbx`: GnuPG's container of rings. Blobs that are not OpenPGP, or only passing, are skipped.
pub(super) fn keys_in_keybox(content: &[u8]) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    let mut rest = content;
    while let Some(length) = Cursor(rest).u32() {
        let Some((blob, after)) = rest.split_at_checked(length).filter(|_| length >= 5) else {
            break;
        };
        rest = after;
        keys.extend(keyblock(blob).map(keys_in).unwrap_or_default());
    }
    keys.truncate(MAX_KEYS);
    keys
}

/// Length, kind (2 is OpenPGP), version, flags (2 is passing), and where the ring lies.
fn keyblock(blob: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor(blob);
    let _length = cursor.u32()?;
    let [2, _version] = *cursor.take(2)?.first_chunk()? else {
        return None;
    };
    if cursor.u16()? & 2 != 0 {
        return None;
    }
    let (start, length) = (cursor.u32()?, cursor.u32()?);
    blob.get(start..start.checked_add(length)?)
}

fn owned(owner: Owner, parts: Vec<([u8; 20], Material)>) -> impl Iterator<Item = PublicKey> {
    let owner = Arc::new(owner);
    parts
        .into_iter()
        .map(move |(fingerprint, material)| PublicKey {
            fingerprint,
            material,
            owner: Arc::clone(&owner),
        })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Checks the signatures of a clear-signed text: whose key made one of them.
pub(super) fn verify_cleartext(
    message: &Cleartext,
    keys: &[PublicKey],
) -> Result<Arc<Owner>, Outcome> {
    let blob =
        unarmor(&message.signature, "-----BEGIN PGP SIGNATURE-----").ok_or(Outcome::Unreadable)?;
    let mut worst = Outcome::Unreadable;
    for (_, body) in Packets(Cursor(&blob)).filter(|(tag, _)| *tag == TAG_SIGNATURE) {
        let Some(signature) = Signature::parse(body) else {
            continue;
        };
        let Some(key) = keys.iter().find(|key| signature.is_by(key)) else {
            worst = Outcome::UnknownKey;
            continue;
        };
        match signature.check(&message.signed, key) {
            Some(true) => return Ok(Arc::clone(&key.owner)),
            Some(false) => return Err(Outcome::Bad),
            None => {}
        }
    }
    Err(worst)
}

/// Checks `armored` over `message`.
pub(super) fn verify(armored: &str, message: &[u8], keys: &[PublicKey]) -> Outcome {
    let blob = unarmor(armored, "-----BEGIN PGP SIGNATURE-----");
    let packet = blob.as_deref().and_then(|bytes| {
        Packets(Cursor(bytes))
            .find(|(tag, _)| *tag == TAG_SIGNATURE)
            .map(|(_, body)| body)
    });
    let signature = packet.and_then(Signature::parse);
    let Some(signature) = signature.filter(|it| it.kind == BINARY) else {
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

/// The fingerprint of a key, and what it is made of; the secret part of a secret key is left aside.
fn public_part(body: &[u8]) -> Option<([u8; 20], Material)> {
    let mut cursor = Cursor(body);
    if cursor.byte()? != 4 {
        return None;
    }
    let _created = cursor.u32()?;
    let material = Material::parse(&mut cursor)?;
    let public = body.get(..body.len() - cursor.0.len())?;
    let mut hash = Sha1::new();
    hash.update([0x99]);
    hash.update(u16::try_from(public.len()).ok()?.to_be_bytes());
    hash.update(public);
    Some((hash.finalize().into(), material))
}

impl Material {
    fn parse(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(match cursor.byte()? {
            1 | 3 => {
                let n = number(cursor)?.to_vec();
                Self::Rsa {
                    n,
                    e: number(cursor)?.to_vec(),
                }
            }
            19 => {
                let curve = Curve::parse(oid(cursor)?)?;
                Self::Ecdsa {
                    curve,
                    point: number(cursor)?.to_vec(),
                }
            }
            22 => {
                const ED25519_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
                if oid(cursor)? != ED25519_OID {
                    return None;
                }
                Self::Ed25519(number(cursor)?.strip_prefix(&[0x40])?.to_vec())
            }
            27 => Self::Ed25519(cursor.take(32)?.to_vec()),
            _ => return None,
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

    /// How a key of this curve signs with a hash; helm takes SHA-512 with all of them.
    fn algorithm(self, hash: u8) -> Option<&'static dyn VerificationAlgorithm> {
        Some(match (self, hash) {
            (Self::P256, 8) => &ECDSA_P256_SHA256_ASN1,
            (Self::P256, 9) => &ECDSA_P256_SHA384_ASN1,
            (Self::P256, 10) => &ECDSA_P256_SHA512_ASN1,
            (Self::P384, 8) => &ECDSA_P384_SHA256_ASN1,
            (Self::P384, 9) => &ECDSA_P384_SHA384_ASN1,
            (Self::P384, 10) => &ECDSA_P384_SHA512_ASN1,
            (Self::P521, 8) => &ECDSA_P521_SHA256_ASN1,
            (Self::P521, 9) => &ECDSA_P521_SHA384_ASN1,
            (Self::P521, 10) => &ECDSA_P521_SHA512_ASN1,
            _ => return None,
        })
    }
}

/// Two positive numbers as an ASN.1 sequence (RFC 3279 §2.2.3).
fn der(r: &[u8], s: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    for number in [r, s] {
        let start = number.iter().position(|byte| *byte != 0)?;
        let digits = number.get(start..)?;
        // A first bit of one would make it negative.
        let sign = digits.first().is_some_and(|byte| byte & 0x80 != 0);
        body.extend([2, u8::try_from(digits.len() + usize::from(sign)).ok()?]);
        body.extend(sign.then_some(0));
        body.extend_from_slice(digits);
    }
    let mut sequence = vec![0x30];
    let length = u8::try_from(body.len()).ok()?;
    if length >= 0x80 {
        sequence.push(0x81);
    }
    sequence.push(length);
    sequence.extend(body);
    Some(sequence)
}

/// A version 4 signature over a document or a text.
struct Signature<'a> {
    kind: u8,
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
        let [4, kind @ (BINARY | TEXT), algorithm, hash] = *cursor.take(4)?.first_chunk()? else {
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
            kind,
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
                let algorithm = curve.algorithm(self.hash)?;
                let signature = der(number(&mut numbers)?, number(&mut numbers)?)?;
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

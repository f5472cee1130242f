//! Private keys: made, read and written in the forms that Go prints them in.

use std::sync::Arc;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use gotmpl::{Functions, Type, Value};

use super::{cost, der, dsa, pem, rsa};
use crate::arguments::{define, text};
use crate::{Environment, KeyGenerator, Random};

pub(super) fn register(functions: &mut Functions, environment: &Environment) {
    let environment = environment.clone();
    define(
        functions,
        "genPrivateKey",
        &[Type::String],
        move |call, a| {
            let kind = text(a, 0)?;
            call.charge(match &*kind {
                "" | "rsa" | "dsa" => cost::RSA_4096,
                _ => cost::SMALL_KEY,
            })?;
            Ok(Value::string(generate(&environment, &kind)))
        },
    );
}

/// Keys from the crypto libraries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemKeys;

impl KeyGenerator for SystemKeys {
    fn rsa(&self, bits: usize) -> Result<Vec<u8>, String> {
        match bits {
            2_048 => rsa::generate(2_048),
            4_096 => rsa::generate(4_096),
            _ => Err(format!("no RSA keys of {bits} bits")),
        }
    }

    fn ecdsa(&self) -> Result<Vec<u8>, String> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map_err(|error| error.to_string())?;
        let document = key.to_pkcs8v1().map_err(|error| error.to_string())?;
        Ok(document.as_ref().to_vec())
    }
}

/// A key of this kind in PEM, or the text of the error in its place.
fn generate(environment: &Environment, kind: &str) -> String {
    let key = match kind {
        "" | "rsa" => environment.keys.rsa(4096).and_then(PrivateKey::from_pkcs8),
        "ecdsa" => environment.keys.ecdsa().and_then(PrivateKey::from_pkcs8),
        "ed25519" => ed25519(&environment.random).and_then(PrivateKey::from_pkcs8),
        "dsa" => dsa::generate(&*environment.random).map(PrivateKey::Dsa),
        other => return format!("Unknown type {other}"),
    };
    match key {
        Ok(key) => key.to_pem(),
        Err(error) => format!("failed to generate private key: {error}"),
    }
}

/// What stands before the 32 bytes of an Ed25519 key in PKCS#8.
const ED25519_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

fn ed25519(random: &Arc<dyn Random>) -> Result<Vec<u8>, String> {
    let mut seed = [0; 32];
    random.fill(&mut seed)?;
    Ok([&ED25519_PREFIX[..], &seed].concat())
}

/// Object identifiers of kinds of keys.
pub(super) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A private key in the encoding that Go writes it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrivateKey {
    /// PKCS#1.
    Rsa(Vec<u8>),
    /// SEC 1, with the curve and the public key.
    Ec(Vec<u8>),
    /// PKCS#8.
    Ed25519(Vec<u8>),
    /// The form that OpenSSL has for them.
    Dsa(Vec<u8>),
}

impl PrivateKey {
    /// Reads a key from PEM as sprig does, with its error texts.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, String> {
        let block = pem::decode(text).ok_or("no PEM data in input")?;
        let label = block.label.as_str();
        if label == "PRIVATE KEY" {
            return Self::from_pkcs8(block.bytes)
                .map_err(|error| format!("decoding PEM as PKCS#8: {error}"));
        }
        let kind = label
            .strip_suffix(" PRIVATE KEY")
            .ok_or_else(|| format!("no private key data in PEM block of type {label}"))?;
        let malformed = |kind| format!("parsing {kind} private key from PEM: malformed key");
        match kind {
            "RSA" => match der::expect(&block.bytes, der::SEQUENCE) {
                Some(_) => Ok(Self::Rsa(block.bytes)),
                None => Err(malformed("RSA")),
            },
            "EC" => ec(&block.bytes, None).ok_or_else(|| malformed("EC")),
            "DSA" if dsa::is_key(&block.bytes) => Ok(Self::Dsa(block.bytes)),
            "DSA" => Err(malformed("DSA")),
            _ => Err(format!("invalid private key type {label}")),
        }
    }

    /// Takes a key out of PKCS#8.
    pub(super) fn from_pkcs8(document: Vec<u8>) -> Result<Self, String> {
        let malformed = || "malformed key".to_owned();
        let (algorithm, parameters, key) = pkcs8_parts(&document).ok_or_else(malformed)?;
        match algorithm {
            RSA => Ok(Self::Rsa(key.to_vec())),
            EC => ec(key, Some(parameters)).ok_or_else(malformed),
            ED25519 => Ok(Self::Ed25519(document)),
            _ => Err("PKCS#8 wrapping contained private key with unknown algorithm".to_owned()),
        }
    }

    /// Go's PEM of the key.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(bytes) => pem::encode("RSA PRIVATE KEY", bytes),
            Self::Ec(bytes) => pem::encode("EC PRIVATE KEY", bytes),
            Self::Ed25519(bytes) => pem::encode("PRIVATE KEY", bytes),
            Self::Dsa(bytes) => pem::encode("DSA PRIVATE KEY", bytes),
        }
    }
}

/// The algorithm of a PKCS#8 document, its parameters, and the key.
fn pkcs8_parts(document: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (content, _) = der::expect(document, der::SEQUENCE)?;
    let (_, rest) = der::expect(content, der::INTEGER)?;
    let (identifier, rest) = der::expect(rest, der::SEQUENCE)?;
    let (algorithm, parameters) = der::expect(identifier, der::OBJECT_IDENTIFIER)?;
    let (key, _) = der::expect(rest, der::OCTET_STRING)?;
    Some((algorithm, parameters, key))
}

/// A SEC 1 key with its curve, which PKCS#8 keeps elsewhere, and its public key.
fn ec(key: &[u8], curve: Option<&[u8]>) -> Option<PrivateKey> {
    const CURVE: u8 = 0xa0;
    const PUBLIC: u8 = 0xa1;
    let (content, _) = der::expect(key, der::SEQUENCE)?;
    let (_, rest) = der::expect(content, der::INTEGER)?;
    let (secret, mut rest) = der::expect(rest, der::OCTET_STRING)?;
    let (mut curve, mut public) = (curve.map(<[u8]>::to_vec), None);
    while let Some((tag, content, after)) = der::read(rest) {
        match tag {
            CURVE => curve = Some(content.to_vec()),
            PUBLIC => public = Some(content.to_vec()),
            _ => return None,
        }
        rest = after;
    }
    let mut parts = vec![
        der::unsigned(&[1]),
        der::value(der::OCTET_STRING, secret),
        der::value(CURVE, &curve?),
    ];
    if let Some(public) = public {
        parts.push(der::value(PUBLIC, &public));
    }
    Some(PrivateKey::Ec(der::sequence(&parts)))
}

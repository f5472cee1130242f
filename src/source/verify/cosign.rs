//! Signatures of cosign with a key pair, in both of its forms: "simple signing" payloads behind the tag
//! `sha256-<digest>.sig`, and bundles of sigstore that refer to a manifest.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA256_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine as _;
use serde::Deserialize;

use crate::gitsync::Outcome;

/// Most keys of one text.
const MAX_KEYS: usize = 64;
/// What is signed in a bundle when it says that an image is signed; anything else is a statement about it.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

/// A public key, as its SubjectPublicKeyInfo (RFC 5280), and the ways in which it signs.
pub(super) struct PublicKey {
    algorithms: &'static [&'static dyn VerificationAlgorithm],
    info: Vec<u8>,
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublicKey").finish_non_exhaustive()
    }
}

/// The keys of the PEM blocks of a text; those that are not understood are left out.
pub(super) fn read_keys(text: &str) -> Vec<PublicKey> {
    let blocks = text.split("-----BEGIN PUBLIC KEY-----").skip(1);
    blocks
        .filter_map(|block| {
            let body = block.split_once("-----END PUBLIC KEY-----")?.0;
            let body: String = body.split_ascii_whitespace().collect();
            PublicKey::new(decode(&body)?)
        })
        .take(MAX_KEYS)
        .collect()
}

impl PublicKey {
    /// Tells the kind of a key by the object identifiers in its first bytes.
    fn new(info: Vec<u8>) -> Option<Self> {
        const KINDS: &[(&[u8], &[&dyn VerificationAlgorithm])] = &[
            (
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
                &[&ECDSA_P256_SHA256_ASN1],
            ),
            (
                &[0x2b, 0x81, 0x04, 0x00, 0x22],
                &[&ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1],
            ),
            (
                &[0x2b, 0x81, 0x04, 0x00, 0x23],
                &[&ECDSA_P521_SHA256_ASN1, &ECDSA_P521_SHA512_ASN1],
            ),
            (
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
                &[&RSA_PKCS1_2048_8192_SHA256],
            ),
            (&[0x2b, 0x65, 0x70], &[&ED25519]),
        ];
        let head = info.get(..info.len().min(32)).unwrap_or_default();
        let has = |id: &[u8]| {
            let mut wanted = vec![0x06, u8::try_from(id.len()).unwrap_or_default()];
            wanted.extend_from_slice(id);
            head.windows(wanted.len()).any(|window| window == wanted)
        };
        let (_, algorithms) = KINDS.iter().find(|(id, _)| has(id))?;
        Some(Self { algorithms, info })
    }

    fn holds(&self, message: &[u8], signature: &[u8]) -> bool {
        let by = |algorithm: &&'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(*algorithm, &self.info)
                .verify(message, signature)
                .is_ok()
        };
        self.algorithms.iter().any(by)
    }
}

/// What is signed in the older form. The reference in it is not looked at, as cosign does not: charts are mirrored.
#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    #[serde(rename = "type")]
    kind: String,
    image: Image,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Checks a payload with its signature (in base64) over the manifest of this digest.
pub(super) fn check_payload(
    keys: &[PublicKey],
    payload: &[u8],
    signature: &str,
    manifest: &str,
) -> Outcome {
    let Some(signature) = decode(signature.trim()) else {
        return Outcome::Unreadable;
    };
    if !keys.iter().any(|key| key.holds(payload, &signature)) {
        return Outcome::UnknownKey;
    }
    match serde_json::from_slice::<Payload>(payload) {
        Ok(Payload { critical })
            if critical.kind == "cosign container image signature"
                && critical.image.digest == manifest =>
        {
            Outcome::Good
        }
        Ok(_) => Outcome::Bad,
        Err(_) => Outcome::Unreadable,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Envelope,
}

/// A DSSE envelope.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

/// An in-toto statement.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: std::collections::BTreeMap<String, String>,
}

/// Checks a bundle over the manifest of this digest.
pub(super) fn check_bundle(keys: &[PublicKey], bundle: &[u8], manifest: &str) -> Outcome {
    let Ok(Bundle { dsse_envelope }) = serde_json::from_slice::<Bundle>(bundle) else {
        return Outcome::Unreadable;
    };
    let Some(payload) = decode(&dsse_envelope.payload) else {
        return Outcome::Unreadable;
    };
    let signed = authenticated(&dsse_envelope.payload_type, &payload);
    let signatures = dsse_envelope.signatures.iter().take(MAX_KEYS);
    let is_ours = signatures
        .filter_map(|it| decode(&it.sig))
        .any(|signature| keys.iter().any(|key| key.holds(&signed, &signature)));
    if !is_ours {
        return Outcome::UnknownKey;
    }
    let Ok(statement) = serde_json::from_slice::<Statement>(&payload) else {
        return Outcome::Unreadable;
    };
    let hex = manifest.strip_prefix("sha256:");
    let names_it = |subject: &Subject| subject.digest.get("sha256").map(String::as_str) == hex;
    match statement.predicate_type == SIGNED && statement.subject.iter().any(names_it) {
        true => Outcome::Good,
        false => Outcome::Bad,
    }
}

/// What a DSSE signature is over: its "pre-authentication encoding".
fn authenticated(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(payload);
    signed
}

fn decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    };

    type Sign = Box<dyn Fn(&[u8]) -> String>;

    fn pem(info: &[u8]) -> String {
        let body = encode(info);
        format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
    }

    fn encode(bytes: &[u8]) -> String {
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    /// A key pair of each kind: the public key in PEM, and what signs with the other.
    fn pairs() -> Vec<(String, Sign)> {
        let mut pairs: Vec<(String, Sign)> = Vec::new();
        for algorithm in [
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &ECDSA_P384_SHA384_ASN1_SIGNING,
        ] {
            let pair = EcdsaKeyPair::generate(algorithm).unwrap();
            let info: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
            let sign: Sign = Box::new(move |message| {
                encode(pair.sign(&SystemRandom::new(), message).unwrap().as_ref())
            });
            pairs.push((pem(info.as_ref()), sign));
        }
        let pair = Ed25519KeyPair::generate().unwrap();
        let info: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        pairs.push((
            pem(info.as_ref()),
            Box::new(move |message| encode(pair.sign(message).as_ref())),
        ));
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let info: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let sign: Sign = Box::new(move |message| {
            let mut signature = vec![0; pair.public_modulus_len()];
            let random = SystemRandom::new();
            pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                .unwrap();
            encode(&signature)
        });
        pairs.push((pem(info.as_ref()), sign));
        pairs
    }

    const DIGEST: &str = "sha256:aaaa";

    fn payload(kind: &str, digest: &str) -> Vec<u8> {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"r/app"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},"optional":null}}"#
        )
        .into_bytes()
    }

    #[test]
    fn a_payload_is_taken_from_each_kind_of_key_and_from_that_one_only() {
        let pairs = pairs();
        let signed = payload("cosign container image signature", DIGEST);
        for (at, (_, sign)) in pairs.iter().enumerate() {
            for (other, (pem, _)) in pairs.iter().enumerate() {
                let keys = read_keys(pem);
                assert_eq!(keys.len(), 1);
                let found = check_payload(&keys, &signed, &sign(&signed), DIGEST);
                let expected = match at == other {
                    true => Outcome::Good,
                    false => Outcome::UnknownKey,
                };
                assert_eq!(found, expected, "{at} {other}");
            }
        }
        let all: String = pairs.iter().map(|(pem, _)| pem.as_str()).collect();
        assert_eq!(read_keys(&all).len(), pairs.len());
    }

    #[test]
    fn a_payload_is_for_one_manifest_and_unchanged() {
        let (pem, sign) = pairs().swap_remove(0);
        let keys = read_keys(&pem);
        let kind = "cosign container image signature";
        let good = payload(kind, DIGEST);
        for (signed, shown, expected) in [
            (good.clone(), good.clone(), Outcome::Good),
            (
                good.clone(),
                payload(kind, "sha256:bbbb"),
                Outcome::UnknownKey,
            ),
            (
                payload(kind, "sha256:bbbb"),
                payload(kind, "sha256:bbbb"),
                Outcome::Bad,
            ),
            (
                payload("other", DIGEST),
                payload("other", DIGEST),
                Outcome::Bad,
            ),
            (b"{}".to_vec(), b"{}".to_vec(), Outcome::Unreadable),
        ] {
            let found = check_payload(&keys, &shown, &sign(&signed), DIGEST);
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&shown));
        }
        assert_eq!(
            check_payload(&keys, &good, "!", DIGEST),
            Outcome::Unreadable
        );
        assert_eq!(
            check_payload(&[], &good, &sign(&good), DIGEST),
            Outcome::UnknownKey
        );
    }

    #[test]
    fn a_bundle_has_to_say_that_this_manifest_is_signed() {
        let (pem, sign) = pairs().swap_remove(0);
        let keys = read_keys(&pem);
        let bundle = |predicate: &str, digest: &str, kind: &str| {
            let statement = format!(
                r#"{{"_type":"https://in-toto.io/Statement/v1","predicateType":"{predicate}","subject":[{{"digest":{{"sha256":"{digest}"}}}}]}}"#
            );
            let signature = sign(&authenticated(
                "application/vnd.in-toto+json",
                statement.as_bytes(),
            ));
            let payload = encode(statement.as_bytes());
            format!(
                r#"{{"dsseEnvelope":{{"payload":"{payload}","payloadType":"{kind}","signatures":[{{"sig":"{signature}"}}]}}}}"#
            )
        };
        let kind = "application/vnd.in-toto+json";
        for (bundle, expected) in [
            (bundle(SIGNED, "aaaa", kind), Outcome::Good),
            (bundle(SIGNED, "bbbb", kind), Outcome::Bad),
            (
                bundle("https://slsa.dev/provenance/v1", "aaaa", kind),
                Outcome::Bad,
            ),
            (bundle(SIGNED, "aaaa", "text/plain"), Outcome::UnknownKey),
            ("{}".to_owned(), Outcome::Unreadable),
        ] {
            assert_eq!(
                check_bundle(&keys, bundle.as_bytes(), DIGEST),
                expected,
                "{bundle}"
            );
        }
    }

    #[test]
    fn what_is_no_key_is_left_out() {
        for text in [
            "",
            "-----BEGIN PUBLIC KEY-----",
            "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        ] {
            assert!(read_keys(text).is_empty(), "{text}");
        }
    }
}

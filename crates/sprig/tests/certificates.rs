//! Keys and certificates are valid, and laid out as Go lays them out.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use common::{Stopped, fixed, run};
use sprig::{Environment, KeyGenerator};
use x509_parser::prelude::*;

fn snippet(text: &str) -> String {
    run(text, &fixed()).unwrap()
}

/// The bytes of the first PEM block of a kind.
fn pem(text: &str, label: &str) -> Vec<u8> {
    let blocks = Pem::iter_from_buffer(text.as_bytes());
    let block = blocks
        .map(Result::unwrap)
        .find(|block| block.label == label)
        .unwrap_or_else(|| panic!("no {label} in {text}"));
    block.contents
}

/// Checks a certificate's signature with the public key of another.
fn verify(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) {
    let algorithm: &'static dyn VerificationAlgorithm = match certificate
        .signature_algorithm
        .algorithm
        .to_id_string()
        .as_str()
    {
        "1.2.840.113549.1.1.11" => &RSA_PKCS1_2048_8192_SHA256,
        "1.2.840.10045.4.3.2" => &ECDSA_P256_SHA256_ASN1,
        "1.3.101.112" => &ED25519,
        other => panic!("signed with {other}"),
    };
    let key = &issuer.public_key().subject_public_key.data;
    UnparsedPublicKey::new(algorithm, key)
        .verify(
            certificate.tbs_certificate.as_ref(),
            &certificate.signature_value.data,
        )
        .expect("the signature is the issuer's");
}

fn extensions(certificate: &X509Certificate<'_>) -> Vec<(String, bool)> {
    certificate
        .extensions()
        .iter()
        .map(|extension| (extension.oid.to_id_string(), extension.critical))
        .collect()
}

fn named(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names
        .iter()
        .map(|&(name, critical)| (name.to_owned(), critical))
        .collect()
}

#[test]
fn an_authority_signs_itself_and_others() {
    let printed = snippet(
        "{{ $ca := genCA \"my-ca\" 365 }}{{ $ca.Cert }}{{ $ca.Key }}|\
{{ $c := genSignedCert \"svc\" (list \"10.0.0.1\" \"::1\") (list \"svc.ns\" \"svc\") 30 $ca }}{{ $c.Cert }}{{ $c.Key }}",
    );
    let (authority, signed) = printed.split_once('|').unwrap();
    let authority_der = pem(authority, "CERTIFICATE");
    let (_, authority_certificate) = X509Certificate::from_der(&authority_der).unwrap();
    verify(&authority_certificate, &authority_certificate);
    assert_eq!(authority_certificate.subject().to_string(), "CN=my-ca");
    assert!(authority_certificate.is_ca());
    let usage = authority_certificate.key_usage().unwrap().unwrap().value;
    assert!(usage.key_cert_sign() && usage.digital_signature() && usage.key_encipherment());
    assert_eq!(
        extensions(&authority_certificate),
        named(&[
            ("2.5.29.15", true),
            ("2.5.29.37", false),
            ("2.5.29.19", true),
            ("2.5.29.14", false),
        ])
    );
    pem(authority, "RSA PRIVATE KEY");

    let der = pem(signed, "CERTIFICATE");
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    verify(&certificate, &authority_certificate);
    assert_eq!(certificate.issuer(), authority_certificate.subject());
    assert!(!certificate.is_ca());
    assert_eq!(
        extensions(&certificate),
        named(&[
            ("2.5.29.15", true),
            ("2.5.29.37", false),
            ("2.5.29.19", true),
            ("2.5.29.35", false),
            ("2.5.29.17", false),
        ])
    );
    let names = certificate
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value;
    let names: Vec<String> = names
        .general_names
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        names,
        [
            "DNSName(svc.ns)",
            "DNSName(svc)",
            "IPAddress(0a:00:00:01)",
            "IPAddress(00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01)"
        ]
    );
    let validity = certificate.validity();
    assert_eq!(validity.not_before.timestamp(), 1_704_164_645);
    assert_eq!(
        validity.not_after.timestamp() - validity.not_before.timestamp(),
        30 * 86_400
    );
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth);
}

#[test]
fn keys_of_every_kind_are_taken_and_given_back() {
    for (kind, label) in [
        ("rsa", "RSA PRIVATE KEY"),
        ("ecdsa", "EC PRIVATE KEY"),
        ("ed25519", "PRIVATE KEY"),
    ] {
        let printed = snippet(&format!(
            "{{{{ $k := genPrivateKey \"{kind}\" }}}}{{{{ $k }}}}|\
{{{{ $c := genSelfSignedCertWithKey \"é & co\" nil (list \"a.b\") 10 $k }}}}{{{{ $c.Cert }}}}{{{{ $c.Key }}}}|\
{{{{ $ca := genCAWithKey \"ca\" 10 $k }}}}{{{{ $ca.Cert }}}}|\
{{{{ (genSignedCertWithKey \"\" nil (list \"a.b\") 10 $ca $k).Cert }}}}|\
{{{{ (buildCustomCert ($c.Cert | b64enc) ($c.Key | b64enc)).Key }}}}"
        ));
        let [key, own, authority, signed, custom] = printed.split('|').collect::<Vec<_>>()[..]
        else {
            panic!("{printed}");
        };
        assert!(
            key.starts_with(&format!("-----BEGIN {label}-----\n")),
            "{key}"
        );
        assert!(own.ends_with(key), "{kind}: the key comes back as it was");
        assert_eq!(custom, key);
        let own_der = pem(own, "CERTIFICATE");
        let (_, own) = X509Certificate::from_der(&own_der).unwrap();
        verify(&own, &own);
        assert_eq!(own.subject(), own.issuer());
        let name = own.subject().iter_common_name().next().unwrap();
        assert_eq!(name.as_str().unwrap(), "é & co");
        let authority_der = pem(authority, "CERTIFICATE");
        let (_, authority) = X509Certificate::from_der(&authority_der).unwrap();
        let signed_der = pem(signed, "CERTIFICATE");
        let (_, signed) = X509Certificate::from_der(&signed_der).unwrap();
        verify(&signed, &authority);
        // Without a common name the alternative names are critical.
        assert!(extensions(&signed).contains(&("2.5.29.17".to_owned(), true)));
    }
}

#[test]
fn a_new_rsa_key_has_4096_bits_and_pkcs1() {
    let der = pem(&snippet("{{ genPrivateKey \"rsa\" }}"), "RSA PRIVATE KEY");
    let key = aws_lc_rs::signature::RsaKeyPair::from_der(&der).unwrap();
    assert_eq!(key.public_modulus_len() * 8, 4096);
}

#[test]
fn a_dsa_key_satisfies_its_own_equations() {
    use num_bigint::BigUint;
    let der = pem(&snippet("{{ genPrivateKey \"dsa\" }}"), "DSA PRIVATE KEY");
    let (_, sequence) = x509_parser::der_parser::parse_der(&der).unwrap();
    let numbers: Vec<BigUint> = sequence
        .as_sequence()
        .unwrap()
        .iter()
        .map(|number| BigUint::from_bytes_be(number.as_slice().unwrap()))
        .collect();
    let [version, p, q, g, y, x] = &numbers[..] else {
        panic!("{} numbers", numbers.len());
    };
    let one = BigUint::from(1u32);
    assert_eq!(*version, BigUint::ZERO);
    assert_eq!((p.bits(), q.bits()), (2048, 256));
    assert_eq!((p - &one) % q, BigUint::ZERO);
    assert_eq!(g.modpow(q, p), one);
    assert_eq!(g.modpow(x, p), *y);
    // Fermat's test, on bases that the generator did not choose.
    for base in [3u32, 5, 7, 11] {
        let base = BigUint::from(base);
        assert_eq!(base.modpow(&(p - &one), p), one);
        assert_eq!(base.modpow(&(q - &one), q), one);
    }
}

#[test]
fn a_certificate_prints_as_its_two_fields() {
    let printed = snippet(
        "{{ $c := genCAWithKey \"x\" 1 (genPrivateKey \"ed25519\") }}\
{{ eq (print $c) (printf \"{%s %s}\" $c.Cert $c.Key) }} {{ keys (fromJson (toJson $c)) }} \
{{ kindOf $c }} {{ typeOf $c }} {{ keys (fromYaml (toYamlPretty $c)) }} {{ empty $c }}",
    );
    assert_eq!(
        printed,
        "true [Cert Key] struct sprig.certificate [cert key] false"
    );
}

/// Makes one key for all, and counts how often it is asked; or has none.
struct Counted {
    key: Option<Vec<u8>>,
    asked: AtomicUsize,
}

impl Counted {
    fn new(key: Option<Vec<u8>>) -> Arc<Self> {
        let asked = AtomicUsize::new(0);
        Arc::new(Self { key, asked })
    }
}

impl KeyGenerator for Counted {
    fn rsa(&self, _: usize) -> Result<Vec<u8>, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.key.clone().ok_or_else(|| "no chance".to_owned())
    }

    fn ecdsa(&self) -> Result<Vec<u8>, String> {
        self.rsa(0)
    }
}

fn with_keys(keys: Arc<Counted>) -> Environment {
    Environment { keys, ..fixed() }
}

#[test]
fn keys_are_made_once_and_only_for_certificates_that_are_looked_at() {
    const AUTHORITY: &str = "{{ $ca := genCA \"ca\" 1 }}";
    const SIGNED: &str = "{{ $c := genSignedCert \"c\" nil nil 1 $ca }}";
    let key = fixed().keys.rsa(2048).unwrap();
    for (text, keys) in [
        ("", 0),
        ("{{ if false }}{{ $c.Cert }}{{ end }}{{ kindOf $ca }}", 0),
        ("{{ $ca.Cert }}{{ $ca.Key }}", 1),
        ("{{ $c.Cert }}{{ $ca.Cert }}{{ $c.Key }}", 2),
        ("{{ toJson $c }}", 2),
        ("{{ print $ca }}", 1),
        ("{{ (genSelfSignedCert \"s\" nil nil 1).Key }}", 1),
    ] {
        let source = Counted::new(Some(key.clone()));
        run(
            &format!("{AUTHORITY}{SIGNED}{text}"),
            &with_keys(source.clone()),
        )
        .unwrap();
        assert_eq!(source.asked.load(Ordering::Relaxed), keys, "{text}");
    }
}

#[test]
fn a_key_that_cannot_be_made_fails_the_template_that_looks_at_it() {
    let environment = with_keys(Counted::new(None));
    for text in ["{{ $ca.Cert }}", "{{ $c.Key }}"] {
        let text = format!(
            "{{{{ $ca := genCA \"ca\" 1 }}}}{{{{ $c := genSignedCert \"c\" nil nil 1 $ca }}}}{text}"
        );
        let error = run(&text, &environment).unwrap_err();
        assert!(
            error.ends_with("error generating rsa key: no chance"),
            "{error}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_arguments_is_said_even_if_nobody_looks() {
    let last_days = Environment {
        clock: Arc::new(Stopped(253_402_200_000)),
        ..fixed()
    };
    for (text, environment, expected) in [
        (
            "{{ $ca := genCA \"ca\" 365 }}",
            &last_days,
            "error creating certificate: cannot represent time as GeneralizedTime",
        ),
        (
            "{{ $c := genSelfSignedCert \"c\" (list \"x\") nil 1 }}",
            &fixed(),
            "error parsing ip: x",
        ),
    ] {
        let error = run(text, environment).unwrap_err();
        assert!(error.ends_with(expected), "{error}");
    }
}

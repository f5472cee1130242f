//! X.509 certificates: what Go's `x509.CreateCertificate` writes, signed by the crypto library.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::string::PrintableString;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, Issuer, KeyPair,
    PublicKeyData, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

use super::keys::PrivateKey;
use super::{der, pem};

/// What a certificate is for.
pub(super) struct Template {
    pub(super) common_name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) dns_names: Vec<String>,
    pub(super) authority: bool,
    pub(super) serial: [u8; 16],
    /// Unix seconds.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl Template {
    /// Whether a certificate can say what the template says.
    pub(super) fn check(&self) -> Result<(), String> {
        self.dates().map(|_| ()).map_err(|error| created(&error))
    }

    fn dates(&self) -> Result<[OffsetDateTime; 2], String> {
        Ok([date(self.not_before)?, date(self.not_after)?])
    }
}

fn created(error: &dyn std::fmt::Display) -> String {
    format!("error creating certificate: {error}")
}

/// Who signs.
pub(super) enum Signer<'a> {
    Itself,
    Authority {
        /// The certificate in DER.
        certificate: &'a [u8],
        key: &'a PrivateKey,
    },
}

/// A certificate in PEM.
pub(super) fn sign(
    template: &Template,
    key: &PrivateKey,
    signer: &Signer<'_>,
) -> Result<String, String> {
    let pair = key_pair(key).map_err(|error| created(&error))?;
    let mut params = params(template).map_err(|error| created(&error))?;
    params.custom_extensions = extensions(template, &pair, signer);
    let certificate = match signer {
        Signer::Itself => params.self_signed(&pair),
        Signer::Authority { certificate, key } => {
            let authority = key_pair(key).map_err(|error| created(&error))?;
            let certificate = CertificateDer::from(*certificate);
            Issuer::from_ca_cert_der(&certificate, authority)
                .and_then(|issuer| params.signed_by(&pair, &issuer))
        }
    };
    let certificate = certificate.map_err(|error| created(&error))?;
    Ok(pem::encode("CERTIFICATE", certificate.der()))
}

/// Whether the bytes are a certificate; the error is Go's where it has one text for all.
pub(super) fn check_certificate(bytes: &[u8]) -> Result<(), String> {
    match X509Certificate::from_der(bytes) {
        Ok((b"", _)) => Ok(()),
        Ok(_) => Err("x509: trailing data".to_owned()),
        Err(_) => Err("x509: malformed certificate".to_owned()),
    }
}

fn key_pair(key: &PrivateKey) -> Result<KeyPair, String> {
    let der = match key {
        PrivateKey::Rsa(bytes) => PrivateKeyDer::Pkcs1(bytes.clone().into()),
        PrivateKey::Ec(bytes) => PrivateKeyDer::Sec1(bytes.clone().into()),
        PrivateKey::Ed25519(bytes) => PrivateKeyDer::Pkcs8(bytes.clone().into()),
        PrivateKey::Dsa(_) => {
            return Err(
                "x509: certificate private key does not implement crypto.Signer".to_owned(),
            );
        }
    };
    KeyPair::try_from(&der).map_err(|error| error.to_string())
}

fn params(template: &Template) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, dn_value(&template.common_name));
    params.serial_number = Some(SerialNumber::from_slice(&template.serial));
    [params.not_before, params.not_after] = template.dates()?;
    Ok(params)
}

/// A printable string where it can be one, as Go chooses.
fn dn_value(name: &str) -> DnValue {
    match PrintableString::try_from(name) {
        Ok(name) => DnValue::PrintableString(name),
        Err(_) => DnValue::Utf8String(name.to_owned()),
    }
}

fn date(seconds: i64) -> Result<OffsetDateTime, String> {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    date.filter(|date| (1..=9999).contains(&date.year()))
        .ok_or_else(|| "cannot represent time as GeneralizedTime".to_owned())
}

const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const SUBJECT_KEY_ID: &[u64] = &[2, 5, 29, 14];
const AUTHORITY_KEY_ID: &[u64] = &[2, 5, 29, 35];
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];

/// The extensions in the order in which Go writes them.
fn extensions(template: &Template, key: &KeyPair, signer: &Signer<'_>) -> Vec<CustomExtension> {
    let mut extensions = Vec::new();
    let mut add = |identifier: &[u64], critical: bool, content: Vec<u8>| {
        let mut extension = CustomExtension::from_oid_content(identifier, content);
        extension.set_criticality(critical);
        extensions.push(extension);
    };
    add(KEY_USAGE, true, key_usage(template.authority));
    add(EXTENDED_KEY_USAGE, false, extended_key_usage());
    add(
        BASIC_CONSTRAINTS,
        true,
        basic_constraints(template.authority),
    );
    if template.authority {
        let identifier = subject_key_id(key);
        add(
            SUBJECT_KEY_ID,
            false,
            der::value(der::OCTET_STRING, &identifier),
        );
    }
    if let Signer::Authority { certificate, .. } = signer
        && let Some(identifier) = authority_key_id(certificate)
    {
        const KEY_IDENTIFIER: u8 = 0x80;
        let content = der::sequence(&[der::value(KEY_IDENTIFIER, &identifier)]);
        add(AUTHORITY_KEY_ID, false, content);
    }
    let names = alternative_names(template);
    if !names.is_empty() {
        // Critical where there is no other name.
        let critical = template.common_name.is_empty();
        add(SUBJECT_ALT_NAME, critical, der::sequence(&names));
    }
    extensions
}

/// Digital signature and key encipherment, and for an authority the signing of certificates.
fn key_usage(authority: bool) -> Vec<u8> {
    let bits: [u8; 2] = if authority { [2, 0xa4] } else { [5, 0xa0] };
    der::value(der::BIT_STRING, &bits)
}

/// Servers and clients.
fn extended_key_usage() -> Vec<u8> {
    let purpose = |last: u8| {
        let identifier = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, last];
        der::value(der::OBJECT_IDENTIFIER, &identifier)
    };
    der::sequence(&[purpose(1), purpose(2)])
}

fn basic_constraints(authority: bool) -> Vec<u8> {
    const BOOLEAN: u8 = 0x01;
    let content = authority.then(|| der::value(BOOLEAN, &[0xff]));
    der::sequence(&content.into_iter().collect::<Vec<_>>())
}

/// The first 20 bytes of the SHA-256 of the public key.
fn subject_key_id(key: &KeyPair) -> Vec<u8> {
    let hash = digest(&SHA256, key.der_bytes());
    hash.as_ref().iter().copied().take(20).collect()
}

fn authority_key_id(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        })
}

fn alternative_names(template: &Template) -> Vec<Vec<u8>> {
    const DNS_NAME: u8 = 0x82;
    const IP_ADDRESS: u8 = 0x87;
    let names = template
        .dns_names
        .iter()
        .map(|name| der::value(DNS_NAME, name.as_bytes()));
    let addresses = template.addresses.iter().map(|address| match address {
        IpAddr::V4(address) => der::value(IP_ADDRESS, &address.octets()),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => der::value(IP_ADDRESS, &address.octets()),
            None => der::value(IP_ADDRESS, &address.octets()),
        },
    });
    names.chain(addresses).collect()
}

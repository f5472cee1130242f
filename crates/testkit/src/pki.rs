//! Certificates and keys, made anew for each server.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A private certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, both in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: String,
}

impl Authority {
    /// Makes an authority that nobody trusts yet.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("making the key of the authority")?;
        let issuer = CertifiedIssuer::self_signed(params, key).context("signing the authority")?;
        Ok(Self { issuer })
    }

    /// The authority's certificate in PEM, for those who shall trust it.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate in DER.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// Makes a server certificate for these host names and addresses.
    ///
    /// # Errors
    /// When a name is not one.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).context("naming the server")?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("making the key of the server")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("signing the server")?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A signing key and its public part in PEM, such as the API server uses for the tokens of service accounts.
///
/// # Errors
/// When no key can be made.
pub(crate) fn signing_key() -> Result<(String, String)> {
    let key = KeyPair::generate().context("making a signing key")?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

//! Certificates of our own: an authority that lasts for years, and server certificates that it signs.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;
use x509_parser::pem::Pem;
use zeroize::Zeroizing;

/// How long an authority lasts.
const AUTHORITY_LASTS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// An authority that ends sooner than this is replaced; until it ends, both are trusted.
const AUTHORITY_DUE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Clocks of other machines may be behind ours.
const BACKDATED: Duration = Duration::from_secs(3600);

/// A certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It could not be made.
    #[error("{0}: cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// It is no certificate.
    #[error("{0}: cannot read the certificate")]
    Read(String),
}

/// A server certificate with its authority, everything in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The authorities to trust: the one that signs, first, and one that ends soon.
    pub authorities: String,
    /// The key of the authority that signs.
    pub authority_key: Zeroizing<String>,
    /// The server certificate.
    pub certificate: String,
    /// Its key.
    pub key: Zeroizing<String>,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Issued {
    /// A new authority and a server certificate by it.
    ///
    /// # Errors
    /// A name is no DNS name.
    pub fn new(names: &[String], lasts: Duration) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "helm-operator webhook authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_times(&mut params, AUTHORITY_LASTS);
        let authority = params.self_signed(&key)?.pem();
        let authority_key = Zeroizing::new(key.serialize_pem());
        Self::sign(authority, authority_key, names, lasts)
    }

    /// What follows on these: a new server certificate, and a new authority too if theirs ends within a year.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn renewed(&self, names: &[String], lasts: Duration) -> Result<Self, CertificateError> {
        if left(&self.authorities)? > AUTHORITY_DUE {
            let key = self.authority_key.clone();
            return Self::sign(self.authorities.clone(), key, names, lasts);
        }
        let mut new = Self::new(names, lasts)?;
        let old = first(&self.authorities);
        new.authorities.push_str(old);
        Ok(new)
    }

    fn sign(
        authorities: String,
        authority_key: Zeroizing<String>,
        names: &[String],
        lasts: Duration,
    ) -> Result<Self, CertificateError> {
        let issuer =
            Issuer::from_ca_cert_pem(first(&authorities), KeyPair::from_pem(&authority_key)?)?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_times(&mut params, lasts);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: Zeroizing::new(key.serialize_pem()),
            authorities,
            authority_key,
        })
    }

    /// Whether it is time for [`Issued::renewed`]: a third of the certificate's time is left, its authority is due, or
    /// it cannot be read.
    #[must_use]
    pub fn is_due(&self, lasts: Duration) -> bool {
        let certificate = left(&self.certificate);
        let authority = left(&self.authorities);
        !certificate.is_ok_and(|left| left > lasts / 3)
            || !authority.is_ok_and(|left| left > AUTHORITY_DUE)
    }
}

/// The first certificate of several.
fn first(pem: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    let end = pem.find(END).map_or(pem.len(), |at| at + END.len());
    pem.get(..end).unwrap_or(pem)
}

fn set_times(params: &mut CertificateParams, lasts: Duration) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATED;
    params.not_after = now + lasts;
}

/// When the first certificate of a PEM text ends, in seconds since 1970.
pub(super) fn not_after(pem: &str) -> Result<i64, CertificateError> {
    let mut all = Pem::iter_from_buffer(pem.as_bytes());
    let read = |text: String| CertificateError::Read(text);
    let block = all.next().ok_or_else(|| read("it is empty".to_owned()))?;
    let block = block.map_err(|error| read(error.to_string()))?;
    let certificate = block
        .parse_x509()
        .map_err(|error| read(error.to_string()))?;
    Ok(certificate.validity().not_after.timestamp())
}

/// How long the first certificate of a PEM text still lasts; nothing if it has ended.
fn left(pem: &str) -> Result<Duration, CertificateError> {
    let left = not_after(pem)? - OffsetDateTime::now_utc().unix_timestamp();
    Ok(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn names() -> Vec<String> {
        vec!["webhook.ops.svc".to_owned()]
    }

    #[test]
    fn a_certificate_is_due_when_a_third_of_its_time_is_left() {
        let issued = Issued::new(&names(), DAY).unwrap();
        assert!(!issued.is_due(DAY));
        assert!(!issued.is_due(2 * DAY));
        assert!(issued.is_due(4 * DAY));
        assert!(Issued::new(&names(), Duration::ZERO).unwrap().is_due(DAY));
    }

    #[test]
    fn a_renewed_certificate_is_signed_by_the_same_authority() {
        let first = Issued::new(&names(), DAY).unwrap();
        let second = first.renewed(&names(), DAY).unwrap();
        assert_eq!(first.authorities, second.authorities);
        assert_ne!(first.certificate, second.certificate);
        assert_ne!(first.key, second.key);
    }

    #[test]
    fn an_authority_that_ends_soon_is_followed_by_one_and_still_trusted() {
        let mut old = Issued::new(&names(), DAY).unwrap();
        let key = KeyPair::from_pem(&old.authority_key).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        set_times(&mut params, DAY);
        old.authorities = params.self_signed(&key).unwrap().pem();
        assert!(old.is_due(DAY));
        let new = old.renewed(&names(), DAY).unwrap();
        assert!(!new.is_due(DAY));
        assert_eq!(new.authorities.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(new.authorities.ends_with(first(&old.authorities)));
        // Once more: the old one is not carried on for ever.
        assert_eq!(
            new.renewed(&names(), DAY).unwrap().authorities,
            new.authorities
        );
    }

    #[test]
    fn what_cannot_be_read_is_due() {
        let mut issued = Issued::new(&names(), DAY).unwrap();
        issued.certificate =
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        assert!(issued.is_due(DAY));
        issued.certificate.clear();
        assert!(issued.is_due(DAY));
        assert!(Issued::new(&["a b".to_owned(), "\u{e9}".to_owned()], DAY).is_err());
    }
}

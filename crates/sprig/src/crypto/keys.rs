//! Private keys.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

use crate::KeyGenerator;

/// Keys from the crypto library.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemKeys;

impl KeyGenerator for SystemKeys {
    fn rsa(&self, bits: usize) -> Result<Vec<u8>, String> {
        let size = match bits {
            2048 => KeySize::Rsa2048,
            4096 => KeySize::Rsa4096,
            _ => return Err(format!("no RSA keys of {bits} bits")),
        };
        let key = KeyPair::generate(size).map_err(|error| error.to_string())?;
        let der = key.as_der().map_err(|error| error.to_string())?;
        Ok(der.as_ref().to_vec())
    }

    fn ecdsa(&self) -> Result<Vec<u8>, String> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map_err(|error| error.to_string())?;
        let document = key.to_pkcs8v1().map_err(|error| error.to_string())?;
        Ok(document.as_ref().to_vec())
    }
}

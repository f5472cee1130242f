//! Hashes, passwords, keys and certificates.

mod aes;
mod certificate;
mod cost;
mod der;
mod dsa;
mod hash;
mod keys;
mod password;
mod pem;
mod rsa;
mod sign;

pub(crate) use keys::SystemKeys;

use gotmpl::Functions;

use crate::Environment;

pub(crate) fn register(functions: &mut Functions, environment: &Environment) {
    hash::register(functions);
    password::register(functions, environment);
    aes::register(functions, environment);
    keys::register(functions, environment);
    certificate::register(functions, environment);
}

//! Hashes, passwords, keys and certificates.

mod keys;

pub(crate) use keys::SystemKeys;

//! Password hashes and derived passwords.

use std::sync::Arc;

use aws_lc_rs::hmac;
use bcrypt::{DEFAULT_COST, Version};
use gotmpl::{FunctionError, Functions, Type, Value};

use super::cost::{BCRYPT, SCRYPT};
use crate::arguments::{any, define, string, text};
use crate::{Environment, Random};

/// Go's `bcrypt.DefaultCost`.
const COST: u32 = 10;

pub(super) fn register(functions: &mut Functions, environment: &Environment) {
    let random = Arc::clone(&environment.random);
    define(functions, "bcrypt", &[Type::String], move |call, a| {
        call.charge(BCRYPT)?;
        Ok(Value::string(hash(&*random, string(a, 0)?)?))
    });
    let random = Arc::clone(&environment.random);
    define(
        functions,
        "htpasswd",
        &[Type::String, Type::String],
        move |call, a| {
            call.charge(BCRYPT)?;
            let user = text(a, 0)?;
            if user.contains(':') {
                return Ok(Value::string(format!("invalid username: {user}")));
            }
            let hash = hash(&*random, string(a, 1)?)?;
            Ok(Value::string(format!("{user}:{hash}")))
        },
    );
    define(
        functions,
        "derivePassword",
        &[
            Type::Uint32,
            Type::String,
            Type::String,
            Type::String,
            Type::String,
        ],
        |call, a| {
            call.charge(SCRYPT)?;
            let Value::Uint64(counter) = any(a, 0) else {
                return crate::arguments::fail("wrong type for value; expected uint32");
            };
            let counter = u32::try_from(*counter).unwrap_or(u32::MAX);
            let derived = derive(
                counter,
                &text(a, 1)?,
                string(a, 2)?,
                string(a, 3)?,
                string(a, 4)?,
            );
            Ok(Value::string(derived?))
        },
    );
}

/// A bcrypt hash of version `2a`, or the text of the error in its place.
fn hash(random: &dyn Random, password: &[u8]) -> Result<String, FunctionError> {
    // The library's own default is higher than Go's.
    const _: () = assert!(COST < DEFAULT_COST);
    let mut salt = [0; 16];
    random.fill(&mut salt)?;
    if password.len() > 72 {
        return Ok(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
                .to_owned(),
        );
    }
    Ok(match bcrypt::hash_with_salt(password, COST, salt) {
        Ok(parts) => parts.format_for_version(Version::TwoA),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
    })
}

/// The name space of the Master Password algorithm.
const SEED: &[u8] = b"com.lyndir.masterpassword";

fn derive(
    counter: u32,
    kind: &str,
    password: &[u8],
    user: &[u8],
    site: &[u8],
) -> Result<String, FunctionError> {
    let templates = templates(kind);
    if templates.is_empty() {
        return Ok(format!("cannot find password template {kind}"));
    }
    let key = master_key(password, user)?;
    let message = [SEED, &length(site), site, &counter.to_be_bytes()].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let seed = hmac::sign(&key, &message);
    let mut seed = seed.as_ref().iter().map(|byte| usize::from(*byte));
    let choice = seed.next().unwrap_or(0) % templates.len();
    let template = templates.get(choice).copied().unwrap_or("");
    let letters = template.bytes().zip(seed).filter_map(|(class, seed)| {
        let letters = letters(class);
        letters.get(seed % letters.len().max(1)).copied()
    });
    Ok(letters.map(char::from).collect())
}

fn master_key(password: &[u8], user: &[u8]) -> Result<[u8; 64], FunctionError> {
    let salt = [SEED, &length(user), user].concat();
    // N = 2^15, r = 8, p = 2.
    let parameters = scrypt::Params::new(15, 8, 2)?;
    let mut key = [0; 64];
    scrypt::scrypt(password, &salt, &parameters, &mut key)?;
    Ok(key)
}

fn length(text: &[u8]) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// The shapes of a kind of password; one letter for each class of characters.
fn templates(kind: &str) -> &'static [&'static str] {
    match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => &[],
    }
}

/// The characters of a class.
fn letters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

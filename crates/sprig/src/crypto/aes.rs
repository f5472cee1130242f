//! `encryptAES` and `decryptAES`: AES-256 in CBC mode, the initialisation vector first, in base64.

use std::sync::Arc;

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use gotmpl::{Functions, Str, Type, Value};

use crate::arguments::{Returned, define, fail, reserve, string};
use crate::encoding::{decode_base64, encode_base64};
use crate::{Environment, Random};

const BLOCK: usize = 16;

pub(super) fn register(functions: &mut Functions, environment: &Environment) {
    let random = Arc::clone(&environment.random);
    define(
        functions,
        "encryptAES",
        &[Type::String, Type::String],
        move |call, a| {
            reserve(call, string(a, 1)?.len().saturating_mul(3))?;
            encrypt(&*random, string(a, 0)?, string(a, 1)?)
        },
    );
    define(
        functions,
        "decryptAES",
        &[Type::String, Type::String],
        |_, a| decrypt(string(a, 0)?, string(a, 1)?),
    );
}

/// The password as a key: cut, or filled up with zeros.
fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    for (byte, given) in key.iter_mut().zip(password) {
        *byte = *given;
    }
    Aes256::new(&key.into())
}

fn encrypt(random: &dyn Random, password: &Str, text: &Str) -> Returned {
    if text.is_empty() {
        return Ok(Value::from(""));
    }
    let cipher = cipher(password);
    let mut previous = [0; BLOCK];
    random.fill(&mut previous)?;
    let mut encrypted = previous.to_vec();
    let padding = BLOCK - text.len() % BLOCK;
    let padded = [
        &text[..],
        &vec![u8::try_from(padding).unwrap_or(0); padding],
    ]
    .concat();
    for block in padded.chunks_exact(BLOCK) {
        for (byte, plain) in previous.iter_mut().zip(block) {
            *byte ^= plain;
        }
        let mut output = previous.into();
        cipher.encrypt_block(&mut output);
        previous = output.into();
        encrypted.extend_from_slice(&previous);
    }
    Ok(Value::string(encode_base64(&encrypted)))
}

/// The padding is taken at its word, as sprig does; where Go would panic, so does this fail.
fn decrypt(password: &Str, text: &Str) -> Returned {
    if text.is_empty() {
        return Ok(Value::from(""));
    }
    let encrypted = decode_base64(text)?;
    let Some((vector, blocks)) = encrypted.split_at_checked(BLOCK) else {
        let capacity = text.len() / 4 * 3;
        return crate::strings::out_of_range(&format!("[:16] with capacity {capacity}"));
    };
    if blocks.len() % BLOCK != 0 {
        return fail("crypto/cipher: input not full blocks");
    }
    let cipher = cipher(password);
    let mut plain = Vec::with_capacity(blocks.len());
    let mut previous = vector;
    for block in blocks.chunks_exact(BLOCK) {
        let mut buffer = [0; BLOCK];
        buffer.copy_from_slice(block);
        let mut output = buffer.into();
        cipher.decrypt_block(&mut output);
        let output: [u8; BLOCK] = output.into();
        plain.extend(output.iter().zip(previous).map(|(byte, mask)| byte ^ mask));
        previous = block;
    }
    let Some(padding) = plain.last().copied() else {
        return fail("runtime error: index out of range [-1]");
    };
    match plain.len().checked_sub(usize::from(padding)) {
        Some(length) => plain.truncate(length),
        None => {
            let length = i64::try_from(plain.len()).unwrap_or(0) - i64::from(padding);
            return crate::strings::out_of_range(&format!("[:{length}]"));
        }
    }
    Ok(Value::string(plain))
}

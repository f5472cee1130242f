//! Base64 and base32.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use gotmpl::{Functions, Type, Value};

use crate::arguments::{define, reserve, string};

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "b64enc", &[Type::String], |call, a| {
        let text = string(a, 0)?;
        reserve(call, text.len().saturating_mul(4) / 3)?;
        Ok(Value::string(encode_base64(text)))
    });
    define(functions, "b64dec", &[Type::String], |_, a| {
        Ok(Value::string(
            decode_base64(string(a, 0)?).unwrap_or_else(|error| error.into_bytes()),
        ))
    });
    define(functions, "b32enc", &[Type::String], |call, a| {
        let text = string(a, 0)?;
        reserve(call, text.len().saturating_mul(8) / 5)?;
        Ok(Value::string(encode_base32(text)))
    });
    define(functions, "b32dec", &[Type::String], |_, a| {
        Ok(Value::string(
            decode_base32(string(a, 0)?).unwrap_or_else(|error| error.into_bytes()),
        ))
    });
}

/// Go's `base64.StdEncoding`, which looks neither at the bits that padding leaves over.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// `base64.StdEncoding.EncodeToString`.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// `base64.StdEncoding.DecodeString`: line breaks are skipped; the error has Go's text.
pub(crate) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    BASE64.decode(text).or_else(|_| decode_quantums(text))
}

/// Decodes as Go does, four characters at a time, to skip line breaks and to find the byte at fault.
fn decode_quantums(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let mut input = Input { text, at: 0 };
    while let Some(end) = input.quantum(&mut decoded)? {
        if end {
            break;
        }
    }
    Ok(decoded)
}

struct Input<'a> {
    text: &'a [u8],
    at: usize,
}

impl Input<'_> {
    /// The next byte that is no line break.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            if byte != b'\n' && byte != b'\r' {
                return Some(byte);
            }
        }
    }

    fn corrupt<T>(at: usize) -> Result<T, String> {
        Err(format!("illegal base64 data at input byte {at}"))
    }

    /// Decodes up to four characters; `None` at the end, `true` after padding.
    fn quantum(&mut self, decoded: &mut Vec<u8>) -> Result<Option<bool>, String> {
        let mut bits = 0u32;
        for index in 0..4u32 {
            let Some(byte) = self.next() else {
                return match index {
                    0 => Ok(None),
                    _ => Self::corrupt(self.at - index as usize),
                };
            };
            if let Some(value) = value(byte) {
                bits |= u32::from(value) << (18 - 6 * index);
                continue;
            }
            if byte != b'=' {
                return Self::corrupt(self.at - 1);
            }
            self.padding(index)?;
            let [_, first, second, _] = bits.to_be_bytes();
            decoded.push(first);
            if index == 3 {
                decoded.push(second);
            }
            return Ok(Some(true));
        }
        decoded.extend_from_slice(bits.to_be_bytes().get(1..).unwrap_or_default());
        Ok(Some(false))
    }

    /// Checks the padding that began at this place in a quantum, and that nothing follows it.
    fn padding(&mut self, index: u32) -> Result<(), String> {
        if index < 2 {
            return Self::corrupt(self.at - 1);
        }
        if index == 2 {
            match self.next() {
                None => return Self::corrupt(self.text.len()),
                Some(b'=') => {}
                // Go names the byte before the one that is wrong.
                Some(_) => return Self::corrupt(self.at - 2),
            }
        }
        match self.next() {
            None => Ok(()),
            Some(_) => Self::corrupt(self.at - 1),
        }
    }
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// `base32.StdEncoding.EncodeToString`.
fn encode_base32(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut bits = 0u64;
        for index in 0..5 {
            bits = bits << 8 | u64::from(chunk.get(index).copied().unwrap_or(0));
        }
        let used = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let place = (bits >> (35 - 5 * index)) & 31;
            let letter = BASE32.get(usize::try_from(place).unwrap_or(0));
            let letter = letter.filter(|_| index < used).copied();
            encoded.push(letter.unwrap_or(b'='));
        }
    }
    encoded
}

/// `base32.StdEncoding.DecodeString`.
fn decode_base32(text: &[u8]) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| *byte != b'\n' && *byte != b'\r')
        .collect();
    let mut decoded = Vec::with_capacity(text.len() / 8 * 5);
    let mut rest = &text[..];
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let (bits, count, after) = quantum(rest).map_err(|fault| fault.text(at, text.len()))?;
        let length = count * 5 / 8;
        decoded.extend_from_slice(bits.to_be_bytes().get(3..3 + length).unwrap_or_default());
        if count < 8 {
            break;
        }
        rest = after;
    }
    Ok(decoded)
}

/// Where Go says that base32 is at fault.
enum Fault {
    /// So many bytes after the start of the quantum.
    At(usize),
    /// At the end of the text.
    End,
}

impl Fault {
    fn text(&self, start: usize, end: usize) -> String {
        let at = match self {
            Self::At(offset) => start + offset,
            Self::End => end,
        };
        format!("illegal base32 data at input byte {at}")
    }
}

/// Up to eight letters as 40 bits, how many they are, and what follows.
fn quantum(text: &[u8]) -> Result<(u64, usize, &[u8]), Fault> {
    let mut bits = 0u64;
    for index in 0..8 {
        // A text that ends too early is said to be wrong where its last quantum begins.
        let byte = text.get(index).ok_or(Fault::At(0))?;
        let after = text.get(index + 1..).unwrap_or_default();
        if *byte == b'=' && index >= 2 && after.len() < 8 {
            check_padding(index, after)?;
            return Ok((bits, index, after));
        }
        let value = BASE32.iter().position(|letter| letter == byte);
        let value = value.ok_or(Fault::At(index))?;
        bits |= u64::try_from(value).unwrap_or(0) << (35 - 5 * index);
    }
    Ok((bits, 8, text.get(8..).unwrap_or_default()))
}

/// Checks what follows the first padding character of a quantum.
fn check_padding(index: usize, after: &[u8]) -> Result<(), Fault> {
    let wanted = 7 - index;
    if after.len() < wanted {
        return Err(Fault::End);
    }
    let padding = after.iter().take(wanted);
    if let Some(wrong) = padding.clone().position(|byte| *byte != b'=') {
        return Err(Fault::At(index + wrong));
    }
    match index {
        3 | 6 => Err(Fault::At(index)),
        _ => Ok(()),
    }
}

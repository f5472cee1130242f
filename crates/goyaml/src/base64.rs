//! Standard base64, as Go's `base64.StdEncoding`.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the base64 of some bytes.
pub(crate) fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = (group >> (18 - 6 * index)) & 0x3F;
            out.push(match index as usize > chunk.len() {
                true => b'=',
                false => ALPHABET.get(digit as usize).copied().unwrap_or(b'='),
            });
        }
    }
}

/// The bytes that a base64 text stands for; line breaks in it are skipped.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0_u32;
    let mut digits = 0;
    let mut padding = 0;
    for &byte in text.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        if byte == b'=' {
            padding += 1;
            continue;
        }
        if padding > 0 {
            return None;
        }
        group = group << 6 | digit(byte)?;
        digits += 1;
        if digits == 4 {
            out.extend_from_slice(group.to_be_bytes().get(1..)?);
            (group, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 2) => out.extend_from_slice((group << 12).to_be_bytes().get(1..2)?),
        (3, 1) => out.extend_from_slice((group << 6).to_be_bytes().get(1..3)?),
        _ => return None,
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

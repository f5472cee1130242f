//! The little of DER that keys and certificate extensions need.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// A value with its tag and length.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    if let Ok(length @ ..0x80) = u8::try_from(content.len()) {
        encoded.push(length);
    } else {
        let length = content.len().to_be_bytes();
        let zeros = length.iter().take_while(|byte| **byte == 0).count();
        let length = length.get(zeros..).unwrap_or_default();
        encoded.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
        encoded.extend_from_slice(length);
    }
    encoded.extend_from_slice(content);
    encoded
}

/// A `SEQUENCE` of values.
pub(super) fn sequence(values: &[Vec<u8>]) -> Vec<u8> {
    value(SEQUENCE, &values.concat())
}

/// An `INTEGER` that is not negative, from its big-endian bytes.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let significant = bytes.get(zeros..).unwrap_or_default();
    let sign: &[u8] = match significant.first() {
        Some(..0x80) => &[],
        _ => &[0],
    };
    value(INTEGER, &[sign, significant].concat())
}

/// The first value of some bytes: its tag, its content, and what follows.
pub(super) fn read(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..0x80 => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0usize, |length, byte| length << 8 | usize::from(*byte));
            (length, rest)
        }
        0x80 | 0x85.. => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// The content of a value that must have this tag, and what follows.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = read(bytes)?;
    (found == tag).then_some((content, rest))
}

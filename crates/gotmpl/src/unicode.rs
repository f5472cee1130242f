//! Classes of characters as Go's `unicode` and `strconv` know them, and lossy decoding of UTF-8.

mod tables;

/// U+FFFD, what a byte that is no UTF-8 reads as.
pub(crate) const REPLACEMENT: u32 = 0xFFFD;

fn contains(table: &[(u32, u32)], code: u32) -> bool {
    table
        .binary_search_by(|&(first, last)| {
            if last < code {
                std::cmp::Ordering::Less
            } else if first > code {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// `_`, a letter or a decimal digit: what names are made of.
#[must_use]
pub fn is_alphanumeric(code: u32) -> bool {
    match u8::try_from(code) {
        Ok(byte) if byte < 0x80 => byte == b'_' || byte.is_ascii_alphanumeric(),
        _ => is_letter_or_digit(code),
    }
}

/// Whether Go's `unicode.IsDigit` accepts the character: decimal digits of any script.
#[must_use]
pub fn is_digit(code: u32) -> bool {
    (0x30..=0x39).contains(&code) || contains(tables::DIGIT, code)
}

fn is_letter_or_digit(code: u32) -> bool {
    contains(tables::LETTER, code) || is_digit(code)
}

/// Whether Go's `strconv.IsPrint` and `unicode.IsPrint` accept the character.
#[must_use]
pub fn is_print(code: u32) -> bool {
    match u8::try_from(code) {
        Ok(byte) if byte < 0x80 => (0x20..0x7F).contains(&byte),
        _ => is_letter_or_digit(code) || contains(tables::PRINT_BESIDES, code),
    }
}

/// The first character and its length in bytes. A byte that begins no valid sequence is U+FFFD of
/// length 1; of no bytes at all, the length is 0.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> (u32, usize) {
    match bytes.first() {
        None => (REPLACEMENT, 0),
        Some(&byte) if byte < 0x80 => (u32::from(byte), 1),
        Some(_) => decode_multibyte(bytes),
    }
}

fn decode_multibyte(bytes: &[u8]) -> (u32, usize) {
    let head = bytes.get(..4).unwrap_or(bytes);
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => head
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(character) => (u32::from(character), character.len_utf8()),
        None => (REPLACEMENT, 1),
    }
}

/// How many characters Go counts: every invalid byte is one.
pub(crate) fn count(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().count(),
        Err(_) => Chars(bytes).count(),
    }
}

/// The characters of bytes that may be no UTF-8, each with its length.
pub(crate) struct Chars<'a>(pub(crate) &'a [u8]);

impl Iterator for Chars<'_> {
    type Item = (u32, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, length) = decode(self.0);
        self.0 = self.0.get(length..)?;
        (length > 0).then_some((code, length))
    }
}

/// Appends a character; what is no valid character becomes U+FFFD.
pub(crate) fn push(buffer: &mut Vec<u8>, code: u32) {
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    buffer.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_one_replacement_each() {
        let read: Vec<_> = Chars(b"a\xff\xe2\x82z\xe2\x82\xac\xed\xa0\x80").collect();
        let bad = (REPLACEMENT, 1);
        assert_eq!(
            read,
            [(97, 1), bad, bad, bad, (122, 1), (0x20AC, 3), bad, bad, bad]
        );
        assert_eq!(count(b"a\xff\xe2\x82z\xe2\x82\xac"), 6);
    }

    #[test]
    fn classes_are_those_of_go_and_not_those_of_rust() {
        // U+0345 is Alphabetic but no letter; U+00AD is a format character and does not print.
        assert!(!is_alphanumeric(0x345) && is_alphanumeric(0xE9) && is_alphanumeric(0x669));
        assert!(!is_print(0xAD) && !is_print(0xA0) && is_print(0x20AC) && is_print(0x1F600));
    }
}

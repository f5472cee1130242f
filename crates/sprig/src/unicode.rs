//! Characters as Go sees them: UTF-8 with its replacement rule, categories and simple case mapping.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

/// What stands for a byte that is no part of a character.
pub(crate) const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// The first character of some bytes and its length; an invalid byte counts as U+FFFD of length 1.
/// `None` at the end.
pub(crate) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((char::from(first), 1));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((REPLACEMENT, 1)),
    };
    let decoded = bytes
        .get(..length)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.chars().next());
    Some(decoded.map_or((REPLACEMENT, 1), |character| (character, length)))
}

/// The characters of some bytes with their lengths.
pub(crate) fn runes(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (character, length) = decode(rest)?;
        rest = rest.get(length..).unwrap_or_default();
        Some((character, length))
    })
}

/// Appends a character in UTF-8.
pub(crate) fn push(bytes: &mut Vec<u8>, character: char) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Applies a mapping to every character; invalid bytes become U+FFFD.
pub(crate) fn map(bytes: &[u8], mut mapping: impl FnMut(char) -> char) -> Vec<u8> {
    let mut mapped = Vec::with_capacity(bytes.len());
    for (character, _) in runes(bytes) {
        push(&mut mapped, mapping(character));
    }
    mapped
}

/// Go's `unicode.IsSpace`.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace()
}

/// Whether a byte, taken as a Latin-1 character, is a space.
pub(crate) fn is_space_byte(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ' | 0x85 | 0xa0)
}

macro_rules! category {
    ($name:ident, $class:literal, $ascii:pat, $doc:literal) => {
        #[doc = $doc]
        pub(crate) fn $name(character: char) -> bool {
            static RANGES: LazyLock<ClassUnicode> = LazyLock::new(|| class($class));
            match character {
                $ascii => true,
                '\0'..='\x7f' => false,
                _ => contains(&RANGES, character),
            }
        }
    };
}

category!(
    is_upper,
    r"[\p{Lu}&&\p{age=15.0}]",
    'A'..='Z',
    "Category Lu."
);
category!(
    is_lower,
    r"[\p{Ll}&&\p{age=15.0}]",
    'a'..='z',
    "Category Ll."
);
category!(is_letter, r"[\p{L}&&\p{age=15.0}]", 'a'..='z' | 'A'..='Z', "Category L.");
category!(
    is_digit,
    r"[\p{Nd}&&\p{age=15.0}]",
    '0'..='9',
    "Category Nd."
);
category!(
    is_number,
    r"[\p{N}&&\p{age=15.0}]",
    '0'..='9',
    "Category N."
);
category!(
    is_punctuation,
    r"[\p{P}&&\p{age=15.0}]",
    '!'..='#' | '%'..='*' | ','..='/' | ':' | ';' | '?' | '@' | '['..=']' | '_' | '{' | '}',
    "Category P."
);

/// Category Lt.
pub(crate) fn is_title(character: char) -> bool {
    matches!(character as u32,
        0x1c5 | 0x1c8 | 0x1cb | 0x1f2 | 0x1f88..=0x1f8f | 0x1f98..=0x1f9f | 0x1fa8..=0x1faf
        | 0x1fbc | 0x1fcc | 0x1ffc)
}

fn class(pattern: &str) -> ClassUnicode {
    match regex_syntax::parse(pattern).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        _ => ClassUnicode::empty(),
    }
}

fn contains(class: &ClassUnicode, character: char) -> bool {
    class
        .ranges()
        .binary_search_by(|range| {
            if range.end() < character {
                std::cmp::Ordering::Less
            } else if range.start() > character {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// Go's `unicode.ToUpper`: one character for one, unlike full case mapping (`ß` stays `ß`).
pub(crate) fn to_upper(character: char) -> char {
    match character as u32 {
        0..=0x7f => character.to_ascii_uppercase(),
        // The iota subscript letters have full mappings of two characters and simple ones of one.
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => shifted(code, 8),
        code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => shifted(code, 9),
        _ => known(character, single(character, character.to_uppercase())),
    }
}

/// Go's `unicode.ToLower`.
pub(crate) fn to_lower(character: char) -> char {
    match character {
        '\0'..='\x7f' => character.to_ascii_lowercase(),
        'İ' => 'i',
        _ => known(character, single(character, character.to_lowercase())),
    }
}

/// Go's `unicode.ToTitle`: upper case but for the digraphs and for Georgian.
pub(crate) fn to_title(character: char) -> char {
    match character as u32 {
        0x1c4..=0x1c6 => 'ǅ',
        0x1c7..=0x1c9 => 'ǈ',
        0x1ca..=0x1cc => 'ǋ',
        0x1f1..=0x1f3 => 'ǲ',
        0x10d0..=0x10fa | 0x10fd..=0x10ff => character,
        _ => to_upper(character),
    }
}

/// The mapping, unless it came with a later version of Unicode than 15.0, which Go 1.26 has.
fn known(character: char, mapped: char) -> char {
    static ASSIGNED: LazyLock<ClassUnicode> = LazyLock::new(|| class(r"\p{age=15.0}"));
    match mapped == character || contains(&ASSIGNED, mapped) && contains(&ASSIGNED, character) {
        true => mapped,
        false => character,
    }
}

fn shifted(code: u32, by: u32) -> char {
    char::from_u32(code + by).unwrap_or(REPLACEMENT)
}

fn single(character: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    match mapped.len() {
        1 => mapped.next().unwrap_or(character),
        _ => character,
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_the_case_and_categories_that_go_gives_it() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for character in '\0'..=char::MAX {
            let categories = [
                is_upper,
                is_lower,
                is_title,
                is_letter,
                is_digit,
                is_number,
                is_punctuation,
                is_space,
            ];
            let flags = categories
                .iter()
                .enumerate()
                .map(|(bit, is)| u32::from(is(character)) << bit)
                .sum();
            let mapped = [to_upper, to_lower, to_title].map(|map| u32::from(map(character)));
            for number in mapped.into_iter().chain([flags]) {
                hash = (hash ^ u64::from(number)).wrapping_mul(0x100_0000_01b3);
            }
        }
        // Computed by the same rule from what Go 1.26's package `unicode` says.
        assert_eq!(hash, 0x6830_10f6_ac4a_1430);
    }

    #[test]
    fn invalid_bytes_are_one_replacement_each() {
        let read: String = runes(b"a\xff\xe2\x82z\xed\xa0\x80")
            .map(|(found, _)| found)
            .collect();
        assert_eq!(read, "a\u{fffd}\u{fffd}\u{fffd}z\u{fffd}\u{fffd}\u{fffd}");
    }
}

//! The order of keys: go-yaml's idea of a natural one.

use std::cmp::Ordering;

use super::letters::{digit_value, is_digit, is_letter};
use super::writer::Dialect;

/// Sorts entries by their keys. The order is not a total one for all keys, so that this must not
/// depend on it being one.
pub(super) fn sort<T>(entries: &mut Vec<T>, key: impl Fn(&T) -> &[u8], dialect: Dialect) {
    let less = |left: &T, right: &T| compare(key(left), key(right), dialect) == Ordering::Less;
    let sorted = entries
        .windows(2)
        .all(|pair| matches!(pair, [left, right] if !less(right, left)));
    if sorted {
        return;
    }
    let taken = std::mem::take(entries);
    *entries = merge_sort(taken, &less);
}

fn merge_sort<T>(mut entries: Vec<T>, less: &impl Fn(&T, &T) -> bool) -> Vec<T> {
    if entries.len() < 2 {
        return entries;
    }
    let right = entries.split_off(entries.len() / 2);
    let mut merged = Vec::with_capacity(entries.len() + right.len());
    let mut left = merge_sort(entries, less).into_iter().peekable();
    let mut right = merge_sort(right, less).into_iter().peekable();
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if less(second, first) {
            right.next()
        } else {
            left.next()
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

/// Compares keys: digits by their value, other characters before letters.
fn compare(left: &[u8], right: &[u8], dialect: Dialect) -> Ordering {
    let same = left
        .iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count();
    let same = char_start(left, same).min(char_start(right, same));
    let (Some((a, _)), Some((b, _))) = (char_at(left, same), char_at(right, same)) else {
        return left.len().cmp(&right.len());
    };
    let prefix = left.get(..same).unwrap_or_default();
    match (is_letter(a), is_letter(b)) {
        (true, true) => a.cmp(&b),
        (a_letter, b_letter) if a_letter != b_letter => {
            // go-yaml v3 puts the letter first after a digit.
            let digits = dialect == Dialect::V3 && last_char(prefix).is_some_and(is_digit);
            if a_letter == digits {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        _ => {
            let start = match (a == '0' || b == '0') && leads_number(prefix) {
                true => 1,
                false => 0,
            };
            let (a_number, a_length) = number(left, same, start);
            let (b_number, b_length) = number(right, same, start);
            a_number
                .cmp(&b_number)
                .then(a_length.cmp(&b_length))
                .then(a.cmp(&b))
        }
    }
}

/// Where the character begins that the byte at `at` belongs to.
fn char_start(text: &[u8], mut at: usize) -> usize {
    while at > 0 && text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
        at -= 1;
    }
    at
}

/// The character at a place, and its width.
fn char_at(text: &[u8], at: usize) -> Option<(char, usize)> {
    let rest = text.get(at..)?;
    let chunk = rest.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(character) => Some((character, character.len_utf8())),
        None => Some(('\u{FFFD}', 1)),
    }
}

fn last_char(text: &[u8]) -> Option<char> {
    let start = char_start(text, text.len().checked_sub(1)?);
    char_at(text, start).map(|(character, _)| character)
}

/// Whether the digits at the end of a text are not all zeros.
fn leads_number(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(digit) = last_char(rest).filter(|&character| is_digit(character)) {
        if digit != '0' {
            return true;
        }
        rest = rest.get(..rest.len() - 1).unwrap_or_default();
    }
    false
}

/// The number whose digits begin at a place, as Go's `int64` holds it, and how many they are.
fn number(text: &[u8], start: usize, leading: i64) -> (i64, usize) {
    let mut value = leading;
    let mut count = 0;
    let mut at = start;
    while let Some((character, width)) = char_at(text, at)
        && is_digit(character)
    {
        value = value.wrapping_mul(10).wrapping_add(digit_value(character));
        count += 1;
        at += width;
    }
    (value, count)
}

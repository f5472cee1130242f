//! The order of keys: go-yaml's idea of a natural one.

use std::cmp::Ordering;

use super::letters::{digit_value, is_digit, is_letter};
use super::writer::Dialect;
use crate::utf8;

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

/// A character, or a byte that is one.
trait Character: Copy + Eq + Into<char> {}

impl Character for char {}
impl Character for u8 {}

/// Compares keys: digits by their value, other characters before letters.
fn compare(left: &[u8], right: &[u8], dialect: Dialect) -> Ordering {
    match left.is_ascii() && right.is_ascii() {
        true => compare_characters(left, right, dialect),
        false => compare_characters(&chars(left), &chars(right), dialect),
    }
}

/// The characters of a text; bytes that belong to none are U+FFFD.
fn chars(text: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(&utf8::valid(text))
        .chars()
        .collect()
}

fn compare_characters<C: Character>(left: &[C], right: &[C], dialect: Dialect) -> Ordering {
    let same = left
        .iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count();
    let (Some(&a), Some(&b)) = (left.get(same), right.get(same)) else {
        return left.len().cmp(&right.len());
    };
    let prefix = left.get(..same).unwrap_or_default();
    let (a, b) = (a.into(), b.into());
    match (is_letter(a), is_letter(b)) {
        (true, true) => a.cmp(&b),
        (a_letter, b_letter) if a_letter != b_letter => {
            // go-yaml v3 puts the letter first after a digit.
            let digits =
                dialect == Dialect::V3 && prefix.last().is_some_and(|&last| is_digit(last.into()));
            match a_letter == digits {
                true => Ordering::Less,
                false => Ordering::Greater,
            }
        }
        _ => {
            let leading = i64::from((a == '0' || b == '0') && leads_number(prefix));
            let (a_number, a_length) = number(left.get(same..).unwrap_or_default(), leading);
            let (b_number, b_length) = number(right.get(same..).unwrap_or_default(), leading);
            a_number
                .cmp(&b_number)
                .then(a_length.cmp(&b_length))
                .then(a.cmp(&b))
        }
    }
}

/// Whether the digits at the end of a text are not all zeros.
fn leads_number<C: Character>(text: &[C]) -> bool {
    text.iter()
        .rev()
        .map(|&character| character.into())
        .take_while(|&character| is_digit(character))
        .any(|digit| digit != '0')
}

/// The number that a text begins with, as Go's `int64` holds it, and how many digits it has.
fn number<C: Character>(text: &[C], leading: i64) -> (i64, usize) {
    text.iter()
        .map(|&character| character.into())
        .take_while(|&character| is_digit(character))
        .fold((leading, 0), |(value, count), digit| {
            let value = value.wrapping_mul(10).wrapping_add(digit_value(digit));
            (value, count + 1)
        })
}

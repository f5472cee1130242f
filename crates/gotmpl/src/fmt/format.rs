//! Flags, padding, and the plain kinds: booleans, integers, floats, strings.

use crate::strconv;
use crate::unicode::{self, Chars};

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`: names of fields.
    pub(super) plus_v: bool,
    /// `%#v`: Go syntax.
    pub(super) sharp_v: bool,
}

/// An integer of Go: its magnitude, its sign, and whether its type has signs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integer {
    pub(super) magnitude: u64,
    pub(super) negative: bool,
    pub(super) signed: bool,
}

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        Self {
            magnitude: value.unsigned_abs(),
            negative: value < 0,
            signed: true,
        }
    }
}

impl From<u64> for Integer {
    fn from(value: u64) -> Self {
        Self {
            magnitude: value,
            negative: false,
            signed: false,
        }
    }
}

impl Integer {
    /// The bits, as Go converts to `uint64`.
    fn bits(self) -> u64 {
        if self.negative {
            self.magnitude.wrapping_neg()
        } else {
            self.magnitude
        }
    }
}

impl Flags {
    /// Appends filler: zeros only on the left.
    fn fill(&self, buffer: &mut Vec<u8>, count: usize) {
        let filler = if self.zero && !self.minus { b'0' } else { b' ' };
        buffer.resize(buffer.len() + count, filler);
    }

    /// Appends text, filled up to the width.
    pub(super) fn pad(&self, buffer: &mut Vec<u8>, text: &[u8]) {
        let Some(width) = self.width.filter(|&width| width > 0) else {
            return buffer.extend_from_slice(text);
        };
        let missing = width.saturating_sub(unicode::count(text));
        if self.minus {
            buffer.extend_from_slice(text);
            self.fill(buffer, missing);
        } else {
            self.fill(buffer, missing);
            buffer.extend_from_slice(text);
        }
    }

    /// Like [`pad`](Self::pad), never with zeros.
    fn pad_with_spaces(&self, buffer: &mut Vec<u8>, text: &[u8]) {
        let flags = Self {
            zero: false,
            ..*self
        };
        flags.pad(buffer, text);
    }

    pub(super) fn boolean(&self, buffer: &mut Vec<u8>, value: bool) {
        self.pad(buffer, if value { b"true" } else { b"false" });
    }

    /// The text cut to as many characters as the precision says.
    fn truncate<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.precision else {
            return text;
        };
        let length = Chars(text).take(precision).map(|(_, length)| length).sum();
        text.get(..length).unwrap_or(text)
    }

    /// `%s`
    pub(super) fn string(&self, buffer: &mut Vec<u8>, text: &[u8]) {
        self.pad(buffer, self.truncate(text));
    }

    /// `%q`
    pub(super) fn quoted(&self, buffer: &mut Vec<u8>, text: &[u8]) {
        let text = self.truncate(text);
        let mut quoted = Vec::with_capacity(text.len() + 2);
        if self.sharp && strconv::can_backquote(text) {
            quoted.push(b'`');
            quoted.extend_from_slice(text);
            quoted.push(b'`');
        } else {
            strconv::append_quoted(&mut quoted, text, self.plus);
        }
        self.pad(buffer, &quoted);
    }

    /// `%x` and `%X` of a string or of bytes.
    pub(super) fn hex_string(&self, buffer: &mut Vec<u8>, text: &[u8], upper: bool) {
        let text = text
            .get(..self.precision.unwrap_or(text.len()))
            .unwrap_or(text);
        if text.is_empty() {
            return self.fill(buffer, self.width.unwrap_or(0));
        }
        let mark = [b'0', if upper { b'X' } else { b'x' }];
        let mut width = 2 * text.len();
        if self.space {
            width = width * if self.sharp { 2 } else { 1 } + text.len() - 1;
        } else if self.sharp {
            width += 2;
        }
        let missing = self.width.unwrap_or(0).saturating_sub(width);
        if !self.minus {
            self.fill(buffer, missing);
        }
        for (index, byte) in text.iter().enumerate() {
            if self.space && index > 0 {
                buffer.push(b' ');
            }
            if self.sharp && (self.space || index == 0) {
                buffer.extend_from_slice(&mark);
            }
            push_digit(buffer, u64::from(byte >> 4), upper);
            push_digit(buffer, u64::from(byte & 0xF), upper);
        }
        if self.minus {
            self.fill(buffer, missing);
        }
    }

    /// `%c`
    pub(super) fn character(&self, buffer: &mut Vec<u8>, value: Integer) {
        let mut text = Vec::with_capacity(4);
        unicode::push(&mut text, code_point(value));
        self.pad(buffer, &text);
    }

    /// `%q` of an integer.
    pub(super) fn quoted_character(&self, buffer: &mut Vec<u8>, value: Integer) {
        let mut text = Vec::with_capacity(4);
        strconv::append_quoted_rune(&mut text, code_point(value), self.plus);
        self.pad(buffer, &text);
    }

    /// `%U`, and `%#U` with the character itself.
    pub(super) fn unicode(&self, buffer: &mut Vec<u8>, value: Integer) {
        let bits = value.bits();
        let digits = format!("{bits:X}");
        let least = self.precision.unwrap_or(4).max(4);
        let mut text = b"U+".to_vec();
        text.resize(2 + least.saturating_sub(digits.len()), b'0');
        text.extend_from_slice(digits.as_bytes());
        let code = u32::try_from(bits).ok().filter(|&code| code <= 0x10_FFFF);
        if let Some(code) = code.filter(|&code| self.sharp && unicode::is_print(code)) {
            text.extend_from_slice(b" '");
            unicode::push(&mut text, code);
            text.push(b'\'');
        }
        self.pad_with_spaces(buffer, &text);
    }

    /// An integer in a base; the verb decides about case and `0o`.
    pub(super) fn integer(&self, buffer: &mut Vec<u8>, value: Integer, base: u64, verb: char) {
        if base == 10 && self.is_plain() {
            return push_decimal(buffer, value);
        }
        if self.precision == Some(0) && value.magnitude == 0 {
            let flags = Self {
                zero: false,
                ..*self
            };
            return flags.fill(buffer, self.width.unwrap_or(0));
        }
        let mut text = digits(value.magnitude, base, verb == 'X');
        let least = self.least_digits(value.negative);
        // Built from the last digit to the first, and turned round at the end.
        if text.len() < least {
            text.resize(least, b'0');
        }
        self.base_mark(&mut text, base, verb);
        if value.negative {
            text.push(b'-');
        } else if self.plus {
            text.push(b'+');
        } else if self.space {
            text.push(b' ');
        }
        text.reverse();
        self.pad_with_spaces(buffer, &text);
    }

    /// Whether there are no flags, width or precision: a number is its digits, and a sign if it is negative.
    pub(super) fn is_plain(&self) -> bool {
        let plain = !(self.plus || self.space || self.sharp);
        plain && self.width.is_none() && self.precision.is_none()
    }

    fn least_digits(&self, negative: bool) -> usize {
        match (self.precision, self.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.minus => {
                width.saturating_sub(usize::from(negative || self.plus || self.space))
            }
            _ => 0,
        }
    }

    fn base_mark(&self, text: &mut Vec<u8>, base: u64, verb: char) {
        if self.sharp {
            match base {
                2 => text.extend_from_slice(b"b0"),
                8 if text.last() != Some(&b'0') => text.push(b'0'),
                16 if verb == 'X' => text.extend_from_slice(b"X0"),
                16 => text.extend_from_slice(b"x0"),
                _ => {}
            }
        }
        if verb == 'O' {
            text.extend_from_slice(b"o0");
        }
    }

    /// A float with a verb of `strconv`, and the precision that holds if none is given.
    pub(super) fn float(&self, buffer: &mut Vec<u8>, value: f64, verb: u8, usual: Option<usize>) {
        if self.is_plain() {
            return strconv::append_float(buffer, value, verb, usual);
        }
        let precision = self.precision.or(usual);
        let mut text = Vec::with_capacity(24);
        strconv::append_float(&mut text, value, verb, precision);
        if !matches!(text.first(), Some(b'-' | b'+')) {
            text.insert(0, b'+');
        }
        if let Some(sign @ b'+') = text.first_mut()
            && self.space
            && !self.plus
        {
            *sign = b' ';
        }
        if !value.is_finite() {
            let sign = usize::from(value.is_nan() && !self.space && !self.plus);
            return self.pad_with_spaces(buffer, text.get(sign..).unwrap_or_default());
        }
        if self.sharp && verb != b'b' {
            self.keep_point(&mut text, verb, precision);
        }
        self.signed_number(buffer, &text);
    }

    /// Appends a number whose first byte is its sign, which is left out if it is a plus that nobody
    /// asked for.
    fn signed_number(&self, buffer: &mut Vec<u8>, text: &[u8]) {
        let (sign, digits) = text.split_at_checked(1).unwrap_or((text, &[]));
        if !self.plus && sign == b"+" {
            return self.pad(buffer, digits);
        }
        match self.width {
            // The sign goes before the zeros.
            Some(width) if self.zero && !self.minus && width > text.len() => {
                buffer.extend_from_slice(sign);
                self.fill(buffer, width - text.len());
                buffer.extend_from_slice(digits);
            }
            _ => self.pad(buffer, text),
        }
    }

    /// `%#g` and its like: there is always a decimal point, and zeros at the end stay.
    fn keep_point(&self, text: &mut Vec<u8>, verb: u8, precision: Option<usize>) {
        let hex = matches!(verb, b'x' | b'X');
        let mut digits = match verb {
            b'g' | b'G' | b'x' => precision.unwrap_or(6),
            _ => 0,
        };
        let tail_at = text
            .iter()
            .position(|byte| match byte {
                b'p' | b'P' => true,
                b'e' | b'E' => !hex,
                _ => false,
            })
            .unwrap_or(text.len());
        let tail = text.split_off(tail_at);
        let mut seen_digit = false;
        for &byte in text.iter().skip(1).filter(|&&byte| byte != b'.') {
            seen_digit |= byte != b'0';
            digits = digits.saturating_sub(usize::from(seen_digit));
        }
        if !text.contains(&b'.') {
            if text.get(1..) == Some(b"0") {
                digits = digits.saturating_sub(1);
            }
            text.push(b'.');
        }
        text.resize(text.len() + digits, b'0');
        text.extend_from_slice(&tail);
    }
}

/// The character of an integer, U+FFFD if there is none.
fn code_point(value: Integer) -> u32 {
    u32::try_from(value.bits())
        .ok()
        .filter(|&code| char::from_u32(code).is_some())
        .unwrap_or(unicode::REPLACEMENT)
}

fn push_digit(buffer: &mut Vec<u8>, digit: u64, upper: bool) {
    let alphabet = if upper { UPPER } else { LOWER };
    let index = usize::try_from(digit).unwrap_or(0);
    buffer.push(alphabet.get(index).copied().unwrap_or(b'0'));
}

/// The digits, last first.
fn digits(mut magnitude: u64, base: u64, upper: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    while magnitude >= base {
        push_digit(&mut text, magnitude % base, upper);
        magnitude /= base;
    }
    push_digit(&mut text, magnitude, upper);
    text
}

/// Every byte in decimal with a space behind it, and how long that is.
const BYTES: [([u8; 4], usize); 256] = {
    let mut texts = [([b' '; 4], 2); 256];
    let mut byte = 0;
    while byte < texts.len() {
        let [hundreds, tens, ones] = [byte / 100, byte / 10 % 10, byte % 10];
        let [hundreds, tens, ones] = [b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8];
        texts[byte] = match byte {
            0..10 => ([ones, b' ', b' ', b' '], 2),
            10..100 => ([tens, ones, b' ', b' '], 3),
            _ => ([hundreds, tens, ones, b' '], 4),
        };
        byte += 1;
    }
    texts
};

/// How many bytes [`push_bytes`] takes at once.
pub(super) const BYTES_AT_ONCE: usize = 1024;

/// Bytes in decimal, at most [`BYTES_AT_ONCE`], each with a space behind it.
pub(super) fn push_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let mut text = [0; 4 * BYTES_AT_ONCE];
    let mut end = 0;
    for byte in bytes {
        let (digits, length) = &BYTES[usize::from(*byte)];
        if let Some(place) = text.get_mut(end..end + 4) {
            place.copy_from_slice(digits);
            end += length;
        }
    }
    buffer.extend_from_slice(text.get(..end).unwrap_or_default());
}

fn push_decimal(buffer: &mut Vec<u8>, value: Integer) {
    let mut text = [0u8; 20];
    let mut start = text.len();
    let mut magnitude = value.magnitude;
    for slot in text.iter_mut().rev() {
        *slot = b'0' + u8::try_from(magnitude % 10).unwrap_or(0);
        magnitude /= 10;
        start -= 1;
        if magnitude == 0 {
            break;
        }
    }
    if value.negative {
        buffer.push(b'-');
    }
    buffer.extend_from_slice(text.get(start..).unwrap_or_default());
}

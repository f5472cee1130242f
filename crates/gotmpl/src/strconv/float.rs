//! Floating-point numbers as Go writes them.

use std::fmt::LowerExp;
use std::io::Write;

/// Go's `strconv.FormatFloat(value, verb, precision, 64)`. The verb is one of `e E f g G b x X`; no
/// precision means as many digits as are needed to read the same number back.
///
/// ```
/// use gotmpl::strconv::format_float;
/// assert_eq!(format_float(1e6, b'g', None), "1e+06");
/// assert_eq!(format_float(2.5, b'f', Some(0)), "2");
/// ```
#[must_use]
pub fn format_float(value: f64, verb: u8, precision: Option<usize>) -> String {
    let mut buffer = Vec::with_capacity(24);
    append_float(&mut buffer, value, verb, precision);
    String::from_utf8(buffer).unwrap_or_default()
}

/// Appends what [`format_float`] gives.
pub fn append_float(buffer: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>) {
    if value.is_nan() {
        return buffer.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return buffer.extend_from_slice(if value < 0.0 { b"-Inf" } else { b"+Inf" });
    }
    if value.is_sign_negative() {
        buffer.push(b'-');
    }
    let value = value.abs();
    match (verb, precision) {
        (b'b', _) => append_binary(buffer, value),
        (b'x' | b'X', _) => append_hex(buffer, value, verb, precision),
        (b'f', Some(precision)) => {
            let exact = precision.min(MOST_DIGITS);
            write_to(buffer, format_args!("{value:.exact$}"));
            buffer.resize(buffer.len() + (precision - exact), b'0');
        }
        (b'f', None) => append_fixed(buffer, &Decimal::new(value, None)),
        (b'e' | b'E', _) => {
            append_exponent(buffer, &Decimal::new(value, precision), verb, precision);
        }
        (b'g' | b'G', _) => append_general(buffer, value, verb, precision),
        _ => buffer.extend_from_slice(&[b'%', verb]),
    }
}

/// Appends Go's `strconv.FormatFloat(value, 'g', -1, 32)`.
pub fn append_float32(buffer: &mut Vec<u8>, value: f32) {
    if value.is_nan() || value.is_infinite() {
        return append_float(buffer, value.into(), b'g', None);
    }
    if value.is_sign_negative() {
        buffer.push(b'-');
    }
    let decimal = Decimal::shortest(value.abs(), 6);
    match decimal.exponent() {
        -4..6 => append_fixed(buffer, &decimal),
        _ => append_exponent(buffer, &decimal, b'e', None),
    }
}

fn write_to(buffer: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = buffer.write_fmt(text);
}

/// No float has more digits than that; what follows are zeros.
const MOST_DIGITS: usize = 1100;

/// `0.DIGITS · 10^point`; the digits have no zero at the end.
struct Decimal {
    digits: Vec<u8>,
    point: i32,
}

impl Decimal {
    /// The shortest digits, or that many after the first.
    fn new(value: f64, after_first: Option<usize>) -> Self {
        if value == 0.0 {
            return Self {
                digits: Vec::new(),
                point: 0,
            };
        }
        match after_first {
            Some(count) => Self::parse(&format!("{value:.0$e}", count.min(MOST_DIGITS))),
            None => Self::shortest(value, 15),
        }
    }

    /// The shortest digits that read back as the same number; of two that are as near to it, the
    /// even ones, where Rust takes the greater ones. Numbers of fewer digits than `sure` have no two
    /// that are as near.
    fn shortest(value: impl LowerExp, sure: usize) -> Self {
        // More digits than a number can have after a five and then go on.
        const ENOUGH: usize = 60;
        let mut decimal = Self::parse(&format!("{value:e}"));
        let count = decimal.digits.len();
        if count < sure || decimal.digits.last().is_none_or(|digit| digit % 2 == 0) {
            return decimal;
        }
        let exact = Self::parse(&format!("{value:.ENOUGH$e}"));
        if exact.digits.len() == count + 1
            && exact.digits.last() == Some(&b'5')
            && let Some(last) = decimal.digits.last_mut()
        {
            *last -= 1;
        }
        decimal
    }

    /// What `{:e}` printed.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        Self {
            digits,
            point: exponent.parse().unwrap_or(0) + 1,
        }
    }

    fn exponent(&self) -> i32 {
        if self.digits.is_empty() {
            0
        } else {
            self.point - 1
        }
    }
}

fn append_general(buffer: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>) {
    if precision.is_none() && value < 1e6 && value.trunc() == value {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number below a million"
        )]
        return write_to(buffer, format_args!("{}", value as u32));
    }
    let digits = precision.map(|precision| precision.max(1));
    let decimal = Decimal::new(value, digits.map(|digits| digits - 1));
    let count = decimal.digits.len();
    let exponent = i64::from(decimal.point) - 1;
    let threshold = match digits {
        None => 6,
        Some(digits) if digits > count && i64::try_from(count).is_ok_and(|n| n > exponent) => count,
        Some(digits) => digits,
    };
    if exponent < -4 || exponent >= i64::try_from(threshold).unwrap_or(i64::MAX) {
        let after_first = digits.unwrap_or(count).min(count).saturating_sub(1);
        append_exponent(buffer, &decimal, verb - 2, Some(after_first));
    } else {
        append_fixed(buffer, &decimal);
    }
}

/// `123.45` with just the digits that there are.
fn append_fixed(buffer: &mut Vec<u8>, decimal: &Decimal) {
    let whole = usize::try_from(decimal.point).unwrap_or(0);
    for index in 0..whole {
        buffer.push(decimal.digits.get(index).copied().unwrap_or(b'0'));
    }
    if whole == 0 {
        buffer.push(b'0');
    }
    let fraction = decimal.digits.get(whole..).unwrap_or_default();
    if !fraction.is_empty() {
        buffer.push(b'.');
        for _ in decimal.point..0 {
            buffer.push(b'0');
        }
        buffer.extend_from_slice(fraction);
    }
}

/// `1.2345e+06`
fn append_exponent(buffer: &mut Vec<u8>, decimal: &Decimal, verb: u8, precision: Option<usize>) {
    let shortest = decimal.digits.len().saturating_sub(1);
    let precision = precision.unwrap_or(shortest);
    buffer.push(decimal.digits.first().copied().unwrap_or(b'0'));
    if precision > 0 {
        buffer.push(b'.');
        let rest = decimal.digits.get(1..).unwrap_or_default();
        buffer.extend_from_slice(rest.get(..precision).unwrap_or(rest));
        buffer.resize(buffer.len() + precision.saturating_sub(rest.len()), b'0');
    }
    let exponent = decimal.exponent();
    let sign = if exponent < 0 { '-' } else { '+' };
    let verb = char::from(verb);
    write_to(buffer, format_args!("{verb}{sign}{:02}", exponent.abs()));
}

const MANTISSA_BITS: u32 = 52;

/// The mantissa as an integer and the exponent such that the value is `mantissa · 2^exponent`.
fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    let exponent = i32::try_from(bits >> MANTISSA_BITS & 0x7FF).unwrap_or(0);
    if exponent == 0 {
        (mantissa, -1074)
    } else {
        (mantissa | 1 << MANTISSA_BITS, exponent - 1075)
    }
}

/// `4503599627370496p-52`
fn append_binary(buffer: &mut Vec<u8>, value: f64) {
    let (mantissa, exponent) = split(value);
    write_to(buffer, format_args!("{mantissa}p{exponent:+}"));
}

/// `0x1.8p+01`
fn append_hex(buffer: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>) {
    let (mut mantissa, mut exponent) = split(value);
    exponent += 52;
    if mantissa == 0 {
        exponent = 0;
    }
    // The leading 1 goes to bit 60.
    mantissa <<= 8;
    while mantissa != 0 && mantissa & 1 << 60 == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision @ 0..15) = precision {
        let shift = 60 - 4 * precision;
        let extra = mantissa & ((1 << shift) - 1);
        let half = 1u64 << (shift - 1);
        mantissa >>= shift;
        if extra > half || extra == half && mantissa & 1 == 1 {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let leading = u8::try_from(mantissa >> 60 & 1).unwrap_or(0);
    buffer.extend_from_slice(&[b'0', verb, b'0' + leading]);
    append_hex_fraction(buffer, mantissa << 4, verb == b'X', precision);
    let mark = if verb == b'X' { 'P' } else { 'p' };
    let sign = if exponent < 0 { '-' } else { '+' };
    write_to(buffer, format_args!("{mark}{sign}{:02}", exponent.abs()));
}

fn append_hex_fraction(
    buffer: &mut Vec<u8>,
    mut mantissa: u64,
    upper: bool,
    precision: Option<usize>,
) {
    let needed = (64 - mantissa.trailing_zeros().min(64)).div_ceil(4) as usize;
    let digits = precision.unwrap_or(needed);
    if digits == 0 {
        return;
    }
    buffer.push(b'.');
    for _ in 0..digits {
        let digit = (mantissa >> 60) as u8 & 0xF;
        let alphabet: &[u8; 16] = if upper {
            b"0123456789ABCDEF"
        } else {
            b"0123456789abcdef"
        };
        buffer.push(alphabet.get(usize::from(digit)).copied().unwrap_or(b'0'));
        mantissa = mantissa.checked_shl(4).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_shortest_forms_the_even_one_is_taken() {
        for (exact, text) in [
            ("1881166661101836.25", "1.8811666611018362e+15"),
            ("175681685435003.625", "1.7568168543500362e+14"),
            ("1881166661101836.75", "1.8811666611018368e+15"),
            ("0.3", "0.3"),
            ("5e-324", "5e-324"),
        ] {
            let value: f64 = exact.parse().unwrap();
            assert_eq!(format_float(value, b'g', None), text);
        }
        let value: f64 = "1881166661101836.25".parse().unwrap();
        assert_eq!(format_float(value, b'f', None), "1881166661101836.2");
    }

    #[test]
    fn floats_of_32_bits_have_fewer_digits() {
        for (value, text) in [
            (1.1_f32, "1.1"),
            (16_777_216.0, "1.6777216e+07"),
            (0.1, "0.1"),
        ] {
            let mut buffer = Vec::new();
            append_float32(&mut buffer, value);
            assert_eq!(buffer, text.as_bytes());
        }
    }
}

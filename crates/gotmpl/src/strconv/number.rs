//! Go number literals, read.

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// It is not one.
    Syntax,
    /// It does not fit.
    Range,
}

/// Go's `strconv.ParseUint(text, 0, 64)`: prefixes `0x`, `0o`, `0b` and `0`, and underscores.
pub(crate) fn parse_uint(text: &[u8]) -> Result<u64, NumberError> {
    let (base, digits) = split_base(text)?;
    let mut value = 0u64;
    for &byte in digits.iter().filter(|&&byte| byte != b'_') {
        let digit = char::from(byte).to_digit(base).ok_or(NumberError::Syntax)?;
        // Go stops reading at an overflow too: what follows is not checked.
        value = value
            .checked_mul(u64::from(base))
            .and_then(|value| value.checked_add(u64::from(digit)))
            .ok_or(NumberError::Range)?;
    }
    if digits.contains(&b'_') && !underscores_separate_digits(text) {
        return Err(NumberError::Syntax);
    }
    Ok(value)
}

fn split_base(text: &[u8]) -> Result<(u32, &[u8]), NumberError> {
    Ok(match text {
        [] => return Err(NumberError::Syntax),
        [b'0', b'b' | b'B', rest @ ..] if !rest.is_empty() => (2, rest),
        [b'0', b'o' | b'O', rest @ ..] if !rest.is_empty() => (8, rest),
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => (16, rest),
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    })
}

/// Go's `strconv.ParseInt(text, 0, 64)`.
///
/// # Errors
/// The text is no number, or does not fit 64 bits.
pub fn parse_int(text: &[u8]) -> Result<i64, NumberError> {
    let (negative, digits) = match text {
        [b'+', rest @ ..] => (false, rest),
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let value = parse_uint(digits)?;
    if negative {
        0i64.checked_sub_unsigned(value).ok_or(NumberError::Range)
    } else {
        i64::try_from(value).map_err(|_| NumberError::Range)
    }
}

/// Underscores stand between digits, or between a base prefix and a digit.
fn underscores_separate_digits(text: &[u8]) -> bool {
    let text = match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    };
    let (hex, digits, mut saw_digit) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (true, rest, true),
        [b'0', b'b' | b'B' | b'o' | b'O', rest @ ..] => (false, rest, true),
        _ => (false, text, false),
    };
    let mut saw_underscore = false;
    for &byte in digits {
        let digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        if byte == b'_' && !saw_digit || byte != b'_' && !digit && saw_underscore {
            return false;
        }
        saw_digit = digit;
        saw_underscore = byte == b'_';
    }
    !saw_underscore
}

/// Go's `strconv.ParseFloat(text, 64)`; a number out of range is an error, as in Go. `inf` and `nan`
/// are no numbers here.
///
/// # Errors
/// The text is no number, or out of range.
pub fn parse_float(text: &[u8]) -> Result<f64, NumberError> {
    if text.contains(&b'_') && !underscores_separate_digits(text) {
        return Err(NumberError::Syntax);
    }
    let clean: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'_').collect();
    let clean = std::str::from_utf8(&clean).map_err(|_| NumberError::Syntax)?;
    let unsigned = clean.strip_prefix(['+', '-']).unwrap_or(clean);
    if unsigned
        .get(..2)
        .is_some_and(|head| head.eq_ignore_ascii_case("0x"))
    {
        let value = parse_hex_float(unsigned.get(2..).unwrap_or_default())?;
        return finite(if clean.starts_with('-') {
            -value
        } else {
            value
        });
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Err(NumberError::Syntax);
    }
    finite(clean.parse().map_err(|_| NumberError::Syntax)?)
}

fn finite(value: f64) -> Result<f64, NumberError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(NumberError::Range)
    }
}

/// `1.8p3` after `0x`; the exponent has to be there.
fn parse_hex_float(text: &str) -> Result<f64, NumberError> {
    let (mantissa, exponent) = text.split_once(['p', 'P']).ok_or(NumberError::Syntax)?;
    let digits_only = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits_only.is_empty() || !digits_only.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::Syntax);
    }
    let size = digits_only.parse::<i64>().unwrap_or(i64::MAX).min(99_999);
    let exponent = if exponent.starts_with('-') {
        -size
    } else {
        size
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(NumberError::Syntax);
    }
    let mut bits = 0u64;
    let mut shift = 0i64;
    for (index, byte) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = char::from(byte).to_digit(16).ok_or(NumberError::Syntax)?;
        if bits >> 58 == 0 {
            bits = bits << 4 | u64::from(digit);
            shift -= if index >= whole.len() { 4 } else { 0 };
        } else {
            // Beyond what can matter: only that something follows does, for rounding.
            bits |= u64::from(digit != 0);
            shift += if index < whole.len() { 4 } else { 0 };
        }
    }
    Ok(scale(bits, exponent + shift))
}

/// `bits · 2^exponent`, rounded once, to even.
fn scale(bits: u64, exponent: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let length = 64 - i64::from(bits.leading_zeros());
    let top = length + exponent; // the value is in [2^(top-1), 2^top)
    if top > 1024 {
        return f64::INFINITY;
    }
    // Bits of precision that the result has; fewer for subnormal numbers.
    let keep = if top >= -1021 {
        53
    } else {
        (top + 1074).max(0)
    };
    let drop = length - keep;
    let (kept, exponent) = if drop > 0 {
        (round_to_even(bits, drop), exponent + drop)
    } else {
        (bits, exponent)
    };
    multiply_by_power_of_two(kept, exponent)
}

fn round_to_even(bits: u64, drop: i64) -> u64 {
    if drop > 64 {
        return 0;
    }
    let wide = u128::from(bits);
    let kept = wide >> drop;
    let rest = wide & ((1 << drop) - 1);
    let half = 1u128 << (drop - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    u64::try_from(kept + u128::from(up)).unwrap_or(u64::MAX)
}

/// Exact: the bits fit the result.
fn multiply_by_power_of_two(bits: u64, mut exponent: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits are left")]
    let mut value = bits as f64;
    while exponent > 0 {
        let step = exponent.min(1000);
        value *= 2f64.powi(i32::try_from(step).unwrap_or(0));
        exponent -= step;
    }
    while exponent < 0 {
        let step = exponent.max(-1000);
        value *= 2f64.powi(i32::try_from(step).unwrap_or(0));
        exponent -= step;
    }
    value
}

/// A complex constant `1+2i`: real part, imaginary part. The error is that of Go's `fmt.Sscan`,
/// which reads it.
pub(crate) fn parse_complex(text: &[u8]) -> Result<(f64, f64), String> {
    let (real, rest) = split_float(text);
    let (imaginary, rest) = split_float(rest);
    if !matches!(imaginary, [b'+' | b'-', _, ..]) || !rest.starts_with(b"i") {
        return Err("syntax error scanning complex number".to_owned());
    }
    Ok((parse_part(real)?, parse_part(imaginary)?))
}

/// What may be a float at the start, and the rest.
fn split_float(text: &[u8]) -> (&[u8], &[u8]) {
    let sign = usize::from(matches!(text, [b'+' | b'-', ..]));
    let unsigned = text.get(sign..).unwrap_or_default();
    let hex = matches!(unsigned, [b'0', b'x' | b'X', ..]);
    let mut at = sign + if hex { 2 } else { 0 };
    let run = |at: usize, hex: bool| {
        let rest = text.get(at..).unwrap_or_default().iter();
        let digit = |byte: &&u8| match byte {
            b'_' => true,
            byte if hex => byte.is_ascii_hexdigit(),
            byte => byte.is_ascii_digit(),
        };
        at + rest.take_while(digit).count()
    };
    at = run(at, hex);
    if text.get(at) == Some(&b'.') {
        at = run(at + 1, hex);
    }
    let marks: &[u8] = if hex { b"pP" } else { b"eEpP" };
    if text.get(at).is_some_and(|byte| marks.contains(byte)) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at = run(at, false);
    }
    text.split_at_checked(at).unwrap_or((text, &[]))
}

fn parse_part(text: &[u8]) -> Result<f64, String> {
    parse_float(text).map_err(|error| {
        let reason = match error {
            NumberError::Syntax => "invalid syntax",
            NumberError::Range => "value out of range",
        };
        let text = super::quote(text);
        format!("strconv.ParseFloat: parsing {text}: {reason}")
    })
}

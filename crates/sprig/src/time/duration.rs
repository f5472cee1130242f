//! Durations in nanoseconds.

use super::quote::quote;

const SECOND: u64 = 1_000_000_000;

/// Go's `time.ParseDuration`. The error has Go's text.
pub(crate) fn parse_duration(text: &[u8]) -> Result<i64, String> {
    let fault = |what: &str| format!("time: {what} {}", quote(text));
    let invalid = || fault("invalid duration");
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    match rest {
        b"0" => return Ok(0),
        b"" => return Err(invalid()),
        _ => {}
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, whole_digits, after) = leading_int(rest).ok_or_else(invalid)?;
        let (fraction, scale, fraction_digits, after) = leading_fraction(after);
        if whole_digits + fraction_digits == 0 {
            return Err(invalid());
        }
        let length = after
            .iter()
            .take_while(|byte| **byte != b'.' && !byte.is_ascii_digit())
            .count();
        let (name, after) = after.split_at(length);
        if name.is_empty() {
            return Err(fault("missing unit in duration"));
        }
        let unit = unit(name)
            .ok_or_else(|| fault(&format!("unknown unit {} in duration", quote(name))))?;
        let value = scaled(whole, fraction, scale, unit).ok_or_else(invalid)?;
        total = total.wrapping_add(value);
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = after;
    }
    let signed = if negative {
        0i64.checked_sub_unsigned(total)
    } else {
        i64::try_from(total).ok()
    };
    signed.ok_or_else(invalid)
}

/// Digits at the start as a number, how many they are, and what follows; `None` if it is too large.
fn leading_int(text: &[u8]) -> Option<(u64, usize, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = text.split_at(digits);
    let mut value = 0u64;
    for byte in number {
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        if value > 1 << 63 {
            return None;
        }
    }
    Some((value, digits, after))
}

/// Digits after a period, as a numerator and a denominator; digits that do not fit are skipped.
fn leading_fraction(text: &[u8]) -> (u64, f64, usize, &[u8]) {
    let Some(text) = text.strip_prefix(b".") else {
        return (0, 1.0, 0, text);
    };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = text.split_at(digits);
    let (mut value, mut scale) = (0u64, 1.0);
    for byte in number {
        if value > (i64::MAX.unsigned_abs()) / 10 {
            break;
        }
        let next = value * 10 + u64::from(byte - b'0');
        if next > 1 << 63 {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale, digits, after)
}

fn unit(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
        b"ms" => 1_000_000,
        b"s" => SECOND,
        b"m" => 60 * SECOND,
        b"h" => 3_600 * SECOND,
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "Go computes in float64")]
#[expect(clippy::cast_possible_truncation, reason = "below one hour")]
#[expect(clippy::cast_sign_loss, reason = "never negative")]
fn scaled(whole: u64, fraction: u64, scale: f64, unit: u64) -> Option<u64> {
    if whole > (1 << 63) / unit {
        return None;
    }
    let mut value = whole * unit;
    if fraction > 0 {
        value += (fraction as f64 * (unit as f64 / scale)) as u64;
    }
    (value <= 1 << 63).then_some(value)
}

/// Go's `Duration.String`: `1h2m3.5s`, `1.5ms`.
pub(crate) fn format_duration(nanoseconds: i64) -> String {
    let magnitude = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let small = |divisor: u64, digits: usize, unit: &str| {
        format!("{sign}{}{unit}", with_fraction(magnitude, divisor, digits))
    };
    match magnitude {
        0 => return "0s".to_owned(),
        1..1_000 => return small(1, 0, "ns"),
        1_000..1_000_000 => return small(1_000, 3, "µs"),
        1_000_000..SECOND => return small(1_000_000, 6, "ms"),
        _ => {}
    }
    let seconds = magnitude / SECOND;
    let rest = with_fraction(magnitude % (60 * SECOND), SECOND, 9);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, minutes) => format!("{sign}{minutes}m{rest}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

/// A quotient with its decimals, trailing zeros left out.
fn with_fraction(value: u64, divisor: u64, digits: usize) -> String {
    let fraction = format!("{:0digits$}", value % divisor);
    match fraction.trim_end_matches('0') {
        "" => (value / divisor).to_string(),
        fraction => format!("{}.{fraction}", value / divisor),
    }
}

/// Go's `Duration.Round`: to the nearest multiple, half away from zero, clamped.
pub(crate) fn round(duration: i64, step: i64) -> i64 {
    if step <= 0 {
        return duration;
    }
    let (wide, step) = (i128::from(duration), i128::from(step));
    let over = (wide % step).abs();
    let toward = if wide < 0 { wide + over } else { wide - over };
    let rounded = match over * 2 < step {
        true => toward,
        false if wide < 0 => toward - step,
        false => toward + step,
    };
    let bound = if rounded < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(rounded).unwrap_or(bound)
}

/// Go's `Duration.Truncate`: toward zero to a multiple.
pub(crate) fn truncate(duration: i64, step: i64) -> i64 {
    if step <= 0 {
        return duration;
    }
    duration - duration % step
}

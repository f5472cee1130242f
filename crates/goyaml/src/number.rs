//! Numbers as Go prints them.

use std::fmt::LowerExp;
use std::io::Write;

/// Appends a float as `strconv.FormatFloat(value, 'g', -1, 64)` prints it.
pub(crate) fn push_float(out: &mut Vec<u8>, value: f64) {
    if !push_small_whole(out, value, 1e6) {
        push_shortest(out, value, value.is_nan(), value.is_infinite());
    }
}

/// Appends a float as `strconv.FormatFloat(value, 'g', -1, 32)` prints it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "32 bits are what is asked for"
)]
pub(crate) fn push_float32(out: &mut Vec<u8>, value: f64) {
    let value = value as f32;
    push_shortest(out, value, value.is_nan(), value.is_infinite());
}

/// Appends a float as `encoding/json` prints it; it must be finite.
pub(crate) fn push_json_float(out: &mut Vec<u8>, value: f64) {
    if push_small_whole(out, value, 1e15) {
        return;
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        push(out, format_args!("{value}"));
        return;
    }
    let start = out.len();
    push(out, format_args!("{value:e}"));
    if value.abs() >= 1.0
        && let Some(at) = out.iter().skip(start).position(|&byte| byte == b'e')
    {
        out.insert(start + at + 1, b'+');
    }
}

/// Appends an integer.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_uint(out, value.unsigned_abs());
}

/// Appends an unsigned integer.
pub(crate) fn push_uint(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        start -= 1;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Appends a whole number below a limit without asking for its shortest form; tells whether it did.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is whole and small"
)]
fn push_small_whole(out: &mut Vec<u8>, value: f64, limit: f64) -> bool {
    let small =
        value.abs() < limit && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive());
    if small {
        push_int(out, value as i64);
    }
    small
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes all.
    let _ = out.write_fmt(text);
}

/// Appends the shortest digits that read back as the same number, in Go's `%g` form.
fn push_shortest(
    out: &mut Vec<u8>,
    value: impl LowerExp + Into<f64> + Copy,
    nan: bool,
    infinite: bool,
) {
    if nan {
        out.extend_from_slice(b"NaN");
        return;
    }
    if infinite {
        let sign = if value.into() > 0.0 { "+Inf" } else { "-Inf" };
        out.extend_from_slice(sign.as_bytes());
        return;
    }
    let mut text = Vec::with_capacity(32);
    push(&mut text, format_args!("{value:e}"));
    let text = String::from_utf8_lossy(&text);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        push(out, format_args!("{mantissa}e"));
        out.push(if exponent < 0 { b'-' } else { b'+' });
        push(out, format_args!("{:02}", exponent.unsigned_abs()));
        return;
    }
    push_point_form(out, mantissa, exponent);
}

/// Appends `d.ddd × 10^exponent` without an exponent.
fn push_point_form(out: &mut Vec<u8>, mantissa: &str, exponent: i32) {
    let mantissa = match mantissa.strip_prefix('-') {
        Some(rest) => {
            out.push(b'-');
            rest
        }
        None => mantissa,
    };
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let Ok(point) = usize::try_from(exponent + 1) else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + exponent.unsigned_abs() as usize - 1, b'0');
        out.extend_from_slice(&digits);
        return;
    };
    if point == 0 {
        out.extend_from_slice(b"0.");
        out.extend_from_slice(&digits);
        return;
    }
    for index in 0..point.max(digits.len()) {
        if index == point {
            out.push(b'.');
        }
        out.push(digits.get(index).copied().unwrap_or(b'0'));
    }
}

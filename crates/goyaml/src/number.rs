//! Numbers as Go prints them.

use gotmpl::strconv::{append_float, append_float32};

/// Appends a float as `strconv.FormatFloat(value, 'g', -1, 64)` prints it.
pub(crate) fn push_float(out: &mut Vec<u8>, value: f64) {
    if !push_small_whole(out, value, 1e6) {
        append_float(out, value, b'g', None);
    }
}

/// Appends a float as `strconv.FormatFloat(value, 'g', -1, 32)` prints it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "32 bits are what is asked for"
)]
pub(crate) fn push_float32(out: &mut Vec<u8>, value: f64) {
    append_float32(out, value as f32);
}

/// Appends a float as `encoding/json` prints it; it must be finite.
pub(crate) fn push_json_float(out: &mut Vec<u8>, value: f64) {
    if push_small_whole(out, value, 1e15) {
        return;
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        append_float(out, value, b'f', None);
        return;
    }
    append_float(out, value, b'e', None);
    // JSON has no zero before the digit of a small negative exponent.
    if let [.., b'e', b'-', b'0', _] = out.as_slice() {
        let at = out.len() - 2;
        out.remove(at);
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
    let negative_zero = value == 0.0 && value.is_sign_negative();
    let small = value.abs() < limit && value.fract() == 0.0 && !negative_zero;
    if small {
        push_int(out, value as i64);
    }
    small
}

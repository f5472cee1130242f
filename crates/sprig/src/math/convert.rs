//! Conversion between numbers and texts with the rules of spf13/cast 1.7.

use gotmpl::{Functions, Type, Value, strconv};

use crate::arguments::{any, define, string};
use crate::text::display;

pub(super) fn register(functions: &mut Functions) {
    define(functions, "int", &[Type::Any], |_, a| {
        Ok(Value::Int(to_int64(any(a, 0))))
    });
    define(functions, "int64", &[Type::Any], |_, a| {
        Ok(Value::Int64(to_int64(any(a, 0))))
    });
    define(functions, "float64", &[Type::Any], |_, a| {
        Ok(Value::Float64(to_float64(any(a, 0))))
    });
    define(functions, "atoi", &[Type::String], |_, a| {
        Ok(Value::Int(clamped(string(a, 0)?)))
    });
    define(functions, "toDecimal", &[Type::Any], |_, a| {
        let octal = parse(&display(any(a, 0))?, 8);
        Ok(Value::Int64(octal.and_then(Result::ok).unwrap_or(0)))
    });
}

/// `cast.ToInt64`: whatever cannot be converted is 0.
pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number,
        Value::Int32(number) => i64::from(*number),
        Value::Uint8(number) => i64::from(*number),
        Value::Uint64(number) => number.cast_signed(),
        Value::Float64(number) => truncate(*number),
        Value::String(text) => strconv::parse_int(without_zero_decimals(text)).unwrap_or(0),
        Value::Bool(value) => i64::from(*value),
        Value::Object(object) => crate::time::named_int(&**object).unwrap_or(0),
        _ => 0,
    }
}

/// `cast.ToFloat64`: whatever cannot be converted is 0.
#[expect(clippy::cast_precision_loss, reason = "Go rounds the same way")]
pub(crate) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number as f64,
        Value::Int32(number) => f64::from(*number),
        Value::Uint8(number) => f64::from(*number),
        Value::Uint64(number) => *number as f64,
        Value::Float64(number) => *number,
        Value::String(text) => parse_float(text).unwrap_or(0.0),
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Object(object) => crate::time::named_int(&**object).unwrap_or(0) as f64,
        _ => 0.0,
    }
}

/// Go's conversion of a float to an integer on amd64: what does not fit is the smallest integer.
#[expect(clippy::cast_possible_truncation, reason = "checked to fit")]
pub(crate) fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Cuts `.0`, `.00`, … from the end of a text.
fn without_zero_decimals(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|byte| **byte == b'0').count();
    let whole = text.get(..text.len() - zeros).unwrap_or_default();
    match whole.strip_suffix(b".") {
        Some(whole) if zeros > 0 => whole,
        _ => text,
    }
}

/// `strconv.ParseFloat`: `inf`, `infinity` and `nan` are numbers too.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let (sign, word) = match text {
        [b'+', rest @ ..] => (1.0, rest),
        [b'-', rest @ ..] => (-1.0, rest),
        _ => (1.0, text),
    };
    if word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity") {
        return Some(f64::INFINITY * sign);
    }
    if text.eq_ignore_ascii_case(b"nan") {
        return Some(f64::NAN);
    }
    strconv::parse_float(text).ok()
}

/// `strconv.Atoi` without its error: what is too large is the largest number.
pub(crate) fn clamped(text: &[u8]) -> i64 {
    match parse(text, 10) {
        Some(Ok(number) | Err(number)) => number,
        None => 0,
    }
}

/// A number in a base without prefixes; `Err` is the bound that it exceeds.
fn parse(text: &[u8], base: u32) -> Option<Result<i64, i64>> {
    let (negative, digits) = match text {
        [b'+', rest @ ..] => (false, rest),
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut magnitude = Some(0u64);
    for byte in digits {
        let digit = u64::from(char::from(*byte).to_digit(base)?);
        // Go stops at a number that does not fit 64 bits, and looks no further.
        magnitude = magnitude
            .and_then(|magnitude| magnitude.checked_mul(u64::from(base))?.checked_add(digit));
        if magnitude.is_none() {
            break;
        }
    }
    Some(match (magnitude, negative) {
        (Some(magnitude), false) => i64::try_from(magnitude).map_err(|_| i64::MAX),
        (Some(magnitude), true) => 0i64.checked_sub_unsigned(magnitude).ok_or(i64::MIN),
        (None, false) => Err(i64::MAX),
        (None, true) => Err(i64::MIN),
    })
}

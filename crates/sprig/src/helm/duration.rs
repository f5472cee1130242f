//! Helm's `duration*` functions.

use gotmpl::{Functions, Type, Value, strconv};

use crate::arguments::{any, define};
use crate::math::parse_float;
use crate::time::{as_duration, duration_value, in_units, parse_duration, round, truncate};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;

pub(super) fn register(functions: &mut Functions) {
    define(functions, "mustToDuration", &[Type::Any], |_, a| {
        Ok(duration_value(nanoseconds(any(a, 0))?))
    });
    float(functions, "durationSeconds", |duration| {
        in_units(duration, SECOND)
    });
    float(functions, "durationMinutes", |duration| {
        in_units(duration, 60 * SECOND)
    });
    float(functions, "durationHours", hours);
    float(functions, "durationDays", |duration| hours(duration) / 24.0);
    float(functions, "durationWeeks", |duration| {
        hours(duration) / 24.0 / 7.0
    });
    whole(functions, "durationMilliseconds", 1_000_000);
    whole(functions, "durationMicroseconds", 1_000);
    whole(functions, "durationNanoseconds", 1);
    multiple(functions, "durationRoundTo", round);
    multiple(functions, "durationTruncateTo", truncate);
}

fn hours(duration: i64) -> f64 {
    in_units(duration, HOUR)
}

fn float(functions: &mut Functions, name: &'static str, convert: fn(i64) -> f64) {
    define(functions, name, &[Type::Any], move |_, a| {
        let duration = nanoseconds(any(a, 0));
        Ok(Value::Float64(duration.map_or(0.0, convert)))
    });
}

fn whole(functions: &mut Functions, name: &'static str, unit: i64) {
    define(functions, name, &[Type::Any], move |_, a| {
        let duration = nanoseconds(any(a, 0));
        Ok(Value::Int64(duration.map_or(0, |duration| duration / unit)))
    });
}

fn multiple(functions: &mut Functions, name: &'static str, apply: fn(i64, i64) -> i64) {
    define(functions, name, &[Type::Any, Type::Any], move |_, a| {
        let duration = nanoseconds(any(a, 0)).map(|duration| {
            // A step that is none leaves the duration as it is.
            nanoseconds(any(a, 1)).map_or(duration, |step| apply(duration, step))
        });
        Ok(duration_value(duration.unwrap_or(0)))
    });
}

/// The duration that a value stands for: a duration, its text, or a number of seconds.
fn nanoseconds(value: &Value) -> Result<i64, String> {
    if let Some(duration) = as_duration(value) {
        return Ok(duration);
    }
    match value {
        Value::Nil => Err("invalid duration".to_owned()),
        Value::String(text) => from_text(text),
        Value::Float64(seconds) => from_float(*seconds),
        Value::Uint64(seconds) => match i64::try_from(*seconds) {
            Ok(seconds) => from_int(seconds),
            Err(_) => Err(format!("duration seconds overflow: {seconds}")),
        },
        Value::Int(seconds) | Value::Int64(seconds) => from_int(*seconds),
        Value::Int32(seconds) => from_int(i64::from(*seconds)),
        Value::Uint8(seconds) => from_int(i64::from(*seconds)),
        Value::Object(object) => match object.as_basic() {
            Some(basic @ (Value::Int(_) | Value::Int64(_) | Value::Float64(_))) => {
                nanoseconds(&basic)
            }
            _ => unsupported(value),
        },
        _ => unsupported(value),
    }
}

fn unsupported(value: &Value) -> Result<i64, String> {
    Err(format!("unsupported duration type {}", value.type_name()))
}

fn from_int(seconds: i64) -> Result<i64, String> {
    seconds
        .checked_mul(SECOND)
        .ok_or_else(|| format!("duration seconds overflow: {seconds}"))
}

fn from_text(text: &[u8]) -> Result<i64, String> {
    let trimmed = crate::strings::trim_space(text);
    if trimmed.is_empty() {
        return Err("empty duration".to_owned());
    }
    if let Ok(duration) = parse_duration(trimmed) {
        return Ok(duration);
    }
    match parse_float(trimmed) {
        Some(seconds) => from_float(seconds),
        None => Err(format!("could not parse duration {}", strconv::quote(text))),
    }
}

#[expect(clippy::cast_precision_loss, reason = "Helm compares as float64")]
fn from_float(seconds: f64) -> Result<i64, String> {
    const MOST: f64 = i64::MAX as f64 / 1e9;
    const LEAST: f64 = i64::MIN as f64 / 1e9;
    let text = || strconv::format_float(seconds, b'g', None);
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", text()));
    }
    if !(LEAST..=MOST).contains(&seconds) {
        return Err(format!("duration seconds overflow: {}", text()));
    }
    Ok(crate::math::truncate(seconds * 1e9))
}

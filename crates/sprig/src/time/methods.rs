//! The methods that templates call on times and durations.

use gotmpl::{Signature, Type, Value};

use super::object::CalendarObject;
use super::{Time, Zone, as_duration, as_time, duration_value, round, time_value, truncate};

const NONE: &[Type] = &[];
const TIME: &[Type] = &[Type::Named("time.Time")];
const DURATION: &[Type] = &[Type::Named("time.Duration")];
const STRING: &[Type] = &[Type::String];
const THREE_INTS: &[Type] = &[Type::Int, Type::Int, Type::Int];

pub(super) fn time_signature(name: &str) -> Option<Signature> {
    let parameters = match name {
        "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay"
        | "Weekday" | "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" | "UTC" | "IsZero"
        | "IsDST" | "String" => NONE,
        "Before" | "After" | "Equal" | "Compare" | "Sub" => TIME,
        "Add" | "Truncate" | "Round" => DURATION,
        "Format" => STRING,
        "AddDate" => THREE_INTS,
        _ => return None,
    };
    Some(Signature::fixed(parameters))
}

pub(super) fn call_time(
    time: &Time,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, String>> {
    time_signature(name)?;
    Some(match arguments {
        [] => Ok(time_part(time, name)?),
        [Value::String(layout)] => Ok(Value::string(time.format(layout))),
        [Value::Int(years), Value::Int(months), Value::Int(days)] => {
            Ok(time_value(time.add_date(*years, *months, *days)))
        }
        [other] => match (as_time(other), as_duration(other)) {
            (Some(other), _) => Ok(compared(time, other, name)?),
            (_, Some(duration)) => Ok(moved(time, duration, name)?),
            _ => Err("wrong type for value".to_owned()),
        },
        _ => Err("wrong number of args".to_owned()),
    })
}

fn time_part(time: &Time, name: &str) -> Option<Value> {
    let civil = time.civil();
    let int = |number: u32| Value::Int(i64::from(number));
    let scaled = |factor: i64| {
        let whole = time.seconds.wrapping_mul(factor);
        let divisor = 1_000_000_000 / factor;
        Value::Int64(whole.wrapping_add(i64::from(time.nanos) / divisor))
    };
    Some(match name {
        "Year" => Value::Int(civil.year),
        "Month" => CalendarObject::Month(civil.month).value(),
        "Day" => int(civil.day),
        "Hour" => int(civil.hour),
        "Minute" => int(civil.minute),
        "Second" => int(civil.second),
        "Nanosecond" => int(time.nanos),
        "YearDay" => int(civil.year_day),
        "Weekday" => CalendarObject::Weekday(civil.weekday).value(),
        "Unix" => Value::Int64(time.seconds),
        "UnixMilli" => scaled(1_000),
        "UnixMicro" => scaled(1_000_000),
        "UnixNano" => scaled(1_000_000_000),
        "UTC" => time_value(time.in_zone(Zone::Utc)),
        "IsZero" => Value::Bool(time.compare(&Time::zero()).is_eq()),
        "IsDST" => Value::Bool(time.zone.is_summer(time.seconds)),
        "String" => Value::string(time.text()),
        _ => return None,
    })
}

fn compared(time: &Time, other: &Time, name: &str) -> Option<Value> {
    let order = time.compare(other);
    Some(match name {
        "Before" => Value::Bool(order.is_lt()),
        "After" => Value::Bool(order.is_gt()),
        "Equal" => Value::Bool(order.is_eq()),
        "Compare" => Value::Int(order as i64),
        "Sub" => duration_value(time.since(other)),
        _ => return None,
    })
}

fn moved(time: &Time, duration: i64, name: &str) -> Option<Value> {
    Some(time_value(match name {
        "Add" => time.plus(duration),
        "Truncate" => time.truncated(duration),
        "Round" => time.rounded(duration),
        _ => return None,
    }))
}

pub(super) fn duration_signature(name: &str) -> Option<Signature> {
    let parameters = match name {
        "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds"
        | "Abs" | "String" => NONE,
        "Round" | "Truncate" => DURATION,
        _ => return None,
    };
    Some(Signature::fixed(parameters))
}

pub(super) fn call_duration(
    duration: i64,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, String>> {
    let step = arguments.first().and_then(as_duration);
    Some(Ok(match (name, step) {
        ("Round", Some(step)) => duration_value(round(duration, step)),
        ("Truncate", Some(step)) => duration_value(truncate(duration, step)),
        ("Hours", _) => Value::Float64(in_units(duration, 3_600_000_000_000)),
        ("Minutes", _) => Value::Float64(in_units(duration, 60_000_000_000)),
        ("Seconds", _) => Value::Float64(in_units(duration, 1_000_000_000)),
        ("Milliseconds", _) => Value::Int64(duration / 1_000_000),
        ("Microseconds", _) => Value::Int64(duration / 1_000),
        ("Nanoseconds", _) => Value::Int64(duration),
        ("Abs", _) => duration_value(duration.saturating_abs()),
        ("String", _) => Value::string(super::format_duration(duration)),
        _ => return None,
    }))
}

/// A duration in a unit, computed as Go does: whole units, and the rest as a fraction.
#[expect(clippy::cast_precision_loss, reason = "Go computes in float64")]
pub(crate) fn in_units(duration: i64, unit: i64) -> f64 {
    (duration / unit) as f64 + (duration % unit) as f64 / unit as f64
}

//! Sprig's date functions.

use std::sync::Arc;

use gotmpl::{FunctionError, Functions, Type, Value};

use super::{
    Time, Zone, as_time, format_duration, parse::parse, parse_duration, round, time_value,
};
use crate::arguments::{Returned, alias, any, define, fail, string, text};
use crate::{Clock, Environment, LocalZone};

const TIME: Type = Type::Named("time.Time");

pub(crate) fn register(functions: &mut Functions, environment: &Environment) {
    let context = Context {
        clock: Arc::clone(&environment.clock),
        start: environment.clock.now(),
        local: environment.time_zone.clone(),
    };
    register_formats(functions, &context);
    register_moves(functions);
    register_durations(functions, &context);
    let now = context.clone();
    define(functions, "now", &[], move |_, _| Ok(time_value(now.now())));
    let local = context.local.clone();
    define(
        functions,
        "toDate",
        &[Type::String, Type::String],
        move |_, a| {
            let parsed = parse(string(a, 0)?, string(a, 1)?, local.get());
            Ok(time_value(parsed.unwrap_or_else(|_| Time::zero())))
        },
    );
    let local = context.local;
    define(
        functions,
        "mustToDate",
        &[Type::String, Type::String],
        move |_, a| {
            Ok(time_value(parse(
                string(a, 0)?,
                string(a, 1)?,
                local.get(),
            )?))
        },
    );
    define(functions, "unixEpoch", &[TIME], |_, a| {
        Ok(Value::string(time(a, 0)?.seconds.to_string()))
    });
}

#[derive(Clone)]
struct Context {
    clock: Arc<dyn Clock>,
    start: jiff::Timestamp,
    local: LocalZone,
}

impl Context {
    fn now(&self) -> Time {
        let now = self.clock.now();
        let running = now.as_nanosecond() - self.start.as_nanosecond();
        Time {
            seconds: now.as_second(),
            // Before 1970 the fraction is negative.
            nanos: u32::try_from(now.as_nanosecond().rem_euclid(1_000_000_000)).unwrap_or(0),
            zone: Zone::Named(self.local.get().clone()),
            monotonic: i64::try_from(running).ok(),
        }
    }

    /// The time that a value stands for; now for any other value.
    fn time(&self, value: &Value) -> Time {
        match value {
            Value::Int(seconds) | Value::Int64(seconds) => Time::unix(*seconds, 0),
            Value::Int32(seconds) => Time::unix(i64::from(*seconds), 0),
            other => as_time(other).cloned().unwrap_or_else(|| self.now()),
        }
    }

    /// The text of a time in a zone; UTC if there is no such zone.
    fn format(&self, layout: &[u8], value: &Value, zone: &str) -> Value {
        let zone = Zone::load(zone, &self.local).unwrap_or(Zone::Utc);
        Value::string(self.time(value).in_zone(zone).format(layout))
    }
}

fn register_formats(functions: &mut Functions, context: &Context) {
    const DAY: &[u8] = b"2006-01-02";
    let date = context.clone();
    define(
        functions,
        "date",
        &[Type::String, Type::Any],
        move |_, a| Ok(date.format(string(a, 0)?, any(a, 1), "Local")),
    );
    let date = context.clone();
    define(
        functions,
        "dateInZone",
        &[Type::String, Type::Any, Type::String],
        move |_, a| Ok(date.format(string(a, 0)?, any(a, 1), &text(a, 2)?)),
    );
    alias(functions, "date_in_zone", "dateInZone");
    let date = context.clone();
    define(functions, "htmlDate", &[Type::Any], move |_, a| {
        Ok(date.format(DAY, any(a, 0), "Local"))
    });
    let date = context.clone();
    define(
        functions,
        "htmlDateInZone",
        &[Type::Any, Type::String],
        move |_, a| Ok(date.format(DAY, any(a, 0), &text(a, 1)?)),
    );
}

fn register_moves(functions: &mut Functions) {
    define(functions, "dateModify", &[Type::String, TIME], |_, a| {
        let duration = parse_duration(string(a, 0)?).unwrap_or(0);
        Ok(time_value(time(a, 1)?.plus(duration)))
    });
    alias(functions, "date_modify", "dateModify");
    define(
        functions,
        "mustDateModify",
        &[Type::String, TIME],
        |_, a| {
            let duration = parse_duration(string(a, 0)?)?;
            Ok(time_value(time(a, 1)?.plus(duration)))
        },
    );
    alias(functions, "must_date_modify", "mustDateModify");
}

fn register_durations(functions: &mut Functions, context: &Context) {
    let ago = context.clone();
    define(functions, "ago", &[Type::Any], move |_, a| {
        let time = match any(a, 0) {
            Value::Int32(_) => ago.now(),
            value => ago.time(value),
        };
        let since = round(ago.now().since(&time), 1_000_000_000);
        Ok(Value::string(format_duration(since)))
    });
    define(functions, "duration", &[Type::Any], |_, a| {
        duration(any(a, 0))
    });
    let context = context.clone();
    define(functions, "durationRound", &[Type::Any], move |_, a| {
        let duration = match any(a, 0) {
            Value::String(text) => parse_duration(text).unwrap_or(0),
            Value::Int64(nanoseconds) => *nanoseconds,
            other => match as_time(other) {
                Some(time) => context.now().since(time),
                None => 0,
            },
        };
        Ok(Value::string(coarse(duration)))
    });
}

/// Seconds as a duration; only texts and `int64` count.
fn duration(value: &Value) -> Returned {
    let seconds = match value {
        Value::String(text) => crate::math::parse_decimal(text),
        Value::Int64(seconds) => *seconds,
        _ => 0,
    };
    let nanoseconds = seconds.wrapping_mul(1_000_000_000);
    Ok(Value::string(format_duration(nanoseconds)))
}

/// A duration in its largest unit that fits more than once; the sign is dropped.
fn coarse(duration: i64) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    const UNITS: [(u64, &str); 6] = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (HOUR / 60, "m"),
        (HOUR / 3600, "s"),
    ];
    let magnitude = duration.unsigned_abs();
    let unit = UNITS.iter().find(|(unit, _)| magnitude > *unit);
    unit.map_or_else(
        || "0s".to_owned(),
        |(unit, name)| format!("{}{name}", magnitude / unit),
    )
}

fn time(arguments: &[Value], index: usize) -> Result<&Time, FunctionError> {
    match as_time(any(arguments, index)) {
        Some(time) => Ok(time),
        None => fail("wrong type for value; expected time.Time"),
    }
}

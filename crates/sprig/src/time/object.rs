//! Times, durations, months and weekdays as templates hold them.

use std::rc::Rc;

use gotmpl::{Object, Signature, Str, Value};

use super::format::{month_name, weekday_name};
use super::{Time, format_duration, methods};

/// A `time.Time`.
pub(crate) fn time_value(time: Time) -> Value {
    Value::Object(Rc::new(TimeObject(time)))
}

/// A `time.Duration`.
pub(crate) fn duration_value(nanoseconds: i64) -> Value {
    Value::Object(Rc::new(DurationObject(nanoseconds)))
}

/// The time that a value is.
pub(crate) fn as_time(value: &Value) -> Option<&Time> {
    match value {
        Value::Object(object) => {
            let object = object.as_any().downcast_ref::<TimeObject>()?;
            Some(&object.0)
        }
        _ => None,
    }
}

/// The nanoseconds of the duration that a value is.
pub(crate) fn as_duration(value: &Value) -> Option<i64> {
    match value {
        Value::Object(object) => {
            let object = object.as_any().downcast_ref::<DurationObject>()?;
            Some(object.0)
        }
        _ => None,
    }
}

/// The number of an object whose Go type is a named `int`: a month or a weekday. Casts take these
/// for numbers, and durations not.
pub(crate) fn named_int(object: &dyn Object) -> Option<i64> {
    let object = object.as_any().downcast_ref::<CalendarObject>()?;
    Some(object.number())
}

struct TimeObject(Time);

impl Object for TimeObject {
    fn go_type(&self) -> &'static str {
        "time.Time"
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        methods::time_signature(name)
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        methods::call_time(&self.0, name, arguments)
    }

    fn to_json(&self) -> Option<Value> {
        Some(Value::string(
            self.0.format(b"2006-01-02T15:04:05.999999999Z07:00"),
        ))
    }

    fn to_plain_yaml(&self) -> Option<Str> {
        let text = self.0.format(b"2006-01-02T15:04:05.999999999Z07:00");
        Some(text.into())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| {
            (self.0.seconds, self.0.nanos) == (other.0.seconds, other.0.nanos)
                && self.0.zone_at() == other.0.zone_at()
        })
    }

    fn display(&self) -> Str {
        self.0.text().into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct DurationObject(i64);

impl Object for DurationObject {
    fn go_type(&self) -> &'static str {
        "time.Duration"
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        methods::duration_signature(name)
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        methods::call_duration(self.0, name, arguments)
    }

    fn as_basic(&self) -> Option<Value> {
        Some(Value::Int64(self.0))
    }

    fn to_json(&self) -> Option<Value> {
        self.as_basic()
    }

    fn to_yaml(&self) -> Option<Value> {
        Some(Value::String(self.display()))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other
            .as_any()
            .downcast_ref::<Self>()
            .is_some_and(|other| self.0 == other.0)
    }

    fn display(&self) -> Str {
        format_duration(self.0).into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A `time.Month` or a `time.Weekday`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CalendarObject {
    Month(u32),
    Weekday(u32),
}

impl CalendarObject {
    pub(super) fn value(self) -> Value {
        Value::Object(Rc::new(self))
    }

    fn number(self) -> i64 {
        match self {
            Self::Month(number) | Self::Weekday(number) => i64::from(number),
        }
    }
}

impl Object for CalendarObject {
    fn go_type(&self) -> &'static str {
        match self {
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
        }
    }

    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        (name == "String").then(|| Ok(Value::String(self.display())))
    }

    fn as_basic(&self) -> Option<Value> {
        Some(Value::Int(self.number()))
    }

    fn to_json(&self) -> Option<Value> {
        self.as_basic()
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn display(&self) -> Str {
        match self {
            Self::Month(number) => month_name(*number),
            Self::Weekday(number) => weekday_name(*number),
        }
        .into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

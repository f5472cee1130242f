//! Durations of the fields that 1.4 did not have.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration as StdDuration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time: a Go duration string (`90s`, `1h30m`) or a plain integer, which is seconds,
/// as every duration of the 1.4 API is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(StdDuration);

/// Why a duration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no duration; write it as 90s, 5m or 1h30m")]
pub struct InvalidDuration(String);

/// Nanoseconds in each unit that Go's `time.ParseDuration` knows; longest spelling first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The longest duration that is accepted: ten years. Longer ones are slips of the pen, and timers
/// cannot hold them.
const LONGEST_SECONDS: u64 = 10 * 366 * 24 * 3600;

impl Duration {
    /// The standard library's form.
    #[must_use]
    pub const fn get(self) -> StdDuration {
        self.0
    }

    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(StdDuration::from_secs(seconds))
    }

    /// Reads a Go duration string.
    ///
    /// # Errors
    /// Fails on anything that Go's `time.ParseDuration` refuses, on negative durations, and on
    /// durations of more than ten years.
    pub fn parse(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration(text.chars().take(64).collect());
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(StdDuration::ZERO));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut nanoseconds = 0.0;
        while !rest.is_empty() {
            let (part, after) = leading_part(rest).ok_or_else(invalid)?;
            nanoseconds += part;
            rest = after;
        }
        StdDuration::try_from_secs_f64(nanoseconds / 1e9)
            .ok()
            .filter(|span| span.as_secs() <= LONGEST_SECONDS)
            .map(Self)
            .ok_or_else(invalid)
    }
}

/// Reads one `1.5h` from the front: nanoseconds, and what follows.
fn leading_part(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text.get(..digits)?.parse().ok()?;
    let unit_and_rest = text.get(digits..)?;
    UNITS
        .iter()
        .filter_map(|(unit, scale)| Some((number * scale, unit_and_rest.strip_prefix(unit)?)))
        .min_by_key(|(_, rest)| rest.len())
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_nanos() != 0 {
            return write!(f, "{}s", self.0.as_secs_f64());
        }
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 || (hours > 0 && seconds > 0) {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 || (hours == 0 && minutes == 0) {
            write!(f, "{seconds}s")?;
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as 90s or 5m, or seconds as an integer")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                Duration::parse(text).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
                if seconds > LONGEST_SECONDS {
                    return Err(E::custom(InvalidDuration(seconds.to_string())));
                }
                Ok(Duration::from_secs(seconds))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
                let seconds = u64::try_from(seconds)
                    .map_err(|_| E::custom(InvalidDuration(seconds.to_string())))?;
                self.visit_u64(seconds)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": r"^\+?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$",
            "minimum": 0,
            "maxLength": 64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        let cases = [
            ("0", 0),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1m0.5s", 60_500),
            (".5s", 500),
            ("250ms", 250),
            ("+2s", 2_000),
            ("1000us", 1),
        ];
        for (text, millis) in cases {
            assert_eq!(
                Duration::parse(text).map(Duration::get),
                Ok(StdDuration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_hint() {
        for text in [
            "",
            "5",
            "m",
            "-5m",
            "5 m",
            "5d",
            "1.2.3s",
            "9999999999h",
            "1e3s",
            "s5",
        ] {
            let error = Duration::parse(text).expect_err(text).to_string();
            assert!(error.contains("write it as 90s, 5m or 1h30m"), "{error}");
        }
    }

    #[test]
    fn integers_are_seconds_and_the_printed_form_reads_back() {
        let from_integer: Duration = serde_json::from_str("90").unwrap();
        assert_eq!(from_integer, Duration::parse("1m30s").unwrap());
        assert!(serde_json::from_str::<Duration>("-1").is_err());
        for text in ["0s", "45s", "1m", "1h", "1h0m5s", "2h3m", "0.25s"] {
            let parsed = Duration::parse(text).unwrap();
            assert_eq!(parsed.to_string(), text);
            let back: Duration =
                serde_json::from_value(serde_json::to_value(parsed).unwrap()).unwrap();
            assert_eq!(back, parsed);
        }
    }
}

//! The decoder. The grammar is the `toml` crate's; the types are BurntSushi's, and error texts have
//! their shape.

use gotmpl::{List, Map, Str, Type, Value, strconv};
use toml::de::{DeTable, DeValue, Error};
use toml::value::{Datetime, Offset};

use super::fault;
use super::{LOCAL_DATE, LOCAL_DATETIME, LOCAL_TIME};
use crate::time::{Time, Zone, time_value, wall_seconds};

const UTF16_PREFIX: usize = 6;
const NUL_BYTES: &str =
    "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";

/// A document as a map. The error is a text like BurntSushi's.
pub(super) fn read(text: &[u8], local_offset: i64) -> Result<Map, String> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let line = line_of(text, error.valid_up_to());
        format!("toml: line {line}: invalid UTF-8 byte")
    })?;
    // The original looks for UTF-16 in the first bytes only.
    if text.bytes().take(UTF16_PREFIX).any(|byte| byte == 0) {
        return Err(format!("toml: line 1: {NUL_BYTES}"));
    }
    let document = DeTable::parse(text).map_err(|error| error_text(text, &error))?;
    let reader = Reader { text, local_offset };
    reader.table(document.get_ref())
}

struct Reader<'a> {
    text: &'a str,
    local_offset: i64,
}

impl Reader<'_> {
    fn table(&self, table: &DeTable<'_>) -> Result<Map, String> {
        let map = Map::new();
        for (key, value) in table {
            let value = self.value(value.get_ref(), value.span().start)?;
            map.insert(Str::from(&**key.get_ref()), value);
        }
        Ok(map)
    }

    fn value(&self, value: &DeValue<'_>, position: usize) -> Result<Value, String> {
        Ok(match value {
            DeValue::String(text) => Value::from(&**text),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Value::Int64(parsed.map_err(|_| {
                    self.fault(
                        position,
                        &format!("{} is out of range for int64", number.as_str()),
                    )
                })?)
            }
            DeValue::Float(number) => {
                let text = number.as_str();
                let parsed: Result<f64, _> = text.parse();
                let parsed =
                    parsed.map_err(|_| self.fault(position, "invalid floating point number"))?;
                if parsed.is_infinite() && !text.ends_with("inf") {
                    let text = format!("{text} is out of range for float64");
                    return Err(self.fault(position, &text));
                }
                Value::Float64(parsed)
            }
            DeValue::Datetime(datetime) => time_value(self.time(datetime)),
            DeValue::Table(table) => Value::Map(self.table(table)?),
            DeValue::Array(items) => {
                let mut values = Vec::with_capacity(items.len());
                let mut headers = !items.is_empty();
                for item in items {
                    let start = item.span().start;
                    // Tables of `[[headers]]` are written without braces.
                    headers &= item.get_ref().is_table() && !self.at(start, '{');
                    values.push(self.value(item.get_ref(), start)?);
                }
                let element = if headers {
                    Type::Map(&Type::Any)
                } else {
                    Type::Any
                };
                Value::List(List::typed(element, values))
            }
        })
    }

    fn at(&self, position: usize, character: char) -> bool {
        let rest = self.text.get(position..).unwrap_or_default();
        rest.starts_with(character)
    }

    fn fault(&self, position: usize, message: &str) -> String {
        with_position(self.text, position, message)
    }

    fn time(&self, datetime: &Datetime) -> Time {
        let (year, month, day) = datetime.date.map_or((0, 1, 1), |date| {
            (
                i64::from(date.year),
                u32::from(date.month),
                u32::from(date.day),
            )
        });
        let (second, nanos) = datetime.time.map_or((0, 0), |time| {
            let minutes = i64::from(time.hour) * 60 + i64::from(time.minute);
            let second = minutes * 60 + i64::from(time.second.unwrap_or(0));
            (second, time.nanosecond.unwrap_or(0))
        });
        let zone = match (datetime.offset, datetime.date, datetime.time) {
            (Some(Offset::Z), ..) => Zone::Utc,
            (Some(Offset::Custom { minutes }), ..) => {
                Zone::Fixed(String::new(), i64::from(minutes) * 60)
            }
            (None, Some(_), Some(_)) => self.local(LOCAL_DATETIME),
            (None, Some(_), None) => self.local(LOCAL_DATE),
            (None, None, _) => self.local(LOCAL_TIME),
        };
        let offset = zone.lookup(0).1;
        let seconds = wall_seconds(year, month, day, second) - offset;
        Time::unix(seconds, nanos).in_zone(zone)
    }

    fn local(&self, name: &str) -> Zone {
        Zone::Fixed(name.to_owned(), self.local_offset)
    }
}

fn error_text(text: &str, error: &Error) -> String {
    let position = error.span().map_or(text.len(), |span| span.start);
    let line = line_of(text.as_bytes(), position);
    if error.message().starts_with("duplicate key") {
        let key = last_key(text, line).unwrap_or_default();
        let is_header = text
            .lines()
            .nth(line - 1)
            .is_some_and(|text| text.trim_start().starts_with('['));
        if is_header {
            return format!("toml: line {line}: Key '{key}' has already been defined.");
        }
        return with_position(
            text,
            position,
            &format!("Key '{key}' has already been defined."),
        );
    }
    match fault::of_line(text, line) {
        Some(fault) if fault.names_key => with_position(text, position, &fault.text),
        Some(fault) => format!("toml: line {line}: {}", fault.text),
        None => with_position(text, position, error.message()),
    }
}

/// The line and the key that was read last.
fn with_position(text: &str, position: usize, message: &str) -> String {
    let line = line_of(text.as_bytes(), position);
    // Messages of one line, as BurntSushi's are.
    let message = message.lines().collect::<Vec<_>>().join(", ");
    match last_key(text, line) {
        Some(key) => {
            let key = strconv::quote(key.as_bytes());
            format!("toml: line {line} (last key {key}): {message}")
        }
        None => format!("toml: line {line}: {message}"),
    }
}

fn line_of(text: &[u8], position: usize) -> usize {
    let before = text.get(..position.min(text.len())).unwrap_or_default();
    1 + memchr::memchr_iter(b'\n', before).count()
}

/// The key of the last assignment up to a line, with the table that it is in.
fn last_key(text: &str, line: usize) -> Option<String> {
    let (mut table, mut key) = (None, None);
    for text in text.lines().take(line).map(str::trim) {
        if let Some(header) = text.strip_prefix('[') {
            let name = header.trim_start_matches('[').split(']').next();
            table = name.map(|name| name.trim().to_owned());
            key = table.clone();
        } else if let Some((name, _)) = text.split_once('=').filter(|_| !text.starts_with('#')) {
            let name = name.trim();
            key = Some(match &table {
                Some(table) => format!("{table}.{name}"),
                None => name.to_owned(),
            });
        }
    }
    key.filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_mistakes_are_told_in_the_words_of_burntsushi() {
        for (text, expected) in [
            (
                "a=",
                "toml: line 1 (last key \"a\"): unexpected EOF; expected value",
            ),
            (
                "a = ",
                "toml: line 1 (last key \"a\"): unexpected EOF; expected value",
            ),
            (
                "a =\nb=1",
                "toml: line 1 (last key \"a\"): expected value but found '\\n' instead",
            ),
            (
                "a",
                "toml: line 1: unexpected EOF; expected key separator '='",
            ),
            (
                "a b",
                "toml: line 1: expected '.' or '=', but got 'b' instead",
            ),
            (
                "a\n",
                "toml: line 1: expected '.' or '=', but got '\\n' instead",
            ),
            (
                "a = foo",
                "toml: line 1 (last key \"a\"): expected value but found \"foo\" instead",
            ),
            (
                "a = foo bar",
                "toml: line 1 (last key \"a\"): expected value but found \"foo\" instead",
            ),
            (
                "a: b",
                "toml: line 1: expected '.' or '=', but got ':' instead",
            ),
            (
                "- k: v",
                "toml: line 1: expected '.' or '=', but got 'k' instead",
            ),
            (
                "{a}",
                "toml: line 1: expected '.' or '=', but got '{' instead",
            ),
            (
                "a = \"x",
                "toml: line 1 (last key \"a\"): unexpected EOF; expected '\"'",
            ),
            (
                "a = 'x",
                "toml: line 1 (last key \"a\"): unexpected EOF; expected \"'\"",
            ),
            (
                "a = 1\na = 2",
                "toml: line 2 (last key \"a\"): Key 'a' has already been defined.",
            ),
            (
                "= 1",
                "toml: line 1: unexpected '=': key name appears blank",
            ),
            (
                "[a]\n[a]",
                "toml: line 2: Key 'a' has already been defined.",
            ),
            (
                "a = 01",
                "toml: line 1 (last key \"a\"): Invalid integer \"01\": cannot have leading zeroes",
            ),
            (
                "a = -00.5",
                "toml: line 1 (last key \"a\"): Invalid float \"-00.5\": cannot have leading zeroes",
            ),
            (
                "a = 1.",
                "toml: line 1 (last key \"a\"): Invalid float \"1.\": '.' must be followed by one or more digits",
            ),
            (
                "a = .5",
                "toml: line 1 (last key \"a\"): floats must start with a digit, not '.'",
            ),
            (
                "a = 1__0",
                "toml: line 1 (last key \"a\"): Invalid integer \"1__0\": underscores must be surrounded by digits",
            ),
            (
                "a = 1.5_",
                "toml: line 1 (last key \"a\"): Invalid float \"1.5_\": underscores must be surrounded by digits",
            ),
            (
                "a = 1e",
                "toml: line 1 (last key \"a\"): Invalid float value: \"1e\"",
            ),
            (
                "a = 1e400",
                "toml: line 1 (last key \"a\"): 1e400 is out of range for float64",
            ),
            (
                "a = @",
                "toml: line 1 (last key \"a\"): expected value but found '@' instead",
            ),
            (
                "a = tru",
                "toml: line 1 (last key \"a\"): expected value but found \"tru\" instead",
            ),
            (
                "key: value\n",
                "toml: line 1: expected '.' or '=', but got ':' instead",
            ),
        ] {
            let found = read(text.as_bytes(), 0).err();
            assert_eq!(found.as_deref(), Some(expected), "{text:?}");
        }
    }
}

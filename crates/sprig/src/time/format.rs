//! Times as text.

use std::fmt::Write as _;

use super::Time;
use super::civil::Civil;
use super::layout::{Element, MONTHS, OffsetStyle, WEEKDAYS, next_chunk};

impl Time {
    /// Go's `Format`.
    pub(crate) fn format(&self, layout: &[u8]) -> Vec<u8> {
        let civil = self.civil();
        let mut printed = Vec::with_capacity(layout.len() + 8);
        let mut rest = layout;
        while !rest.is_empty() {
            let chunk = next_chunk(rest);
            printed.extend_from_slice(chunk.prefix);
            let Some((element, _)) = chunk.element else {
                break;
            };
            self.append(&mut printed, &civil, element);
            rest = chunk.suffix;
        }
        printed
    }

    /// Go's `String`, with the monotonic clock if the time has one.
    pub(crate) fn text(&self) -> String {
        let printed = self.format(b"2006-01-02 15:04:05.999999999 -0700 MST");
        let mut text = String::from_utf8_lossy(&printed).into_owned();
        if let Some(monotonic) = self.monotonic {
            let sign = if monotonic < 0 { '-' } else { '+' };
            let monotonic = monotonic.unsigned_abs();
            let (whole, fraction) = (monotonic / 1_000_000_000, monotonic % 1_000_000_000);
            // Writing to a string cannot fail.
            let _ = write!(text, " m={sign}{whole}.{fraction:09}");
        }
        text
    }

    fn append(&self, printed: &mut Vec<u8>, civil: &Civil, element: Element) {
        let number = |printed: &mut Vec<u8>, number: u32, width| {
            append_int(printed, i64::from(number), width);
        };
        let noon = civil.hour >= 12;
        match element {
            Element::LongYear => append_int(printed, civil.year, 4),
            Element::Year => append_int(printed, civil.year.abs() % 100, 2),
            Element::LongMonth => append_text(printed, month_name(civil.month)),
            Element::Month => append_text(printed, short(month_name(civil.month))),
            Element::NumericMonth => number(printed, civil.month, 0),
            Element::ZeroMonth => number(printed, civil.month, 2),
            Element::LongWeekday => append_text(printed, weekday_name(civil.weekday)),
            Element::Weekday => append_text(printed, short(weekday_name(civil.weekday))),
            Element::Day => number(printed, civil.day, 0),
            Element::UnderDay => append_padded(printed, civil.day, 2),
            Element::ZeroDay => number(printed, civil.day, 2),
            Element::UnderYearDay => append_padded(printed, civil.year_day, 3),
            Element::ZeroYearDay => number(printed, civil.year_day, 3),
            Element::Hour => number(printed, civil.hour, 2),
            Element::Hour12 => number(printed, hour_of_12(civil.hour), 0),
            Element::ZeroHour12 => number(printed, hour_of_12(civil.hour), 2),
            Element::Minute => number(printed, civil.minute, 0),
            Element::ZeroMinute => number(printed, civil.minute, 2),
            Element::Second => number(printed, civil.second, 0),
            Element::ZeroSecond => number(printed, civil.second, 2),
            Element::UpperNoon => append_text(printed, if noon { "PM" } else { "AM" }),
            Element::LowerNoon => append_text(printed, if noon { "pm" } else { "am" }),
            Element::ZoneName => self.append_zone(printed),
            Element::Offset(style) => append_offset(printed, self.zone_at().1, style),
            Element::Fraction {
                digits,
                separator,
                trim,
            } => append_fraction(printed, self.nanos, digits, separator, trim),
        }
    }

    fn append_zone(&self, printed: &mut Vec<u8>) {
        let (name, offset) = self.zone_at();
        if !name.is_empty() {
            return append_text(printed, &name);
        }
        let style = OffsetStyle {
            iso: false,
            colon: false,
            minutes: true,
            seconds: false,
        };
        append_offset(printed, offset, style);
    }
}

fn append_text(printed: &mut Vec<u8>, text: &str) {
    printed.extend_from_slice(text.as_bytes());
}

/// A number with zeros up to a width, its sign not counted.
fn append_int(printed: &mut Vec<u8>, number: i64, width: usize) {
    let sign = if number < 0 { "-" } else { "" };
    append_text(printed, &format!("{sign}{:0width$}", number.unsigned_abs()));
}

fn append_padded(printed: &mut Vec<u8>, number: u32, width: usize) {
    append_text(printed, &format!("{number:width$}"));
}

fn append_offset(printed: &mut Vec<u8>, offset: i64, style: OffsetStyle) {
    if offset == 0 && style.iso {
        printed.push(b'Z');
        return;
    }
    let minutes = offset / 60;
    printed.push(if minutes < 0 { b'-' } else { b'+' });
    append_int(printed, minutes.abs() / 60, 2);
    if style.minutes {
        if style.colon {
            printed.push(b':');
        }
        append_int(printed, minutes.abs() % 60, 2);
    }
    if style.seconds {
        if style.colon {
            printed.push(b':');
        }
        append_int(printed, offset.abs() % 60, 2);
    }
}

fn append_fraction(printed: &mut Vec<u8>, nanos: u32, digits: usize, separator: u8, trim: bool) {
    if trim && nanos == 0 {
        return;
    }
    printed.push(separator);
    let text = format!("{nanos:09}");
    let text = text.get(..digits.min(9)).unwrap_or(&text);
    let text = if trim {
        text.trim_end_matches('0')
    } else {
        text
    };
    append_text(printed, text);
    if text.is_empty() {
        printed.pop();
    }
}

fn hour_of_12(hour: u32) -> u32 {
    match hour % 12 {
        0 => 12,
        hour => hour,
    }
}

/// The name of a month, from 1.
pub(super) fn month_name(month: u32) -> &'static str {
    let index = usize::try_from(month).unwrap_or(0).wrapping_sub(1);
    MONTHS.get(index).copied().unwrap_or("")
}

/// The name of a weekday, from Sunday, 0.
pub(super) fn weekday_name(weekday: u32) -> &'static str {
    let index = usize::try_from(weekday).unwrap_or(0);
    WEEKDAYS.get(index).copied().unwrap_or("")
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

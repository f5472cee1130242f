//! Go's reference layouts: `2006-01-02T15:04:05Z07:00`.

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumericMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperNoon,
    LowerNoon,
    ZoneName,
    Offset(OffsetStyle),
    /// Digits after the second, and the sign before them; trailing zeros are left out or kept.
    Fraction {
        digits: usize,
        separator: u8,
        trim: bool,
    },
}

/// How an offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetStyle {
    /// `Z` for UTC.
    pub(super) iso: bool,
    pub(super) colon: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

/// A layout cut at its first element.
pub(super) struct Chunk<'a> {
    /// What stands before the element.
    pub(super) prefix: &'a [u8],
    /// The element and its text; `None` at the end.
    pub(super) element: Option<(Element, &'a [u8])>,
    /// What follows.
    pub(super) suffix: &'a [u8],
}

/// Finds the first element of a layout.
pub(super) fn next_chunk(layout: &[u8]) -> Chunk<'_> {
    for start in 0..layout.len() {
        let rest = layout.get(start..).unwrap_or_default();
        let Some((element, skip, length)) = element(rest) else {
            continue;
        };
        let (prefix, rest) = layout.split_at(start + skip);
        let (text, suffix) = rest.split_at(length.min(rest.len()));
        return Chunk {
            prefix,
            element: Some((element, text)),
            suffix,
        };
    }
    Chunk {
        prefix: layout,
        element: None,
        suffix: b"",
    }
}

/// The element that a text begins with, the bytes before it that are literal, and its length.
fn element(text: &[u8]) -> Option<(Element, usize, usize)> {
    let plain = |element, length| Some((element, 0, length));
    match text {
        [b'J', ..] => word(text, b"January", Element::LongMonth, b"Jan", Element::Month),
        [b'M', b'S', b'T', ..] => plain(Element::ZoneName, 3),
        [b'M', ..] => word(
            text,
            b"Monday",
            Element::LongWeekday,
            b"Mon",
            Element::Weekday,
        ),
        [b'0', digit @ b'1'..=b'6', ..] => plain(two_digits(*digit), 2),
        [b'0', b'0', b'2', ..] => plain(Element::ZeroYearDay, 3),
        [b'1', b'5', ..] => plain(Element::Hour, 2),
        [b'1', ..] => plain(Element::NumericMonth, 1),
        [b'2', b'0', b'0', b'6', ..] => plain(Element::LongYear, 4),
        [b'2', ..] => plain(Element::Day, 1),
        [b'_', b'2', b'0', b'0', b'6', ..] => Some((Element::LongYear, 1, 4)),
        [b'_', b'2', ..] => plain(Element::UnderDay, 2),
        [b'_', b'_', b'2', ..] => plain(Element::UnderYearDay, 3),
        [b'3', ..] => plain(Element::Hour12, 1),
        [b'4', ..] => plain(Element::Minute, 1),
        [b'5', ..] => plain(Element::Second, 1),
        [b'P', b'M', ..] => plain(Element::UpperNoon, 2),
        [b'p', b'm', ..] => plain(Element::LowerNoon, 2),
        [b'-' | b'Z', ..] => offset(text),
        [separator @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => {
            fraction(text, *separator, *digit)
        }
        _ => None,
    }
}

/// A name, or its short form if no lower-case letter follows that.
fn word(
    text: &[u8],
    long: &[u8],
    long_element: Element,
    short: &[u8],
    short_element: Element,
) -> Option<(Element, usize, usize)> {
    if text.starts_with(long) {
        return Some((long_element, 0, long.len()));
    }
    let after = text.strip_prefix(short)?;
    let ends = !after.first().is_some_and(u8::is_ascii_lowercase);
    ends.then_some((short_element, 0, short.len()))
}

fn two_digits(digit: u8) -> Element {
    match digit {
        b'1' => Element::ZeroMonth,
        b'2' => Element::ZeroDay,
        b'3' => Element::ZeroHour12,
        b'4' => Element::ZeroMinute,
        b'5' => Element::ZeroSecond,
        _ => Element::Year,
    }
}

fn offset(text: &[u8]) -> Option<(Element, usize, usize)> {
    let (sign, rest) = text.split_first()?;
    let style = |colon, minutes, seconds| OffsetStyle {
        iso: *sign == b'Z',
        colon,
        minutes,
        seconds,
    };
    let (style, length) = if rest.starts_with(b"070000") {
        (style(false, true, true), 7)
    } else if rest.starts_with(b"07:00:00") {
        (style(true, true, true), 9)
    } else if rest.starts_with(b"0700") {
        (style(false, true, false), 5)
    } else if rest.starts_with(b"07:00") {
        (style(true, true, false), 6)
    } else if rest.starts_with(b"07") {
        (style(false, false, false), 3)
    } else {
        return None;
    };
    Some((Element::Offset(style), 0, length))
}

/// A run of one digit that no other digit follows.
fn fraction(text: &[u8], separator: u8, digit: u8) -> Option<(Element, usize, usize)> {
    let after = text.get(1..)?;
    let digits = after.iter().take_while(|byte| **byte == digit).count();
    if after.get(digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let element = Element::Fraction {
        digits,
        separator,
        trim: digit == b'9',
    };
    Some((element, 0, digits + 1))
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

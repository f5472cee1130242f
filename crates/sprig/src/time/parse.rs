//! Times out of text.

use jiff::tz::TimeZone;

use super::civil::{days_in, is_leap, wall_seconds};
use super::layout::{Element, MONTHS, OffsetStyle, WEEKDAYS, next_chunk};
use super::quote::quote;
use super::{Time, Zone};

/// Go's `time.ParseInLocation`. The error has Go's text.
pub(crate) fn parse(layout: &[u8], value: &[u8], local: &TimeZone) -> Result<Time, String> {
    let mut parser = Parser {
        value,
        ..Parser::default()
    };
    parser
        .read(layout)
        .and_then(|()| parser.time(&Zone::Named(local.clone())))
        .map_err(|fault| fault.text(layout, value))
}

/// Why a text is no time of a layout.
enum Fault {
    /// A part of the text does not look like the part of the layout.
    Mismatch { part: Vec<u8>, wanted: Vec<u8> },
    /// Any other message, which follows the text.
    Message(String),
}

impl Fault {
    fn text(&self, layout: &[u8], value: &[u8]) -> String {
        let value = quote(value);
        match self {
            Self::Mismatch { part, wanted } => format!(
                "parsing time {value} as {}: cannot parse {} as {}",
                quote(layout),
                quote(part),
                quote(wanted)
            ),
            Self::Message(message) => format!("parsing time {value}: {message}"),
        }
    }

    fn range<T>(what: &str) -> Result<T, Problem> {
        Err(Problem::Range(what.to_owned()))
    }
}

/// Why one element cannot be read.
enum Problem {
    Bad,
    Range(String),
}

type Read<T> = Result<T, Problem>;

#[derive(Default)]
struct Parser<'a> {
    value: &'a [u8],
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    year_day: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    afternoon: bool,
    forenoon: bool,
    utc: bool,
    offset: Option<i64>,
    zone_name: Option<&'a [u8]>,
}

impl<'a> Parser<'a> {
    fn read(&mut self, layout: &[u8]) -> Result<(), Fault> {
        let mut rest = layout;
        loop {
            let chunk = next_chunk(rest);
            if !self.skip(chunk.prefix) {
                return Err(Fault::Mismatch {
                    part: self.value.to_vec(),
                    wanted: chunk.prefix.to_vec(),
                });
            }
            let Some((element, text)) = chunk.element else {
                return match self.value {
                    b"" => Ok(()),
                    extra => Err(Fault::Message(format!("extra text: {}", quote(extra)))),
                };
            };
            let held = self.value;
            self.element(element, chunk.suffix)
                .map_err(|problem| match problem {
                    Problem::Bad => Fault::Mismatch {
                        part: held.to_vec(),
                        wanted: text.to_vec(),
                    },
                    Problem::Range(what) => Fault::Message(format!("{what} out of range")),
                })?;
            rest = chunk.suffix;
        }
    }

    /// Skips literal text; any run of spaces stands for any other.
    fn skip(&mut self, mut prefix: &[u8]) -> bool {
        while let Some((first, after)) = prefix.split_first() {
            if *first == b' ' {
                if self.value.first().is_some_and(|byte| *byte != b' ') {
                    return false;
                }
                prefix = trim_spaces(prefix);
                self.value = trim_spaces(self.value);
                continue;
            }
            match self.value.split_first() {
                Some((byte, rest)) if byte == first => self.value = rest,
                _ => return false,
            }
            prefix = after;
        }
        true
    }

    fn element(&mut self, element: Element, suffix: &[u8]) -> Read<()> {
        match element {
            Element::Year => {
                let year = self.two_digit_year()?;
                self.year = year + if year >= 69 { 1900 } else { 2000 };
            }
            Element::LongYear => self.year = i64::from(self.digits(4, 4)?),
            Element::Month => self.month = Some(self.name(&MONTHS, 3)? + 1),
            Element::LongMonth => self.month = Some(self.name(&MONTHS, usize::MAX)? + 1),
            Element::NumericMonth | Element::ZeroMonth => {
                let month = self.number(element == Element::ZeroMonth)?;
                if !(1..=12).contains(&month) {
                    return Fault::range("month");
                }
                self.month = Some(month);
            }
            Element::Weekday => drop(self.name(&WEEKDAYS, 3)?),
            Element::LongWeekday => drop(self.name(&WEEKDAYS, usize::MAX)?),
            Element::Day | Element::UnderDay | Element::ZeroDay => {
                self.pad(usize::from(element == Element::UnderDay));
                self.day = Some(self.number(element == Element::ZeroDay)?);
            }
            Element::UnderYearDay | Element::ZeroYearDay => {
                self.pad(if element == Element::UnderYearDay {
                    2
                } else {
                    0
                });
                let least = if element == Element::ZeroYearDay {
                    3
                } else {
                    1
                };
                self.year_day = Some(self.digits(least, 3)?);
            }
            Element::Hour => self.hour = self.below(24, false, "hour")?,
            Element::Hour12 | Element::ZeroHour12 => {
                self.hour = self.below(13, element == Element::ZeroHour12, "hour")?;
            }
            Element::Minute | Element::ZeroMinute => {
                self.minute = self.below(60, element == Element::ZeroMinute, "minute")?;
            }
            Element::Second | Element::ZeroSecond => {
                self.second = self.below(60, element == Element::ZeroSecond, "second")?;
                self.implied_fraction(suffix);
            }
            Element::UpperNoon => self.noon(b"PM", b"AM")?,
            Element::LowerNoon => self.noon(b"pm", b"am")?,
            Element::Offset(style) => self.read_offset(style)?,
            Element::ZoneName => self.read_zone_name()?,
            Element::Fraction { digits, trim, .. } => self.fraction(digits, trim)?,
        }
        Ok(())
    }

    /// Takes bytes off the front.
    fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.value.split_at_checked(length).ok_or(Problem::Bad)?;
        self.value = rest;
        Ok(taken)
    }

    fn pad(&mut self, most: usize) {
        for _ in 0..most {
            self.value = self.value.strip_prefix(b" ").unwrap_or(self.value);
        }
    }

    /// A number of some digits.
    fn digits(&mut self, least: usize, most: usize) -> Read<u32> {
        let found = self.value.iter().take(most);
        let count = found.take_while(|byte| byte.is_ascii_digit()).count();
        if count < least {
            return Err(Problem::Bad);
        }
        Ok(self
            .take(count)?
            .iter()
            .fold(0, |number, byte| number * 10 + u32::from(byte - b'0')))
    }

    /// Two bytes as Go's `atoi` reads them: a sign may be one of them.
    fn two_digit_year(&mut self) -> Read<i64> {
        let digit = |byte: &u8| i64::from(byte - b'0');
        match self.take(2)? {
            [sign @ (b'+' | b'-'), ones @ b'0'..=b'9'] => Ok(if *sign == b'-' {
                -digit(ones)
            } else {
                digit(ones)
            }),
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Ok(digit(tens) * 10 + digit(ones)),
            _ => Err(Problem::Bad),
        }
    }

    /// A number of one or two digits, or of exactly two.
    fn number(&mut self, fixed: bool) -> Read<u32> {
        self.digits(if fixed { 2 } else { 1 }, 2)
    }

    fn below(&mut self, bound: u32, fixed: bool, what: &str) -> Read<u32> {
        match self.number(fixed)? {
            number if number < bound => Ok(number),
            _ => Fault::range(what),
        }
    }

    /// The place of a name in a table; upper and lower case are the same.
    fn name(&mut self, names: &[&str], length: usize) -> Read<u32> {
        for (index, name) in names.iter().enumerate() {
            let name = name.get(..length).unwrap_or(name).as_bytes();
            let found = self.value.get(..name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                self.take(name.len())?;
                return u32::try_from(index).map_err(|_| Problem::Bad);
            }
        }
        Err(Problem::Bad)
    }

    fn noon(&mut self, after: &[u8], before: &[u8]) -> Read<()> {
        let found = self.take(2)?;
        self.afternoon |= found == after;
        self.forenoon |= found == before;
        if found == after || found == before {
            Ok(())
        } else {
            Err(Problem::Bad)
        }
    }

    /// A fraction after the seconds that the layout does not ask for.
    fn implied_fraction(&mut self, suffix: &[u8]) {
        let next = next_chunk(suffix).element.map(|(element, _)| element);
        if matches!(next, Some(Element::Fraction { .. })) {
            return;
        }
        if let Some(digits) = self.fraction_length() {
            self.nanos = self.nanoseconds(digits);
        }
    }

    /// How many digits follow a comma or a period.
    fn fraction_length(&self) -> Option<usize> {
        let (first, rest) = self.value.split_first()?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (matches!(first, b'.' | b',') && digits > 0).then_some(digits)
    }

    /// Reads a separator and digits, of which nine count.
    fn nanoseconds(&mut self, digits: usize) -> u32 {
        let taken = self.take(digits + 1).unwrap_or_default();
        let digits = taken.get(1..).unwrap_or_default().iter().copied();
        digits
            .chain(std::iter::repeat(b'0'))
            .take(9)
            .fold(0, |number, byte| number * 10 + u32::from(byte - b'0'))
    }

    fn fraction(&mut self, digits: usize, trim: bool) -> Read<()> {
        let found = self.fraction_length().unwrap_or(0);
        if trim {
            if found > 0 {
                self.nanos = self.nanoseconds(found);
            }
            return Ok(());
        }
        if found < digits.min(9) || found < digits {
            return Err(Problem::Bad);
        }
        self.nanos = self.nanoseconds(digits);
        Ok(())
    }

    fn read_offset(&mut self, style: OffsetStyle) -> Read<()> {
        if style.iso && self.value.starts_with(b"Z") {
            self.take(1)?;
            self.utc = true;
            return Ok(());
        }
        let length = match (style.minutes, style.seconds) {
            (false, _) => 3,
            (true, false) => 5,
            (true, true) => 7,
        };
        let colons = if style.colon { (length - 3) / 2 } else { 0 };
        let text = self.take(length + colons)?;
        let part = |index: usize| -> Read<u32> {
            let start = 1 + index * if style.colon { 3 } else { 2 };
            match text.get(start..start + 2) {
                Some([tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => {
                    Ok(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
                }
                Some(_) => Err(Problem::Bad),
                None => Ok(0),
            }
        };
        if style.colon && (1..=colons).any(|colon| text.get(colon * 3) != Some(&b':')) {
            return Err(Problem::Bad);
        }
        let mut parts = [0; 3];
        let mut complete = true;
        for (index, number) in parts.iter_mut().enumerate() {
            match part(index) {
                Ok(found) => *number = found,
                Err(_) => {
                    complete = false;
                    break;
                }
            }
        }
        let bounds = [(24, "hour"), (60, "minute"), (60, "second")];
        for (part, (bound, what)) in parts.iter().zip(bounds) {
            if *part > bound {
                return Fault::range(&format!("time zone offset {what}"));
            }
        }
        if !complete {
            return Err(Problem::Bad);
        }
        let [hours, minutes, seconds] = parts;
        let offset = i64::from((hours * 60 + minutes) * 60 + seconds);
        self.offset = Some(match text.first() {
            Some(b'+') => offset,
            Some(b'-') => -offset,
            _ => return Err(Problem::Bad),
        });
        Ok(())
    }

    fn read_zone_name(&mut self) -> Read<()> {
        if self.value.starts_with(b"UTC") {
            self.take(3)?;
            self.utc = true;
            return Ok(());
        }
        let length = zone_name_length(self.value).ok_or(Problem::Bad)?;
        self.zone_name = Some(self.take(length)?);
        Ok(())
    }

    fn time(&self, local: &Zone) -> Result<Time, Fault> {
        let hour = match self.hour {
            hour if self.afternoon && hour < 12 => hour + 12,
            12 if self.forenoon => 0,
            hour => hour,
        };
        let (month, day) = self.month_and_day()?;
        if !(1..=days_in(self.year, month)).contains(&day) {
            return Err(Fault::Message("day out of range".to_owned()));
        }
        let second = i64::from((hour * 60 + self.minute) * 60 + self.second);
        let wall = wall_seconds(self.year, month, day, second);
        let mut time = self.moment(wall, local);
        time.nanos = self.nanos;
        Ok(time)
    }

    fn moment(&self, wall: i64, local: &Zone) -> Time {
        if self.utc {
            return Time::unix(wall, 0);
        }
        let name = self.zone_name.map(String::from_utf8_lossy);
        // Go takes the offset of one second behind UTC for none at all.
        if let Some(offset) = self.offset.filter(|offset| *offset != -1) {
            let time = Time::unix(wall - offset, 0);
            let (local_name, local_offset) = local.lookup(time.seconds);
            let named = name.as_ref().is_none_or(|name| *name == local_name);
            return time.in_zone(if local_offset == offset && named {
                local.clone()
            } else {
                Zone::Fixed(name.unwrap_or_default().into_owned(), offset)
            });
        }
        let Some(name) = name else {
            return local.at_wall(wall);
        };
        if let Some(offset) = local.lookup_name(&name, wall) {
            return Time::unix(wall - offset, 0).in_zone(local.clone());
        }
        let hours = name
            .strip_prefix("GMT")
            .and_then(|hours| hours.parse::<i64>().ok());
        let offset = hours.unwrap_or(0) * 3600;
        // The zone is made up: the wall clock counts as UTC.
        Time::unix(wall, 0).in_zone(Zone::Fixed(name.into_owned(), offset))
    }

    fn month_and_day(&self) -> Result<(u32, u32), Fault> {
        let Some(year_day) = self.year_day else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        let message = |text: &str| Fault::Message(text.to_owned());
        let days = if is_leap(self.year) { 366 } else { 365 };
        if !(1..=days).contains(&year_day) {
            return Err(message("day-of-year out of range"));
        }
        let (mut month, mut day) = (1, year_day);
        while day > days_in(self.year, month) {
            day -= days_in(self.year, month);
            month += 1;
        }
        if self.month.is_some_and(|given| given != month) {
            return Err(message("day-of-year does not match month"));
        }
        if self.day.is_some_and(|given| given != day) {
            return Err(message("day-of-year does not match day"));
        }
        Ok((month, day))
    }
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    text.get(spaces..).unwrap_or_default()
}

/// How long the abbreviation of a zone is that a text begins with.
fn zone_name_length(text: &[u8]) -> Option<usize> {
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_length(rest).unwrap_or(0));
    }
    if text.len() >= 3 && matches!(text.first(), Some(b'+' | b'-')) {
        return signed_offset_length(text);
    }
    let letters = text.iter().take(6);
    match letters.take_while(|byte| byte.is_ascii_uppercase()).count() {
        5 if text.get(4) == Some(&b'T') => Some(5),
        4 if text.get(3) == Some(&b'T') || text.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

/// How long `+3` or `-12` is; hours go to 23.
fn signed_offset_length(text: &[u8]) -> Option<usize> {
    let (sign, rest) = text.split_first()?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(rest.get(..digits)?).ok()?;
    let valid = matches!(sign, b'+' | b'-') && number.parse::<u64>().is_ok_and(|hours| hours <= 23);
    valid.then_some(1 + digits)
}

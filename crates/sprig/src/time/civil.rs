//! Moments and the calendar. Years go beyond those that calendars of other crates know, as the
//! seconds that templates give may be any 64-bit number.

use super::Zone;

/// Seconds of a day.
const DAY: i128 = 86_400;

/// Unix seconds of Go's zero time, the first of January of year 1.
pub(crate) const ZERO_SECONDS: i64 = -62_135_596_800;

/// Go's `time.Time`.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    /// Unix seconds.
    pub(crate) seconds: i64,
    /// Nanoseconds of the second.
    pub(crate) nanos: u32,
    /// Where the time is shown.
    pub(crate) zone: Zone,
    /// The monotonic clock in nanoseconds, for times that `now` gave.
    pub(crate) monotonic: Option<i64>,
}

/// A day of the calendar and a time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: u32,
    /// From 1.
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    /// 0 is Sunday.
    pub(crate) weekday: u32,
    /// From 1.
    pub(crate) year_day: u32,
}

impl Time {
    /// A moment in UTC.
    pub(crate) fn unix(seconds: i64, nanos: u32) -> Self {
        Self {
            seconds,
            nanos,
            zone: Zone::Utc,
            monotonic: None,
        }
    }

    /// Go's `time.Time{}`.
    pub(crate) fn zero() -> Self {
        Self::unix(ZERO_SECONDS, 0)
    }

    /// The same moment, shown in another zone.
    pub(crate) fn in_zone(&self, zone: Zone) -> Self {
        Self {
            zone,
            ..self.clone()
        }
    }

    /// The name and the offset of the zone at this moment.
    pub(crate) fn zone_at(&self) -> (String, i64) {
        self.zone.lookup(self.seconds)
    }

    /// The calendar in the zone of the time.
    pub(crate) fn civil(&self) -> Civil {
        Civil::of(i128::from(self.seconds) + i128::from(self.zone_at().1))
    }

    /// Nanoseconds since the zero time.
    fn absolute(&self) -> i128 {
        (i128::from(self.seconds) - i128::from(ZERO_SECONDS)) * 1_000_000_000
            + i128::from(self.nanos)
    }

    /// This moment and some nanoseconds.
    pub(crate) fn plus(&self, nanoseconds: i64) -> Self {
        let total = i128::from(self.nanos) + i128::from(nanoseconds);
        let seconds = i64::try_from(total.div_euclid(1_000_000_000)).unwrap_or(0);
        let nanos = u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or(0);
        Self {
            seconds: self.seconds.wrapping_add(seconds),
            nanos,
            zone: self.zone.clone(),
            monotonic: self.monotonic.and_then(|m| m.checked_add(nanoseconds)),
        }
    }

    /// Nanoseconds from another moment to this one, clamped to what a duration holds.
    pub(crate) fn since(&self, earlier: &Self) -> i64 {
        if let (Some(left), Some(right)) = (self.monotonic, earlier.monotonic) {
            return left.saturating_sub(right);
        }
        let difference = self.absolute() - earlier.absolute();
        let bound = if difference < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(difference).unwrap_or(bound)
    }

    /// The order of two moments.
    pub(crate) fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self.monotonic, other.monotonic) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos)),
        }
    }

    /// Down to a multiple of a duration since the zero time.
    pub(crate) fn truncated(&self, step: i64) -> Self {
        let mut time = self.clone();
        time.monotonic = None;
        if step > 0 {
            let over = self.absolute().rem_euclid(i128::from(step));
            time = time.plus(-i64::try_from(over).unwrap_or(0));
        }
        time
    }

    /// To the nearest multiple of a duration since the zero time, half up.
    pub(crate) fn rounded(&self, step: i64) -> Self {
        let down = self.truncated(step);
        if step <= 0 {
            return down;
        }
        let over = self.absolute() - down.absolute();
        match over * 2 < i128::from(step) {
            true => down,
            false => down.plus(step),
        }
    }

    /// Another day at the same time of day: Go's `AddDate`.
    pub(crate) fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let civil = self.civil();
        let month = i128::from(civil.month) - 1 + i128::from(months);
        let year = i128::from(civil.year) + i128::from(years) + month.div_euclid(12);
        let month = u32::try_from(month.rem_euclid(12)).unwrap_or(0) + 1;
        let day = days_from_civil(year, month) + i128::from(civil.day) - 1 + i128::from(days);
        let wall = day * DAY + i128::from(civil.second_of_day());
        let mut time = self.zone.at_wall(i64::try_from(wall).unwrap_or(0));
        time.nanos = self.nanos;
        time
    }
}

impl Civil {
    /// The calendar of seconds since 1970, in UTC.
    pub(crate) fn of(seconds: i128) -> Self {
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let rest = u32::try_from(rest).unwrap_or(0);
        let (year, month, day) = civil_from_days(days);
        let year_day = days - days_from_civil(year, 1) + 1;
        Self {
            year: i64::try_from(year).unwrap_or(0),
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: u32::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            year_day: u32::try_from(year_day).unwrap_or(0),
        }
    }

    fn second_of_day(&self) -> u32 {
        self.hour * 3600 + self.minute * 60 + self.second
    }
}

/// Seconds since 1970 of a day and a time of day, in UTC.
pub(crate) fn wall_seconds(year: i64, month: u32, day: u32, second_of_day: i64) -> i64 {
    let days = days_from_civil(i128::from(year), month) + i128::from(day) - 1;
    i64::try_from(days * DAY + i128::from(second_of_day)).unwrap_or(0)
}

/// Days from 1970 to the first of a month; a year that begins in March makes leap days come last.
fn days_from_civil(year: i128, month: u32) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = i128::from((month + 9) % 12);
    let day_of_year = (153 * month + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i128) -> (i128, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = u32::try_from((month + 2) % 12).unwrap_or(0) + 1;
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    (year, month, u32::try_from(day).unwrap_or(1))
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has.
pub(crate) fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

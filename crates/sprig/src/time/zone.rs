//! Time zones.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Time;
use crate::LocalZone;

/// Go's `*time.Location`.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    /// `UTC`.
    Utc,
    /// A zone of the database, or the local one.
    Named(TimeZone),
    /// An offset in seconds that a parsed time came with, and perhaps a name.
    Fixed(String, i64),
}

impl Zone {
    /// Go's `time.LoadLocation`: names are those of the database, in its upper and lower case.
    pub(crate) fn load(name: &str, local: &LocalZone) -> Option<Self> {
        match name {
            "" | "UTC" => Some(Self::Utc),
            "Local" => Some(Self::Named(local.get().clone())),
            _ => {
                let zone = TimeZone::get(name).ok()?;
                (zone.iana_name() == Some(name)).then_some(Self::Named(zone))
            }
        }
    }

    /// The abbreviation and the offset in seconds at a moment.
    pub(crate) fn lookup(&self, seconds: i64) -> (String, i64) {
        match self {
            Self::Utc => ("UTC".to_owned(), 0),
            Self::Fixed(name, offset) => (name.clone(), *offset),
            Self::Named(zone) => {
                let moment = timestamp(seconds);
                let info = zone.to_offset_info(moment);
                (
                    info.abbreviation().to_owned(),
                    i64::from(info.offset().seconds()),
                )
            }
        }
    }

    /// Whether summer time is in effect.
    pub(crate) fn is_summer(&self, seconds: i64) -> bool {
        match self {
            Self::Named(zone) => zone.to_offset_info(timestamp(seconds)).dst().is_dst(),
            Self::Utc | Self::Fixed(..) => false,
        }
    }

    /// The offset that goes by an abbreviation, best at the time that a wall clock shows it.
    pub(crate) fn lookup_name(&self, name: &str, wall: i64) -> Option<i64> {
        const HALF_YEAR: i64 = 182 * 86_400;
        let near = [0, -HALF_YEAR, HALF_YEAR];
        let candidates = near.map(|distance| self.lookup(wall.saturating_add(distance)));
        let mut named = candidates.iter().filter(|(found, _)| found == name);
        let in_effect = named
            .clone()
            .find(|(_, offset)| self.lookup(wall.saturating_sub(*offset)).0 == name);
        in_effect
            .or_else(|| named.next())
            .map(|(_, offset)| *offset)
    }

    /// The moment at which a clock in this zone shows these seconds.
    pub(crate) fn at_wall(&self, wall: i64) -> Time {
        let mut offset = self.lookup(wall).1;
        if offset != 0 {
            offset = self.lookup(wall.saturating_sub(offset)).1;
        }
        Time {
            seconds: wall.saturating_sub(offset),
            nanos: 0,
            zone: self.clone(),
            monotonic: None,
        }
    }
}

/// A moment within what the database covers: beyond it, the rules at its ends go on.
fn timestamp(seconds: i64) -> Timestamp {
    let bound = if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(seconds).unwrap_or(bound)
}

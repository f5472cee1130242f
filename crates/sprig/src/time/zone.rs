//! Time zones.

use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::Time;
use crate::LocalZone;

/// The zones that come with the binary, for machines that have none.
static BUNDLED: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Where Go looks for zones.
const FOLDERS: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/lib/locale/TZ",
    "/etc/zoneinfo",
];

/// Larger files are no zones.
const FILE_LIMIT: u64 = 1 << 20;

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
    /// Go's `time.LoadLocation`: the machine's zones, so that they are those that Helm would take,
    /// else our own.
    pub(crate) fn load(name: &str, local: &LocalZone) -> Option<Self> {
        match name {
            "" | "UTC" => Some(Self::Utc),
            "Local" => Some(Self::Named(local.get().clone())),
            _ => {
                if name.contains("..") || name.contains('\0') || name.starts_with(['/', '\\']) {
                    return None;
                }
                let found = FOLDERS.iter().find_map(|folder| read(folder, name));
                found.or_else(|| bundled(name)).map(Self::Named)
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

    /// The offset that goes by an abbreviation: one that is in effect when a clock shows this time,
    /// else the first that ever was.
    pub(crate) fn lookup_name(&self, name: &str, wall: i64) -> Option<i64> {
        const HALF_YEAR: i64 = 182 * 86_400;
        let near = [0, -HALF_YEAR, HALF_YEAR].map(|distance| wall.saturating_add(distance));
        let in_effect = near.into_iter().find_map(|moment| {
            let offset = self.offset_of(name, moment)?;
            self.offset_of(name, wall.saturating_sub(offset))
        });
        in_effect.or_else(|| self.first_offset_of(name))
    }

    /// The offset at a moment, if it goes by this abbreviation then.
    fn offset_of(&self, name: &str, moment: i64) -> Option<i64> {
        let (found, offset) = self.lookup(moment);
        (found == name).then_some(offset)
    }

    /// Looks through the years that zones have changed in.
    fn first_offset_of(&self, name: &str) -> Option<i64> {
        const QUARTER: i64 = 91 * 86_400;
        const FROM: i64 = -2_524_521_600 / QUARTER;
        const TO: i64 = 2_145_916_800 / QUARTER;
        (FROM..=TO).find_map(|quarter| self.offset_of(name, quarter * QUARTER))
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

fn read(folder: &str, name: &str) -> Option<TimeZone> {
    let file = std::fs::File::open(Path::new(folder).join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif(name, &bytes).ok()
}

/// Names are files to Go: their upper and lower case counts.
fn bundled(name: &str) -> Option<TimeZone> {
    let zone = BUNDLED.get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_where_the_machine_has_none() {
        let zone = Zone::Named(bundled("Europe/Berlin").unwrap());
        assert_eq!(zone.lookup(1_600_000_000), ("CEST".to_owned(), 7200));
        assert!(bundled("europe/berlin").is_none());
    }

    #[test]
    fn names_cannot_leave_the_folder_of_zones() {
        let local = TimeZone::UTC.into();
        for name in [
            "../../etc/passwd",
            "/etc/passwd",
            "\\etc",
            "a\0b",
            "zone.tab",
            "Europe",
        ] {
            assert!(Zone::load(name, &local).is_none(), "{name}");
        }
    }

    #[test]
    fn an_abbreviation_is_looked_up_where_it_is_in_effect() {
        let berlin = Zone::Named(bundled("Europe/Berlin").unwrap());
        let (summer, winter) = (1_594_000_000, 1_608_000_000);
        assert_eq!(berlin.lookup_name("CEST", summer), Some(7200));
        assert_eq!(berlin.lookup_name("CEST", winter), Some(7200));
        assert_eq!(berlin.lookup_name("CET", summer), Some(3600));
        assert_eq!(berlin.lookup_name("CET", -62_135_596_800), Some(3600));
        assert_eq!(berlin.lookup_name("XYZ", summer), None);
    }
}

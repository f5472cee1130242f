//! `Chart.lock`: the digest that ties it to `Chart.yaml`, and its time.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{Timestamp, Zoned};
use sha2::{Digest as _, Sha256};

use super::{Dependency, Lock};

/// The digest that `helm dependency build` and `update` write and check: over the dependencies of
/// `Chart.yaml` (aliases of repositories replaced by their addresses) and the locked ones, as Go
/// writes them in JSON.
#[must_use]
pub fn lock_digest(requested: &[Dependency], locked: &[Option<Dependency>]) -> String {
    digest(&(requested, locked))
}

/// The digest that Helm 2 wrote into `requirements.lock`.
#[must_use]
pub fn helm2_lock_digest(requested: &[Dependency]) -> String {
    digest(&BTreeMap::from([("dependencies", requested)]))
}

/// When a lock was written, with the offset of the zone that it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTime {
    time: Timestamp,
    offset: Offset,
}

impl LockTime {
    /// The current time in this machine's zone.
    #[must_use]
    pub fn now() -> Self {
        let now = Zoned::now();
        Self {
            time: now.timestamp(),
            offset: now.offset(),
        }
    }

    /// The instant.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.time
    }
}

impl FromStr for LockTime {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        let offset = Pieces::parse(text)?.to_numeric_offset();
        Ok(Self {
            time: text.parse()?,
            offset: offset.unwrap_or(Offset::UTC),
        })
    }
}

/// As in RFC 3339.
impl fmt::Display for LockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.offset == Offset::UTC {
            return self.time.fmt(f);
        }
        self.time.display_with_offset(self.offset).fmt(f)
    }
}

impl Lock {
    /// Whether this lock was written for these dependencies.
    #[must_use]
    pub fn is_in_sync(&self, requested: &[Dependency]) -> bool {
        let locked = self.dependencies.as_deref().unwrap_or_default();
        self.digest == lock_digest(requested, locked)
    }
}

fn digest(value: &impl serde::Serialize) -> String {
    // Keys keep the order of the fields; plain data in memory cannot fail to be written.
    let text = escape(&serde_json::to_string(value).unwrap_or_default());
    let hash = Sha256::digest(text);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Go's encoder escapes what could end a script element; such characters stand in strings only.
fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_lock_keeps_its_zone() {
        for text in [
            "2023-04-27T08:11:05.171672+02:00",
            "2023-04-27T08:11:05-03:30",
            "2023-04-27T08:11:05.5Z",
        ] {
            let lock = format!("{{generated: '{text}', digest: d}}");
            let lock = crate::chart::read::read_lock(lock.as_bytes())
                .unwrap()
                .unwrap();
            let json = serde_json::to_string(&lock).unwrap();
            assert_eq!(
                json,
                format!("{{\"generated\":\"{text}\",\"digest\":\"d\",\"dependencies\":null}}")
            );
            assert_eq!(serde_json::from_str::<Lock>(&json).unwrap(), lock);
        }
    }
}

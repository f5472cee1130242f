//! Pauses after failures: doubled each time, with jitter, forgotten on success or change.

use std::time::Duration;

use crate::api::HelmReleaseSpec;

/// The pauses between tries of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Default for Backoff {
    /// 5 s, 10 s, 20 s … 10 min.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            longest: Duration::from_secs(600),
        }
    }
}

impl Backoff {
    /// The pauses that `spec.retry` asks for.
    #[must_use]
    pub(crate) fn of(spec: &HelmReleaseSpec) -> Self {
        let retry = spec.retry.clone().unwrap_or_default();
        let usual = Self::default();
        let least = Duration::from_secs(1);
        let first = retry
            .backoff
            .map_or(usual.first, crate::api::Duration::get)
            .max(least);
        let longest = retry
            .max_backoff
            .map_or(usual.longest, crate::api::Duration::get);
        Self {
            first,
            longest: longest.max(first),
        }
    }

    /// The pause after the `failures`th failure in a row (from 1), without jitter.
    #[must_use]
    pub(crate) fn pause(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// The same with up to a tenth more: releases that failed together do not try together.
    #[must_use]
    pub(crate) fn jittered(self, failures: u32, seed: &str) -> Duration {
        jitter(self.pause(failures), seed, failures)
    }
}

/// Adds up to a tenth, by a hash of `seed` and `round`: the same for the same release and round, spread
/// over different ones.
#[must_use]
pub(crate) fn jitter(pause: Duration, seed: &str, round: u32) -> Duration {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (seed, round).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
    pause + pause / 10_000 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_five_seconds_to_ten_minutes() {
        let pauses: Vec<_> = (1..=9)
            .map(|failures| Backoff::default().pause(failures).as_secs())
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(Backoff::default().pause(u32::MAX).as_secs(), 600);
    }

    #[test]
    fn the_spec_sets_both_ends() {
        let spec: HelmReleaseSpec = serde_json::from_value(serde_json::json!({
            "chart": {}, "retry": {"backoff": "2s", "maxBackoff": 5}
        }))
        .unwrap();
        let pauses: Vec<_> = (1..4)
            .map(|n| Backoff::of(&spec).pause(n).as_secs())
            .collect();
        assert_eq!(pauses, [2, 4, 5]);
    }

    #[test]
    fn jitter_adds_at_most_a_tenth_and_differs_between_releases() {
        let pause = Duration::from_secs(100);
        let jittered: Vec<_> = (0..50)
            .map(|n| jitter(pause, &format!("r{n}"), 1))
            .collect();
        assert!(
            jittered
                .iter()
                .all(|p| *p >= pause && *p <= pause * 11 / 10)
        );
        let distinct: std::collections::BTreeSet<_> = jittered.iter().collect();
        assert!(distinct.len() > 40);
    }
}

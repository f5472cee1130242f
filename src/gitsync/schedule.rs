//! When a mirror is polled.

use std::{
    hash::{BuildHasher, RandomState},
    str::FromStr,
    time::{Duration, SystemTime},
};

/// First pause after a failure that may pass; it doubles up to the poll interval.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest pause after a failure that may pass.
const LAST_RETRY: Duration = Duration::from_secs(300);
/// Shortest poll interval that is taken.
const SHORTEST: Duration = Duration::from_secs(1);

/// When a mirror is polled.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// Every so often, each mirror at its own offset, with a jitter of ten per cent.
    Every(Duration),
    /// By a cron expression in UTC, each mirror up to ten seconds later.
    Cron(Box<cron::Schedule>),
}

/// A poll schedule that cannot be read.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// Shorter than a second.
    #[error("a poll interval must be at least one second, not {0:?}")]
    TooShort(Duration),
    /// No cron expression.
    #[error(
        "{expression:?} is no cron expression: {cause}; write five fields, such as \"*/5 * * * *\""
    )]
    Cron {
        /// What was given.
        expression: String,
        /// Why it cannot be read.
        cause: String,
    },
}

impl Schedule {
    /// Polls every `interval`.
    ///
    /// # Errors
    /// [`ScheduleError::TooShort`].
    pub fn every(interval: Duration) -> Result<Self, ScheduleError> {
        if interval < SHORTEST {
            return Err(ScheduleError::TooShort(interval));
        }
        Ok(Self::Every(interval))
    }

    /// Polls by a cron expression of five fields (minute first), or of six or seven (second first).
    ///
    /// # Errors
    /// [`ScheduleError::Cron`].
    pub fn cron(expression: &str) -> Result<Self, ScheduleError> {
        let fields = expression.split_ascii_whitespace().count();
        let seconds_first = if fields == 5 {
            format!("0 {expression}")
        } else {
            expression.to_owned()
        };
        match cron::Schedule::from_str(&seconds_first) {
            Ok(schedule) => Ok(Self::Cron(Box::new(schedule))),
            Err(cause) => Err(ScheduleError::Cron {
                expression: expression.to_owned(),
                cause: cause.to_string(),
            }),
        }
    }

    /// How long after `now` the next poll is, after a success.
    #[must_use]
    pub fn next(&self, now: SystemTime) -> Duration {
        match self {
            Self::Every(interval) => jitter(*interval),
            Self::Cron(schedule) => {
                let now = chrono::DateTime::<chrono::Utc>::from(now);
                let next = schedule.after(&now).next();
                let pause = next.and_then(|next| (next - now).to_std().ok());
                pause.unwrap_or(LAST_RETRY) + Duration::from_secs(10).mul_f64(random())
            }
        }
    }

    /// How long the pause is after `failures` failures in a row that may pass.
    #[must_use]
    pub fn retry(&self, failures: u32) -> Duration {
        let ceiling = match self {
            Self::Every(interval) => LAST_RETRY.min(*interval),
            Self::Cron(_) => LAST_RETRY,
        };
        let doubled = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10));
        jitter(doubled.min(ceiling))
    }
}

/// `duration`, ten per cent more or less.
fn jitter(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * random())
}

/// A number between 0 and 1, good enough to spread polls.
fn random() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    #[expect(clippy::cast_precision_loss, reason = "32 bits fit")]
    let part = bits as f64;
    part / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_ten_per_cent_of_jitter() {
        let schedule = Schedule::every(Duration::from_secs(300)).unwrap();
        let pauses: Vec<_> = (0..200)
            .map(|_| schedule.next(SystemTime::now()).as_secs())
            .collect();
        assert!(
            pauses.iter().all(|pause| (270..=330).contains(pause)),
            "{pauses:?}"
        );
        assert!(
            pauses
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len()
                > 20,
            "{pauses:?}"
        );
    }

    #[test]
    fn a_cron_expression_of_five_fields_is_read_minute_first() {
        let schedule = Schedule::cron("*/5 * * * *").unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 / 300 * 300 + 60);
        let pause = schedule.next(at).as_secs();
        assert!((240..=250).contains(&pause), "{pause}");
    }

    #[test]
    fn a_bad_expression_says_what_to_write() {
        let error = Schedule::cron("every day").unwrap_err().to_string();
        assert!(error.contains("five fields"), "{error}");
        assert!(Schedule::every(Duration::from_millis(5)).is_err());
    }

    #[test]
    fn pauses_after_failures_double_up_to_the_interval() {
        let schedule = Schedule::every(Duration::from_secs(60)).unwrap();
        for (failures, low, high) in [
            (1, 4, 6),
            (2, 9, 11),
            (3, 18, 22),
            (9, 54, 66),
            (40, 54, 66),
        ] {
            let pause = schedule.retry(failures).as_secs();
            assert!((low..=high).contains(&pause), "{failures}: {pause}");
        }
    }
}

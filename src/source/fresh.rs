//! How new an answer has to be, and one request for all who want the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::SourceError;

/// Answers that are remembered by one kind of source; one more, and all that nobody waits for are forgotten.
const SLOTS: usize = 4096;

/// How long a failure is remembered, so that a thousand releases do not ask a broken server a
/// thousand times, nor wait for it one after the other.
pub(super) const FAILURE_MEMORY: Duration = Duration::from_secs(10);

/// How new the answer of a server has to be. Within the interval an answer serves everybody, unless
/// something has changed since it was asked for: who pushes a chart and then names it wants it
/// found at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness(Option<Instant>);

impl Freshness {
    /// As new as the interval says.
    #[must_use]
    pub fn by_interval() -> Self {
        Self(None)
    }

    /// Asked for at this moment or later, and as new as the interval says.
    #[must_use]
    pub fn since(moment: Instant) -> Self {
        Self(Some(moment))
    }

    /// What satisfies both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Whether an answer that was asked for at `asked` still serves at `now`.
    #[must_use]
    pub fn accepts(self, asked: Instant, now: Instant, interval: Duration) -> bool {
        now.saturating_duration_since(asked) < interval
            && self.0.is_none_or(|moment| asked >= moment)
    }
}

/// Places for answers, by what they answer. Who holds the lock of one makes the request; all who
/// wait for it meanwhile find its answer.
#[derive(Debug)]
pub(super) struct Slots<T>(Mutex<HashMap<String, Arc<tokio::sync::Mutex<T>>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Slots<T> {
    /// The place for the answer to `key`.
    pub(super) fn slot(&self, key: &str) -> Arc<tokio::sync::Mutex<T>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            return Arc::clone(slot);
        }
        if slots.len() >= SLOTS {
            // What nobody waits for can be asked again.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        let slot: Arc<tokio::sync::Mutex<T>> = Arc::default();
        slots.insert(key.to_owned(), Arc::clone(&slot));
        slot
    }
}

/// The last answer of a server to one question, and its last failure.
#[derive(Debug)]
pub(super) struct Remembered<T> {
    /// When the question was sent, and what came of it.
    answer: Option<(Instant, T)>,
    /// Until when the failure stands for an answer.
    failure: Option<(Instant, SourceError)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self {
            answer: None,
            failure: None,
        }
    }
}

impl<T: Clone> Remembered<T> {
    /// What can be said without asking.
    pub(super) fn serve(
        &self,
        freshness: Freshness,
        interval: Duration,
    ) -> Option<Result<T, SourceError>> {
        let now = Instant::now();
        if let Some((asked, answer)) = &self.answer
            && freshness.accepts(*asked, now, interval)
        {
            return Some(Ok(answer.clone()));
        }
        let (until, failure) = self.failure.as_ref()?;
        (now < *until).then(|| Err(failure.clone()))
    }

    /// Keeps what came of a question that was sent at `asked`.
    pub(super) fn keep(
        &mut self,
        asked: Instant,
        outcome: Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match &outcome {
            Ok(answer) => {
                self.answer = Some((asked, answer.clone()));
                self.failure = None;
            }
            Err(error) => self.failure = Some((Instant::now() + FAILURE_MEMORY, error.clone())),
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Reason;

    #[test]
    fn a_failure_stands_for_an_answer_for_a_while() {
        let mut remembered = Remembered::<u8>::default();
        let any = Freshness::by_interval();
        let day = Duration::from_secs(86_400);
        assert!(remembered.serve(any, day).is_none());
        let failed = Err(SourceError::new(Reason::Unreachable, "down"));
        remembered.keep(Instant::now(), failed.clone()).unwrap_err();
        assert_eq!(remembered.serve(any, day), Some(failed.clone()));
        remembered.keep(Instant::now(), Ok(1)).unwrap();
        assert_eq!(remembered.serve(any, day), Some(Ok(1)));
        // An answer that is good enough is worth more than a failure after it.
        remembered.keep(Instant::now(), failed.clone()).unwrap_err();
        assert_eq!(remembered.serve(any, day), Some(Ok(1)));
        let since = Freshness::since(Instant::now());
        assert_eq!(remembered.serve(since, day), Some(failed));
    }

    #[test]
    fn an_answer_serves_within_the_interval_and_until_something_changes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let interval = Duration::from_secs(60);
        let any = Freshness::by_interval();
        let since = |seconds| Freshness::since(at(seconds));
        for (freshness, asked, now, expected) in [
            (any, 0, 0, true),
            (any, 0, 59, true),
            (any, 0, 60, false),
            (any, 30, 10, true),
            (since(10), 10, 11, true),
            (since(10), 9, 11, false),
            (since(10), 20, 30, true),
            (since(10), 20, 80, false),
            (since(10).and(any), 9, 11, false),
            (any.and(since(10)), 9, 11, false),
            (since(10).and(since(20)), 15, 21, false),
            (since(20).and(since(10)), 20, 21, true),
        ] {
            let found = freshness.accepts(at(asked), at(now), interval);
            assert_eq!(found, expected, "{freshness:?} {asked} {now}");
        }
        assert!(!any.accepts(start, start, Duration::ZERO));
    }

    #[test]
    fn one_key_has_one_slot_and_the_table_is_bounded() {
        let slots = Slots::<u8>::default();
        let held = slots.slot("held");
        for at in 0..2 * SLOTS {
            slots.slot(&at.to_string());
        }
        assert!(Arc::ptr_eq(&held, &slots.slot("held")));
        assert!(slots.0.lock().unwrap().len() <= SLOTS);
    }
}

//! Times and what is said about them.

use std::fmt;
use std::time::Duration;

/// The times of several runs of one thing.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
        self.0.sort();
    }

    /// The value below which a part of the runs lies; zero without runs.
    pub(super) fn quantile(&self, part: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        // The index is between 0 and the last.
        let index = (part.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(super) fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

impl From<Duration> for Samples {
    fn from(time: Duration) -> Self {
        Self(vec![time])
    }
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) case: String,
    /// The stock helm, where it has a counterpart.
    pub(super) stock: Option<Samples>,
    pub(super) ours: Samples,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ours = self.ours.median();
        let (stock, ratio) = match &self.stock {
            None => ("-".to_owned(), "-".to_owned()),
            Some(stock) => {
                let ratio = stock.median().as_secs_f64() / ours.as_secs_f64().max(1e-9);
                (time(stock.median()), format!("{ratio:.1}x"))
            }
        };
        let spread = format!(
            "{} … {}",
            time(self.ours.quantile(0.0)),
            time(self.ours.quantile(1.0))
        );
        write!(
            f,
            "{:<44} {stock:>12} {:>12} {ratio:>8}  {spread}",
            self.case,
            time(ours)
        )
    }
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 10.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_one_in_the_middle() {
        let mut samples = Samples::default();
        for ms in [30, 10, 50, 20, 40] {
            samples.push(Duration::from_millis(ms));
        }
        assert_eq!(samples.median(), Duration::from_millis(30));
        assert_eq!(samples.quantile(1.0), Duration::from_millis(50));
        assert_eq!(Samples::default().median(), Duration::ZERO);
    }

    #[test]
    fn row_shows_the_ratio_of_the_medians() {
        let row = Row {
            case: "a".into(),
            stock: Some(Duration::from_millis(50).into()),
            ours: Duration::from_millis(2).into(),
        };
        assert!(row.to_string().contains("25.0x"), "{row}");
    }
}

//! Numbers compared as they are written, not as a `float64` rounds them.

use std::cmp::Ordering;

use gotmpl::Value;

/// A decimal number. Numbers that do not fit are taken as `float64`, which only matters for more
/// than 30 digits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decimal {
    /// `digits · 10^exponent`
    Exact {
        digits: i128,
        exponent: i32,
    },
    Rounded(f64),
}

/// More than this and the digits of two numbers cannot be lined up.
const MAX_SHIFT: i32 = 30;

impl Decimal {
    /// Reads a JSON number or a number that Go printed.
    pub(super) fn parse(text: &str) -> Self {
        Self::exact(text).unwrap_or_else(|| Self::Rounded(text.parse().unwrap_or(f64::NAN)))
    }

    /// A number of the values: `None` for everything else.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Float64(number) => Some(Self::parse(&format!("{number:e}"))),
            Value::Int64(number) | Value::Int(number) => Some(Self::Exact {
                digits: i128::from(*number),
                exponent: 0,
            }),
            _ => None,
        }
    }

    fn exact(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        if digits.unsigned_abs() > 10u128.pow(30) {
            return None;
        }
        let shift = i32::try_from(fraction.len()).ok()?;
        Some(Self::Exact {
            digits,
            exponent: exponent.checked_sub(shift)?,
        })
    }

    /// Nearest `float64`.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Exact { digits, exponent } => {
                format!("{digits}e{exponent}").parse().unwrap_or(f64::NAN)
            }
            Self::Rounded(value) => value,
        }
    }

    /// Both with the same exponent.
    fn aligned(self, other: Self) -> Option<(i128, i128)> {
        let (
            Self::Exact { digits, exponent },
            Self::Exact {
                digits: other_digits,
                exponent: other_exponent,
            },
        ) = (self, other)
        else {
            return None;
        };
        let low = exponent.min(other_exponent);
        Some((
            shift(digits, exponent.checked_sub(low)?)?,
            shift(other_digits, other_exponent.checked_sub(low)?)?,
        ))
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match self.aligned(other) {
            Some((left, right)) => left.cmp(&right),
            None => self.to_f64().total_cmp(&other.to_f64()),
        }
    }

    pub(super) fn is_multiple_of(self, unit: Self) -> bool {
        match self.aligned(unit) {
            Some((_, 0)) => false,
            Some((value, unit)) => value % unit == 0,
            None => (self.to_f64() / unit.to_f64()).fract() == 0.0,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        self.is_multiple_of(Self::Exact {
            digits: 1,
            exponent: 0,
        })
    }

    /// The number as an integer, if it is one that fits.
    pub(super) fn to_i64(self) -> Option<i64> {
        match self.aligned(Self::Exact {
            digits: 1,
            exponent: 0,
        }) {
            Some((value, unit)) if value % unit == 0 => i64::try_from(value / unit).ok(),
            _ => None,
        }
    }
}

fn shift(digits: i128, places: i32) -> Option<i128> {
    if digits == 0 {
        return Some(0);
    }
    if places > MAX_SHIFT {
        return None;
    }
    digits.checked_mul(10i128.checked_pow(u32::try_from(places).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn numbers_compare_by_their_decimals() {
        for (left, right, wanted) in [
            ("0.1", "0.10", "="),
            ("1e2", "100", "="),
            ("1.5", "1.25", ">"),
            ("-3", "2", "<"),
            ("1e40", "1e39", ">"),
            ("123456789012345678", "123456789012345679", "<"),
        ] {
            let found = match Decimal::parse(left).compare(Decimal::parse(right)) {
                std::cmp::Ordering::Less => "<",
                std::cmp::Ordering::Equal => "=",
                std::cmp::Ordering::Greater => ">",
            };
            assert_eq!(found, wanted, "{left} and {right}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (value, unit, wanted) in [
            ("0.3", "0.1", true),
            ("4.35", "0.01", true),
            ("7", "2", false),
            ("0", "3", true),
            ("1e30", "10", true),
            ("5", "0", false),
        ] {
            let found = Decimal::parse(value).is_multiple_of(Decimal::parse(unit));
            assert_eq!(found, wanted, "{value} of {unit}");
        }
        assert!(Decimal::parse("3.0").is_integer());
        assert!(!Decimal::parse("3.5").is_integer());
    }
}

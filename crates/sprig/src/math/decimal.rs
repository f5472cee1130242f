//! Decimal arithmetic: `addf` and its like work on the shortest digits of each number, as
//! shopspring/decimal does, so that 0.1 + 0.2 is 0.3.

use gotmpl::{Call, FunctionError, Functions, Type, Value, strconv};
use num_bigint::BigInt;

use super::convert::to_float64;
use crate::arguments::{Returned, any, define, define_variadic, fail};

/// Fractional digits that a division keeps.
const DIVISION_PRECISION: i64 = 16;

pub(super) fn register(functions: &mut Functions) {
    define_variadic(functions, "addf", &[], Type::Any, |call, a| {
        fold(call, 0.0, a, Decimal::add)
    });
    define(functions, "add1f", &[Type::Any], |call, a| {
        fold(call, to_float64(any(a, 0)), &[Value::Int(1)], Decimal::add)
    });
    for (name, operation) in [
        ("subf", Decimal::subtract as Operation),
        ("mulf", Decimal::multiply),
        ("divf", Decimal::divide),
    ] {
        define_variadic(functions, name, &[Type::Any], Type::Any, move |call, a| {
            let rest = a.get(1..).unwrap_or_default();
            fold(call, to_float64(any(a, 0)), rest, operation)
        });
    }
}

type Operation = fn(&Decimal, &Decimal) -> Result<Decimal, FunctionError>;

fn fold(call: &mut dyn Call, first: f64, rest: &[Value], operation: Operation) -> Returned {
    let mut result = Decimal::from_float(first)?;
    for value in rest {
        result = operation(&result, &Decimal::from_float(to_float64(value))?)?;
        // Products grow with every factor.
        let digits = result.digits.bits() / 8;
        call.charge(usize::try_from(digits).unwrap_or(usize::MAX))?;
    }
    Ok(Value::Float64(result.to_float()))
}

/// `digits · 10^exponent`.
struct Decimal {
    digits: BigInt,
    exponent: i64,
}

impl Decimal {
    /// The shortest decimal number that reads as this float.
    fn from_float(number: f64) -> Result<Self, FunctionError> {
        if !number.is_finite() {
            let text = strconv::format_float(number, b'g', None);
            return fail(format!("Cannot create a Decimal from {text}"));
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse::<i64>().unwrap_or(0);
        let fraction_length = i64::try_from(fraction.len()).unwrap_or(0);
        Ok(Self {
            digits: format!("{whole}{fraction}").parse().unwrap_or_default(),
            exponent: exponent - fraction_length,
        })
    }

    /// The float that is nearest.
    fn to_float(&self) -> f64 {
        let text = format!("{}e{}", self.digits, self.exponent);
        text.parse().unwrap_or(f64::NAN)
    }

    fn add(&self, other: &Self) -> Result<Self, FunctionError> {
        let exponent = self.exponent.min(other.exponent);
        Ok(Self {
            digits: self.digits_at(exponent) + other.digits_at(exponent),
            exponent,
        })
    }

    fn subtract(&self, other: &Self) -> Result<Self, FunctionError> {
        let exponent = self.exponent.min(other.exponent);
        Ok(Self {
            digits: self.digits_at(exponent) - other.digits_at(exponent),
            exponent,
        })
    }

    fn multiply(&self, other: &Self) -> Result<Self, FunctionError> {
        Ok(Self {
            digits: &self.digits * &other.digits,
            exponent: self.exponent + other.exponent,
        })
    }

    /// Rounded half away from zero to [`DIVISION_PRECISION`] fractional digits.
    fn divide(&self, other: &Self) -> Result<Self, FunctionError> {
        let zero = BigInt::ZERO;
        if other.digits == zero {
            return fail("decimal division by 0");
        }
        let shift = self.exponent - other.exponent + DIVISION_PRECISION;
        let (numerator, denominator) = if shift < 0 {
            (self.digits.clone(), &other.digits * power_of_ten(-shift))
        } else {
            (&self.digits * power_of_ten(shift), other.digits.clone())
        };
        let negative = (numerator < zero) != (denominator < zero);
        let numerator = BigInt::from(numerator.magnitude().clone());
        let denominator = BigInt::from(denominator.magnitude().clone());
        let quotient = &numerator / &denominator;
        let remainder = &numerator - &quotient * &denominator;
        let up = remainder * 2 >= denominator;
        let magnitude = if up { quotient + 1 } else { quotient };
        Ok(Self {
            digits: if negative { -magnitude } else { magnitude },
            exponent: -DIVISION_PRECISION,
        })
    }

    /// The digits at a smaller exponent.
    fn digits_at(&self, exponent: i64) -> BigInt {
        &self.digits * power_of_ten(self.exponent - exponent)
    }
}

/// Exponents come from floats, so that they are at most a few thousand after any sensible number of
/// operations; products beyond that are charged as they grow.
fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent.max(0)).unwrap_or(0))
}

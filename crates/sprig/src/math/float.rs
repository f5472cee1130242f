//! Rounding and comparison of `float64`.

use gotmpl::{Functions, Type, Value};

use super::convert::to_float64;
use crate::arguments::{any, define, define_variadic, int};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "floor", &[Type::Any], |_, a| {
        Ok(Value::Float64(to_float64(any(a, 0)).floor()))
    });
    define(functions, "ceil", &[Type::Any], |_, a| {
        Ok(Value::Float64(to_float64(any(a, 0)).ceil()))
    });
    define_variadic(
        functions,
        "round",
        &[Type::Any, Type::Int],
        Type::Float64,
        |_, a| {
            let round_on = a.get(2).map_or(0.5, to_float64);
            let rounded = round(to_float64(any(a, 0)), int(a, 1)?, round_on);
            Ok(Value::Float64(rounded))
        },
    );
    define_variadic(functions, "maxf", &[Type::Any], Type::Any, |_, a| {
        Ok(fold(a, maximum))
    });
    define_variadic(functions, "minf", &[Type::Any], Type::Any, |_, a| {
        Ok(fold(a, |left, right| -maximum(-left, -right)))
    });
}

fn fold(arguments: &[Value], operation: impl Fn(f64, f64) -> f64) -> Value {
    let numbers = arguments.iter().map(to_float64);
    Value::Float64(numbers.reduce(operation).unwrap_or(0.0))
}

/// Go's `math.Max`: infinity wins over NaN, NaN over numbers, 0 over -0.
fn maximum(left: f64, right: f64) -> f64 {
    if left == f64::INFINITY || right == f64::INFINITY {
        return f64::INFINITY;
    }
    if left.is_nan() || right.is_nan() {
        return f64::NAN;
    }
    if left == 0.0 && right == 0.0 {
        return if left.is_sign_negative() { right } else { left };
    }
    if left > right { left } else { right }
}

/// Sprig's rounding: up if the fraction is at least `round_on`, else down; negative numbers thus
/// always go down.
fn round(number: f64, places: i64, round_on: f64) -> f64 {
    let power = power_of_ten(places);
    let scaled = power * number;
    let rounded = if scaled.fract() >= round_on {
        scaled.ceil()
    } else {
        scaled.floor()
    };
    rounded / power
}

/// Go's `math.Pow(10, n)`, to the last bit: by squaring, on fractions in `[½, 1)`.
fn power_of_ten(exponent: i64) -> f64 {
    let mut left = exponent.unsigned_abs();
    if left > 400 {
        return if exponent > 0 { f64::INFINITY } else { 0.0 };
    }
    let (mut base, mut base_exponent) = (0.625, 4);
    let (mut fraction, mut binary_exponent) = (1.0, 0);
    while left > 0 {
        if left & 1 == 1 {
            fraction *= base;
            binary_exponent += base_exponent;
        }
        base *= base;
        base_exponent *= 2;
        if base < 0.5 {
            base += base;
            base_exponent -= 1;
        }
        left >>= 1;
    }
    if exponent < 0 {
        fraction = 1.0 / fraction;
        binary_exponent = -binary_exponent;
    }
    scale(fraction, binary_exponent)
}

/// `fraction · 2^exponent`; in two steps, for the powers of two at the ends are no `f64` themselves.
fn scale(fraction: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    fraction * 2f64.powi(half) * 2f64.powi(exponent - half)
}

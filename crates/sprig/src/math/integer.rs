//! Arithmetic on `int64`, which wraps around.

use gotmpl::{FunctionError, Functions, Type, Value};

use super::convert::to_int64;
use crate::arguments::{alias, any, define, define_variadic, fail};

const TWO: &[Type] = &[Type::Any, Type::Any];

pub(super) fn register(functions: &mut Functions) {
    define_variadic(functions, "add", &[], Type::Any, |_, a| {
        Ok(fold(a, 0, i64::wrapping_add))
    });
    define(functions, "add1", &[Type::Any], |_, a| {
        Ok(Value::Int64(to_int64(any(a, 0)).wrapping_add(1)))
    });
    define(functions, "sub", TWO, |_, a| {
        let difference = to_int64(any(a, 0)).wrapping_sub(to_int64(any(a, 1)));
        Ok(Value::Int64(difference))
    });
    define_variadic(functions, "mul", &[Type::Any], Type::Any, |_, a| {
        Ok(fold(a, 1, i64::wrapping_mul))
    });
    define(functions, "div", TWO, |_, a| divide(a, i64::wrapping_div));
    define(functions, "mod", TWO, |_, a| divide(a, i64::wrapping_rem));
    define_variadic(functions, "max", &[Type::Any], Type::Any, |_, a| {
        Ok(fold(a, i64::MIN, i64::max))
    });
    alias(functions, "biggest", "max");
    define_variadic(functions, "min", &[Type::Any], Type::Any, |_, a| {
        Ok(fold(a, i64::MAX, i64::min))
    });
}

fn fold(arguments: &[Value], start: i64, operation: fn(i64, i64) -> i64) -> Value {
    Value::Int64(arguments.iter().map(to_int64).fold(start, operation))
}

fn divide(arguments: &[Value], operation: fn(i64, i64) -> i64) -> Result<Value, FunctionError> {
    match to_int64(any(arguments, 1)) {
        0 => fail("runtime error: integer divide by zero"),
        divisor => Ok(Value::Int64(operation(
            to_int64(any(arguments, 0)),
            divisor,
        ))),
    }
}

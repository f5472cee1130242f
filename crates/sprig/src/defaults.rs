//! Defaults and choices.

use gotmpl::{Functions, Type, Value};

use crate::arguments::{any, boolean, define, define_variadic};
use crate::text::is_empty;

pub(crate) fn register(functions: &mut Functions) {
    define_variadic(functions, "default", &[Type::Any], Type::Any, |_, a| {
        let given = any(a, 1);
        Ok(if is_empty(given) { any(a, 0) } else { given }.clone())
    });
    define(functions, "empty", &[Type::Any], |_, a| {
        Ok(Value::Bool(is_empty(any(a, 0))))
    });
    define_variadic(functions, "coalesce", &[], Type::Any, |_, a| {
        let full = a.iter().find(|value| !is_empty(value));
        Ok(full.cloned().unwrap_or(Value::Nil))
    });
    define_variadic(functions, "all", &[], Type::Any, |_, a| {
        Ok(Value::Bool(!a.iter().any(is_empty)))
    });
    define_variadic(functions, "any", &[], Type::Any, |_, a| {
        Ok(Value::Bool(!a.iter().all(is_empty)))
    });
    define(
        functions,
        "ternary",
        &[Type::Any, Type::Any, Type::Bool],
        |_, a| {
            let chosen = if boolean(a, 2)? { 0 } else { 1 };
            Ok(any(a, chosen).clone())
        },
    );
    define(functions, "hello", &[], |_, _| Ok(Value::from("Hello!")));
}

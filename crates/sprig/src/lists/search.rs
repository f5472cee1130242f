//! What is in a list and what is not.

use gotmpl::{Call, Function, FunctionError, Functions, Type, Value};

use super::{define_both, items, list};
use crate::arguments::{Returned, any, charge_unfolded};
use crate::reflection::deep_equal;

pub(super) fn register(functions: &mut Functions) {
    let has = Function::new(&[Type::Any, Type::Any], None, |call, a| {
        charge_unfolded(call, any(a, 0))?;
        if matches!(any(a, 1), Value::Nil) {
            return Ok(Value::Bool(false));
        }
        let items = items(any(a, 1), "Cannot find has on type")?;
        contains(&items, any(a, 0)).map(Value::Bool)
    });
    define_both(functions, "has", "mustHas", has);
    let uniq = Function::new(&[Type::Any], None, |call, a| {
        charge_unfolded(call, any(a, 0))?;
        uniq(call, &items(any(a, 0), "Cannot find uniq on type")?)
    });
    define_both(functions, "uniq", "mustUniq", uniq);
    let without = Function::new(&[Type::Any], Some(Type::Any), without);
    define_both(functions, "without", "mustWithout", without);
}

fn contains(items: &[Value], wanted: &Value) -> Result<bool, FunctionError> {
    for item in items {
        if deep_equal(wanted, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(call: &mut dyn Call, items: &[Value]) -> Returned {
    // Strings, by far the most frequent, are looked up; anything else is compared one by one.
    let mut strings = std::collections::HashSet::new();
    let mut others: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    for item in items {
        let new = match item {
            Value::String(text) => strings.insert(text.clone()),
            other => {
                call.charge(others.len())?;
                let new = !contains(&others, other)?;
                if new {
                    others.push(other.clone());
                }
                new
            }
        };
        if new {
            kept.push(item.clone());
        }
    }
    list(call, kept)
}

fn without(call: &mut dyn Call, arguments: &[Value]) -> Returned {
    let items = items(any(arguments, 0), "Cannot find without on type")?;
    let omitted = arguments.get(1..).unwrap_or_default();
    for value in omitted {
        charge_unfolded(call, value)?;
    }
    let mut kept = Vec::new();
    for item in items.iter() {
        if !contains(omitted, item)? {
            kept.push(item.clone());
        }
    }
    list(call, kept)
}

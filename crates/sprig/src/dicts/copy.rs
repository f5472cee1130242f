//! `deepCopy`.

use gotmpl::{Call, FunctionError, Functions, List, Map, Type, Value};

use crate::arguments::{alias, any, charge_unfolded, define, fail};
use crate::depth::{DEPTH_LIMIT, descend};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "deepCopy", &[Type::Any], |call, a| {
        match any(a, 0) {
            Value::Nil => fail("reflect: call of reflect.Value.Type on zero Value"),
            value => {
                charge_unfolded(call, value)?;
                copy(call, value, DEPTH_LIMIT)
            }
        }
    });
    alias(functions, "mustDeepCopy", "deepCopy");
}

/// A copy that shares no map with the original. Strings and objects never change and are shared.
fn copy(call: &mut dyn Call, value: &Value, depth: usize) -> Result<Value, FunctionError> {
    match value {
        Value::List(list) if !list.is_nil() => {
            call.charge(size_of_val(list.items()))?;
            let items = list
                .items()
                .iter()
                .map(|item| descend(depth, |depth| copy(call, item, depth)))
                .collect::<Result<_, _>>()?;
            Ok(Value::List(List::typed(list.element(), items)))
        }
        Value::Map(map) if !map.is_nil() => {
            call.charge(map.len() * 2 * size_of::<Value>())?;
            let entries = map
                .entries()
                .iter()
                .map(|(key, value)| {
                    Ok((
                        key.clone(),
                        descend(depth, |depth| copy(call, value, depth))?,
                    ))
                })
                .collect::<Result<_, FunctionError>>()?;
            Ok(Value::Map(match map.methods() {
                Some(name) => Map::named(name, entries),
                None => Map::typed(map.element(), entries),
            }))
        }
        other => Ok(other.clone()),
    }
}

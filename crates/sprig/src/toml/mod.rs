//! TOML as BurntSushi/toml 1.6 writes and reads it.

mod fault;
mod read;
mod write;

use std::sync::Arc;

use gotmpl::{Functions, Map, Type, Value};

use crate::Environment;
use crate::arguments::{any, charge_written, define, fail, string};

pub(crate) fn register(functions: &mut Functions, environment: &Environment) {
    define(functions, "toToml", &[Type::Any], |call, a| {
        charge_written(call, any(a, 0))?;
        let written = match any(a, 0) {
            Value::Nil => return fail(NIL_PANIC),
            value => write::to_toml(value)?,
        };
        Ok(Value::string(
            written.unwrap_or_else(|error| error.into_bytes()),
        ))
    });
    define(functions, "mustToToml", &[Type::Any], |call, a| {
        charge_written(call, any(a, 0))?;
        let written = match any(a, 0) {
            Value::Nil => return fail(NIL_PANIC),
            value => write::to_toml(value)?,
        };
        Ok(Value::string(written?))
    });
    let (clock, zone) = (
        Arc::clone(&environment.clock),
        environment.time_zone.clone(),
    );
    define(functions, "fromToml", &[Type::String], move |call, a| {
        let text = string(a, 0)?;
        call.charge(text.len().saturating_mul(8))?;
        let local_offset = i64::from(zone.get().to_offset(clock.now()).seconds());
        Ok(Value::Map(read::read(text, local_offset).unwrap_or_else(
            |error| Map::from_entries([("Error", Value::string(error))]),
        )))
    });
}

/// What the encoder panics with before it catches anything.
const NIL_PANIC: &str = "reflect: call of reflect.Value.Type on zero Value";

/// Names of the zones that times without a zone get, by which they are told apart again.
const LOCAL_DATETIME: &str = "datetime-local";
const LOCAL_DATE: &str = "date-local";
const LOCAL_TIME: &str = "time-local";

//! `getHostByName`.

use std::sync::Arc;

use gotmpl::{Functions, Type, Value};

use crate::Environment;
use crate::arguments::{define, fail, text};
use crate::random::below;

pub(crate) fn register(functions: &mut Functions, environment: &Environment) {
    let (network, random) = (environment.network.clone(), Arc::clone(&environment.random));
    define(functions, "getHostByName", &[Type::String], move |_, a| {
        let Some(network) = &network else {
            return Ok(Value::from(""));
        };
        let addresses = network.addresses(&text(a, 0)?);
        if addresses.is_empty() {
            // Sprig draws one of no addresses, which panics.
            return fail("invalid argument to Intn");
        }
        let count = u64::try_from(addresses.len()).unwrap_or(u64::MAX);
        let index = usize::try_from(below(&*random, count)?).unwrap_or(0);
        Ok(Value::string(
            addresses.get(index).map_or("", String::as_str),
        ))
    });
}

//! Values as JSON Schema compares them.

use std::cmp::Ordering;

use gotmpl::{Map, Value};

use super::compile::Type;
use super::decimal::Decimal;
use super::document::Json;
use super::message::{display, number};

pub(super) fn type_of(value: &Value) -> Option<Type> {
    Some(match value {
        Value::Nil => Type::Null,
        Value::Bool(_) => Type::Boolean,
        Value::Float64(number) if !number.is_finite() => return None,
        Value::Float64(_) | Value::Int64(_) | Value::Int(_) => Type::Number,
        Value::String(_) => Type::String,
        Value::List(_) => Type::Array,
        Value::Map(_) => Type::Object,
        _ => return None,
    })
}

pub(super) fn not_in(wanted: &[Json]) -> String {
    let is_nested = |item: &Json| matches!(item, Json::Array(_) | Json::Object(_));
    if wanted.iter().any(is_nested) {
        return "'enum' failed".to_owned();
    }
    let shown: Vec<String> = wanted.iter().map(display).collect();
    match shown.as_slice() {
        [one] => format!("value must be {one}"),
        many => format!("value must be one of {}", many.join(", ")),
    }
}

pub(super) fn got_want(name: &str, got: Decimal, want: Decimal) -> String {
    let [got, want] = [got, want].map(|value| number(value.to_f64()));
    format!("{name}: got {got}, want {want}")
}

pub(super) fn missing<'a>(map: &Map, wanted: &'a [String]) -> Vec<&'a str> {
    wanted
        .iter()
        .map(String::as_str)
        .filter(|name| !map.contains(name.as_bytes()))
        .collect()
}

/// The first item that equals an earlier one, with that one.
pub(super) fn duplicates(items: &[Value]) -> Option<(usize, usize)> {
    if items.len() <= 20 {
        return (1..items.len()).find_map(|second| {
            let value = items.get(second)?;
            let first = items
                .iter()
                .take(second)
                .position(|item| equals(item, value))?;
            Some((first, second))
        });
    }
    let mut seen = std::collections::HashMap::new();
    items
        .iter()
        .enumerate()
        .find_map(|(second, value)| seen.insert(key(value), second).map(|first| (first, second)))
}

/// A text that is equal for equal values.
pub(super) fn key(value: &Value) -> String {
    match value {
        Value::List(list) => {
            let items: Vec<String> = list.items().iter().map(key).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(map) => {
            let entries = map.entries();
            let entries = entries
                .iter()
                .map(|(name, value)| format!("{name:?}:{}", key(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Int64(number) | Value::Int(number) => format!("{number}"),
        Value::Float64(number) => format!("{number}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn equals(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            let (left, right) = (left.items(), right.items());
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equals(left, right))
        }
        (Value::Map(left), Value::Map(right)) => {
            let (left, right) = (left.entries(), right.entries());
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| equals(value, other)))
        }
        _ => match (Decimal::of(left), Decimal::of(right)) {
            (Some(left), Some(right)) => left.compare(right) == Ordering::Equal,
            _ => false,
        },
    }
}

pub(super) fn equals_json(value: &Value, wanted: &Json) -> bool {
    match (value, wanted) {
        (Value::Nil, Json::Null) => true,
        (Value::Bool(value), Json::Bool(wanted)) => value == wanted,
        (Value::String(value), Json::String(wanted)) => value.as_bytes() == wanted.as_bytes(),
        (Value::List(list), Json::Array(wanted)) => {
            let items = list.items();
            items.len() == wanted.len()
                && items
                    .iter()
                    .zip(wanted)
                    .all(|(item, wanted)| equals_json(item, wanted))
        }
        (Value::Map(map), Json::Object(wanted)) => {
            let entries = map.entries();
            entries.len() == wanted.len()
                && wanted.iter().all(|(name, wanted)| {
                    entries
                        .get(name.as_bytes())
                        .is_some_and(|value| equals_json(value, wanted))
                })
        }
        (value, Json::Number(text)) => Decimal::of(value)
            .is_some_and(|value| value.compare(Decimal::parse(text)) == Ordering::Equal),
        _ => false,
    }
}

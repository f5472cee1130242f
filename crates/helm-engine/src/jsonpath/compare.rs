//! Comparison as Go's text/template has it, of which client-go keeps an old copy.

use std::cmp::Ordering;

use goyaml::Tree;

use super::ExecError;
use super::eval::Item;

const BAD_TYPE: &str = "invalid type for comparison";
const BAD_PAIR: &str = "incompatible types for comparison";

/// The values that can be compared.
enum Basic<'a> {
    Bool(bool),
    Int(i64),
    Uint(u8),
    Float(f64),
    String(&'a [u8]),
}

/// Whether `left operator right`. Numbers of a document are floats, those of an expression without a point are integers,
/// and the two are not compared.
pub(super) fn compare(left: Item<'_>, operator: &str, right: Item<'_>) -> Result<bool, ExecError> {
    match operator {
        "==" => equal(left, right),
        "!=" => equal(left, right).map(|equal| !equal),
        "<" => less(left, right),
        "<=" => Ok(less(left, right)? || equal(left, right)?),
        ">" => Ok(!(less(left, right)? || equal(left, right)?)),
        ">=" => less(left, right).map(|less| !less),
        _ => Err(data(&format!("unrecognized filter operator {operator}"))),
    }
}

fn equal(left: Item<'_>, right: Item<'_>) -> Result<bool, ExecError> {
    match (basic(left)?, basic(right)?) {
        (Basic::Bool(left), Basic::Bool(right)) => Ok(left == right),
        (left, right) => Ok(order(&left, &right)? == Some(Ordering::Equal)),
    }
}

fn less(left: Item<'_>, right: Item<'_>) -> Result<bool, ExecError> {
    match (basic(left)?, basic(right)?) {
        (Basic::Bool(_), Basic::Bool(_)) => Err(data(BAD_TYPE)),
        (left, right) => Ok(order(&left, &right)? == Some(Ordering::Less)),
    }
}

fn order(left: &Basic<'_>, right: &Basic<'_>) -> Result<Option<Ordering>, ExecError> {
    Ok(match (left, right) {
        (Basic::Int(left), Basic::Int(right)) => Some(left.cmp(right)),
        (Basic::Int(left), Basic::Uint(right)) => Some(left.cmp(&i64::from(*right))),
        (Basic::Uint(left), Basic::Int(right)) => Some(i64::from(*left).cmp(right)),
        (Basic::Uint(left), Basic::Uint(right)) => Some(left.cmp(right)),
        (Basic::Float(left), Basic::Float(right)) => left.partial_cmp(right),
        (Basic::String(left), Basic::String(right)) => Some(left.cmp(right)),
        _ => return Err(data(BAD_PAIR)),
    })
}

fn basic(item: Item<'_>) -> Result<Basic<'_>, ExecError> {
    Ok(match item {
        Item::Bool(value) | Item::Tree(&Tree::Bool(value)) => Basic::Bool(value),
        Item::Int(number) | Item::Tree(&Tree::Int64(number)) => Basic::Int(number),
        Item::Byte(byte) => Basic::Uint(byte),
        Item::Float(number) | Item::Tree(&Tree::Float64(number)) => Basic::Float(number),
        Item::Text(text) => Basic::String(text),
        Item::Tree(Tree::String(text)) => Basic::String(text),
        Item::Nothing | Item::Tree(_) => return Err(data(BAD_TYPE)),
    })
}

fn data(text: &str) -> ExecError {
    ExecError::Data(text.to_owned())
}

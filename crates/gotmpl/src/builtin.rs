//! The functions that text/template has by itself.

use crate::{FunctionError, List, Object, Str, Type, Value, compare, escape, fmt};

/// A built-in function. `and` and `or`, which leave arguments unevaluated, and `call` and `len`,
/// which look at how an argument is written or held, are part of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    UrlQuery,
}

impl Builtin {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "and" => Self::And,
            "call" => Self::Call,
            "eq" => Self::Eq,
            "ge" => Self::Ge,
            "gt" => Self::Gt,
            "html" => Self::Html,
            "index" => Self::Index,
            "js" => Self::Js,
            "le" => Self::Le,
            "len" => Self::Len,
            "lt" => Self::Lt,
            "ne" => Self::Ne,
            "not" => Self::Not,
            "or" => Self::Or,
            "print" => Self::Print,
            "printf" => Self::Printf,
            "println" => Self::Println,
            "slice" => Self::Slice,
            "urlquery" => Self::UrlQuery,
            _ => return None,
        })
    }

    /// The fixed parameters, and whether more may follow. Those that take any value at all are
    /// `reflect.Value` in Go, which makes no difference.
    pub(crate) fn signature(self) -> (&'static [Type], bool) {
        match self {
            Self::And | Self::Or | Self::Call | Self::Eq | Self::Index | Self::Slice => {
                (&[Type::Any], true)
            }
            Self::Ge | Self::Gt | Self::Le | Self::Lt | Self::Ne => {
                (&[Type::Any, Type::Any], false)
            }
            Self::Len | Self::Not => (&[Type::Any], false),
            Self::Html | Self::Js | Self::UrlQuery | Self::Print | Self::Println => (&[], true),
            Self::Printf => (&[Type::String], true),
        }
    }

    /// Calls the function with arguments that its signature admits. The text of a value may have
    /// that many bytes.
    pub(crate) fn call(self, arguments: &[Value], limit: usize) -> Result<Value, FunctionError> {
        match (self, arguments) {
            (Self::Eq, [first, rest @ ..]) => equal_to_any(first, rest),
            (Self::Ne, [left, right]) => Ok(Value::Bool(!compare::equal(left, right)?)),
            (Self::Lt, [left, right]) => Ok(Value::Bool(compare::less(left, right)?)),
            (Self::Le, [left, right]) => Ok(Value::Bool(less_or_equal(left, right)?)),
            (Self::Gt, [left, right]) => Ok(Value::Bool(!less_or_equal(left, right)?)),
            (Self::Ge, [left, right]) => Ok(Value::Bool(!compare::less(left, right)?)),
            (Self::Not, [value]) => Ok(Value::Bool(!compare::is_true(value))),
            (Self::Index, [item, indexes @ ..]) => index(item, indexes),
            (Self::Slice, [item, indexes @ ..]) => slice(item, indexes),
            (Self::Html, values) => escaped(values, limit, escape::html),
            (Self::Js, values) => escaped(values, limit, escape::js),
            (Self::UrlQuery, values) => escaped(values, limit, escape::url_query),
            (Self::Printf, [Value::String(format), values @ ..]) => {
                text(|buffer| fmt::append_printf(buffer, format, values, limit))
            }
            (Self::Println, values) => Ok(Value::String(fmt::sprintln(values)?)),
            (Self::Print, values) => text(|buffer| fmt::append_print(buffer, values, limit)),
            // The others are called elsewhere, and signatures have been checked.
            _ => Err(FunctionError("not a function to call this way".to_owned())),
        }
    }
}

fn text(
    print: impl FnOnce(&mut Vec<u8>) -> Result<(), fmt::TooLarge>,
) -> Result<Value, FunctionError> {
    let mut buffer = Vec::new();
    print(&mut buffer)?;
    Ok(Value::String(buffer.into()))
}

fn equal_to_any(first: &Value, rest: &[Value]) -> Result<Value, FunctionError> {
    if rest.is_empty() {
        return Err(FunctionError("missing argument for comparison".to_owned()));
    }
    for value in rest {
        if compare::equal(first, value)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn less_or_equal(left: &Value, right: &Value) -> Result<bool, FunctionError> {
    Ok(compare::less(left, right)? || compare::equal(left, right)?)
}

/// The text of the values, escaped.
fn escaped(
    values: &[Value],
    limit: usize,
    escape: fn(&[u8]) -> Vec<u8>,
) -> Result<Value, FunctionError> {
    if let [Value::String(text)] = values {
        return Ok(Value::String(escape(text).into()));
    }
    let mut text = Vec::new();
    let mut after_string = true;
    for value in values {
        // Go prints the text `<no value>` for a nil, which counts as a string.
        let string = matches!(value, Value::String(_) | Value::Nil);
        if !string && !after_string {
            text.push(b' ');
        }
        match value {
            Value::Nil => text.extend_from_slice(b"<no value>"),
            value => fmt::append_printable(&mut text, value, limit)?,
        }
        after_string = string;
    }
    Ok(Value::String(escape(&text).into()))
}

/// The list or map that an object is.
pub(crate) fn underlying(value: &Value) -> Option<Value> {
    let Value::Object(object) = value else {
        return None;
    };
    object
        .as_map()
        .map(Value::Map)
        .or_else(|| object.as_list().map(Value::List))
        .or_else(|| object.as_basic())
}

/// What stands for an index that is held in an interface: `slice` does not look inside.
#[derive(Debug)]
pub(crate) struct HeldIndex;

impl Object for HeldIndex {
    fn go_type(&self) -> &'static str {
        "interface {}"
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The name of the type, of what it points to for a pointer.
fn pointee_name(value: &Value) -> std::borrow::Cow<'static, str> {
    match value {
        Value::Object(object) => {
            let name = object.go_type();
            name.strip_prefix('*').unwrap_or(name).into()
        }
        _ => value.type_name(),
    }
}

/// `index item a b`: `item[a][b]`
fn index(item: &Value, indexes: &[Value]) -> Result<Value, FunctionError> {
    if matches!(item, Value::Nil) {
        return Err(FunctionError("index of untyped nil".to_owned()));
    }
    let mut item = item.clone();
    for index in indexes {
        let name = pointee_name(&item);
        item = underlying(&item).unwrap_or(item);
        item = match &item {
            Value::Nil => return Err(FunctionError("index of nil pointer".to_owned())),
            Value::String(text) | Value::Bytes(text) => {
                let at = position(index, text.len())?;
                let kind = if matches!(item, Value::String(_)) {
                    "string"
                } else {
                    "slice"
                };
                Value::Uint8(*text.get(at).ok_or_else(|| beyond(kind))?)
            }
            Value::List(list) => {
                let at = position(index, list.items().len())?;
                list.items().get(at).ok_or_else(|| beyond("slice"))?.clone()
            }
            Value::Map(map) => {
                let Value::String(key) = index else {
                    return Err(bad_key(index));
                };
                map.get(key).unwrap_or_else(|| map.element().zero())
            }
            _ => return Err(FunctionError(format!("can't index item of type {name}"))),
        };
    }
    Ok(item)
}

fn beyond(kind: &str) -> FunctionError {
    FunctionError(format!("reflect: {kind} index out of range"))
}

fn bad_key(index: &Value) -> FunctionError {
    FunctionError(match index {
        Value::Nil => "value is nil; should be of type string".to_owned(),
        _ => format!("value has type {}; should be string", index.type_name()),
    })
}

/// An index into something of that length; the length itself is allowed.
fn position(index: &Value, length: usize) -> Result<usize, FunctionError> {
    let basic = underlying(index);
    let number = match basic.as_ref().unwrap_or(index) {
        Value::Int(number) | Value::Int64(number) => i128::from(*number),
        Value::Int32(number) => i128::from(*number),
        Value::Uint8(number) => i128::from(*number),
        // Go converts to int64.
        Value::Uint64(number) => i128::from(number.cast_signed()),
        Value::Nil => {
            return Err(FunctionError(
                "cannot index slice/array with nil".to_owned(),
            ));
        }
        _ => {
            let name = index.type_name();
            return Err(FunctionError(format!(
                "cannot index slice/array with type {name}"
            )));
        }
    };
    usize::try_from(number)
        .ok()
        .filter(|&at| at <= length)
        .ok_or_else(|| FunctionError(format!("index out of range: {number}")))
}

/// `slice item a b`: `item[a:b]`
fn slice(item: &Value, indexes: &[Value]) -> Result<Value, FunctionError> {
    if matches!(item, Value::Nil) {
        return Err(FunctionError("slice of untyped nil".to_owned()));
    }
    if indexes.len() > 3 {
        let count = indexes.len();
        return Err(FunctionError(format!("too many slice indexes: {count}")));
    }
    let name = pointee_name(item);
    let inner = underlying(item);
    let item = inner.as_ref().unwrap_or(item);
    let length = match item {
        Value::String(_) if indexes.len() == 3 => {
            return Err(FunctionError("cannot 3-index slice a string".to_owned()));
        }
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.items().len(),
        _ => return Err(FunctionError(format!("can't slice item of type {name}"))),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [start, end, most] = bounds;
    if start > end {
        return Err(bad_bounds(start, end));
    }
    if indexes.len() == 3 && end > most {
        return Err(bad_bounds(end, most));
    }
    Ok(match item {
        Value::String(text) => Value::String(text.get(start..end).unwrap_or_default().into()),
        Value::Bytes(bytes) => Value::Bytes(bytes.get(start..end).unwrap_or_default().into()),
        Value::List(list) => {
            let items = list.items().get(start..end).unwrap_or_default().to_vec();
            Value::List(List::typed(list.element(), items))
        }
        _ => Value::Nil,
    })
}

fn bad_bounds(low: usize, high: usize) -> FunctionError {
    FunctionError(format!("invalid slice index: {low} > {high}"))
}

/// `len item`; `held` tells that a nil stands in an interface.
pub(crate) fn length(item: &Value, held: bool) -> Result<Value, FunctionError> {
    let inner = underlying(item);
    let length = match inner.as_ref().unwrap_or(item) {
        Value::Nil if held => return Err(FunctionError("len of nil pointer".to_owned())),
        // What Go's panic says.
        Value::Nil => {
            return Err(FunctionError(
                "reflect: call of reflect.Value.Type on zero Value".to_owned(),
            ));
        }
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        _ => {
            let name = pointee_name(item);
            return Err(FunctionError(format!("len of type {name}")));
        }
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

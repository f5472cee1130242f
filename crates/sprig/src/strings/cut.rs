//! Parts of strings: trimming, cutting, searching, replacing, splitting.

use gotmpl::{Call, FunctionError, Functions, List, Map, Str, Type, Value};
use memchr::memmem;

use crate::arguments::{Returned, alias, define, fail, int, reserve, string};
use crate::unicode::{decode, is_space, push, runes};

pub(crate) fn register(functions: &mut Functions) {
    register_trims(functions);
    define(functions, "contains", TWO, |_, a| {
        Ok(Value::Bool(
            memmem::find(string(a, 1)?, string(a, 0)?).is_some(),
        ))
    });
    define(functions, "hasPrefix", TWO, |_, a| {
        Ok(Value::Bool(string(a, 1)?.starts_with(string(a, 0)?)))
    });
    define(functions, "hasSuffix", TWO, |_, a| {
        Ok(Value::Bool(string(a, 1)?.ends_with(string(a, 0)?)))
    });
    define(
        functions,
        "replace",
        &[Type::String, Type::String, Type::String],
        |call, a| replace(call, string(a, 0)?, string(a, 1)?, string(a, 2)?),
    );
    define(functions, "trunc", &[Type::Int, Type::String], |_, a| {
        Ok(Value::String(trunc(int(a, 0)?, string(a, 1)?)))
    });
    define(
        functions,
        "substr",
        &[Type::Int, Type::Int, Type::String],
        |_, a| substr(int(a, 0)?, int(a, 1)?, string(a, 2)?),
    );
    define(functions, "split", TWO, |call, a| {
        Ok(numbered(pieces(call, string(a, 0)?, -1, string(a, 1)?)?))
    });
    define(
        functions,
        "splitn",
        &[Type::String, Type::Int, Type::String],
        |call, a| {
            let pieces = pieces(call, string(a, 0)?, int(a, 1)?, string(a, 2)?)?;
            Ok(numbered(pieces))
        },
    );
    define(functions, "splitList", TWO, |call, a| {
        let pieces = pieces(call, string(a, 0)?, -1, string(a, 1)?)?;
        Ok(Value::List(List::typed(Type::String, pieces)))
    });
}

const TWO: &[Type] = &[Type::String, Type::String];

fn register_trims(functions: &mut Functions) {
    define(functions, "trim", &[Type::String], |_, a| {
        Ok(part(string(a, 0)?, trim_space(string(a, 0)?)))
    });
    define(functions, "trimAll", TWO, |_, a| {
        let set: Vec<char> = runes(string(a, 0)?).map(|(found, _)| found).collect();
        let kept = trimmed(string(a, 1)?, |found| set.contains(&found));
        Ok(part(string(a, 1)?, kept))
    });
    alias(functions, "trimall", "trimAll");
    define(functions, "trimSuffix", TWO, |_, a| {
        let text = string(a, 1)?;
        Ok(part(
            text,
            text.strip_suffix(&string(a, 0)?[..]).unwrap_or(text),
        ))
    });
    define(functions, "trimPrefix", TWO, |_, a| {
        let text = string(a, 1)?;
        Ok(part(
            text,
            text.strip_prefix(&string(a, 0)?[..]).unwrap_or(text),
        ))
    });
}

/// A part of a string; the string itself, not a copy, if nothing was cut.
pub(super) fn part(whole: &Str, kept: &[u8]) -> Value {
    Value::String(if kept.len() == whole.len() {
        whole.clone()
    } else {
        kept.into()
    })
}

/// `strings.TrimSpace`.
pub(crate) fn trim_space(text: &[u8]) -> &[u8] {
    trimmed(text, is_space)
}

/// The string without the characters at both ends that are to go.
fn trimmed(text: &[u8], go: impl Fn(char) -> bool) -> &[u8] {
    let mut kept = text;
    while let Some((first, length)) = decode(kept)
        && go(first)
    {
        kept = kept.get(length..).unwrap_or_default();
    }
    while let Some((last, length)) = decode_last(kept)
        && go(last)
    {
        kept = kept.get(..kept.len() - length).unwrap_or_default();
    }
    kept
}

/// The last character and its length.
fn decode_last(bytes: &[u8]) -> Option<(char, usize)> {
    let length = bytes.len();
    (1..=4.min(length))
        .filter_map(|back| {
            let tail = bytes.get(length - back..)?;
            let (character, size) = decode(tail)?;
            (size == back).then_some((character, back))
        })
        .find(|(character, back)| *back > 1 || *character != crate::unicode::REPLACEMENT)
        .or_else(|| (length > 0).then_some((crate::unicode::REPLACEMENT, 1)))
}

/// `strings.ReplaceAll`.
fn replace(call: &mut dyn Call, old: &Str, new: &Str, text: &Str) -> Returned {
    if old.is_empty() {
        return between_characters(call, new, text).map(Value::string);
    }
    let finder = memmem::Finder::new(&old[..]);
    let count = finder.find_iter(text).count();
    if count == 0 || old == new {
        return Ok(Value::String(text.clone()));
    }
    let length = text.len() - count * old.len() + count.saturating_mul(new.len());
    reserve(call, length)?;
    let mut replaced = Vec::with_capacity(length);
    let mut copied = 0;
    for found in finder.find_iter(text) {
        replaced.extend_from_slice(text.get(copied..found).unwrap_or_default());
        replaced.extend_from_slice(new);
        copied = found + old.len();
    }
    replaced.extend_from_slice(text.get(copied..).unwrap_or_default());
    Ok(Value::string(replaced))
}

/// What replacing the empty string does: the new text before every character and at the end.
fn between_characters(
    call: &mut dyn Call,
    new: &[u8],
    text: &[u8],
) -> Result<Vec<u8>, FunctionError> {
    let gaps = runes(text).count() + 1;
    let length = gaps.saturating_mul(new.len()).saturating_add(text.len());
    reserve(call, length)?;
    let mut replaced = Vec::with_capacity(length);
    let mut at = 0;
    for (_, length) in runes(text) {
        replaced.extend_from_slice(new);
        replaced.extend_from_slice(text.get(at..at + length).unwrap_or_default());
        at += length;
    }
    replaced.extend_from_slice(new);
    Ok(replaced)
}

/// The first bytes, or with a negative count the last ones.
fn trunc(count: i64, text: &Str) -> Str {
    let length = text.len();
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted >= length {
        return text.clone();
    }
    let kept = match count < 0 {
        true => text.get(length - wanted..),
        false => text.get(..wanted),
    };
    kept.unwrap_or_default().into()
}

/// Go's slice expression with sprig's rules for bounds that are out of range.
fn substr(start: i64, end: i64, text: &Str) -> Returned {
    let length = text.len();
    let from = usize::try_from(start);
    let to = usize::try_from(end);
    let slice = match (from, to) {
        (Err(_), Ok(to)) if to <= length => text.get(..to),
        (Err(_), Ok(to)) => return out_of_range(&format!("[:{to}] with length {length}")),
        (Err(_), Err(_)) => return out_of_range(&format!("[:{end}]")),
        (Ok(from), Ok(to)) if to <= length && from <= to => text.get(from..to),
        (Ok(from), Ok(to)) if to <= length => return out_of_range(&format!("[{from}:{to}]")),
        (Ok(from), _) if from <= length => text.get(from..),
        (Ok(from), _) => return out_of_range(&format!("[{from}:{length}]")),
    };
    Ok(part(text, slice.unwrap_or_default()))
}

/// The panic of a slice expression.
pub(crate) fn out_of_range<T>(bounds: &str) -> Result<T, FunctionError> {
    fail(format!("runtime error: slice bounds out of range {bounds}"))
}

/// `strings.SplitN`.
fn pieces(
    call: &mut dyn Call,
    separator: &[u8],
    limit: i64,
    text: &Str,
) -> Result<Vec<Value>, FunctionError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Vec::new());
    }
    if separator.is_empty() {
        return characters(call, limit, text);
    }
    let finder = memmem::Finder::new(separator);
    let cuts = finder.find_iter(text).take(limit - 1).count();
    call.charge((cuts + 1) * (size_of::<Value>() + 16) + text.len())?;
    let mut pieces = Vec::with_capacity(cuts + 1);
    let mut copied = 0;
    for found in finder.find_iter(text).take(limit - 1) {
        pieces.push(Value::string(text.get(copied..found).unwrap_or_default()));
        copied = found + separator.len();
    }
    pieces.push(part(text, text.get(copied..).unwrap_or_default()));
    Ok(pieces)
}

/// The characters of a text, the last piece being all that is left at the limit.
fn characters(call: &mut dyn Call, limit: usize, text: &[u8]) -> Result<Vec<Value>, FunctionError> {
    let count = runes(text).take(limit).count();
    call.charge(count * (size_of::<Value>() + 16) + text.len())?;
    let mut pieces = Vec::with_capacity(count);
    let mut rest = text;
    while let Some((_, length)) = decode(rest) {
        if pieces.len() + 1 == limit {
            pieces.push(Value::string(rest));
            break;
        }
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(Value::string(piece));
        rest = after;
    }
    Ok(pieces)
}

/// The map `_0`, `_1`, … of `split` and `splitn`.
fn numbered(pieces: Vec<Value>) -> Value {
    let entries = pieces
        .into_iter()
        .enumerate()
        .map(|(index, piece)| (Str::from(format!("_{index}")), piece))
        .collect();
    Value::Map(Map::typed(Type::String, entries))
}

/// `nospace`: drops space bytes; what is kept of a text with spaces is re-encoded byte by byte, a
/// fault of the original that charts may rely on.
pub(super) fn without_spaces(text: &Str) -> Value {
    if !text.iter().copied().any(crate::unicode::is_space_byte) {
        return Value::String(text.clone());
    }
    let mut kept = Vec::with_capacity(text.len());
    for byte in text
        .iter()
        .copied()
        .filter(|byte| !crate::unicode::is_space_byte(*byte))
    {
        push(&mut kept, char::from(byte));
    }
    Value::string(kept)
}

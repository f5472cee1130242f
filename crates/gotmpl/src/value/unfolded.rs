//! How large a value is once nothing in it is shared any more.

use super::Value;

/// What each part counts for besides its bytes: what a writer puts around it, or a copy takes.
const PART: usize = 16;

/// Deeper parts are not counted: no function goes that deep.
const DEPTH: usize = 1_000;

/// About how many bytes the value takes when it is written out or copied: each part counts as often as it is met, with
/// an indent for its depth. A value that holds the same list twice, and so on for thirty levels, takes a few bytes of
/// memory and gigabytes on paper. Counting ends soon after `most` is reached, so that it takes no longer than that.
///
/// ```
/// use gotmpl::{Value, unfolded_size};
///
/// let mut value = Value::list(vec![Value::Int(1)]);
/// for _ in 0..40 {
///     value = Value::list(vec![value.clone(), value]);
/// }
/// assert!(unfolded_size(&value, 1 << 20) > 1 << 20);
/// assert!(unfolded_size(&Value::from("text"), 1 << 20) < 100);
/// ```
#[must_use]
pub fn unfolded_size(value: &Value, most: usize) -> usize {
    let mut size = 0;
    add(value, 0, most, &mut size);
    size
}

fn add(value: &Value, depth: usize, most: usize, size: &mut usize) {
    *size = size.saturating_add(PART + 2 * depth);
    if depth >= DEPTH || *size > most {
        return;
    }
    match value {
        Value::String(text) | Value::Bytes(text) => *size = size.saturating_add(text.len()),
        Value::List(list) => {
            for item in list.items() {
                add(item, depth + 1, most, size);
                if *size > most {
                    return;
                }
            }
        }
        Value::Map(map) => {
            for (key, value) in map.entries().iter() {
                *size = size.saturating_add(key.len());
                add(value, depth + 1, most, size);
                if *size > most {
                    return;
                }
            }
        }
        _ => {}
    }
}

//! Replacement with Go's templates: `$1`, `${1}`, `$name`, `$$`.

use gotmpl::{Call, FunctionError};

use super::expression::{Expression, Groups};
use crate::arguments::reserve;
use crate::unicode::{is_digit, is_letter, runes};

/// How a match is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The template is expanded.
    Template,
    /// The text stands for itself.
    Literal,
}

/// Replaces every match; `None` if there is none.
pub(super) fn replace_all(
    call: &mut dyn Call,
    expression: &Expression,
    text: &[u8],
    replacement: &[u8],
    mode: Mode,
) -> Result<Option<Vec<u8>>, FunctionError> {
    let template = mode == Mode::Template && replacement.contains(&b'$');
    let mut replaced: Option<Vec<u8>> = None;
    let mut copied = 0;
    let mut reserved = 0;
    expression.each_replaced(text, template, |groups| {
        let Some(Some(whole)) = groups.first() else {
            return Ok(());
        };
        let output = replaced.get_or_insert_with(Vec::new);
        output.extend_from_slice(text.get(copied..whole.start).unwrap_or_default());
        copied = whole.end;
        if template {
            expand(output, expression, text, replacement, groups);
        } else {
            output.extend_from_slice(replacement);
        }
        if output.len() >= reserved + (1 << 20) {
            reserve(call, output.len() - reserved)?;
            reserved = output.len();
        }
        Ok(())
    })?;
    Ok(replaced.map(|mut output| {
        output.extend_from_slice(text.get(copied..).unwrap_or_default());
        output
    }))
}

fn expand(
    output: &mut Vec<u8>,
    expression: &Expression,
    text: &[u8],
    template: &[u8],
    groups: &Groups,
) {
    let mut rest = template;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        let (before, after) = rest.split_at(dollar);
        output.extend_from_slice(before);
        rest = after.get(1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix(b"$") {
            output.push(b'$');
            rest = after;
            continue;
        }
        let Some((name, after)) = reference(rest) else {
            output.push(b'$');
            continue;
        };
        rest = after;
        // A number that is none after all, such as `01`, is looked up as a name too.
        let index = number(name).or_else(|| expression.named(name, groups));
        let group = index.and_then(|index| groups.get(index)?.clone());
        if let Some(range) = group {
            output.extend_from_slice(text.get(range).unwrap_or_default());
        }
    }
    output.extend_from_slice(rest);
}

/// The name after a dollar sign, as long as it can be, and what follows.
fn reference(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (braced, text) = match text.strip_prefix(b"{") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let word = |character| character == '_' || is_letter(character) || is_digit(character);
    let length = runes(text)
        .take_while(|(character, _)| word(*character))
        .map(|(_, length)| length)
        .sum();
    let (name, rest) = text.split_at_checked(length)?;
    if name.is_empty() {
        return None;
    }
    match braced {
        true => Some((name, rest.strip_prefix(b"}")?)),
        false => Some((name, rest)),
    }
}

/// The number that a name is; `None` for names and for numbers with a leading zero.
fn number(name: &[u8]) -> Option<usize> {
    let digits = name.iter().all(u8::is_ascii_digit);
    if !digits || name.len() > 1 && name.starts_with(b"0") || name.len() > 9 {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

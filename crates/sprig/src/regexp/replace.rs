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
    let parts = match mode {
        Mode::Template => parse(expression, replacement),
        Mode::Literal => vec![Part::Literal(replacement)],
    };
    let needs_groups = parts.iter().any(|part| !matches!(part, Part::Literal(_)));
    let mut replaced: Option<Vec<u8>> = None;
    let mut copied = 0;
    let mut reserved = 0;
    expression.each_replaced(text, needs_groups, |groups| {
        let Some(Some(whole)) = groups.first() else {
            return Ok(());
        };
        let output = replaced.get_or_insert_with(Vec::new);
        output.extend_from_slice(text.get(copied..whole.start).unwrap_or_default());
        copied = whole.end;
        if parts.len() > MANY_PARTS {
            call.charge(parts.len())?;
        }
        for part in &parts {
            output.extend_from_slice(part.bytes(text, groups));
        }
        if output.len() >= reserved + STEP {
            reserve(call, output.len())?;
            reserved = output.len();
        }
        Ok(())
    })?;
    Ok(replaced.map(|mut output| {
        output.extend_from_slice(text.get(copied..).unwrap_or_default());
        output
    }))
}

/// Templates of more parts are charged for each match, as they may take long to give nothing.
const MANY_PARTS: usize = 64;

/// How much is written between two looks ahead.
const STEP: usize = 1 << 20;

/// A piece of a template.
enum Part<'a> {
    Literal(&'a [u8]),
    /// The group of this number.
    Group(usize),
    /// The first of these groups that took part in the match.
    Named(Vec<usize>),
}

impl Part<'_> {
    fn bytes<'t>(&'t self, text: &'t [u8], groups: &Groups) -> &'t [u8] {
        let group = |index: &usize| {
            let range = groups.get(*index)?.clone()?;
            text.get(range)
        };
        match self {
            Self::Literal(text) => text,
            Self::Group(index) => group(index).unwrap_or_default(),
            Self::Named(indices) => indices.iter().find_map(group).unwrap_or_default(),
        }
    }
}

fn parse<'a>(expression: &Expression, template: &'a [u8]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        let (before, after) = rest.split_at(dollar);
        parts.push(Part::Literal(before));
        let (sign, after) = after.split_at(1);
        if let Some(after) = after.strip_prefix(b"$") {
            parts.push(Part::Literal(sign));
            rest = after;
            continue;
        }
        let Some((name, after)) = reference(after) else {
            parts.push(Part::Literal(sign));
            rest = after;
            continue;
        };
        rest = after;
        // A number that is none after all, such as `01`, is looked up as a name too.
        parts.push(match number(name) {
            Some(index) => Part::Group(index),
            None => Part::Named(expression.named(name)),
        });
    }
    parts.push(Part::Literal(rest));
    parts.retain(|part| !matches!(part, Part::Literal(b"")));
    parts
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

//! `wrap` and `wrapWith`.

use gotmpl::{Call, Functions, Str, Type, Value};

use crate::arguments::{Returned, define, int, reserve, string};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "wrap", &[Type::Int, Type::String], |call, a| {
        let wrap = Wrap {
            width: int(a, 0)?,
            separator: b"\n",
            cut_long_words: false,
        };
        wrap.apply(call, string(a, 1)?)
    });
    define(
        functions,
        "wrapWith",
        &[Type::Int, Type::String, Type::String],
        |call, a| {
            let separator = string(a, 1)?;
            let wrap = Wrap {
                width: int(a, 0)?,
                separator: if separator.is_empty() {
                    b"\n"
                } else {
                    separator
                },
                cut_long_words: true,
            };
            wrap.apply(call, string(a, 2)?)
        },
    );
}

struct Wrap<'a> {
    width: i64,
    separator: &'a [u8],
    cut_long_words: bool,
}

impl Wrap<'_> {
    /// Breaks a text at spaces so that no line is longer than the width, where that can be.
    fn apply(&self, call: &mut dyn Call, text: &Str) -> Returned {
        let width = usize::try_from(self.width.max(1)).unwrap_or(usize::MAX);
        let breaks = text.len() / width + 1;
        reserve(
            call,
            text.len() + breaks.saturating_mul(self.separator.len()),
        )?;
        let mut wrapped = Vec::with_capacity(text.len());
        let mut rest: &[u8] = text;
        while rest.len() > width {
            if let Some(after) = rest.strip_prefix(b" ") {
                rest = after;
                continue;
            }
            let (line, after) = self.split(rest, width);
            wrapped.extend_from_slice(line);
            let Some(after) = after else {
                rest = b"";
                break;
            };
            wrapped.extend_from_slice(self.separator);
            rest = after;
        }
        wrapped.extend_from_slice(rest);
        Ok(Value::string(wrapped))
    }

    /// The next line and what follows its break; `None` if all was taken.
    fn split<'t>(&self, text: &'t [u8], width: usize) -> (&'t [u8], Option<&'t [u8]>) {
        let fits = text.get(..=width).unwrap_or(text);
        if let Some(space) = memchr::memrchr(b' ', fits) {
            return at_space(text, space);
        }
        let (line, after) = text.split_at(width.min(text.len()));
        if self.cut_long_words {
            return (line, Some(after));
        }
        match memchr::memchr(b' ', after) {
            Some(space) => at_space(text, width + space),
            None => (text, None),
        }
    }
}

fn at_space(text: &[u8], space: usize) -> (&[u8], Option<&[u8]>) {
    let line = text.get(..space).unwrap_or_default();
    (line, Some(text.get(space + 1..).unwrap_or_default()))
}

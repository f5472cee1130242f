//! Go's regular expressions on top of the `regex` crate.
//!
//! Both are of the RE2 family: linear time, leftmost-first. [`translate`] reads Go's syntax and
//! writes the crate's; what differs at run time (empty matches, templates of replacements) is done
//! here. One difference is left: in a text that is no UTF-8, `.` and negated classes match no
//! invalid byte.

mod class;
mod expression;
mod functions;
mod replace;
mod translate;

pub(crate) use functions::register;

/// A pattern of Go's in the syntax of the `regex` crate.
///
/// # Errors
/// Go's text for a pattern that is none: ``error parsing regexp: missing closing ]: `[` ``.
pub fn translate_pattern(expression: &str) -> Result<String, String> {
    translate::translate(expression.as_bytes())
        .map(|translation| translation.pattern)
        .map_err(|error| error.to_string())
}

//! Violations and their texts.

use std::fmt;

use super::document::Json;
use super::url::escape;

/// A violation and those that caused it.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Where in the values.
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
    pub(super) causes: Vec<Self>,
}

/// What is wrong, as far as the text depends on it.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// Nobody will read it: only whether there is a violation counts.
    Unsaid,
    /// The whole document.
    Schema(String),
    /// Several violations of one schema.
    Group,
    /// A schema that was referred to.
    Reference,
    /// Everything else.
    Said(String),
}

impl Violation {
    pub(super) fn is_group(&self) -> bool {
        self.kind == Kind::Group
    }

    /// A reference with one cause is not a level of its own.
    fn is_hidden(&self) -> bool {
        self.kind == Kind::Reference && self.causes.len() == 1
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, mut indent: usize) -> fmt::Result {
        if !self.is_hidden() {
            if indent > 0 {
                write!(f, "\n{}- ", "  ".repeat(indent - 1))?;
            }
            indent += 1;
            match &self.kind {
                Kind::Schema(location) => {
                    write!(f, "jsonschema validation failed with {}", quote(location))?;
                }
                kind => {
                    let path: String = self
                        .path
                        .iter()
                        .map(|part| format!("/{}", escape(part)))
                        .collect();
                    write!(f, "at {}: {}", quote(&path), kind.text())?;
                }
            }
        }
        self.causes
            .iter()
            .try_for_each(|cause| cause.print(f, indent))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl Kind {
    fn text(&self) -> &str {
        match self {
            Self::Said(text) => text,
            Self::Group | Self::Reference => "validation failed",
            Self::Unsaid | Self::Schema(_) => "",
        }
    }
}

/// A text in single quotes, escaped as Go does.
pub(super) fn quote(text: &str) -> String {
    let quoted = crate::text::quote(text);
    let inner = quoted
        .strip_prefix('"')
        .and_then(|inner| inner.strip_suffix('"'))
        .unwrap_or(&quoted);
    format!("'{}'", inner.replace("\\\"", "\"").replace('\'', "\\'"))
}

pub(super) fn quote_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// A value of the schema as messages show it.
pub(super) fn display(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.clone(),
        Json::String(text) => quote(text),
        Json::Array(_) | Json::Object(_) => "value".to_owned(),
    }
}

/// A count with commas between thousands, as the English printer writes it.
pub(super) fn count(number: usize) -> String {
    group_thousands(&number.to_string())
}

/// A number as the English printer of golang.org/x/text writes it.
pub(super) fn number(value: f64) -> String {
    let text = gotmpl::strconv::format_float(value, b'g', None);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (mantissa, exponent) = match digits.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut out = format!("{sign}{}", group_thousands(whole));
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    if let Some(exponent) = exponent {
        out.push_str("×10");
        out.extend(exponent.chars().filter(|c| *c != '+').map(superscript));
    }
    out
}

fn superscript(c: char) -> char {
    match c {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁻',
    }
}

fn group_thousands(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

//! The little language of `--set`: `a.b[0]=x,c={1,2}`.

use std::collections::BTreeMap;
use std::str::Chars;

use gotmpl::Str;
use goyaml::Tree;
use thiserror::Error;

/// Highest index of a list that may be set.
const MAX_INDEX: i64 = 65_536;
/// How many dots may follow one another.
const MAX_DOTS: usize = 30;
/// How deep lists and maps may nest by indices; Helm has no bound for it.
const MAX_NESTING: usize = 500;
/// How many list elements one text may bring into being, gaps included; Helm has no bound for it.
const MAX_ELEMENTS: usize = 1_000_000;

type Entries = BTreeMap<Str, Tree>;

/// What is wrong with a `--set` text, in Helm's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SetError(String);

/// Applies a `--set` text. Values are typed: `true`, `false`, `null` and whole numbers are what
/// they look like, everything else is a string.
///
/// # Errors
/// The text is malformed; `values` may hold the part before the fault.
pub fn set_into(text: &str, values: &mut Tree) -> Result<(), SetError> {
    parse(text, values, &mut Typed)
}

/// Applies a `--set-string` text: every value is a string.
///
/// # Errors
/// As [`set_into`].
pub fn set_string_into(text: &str, values: &mut Tree) -> Result<(), SetError> {
    parse(text, values, &mut Strings)
}

/// Applies a `--set-file` text: every value is the name of a file whose content is the value.
///
/// # Errors
/// As [`set_into`], and what `read` reports.
pub fn set_file_into(
    text: &str,
    values: &mut Tree,
    read: impl FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<(), SetError> {
    parse(text, values, &mut Files(read))
}

/// Applies a `--set-json` text of the form `path=JSON`.
///
/// # Errors
/// As [`set_into`], and a value is no JSON.
pub fn set_json_into(text: &str, values: &mut Tree) -> Result<(), SetError> {
    parse(text, values, &mut Json)
}

/// Applies a `--set-literal` text: everything behind the first `=` is the value, and a backslash
/// means nothing.
///
/// # Errors
/// As [`set_into`].
pub fn set_literal_into(text: &str, values: &mut Tree) -> Result<(), SetError> {
    parse(text, values, &mut Literal)
}

fn parse(text: &str, values: &mut Tree, grammar: &mut dyn Grammar) -> Result<(), SetError> {
    if !matches!(values, Tree::Map(_)) {
        *values = Tree::Map(Entries::new());
    }
    let Tree::Map(entries) = values else {
        return Ok(());
    };
    let mut parser = Parser {
        rest: text.chars(),
        grammar,
        nesting: 0,
        elements: 0,
    };
    loop {
        match parser.key(entries, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Fault(text)) => return Err(SetError(text)),
        }
    }
}

/// Why parsing stops: the text is at its end, or it is wrong.
enum Stop {
    End,
    Fault(String),
}

type Parsed<T> = Result<T, Stop>;

fn fault<T>(text: impl Into<String>) -> Parsed<T> {
    Err(Stop::Fault(text.into()))
}

/// How the flags differ.
trait Grammar {
    /// Characters that end a key.
    fn key_ends(&self) -> &'static [char] {
        &['=', '[', ',', '.']
    }

    /// Whether a backslash takes the next character as it is.
    fn escapes(&self) -> bool {
        true
    }

    /// Whether an empty value at the end of the text ends the reading there and then, so that what
    /// comes after the value is not done. It shows in `a[0].b=`: a new element is not added.
    fn ends_at_nothing(&self) -> bool {
        true
    }

    /// The value behind `=`, consumed with the comma after it.
    fn value(&mut self, rest: &mut Chars<'_>) -> Parsed<Tree> {
        if rest.as_str().is_empty() {
            return Ok(Tree::String(Str::default()));
        }
        if let Some(inner) = rest.as_str().strip_prefix('{') {
            *rest = inner.chars();
            return self.list(rest);
        }
        let (text, _) = until(rest, &[','], true);
        self.scalar(&text)
    }

    /// The elements of `{a,b}` behind the brace.
    fn list(&mut self, rest: &mut Chars<'_>) -> Parsed<Tree> {
        let mut items = Vec::new();
        loop {
            let (text, end) = until(rest, &[',', '}'], true);
            let Some(end) = end else {
                return fault("list must terminate with '}'");
            };
            items.push(self.scalar(&text)?);
            if end == '}' {
                if let Some(after) = rest.as_str().strip_prefix(',') {
                    *rest = after.chars();
                }
                return Ok(Tree::List(items));
            }
        }
    }

    fn scalar(&mut self, text: &str) -> Parsed<Tree>;
}

struct Typed;

impl Grammar for Typed {
    fn scalar(&mut self, text: &str) -> Parsed<Tree> {
        Ok(match text {
            _ if text.eq_ignore_ascii_case("true") => Tree::Bool(true),
            _ if text.eq_ignore_ascii_case("false") => Tree::Bool(false),
            _ if text.eq_ignore_ascii_case("null") => Tree::Null,
            "0" => Tree::Int64(0),
            _ if text.starts_with('0') => Tree::from(text),
            _ => text.parse().map_or_else(|_| Tree::from(text), Tree::Int64),
        })
    }
}

struct Strings;

impl Grammar for Strings {
    fn scalar(&mut self, text: &str) -> Parsed<Tree> {
        Ok(Tree::from(text))
    }
}

struct Files<R>(R);

impl<R: FnMut(&str) -> Result<Vec<u8>, String>> Grammar for Files<R> {
    fn scalar(&mut self, text: &str) -> Parsed<Tree> {
        match (self.0)(text) {
            Ok(content) => Ok(Tree::String(content.into())),
            Err(text) => fault(text),
        }
    }
}

struct Json;

impl Grammar for Json {
    fn ends_at_nothing(&self) -> bool {
        false
    }

    fn value(&mut self, rest: &mut Chars<'_>) -> Parsed<Tree> {
        if skip_blanks_and_comma(rest) {
            return Ok(Tree::Null);
        }
        let text = rest.as_str();
        let (value, taken) = goyaml::read_json_prefix(text.as_bytes())
            .map_err(|error| Stop::Fault(error.to_string()))?;
        *rest = text.get(taken..).unwrap_or_default().chars();
        skip_blanks_and_comma(rest);
        Ok(value)
    }

    fn scalar(&mut self, text: &str) -> Parsed<Tree> {
        Ok(Tree::from(text))
    }
}

/// Skips blanks; `true` if a comma (skipped too) or the end comes next.
fn skip_blanks_and_comma(rest: &mut Chars<'_>) -> bool {
    let text = rest.as_str().trim_start();
    let (nothing, text) = match text.strip_prefix(',') {
        Some(text) => (true, text),
        None => (text.is_empty(), text),
    };
    *rest = text.chars();
    nothing
}

struct Literal;

impl Grammar for Literal {
    fn ends_at_nothing(&self) -> bool {
        false
    }

    fn key_ends(&self) -> &'static [char] {
        &['=', '[', '.']
    }

    fn escapes(&self) -> bool {
        false
    }

    fn value(&mut self, rest: &mut Chars<'_>) -> Parsed<Tree> {
        let text = rest.as_str();
        *rest = "".chars();
        Ok(Tree::from(text))
    }

    fn scalar(&mut self, text: &str) -> Parsed<Tree> {
        Ok(Tree::from(text))
    }
}

/// Takes characters up to one of `ends`, which is taken too and returned; `None` at the end of the
/// text. A lone backslash at the very end is dropped.
fn until(rest: &mut Chars<'_>, ends: &[char], escapes: bool) -> (String, Option<char>) {
    let mut taken = String::new();
    while let Some(c) = rest.next() {
        if ends.contains(&c) {
            return (taken, Some(c));
        }
        if c == '\\' && escapes {
            taken.extend(rest.next());
        } else {
            taken.push(c);
        }
    }
    (taken, None)
}

struct Parser<'a> {
    rest: Chars<'a>,
    grammar: &'a mut dyn Grammar,
    nesting: usize,
    elements: usize,
}

impl Parser<'_> {
    /// One `path=value`, set in `data`.
    fn key(&mut self, data: &mut Entries, dots: usize) -> Parsed<()> {
        let ends = self.grammar.key_ends();
        let (key, end) = until(&mut self.rest, ends, self.grammar.escapes());
        match end {
            None if key.is_empty() => Err(Stop::End),
            None => fault(format!("key {} has no value", quote(&key))),
            Some('[') => self.index_of(data, &key, dots),
            Some('=') => {
                let ends = self.grammar.ends_at_nothing() && self.rest.as_str().is_empty();
                let value = self.grammar.value(&mut self.rest)?;
                set(data, &key, value);
                if ends { Err(Stop::End) } else { Ok(()) }
            }
            Some(',') => fault(format!(
                "key {} has no value (cannot end with ,)",
                quote(&key)
            )),
            Some(_) => self.nested(data, &key, dots + 1),
        }
    }

    /// What follows `key.`
    fn nested(&mut self, data: &mut Entries, key: &str, dots: usize) -> Parsed<()> {
        if dots > MAX_DOTS {
            return fault(format!(
                "value name nested level is greater than maximum supported nested level of \
                 {MAX_DOTS}"
            ));
        }
        let mut inner = match data.get_mut(key.as_bytes()) {
            None => Tree::Map(Entries::new()),
            Some(found) => std::mem::take(found),
        };
        let Tree::Map(entries) = &mut inner else {
            return unexpected(&inner, "map[string]interface {}");
        };
        let done = self.key(entries, dots);
        if entries.is_empty() && done.is_ok() {
            return fault(format!("key map {} has no value", quote(key)));
        }
        if !entries.is_empty() {
            set(data, key, inner);
        }
        done
    }

    /// What follows `key[`
    fn index_of(&mut self, data: &mut Entries, key: &str, dots: usize) -> Parsed<()> {
        let index = self.index()?;
        let mut list = match data.get_mut(key.as_bytes()).map(std::mem::take) {
            None => Vec::new(),
            Some(Tree::List(list)) => list,
            Some(other) => return unexpected(&other, "[]interface {}"),
        };
        let done = self.item(&mut list, index, dots);
        set(data, key, Tree::List(list));
        done
    }

    /// The number up to `]`. Helm takes a missing bracket for the end of the text.
    fn index(&mut self) -> Parsed<i64> {
        let (text, end) = until(&mut self.rest, &[']'], self.grammar.escapes());
        if end.is_none() {
            return Err(Stop::End);
        }
        text.parse::<i64>().or_else(|_| {
            let why = atoi_fault(&text);
            let text = quote(&text);
            fault(format!(
                "error parsing index: strconv.Atoi: parsing {text}: {why}"
            ))
        })
    }

    /// What follows `[index]`
    fn item(&mut self, list: &mut Vec<Tree>, index: i64, dots: usize) -> Parsed<()> {
        if index < 0 {
            return fault(format!("negative {index} index not allowed"));
        }
        let (key, end) = until(&mut self.rest, &['[', '.', '='], self.grammar.escapes());
        if !key.is_empty() {
            let key = quote_chars(&key);
            return fault(format!("unexpected data at end of array index: {key}"));
        }
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return fault(format!("values nest deeper than {MAX_NESTING} levels"));
        }
        let done = match end {
            None => Err(Stop::End),
            Some('=') => self
                .grammar
                .value(&mut self.rest)
                .and_then(|value| self.set_index(list, index, value)),
            Some('[') => self.item_of_item(list, index, dots),
            Some(_) => self.key_of_item(list, index, dots),
        };
        self.nesting -= 1;
        done
    }

    /// What follows `[index][`
    fn item_of_item(&mut self, list: &mut Vec<Tree>, index: i64, dots: usize) -> Parsed<()> {
        let next = self.index()?;
        let mut inner = match slot(list, index).map(std::mem::take) {
            None | Some(Tree::Null) => Vec::new(),
            Some(Tree::List(inner)) => inner,
            Some(other) => return unexpected(&other, "[]interface {}"),
        };
        let done = self.item(&mut inner, next, dots);
        if done.is_err() {
            put_back(list, index, Tree::List(inner));
            return done;
        }
        self.set_index(list, index, Tree::List(inner))
    }

    /// What follows `[index].`
    fn key_of_item(&mut self, list: &mut Vec<Tree>, index: i64, dots: usize) -> Parsed<()> {
        let mut inner = match slot(list, index).map(std::mem::take) {
            Some(Tree::Map(inner)) => inner,
            _ => Entries::new(),
        };
        let done = self.key(&mut inner, dots);
        if done.is_err() {
            put_back(list, index, Tree::Map(inner));
            return done;
        }
        self.set_index(list, index, Tree::Map(inner))
    }

    fn set_index(&mut self, list: &mut Vec<Tree>, index: i64, value: Tree) -> Parsed<()> {
        if index > MAX_INDEX {
            return fault(format!(
                "index of {index} is greater than maximum supported index of {MAX_INDEX}"
            ));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if at >= list.len() {
            self.elements += at + 1 - list.len();
            if self.elements > MAX_ELEMENTS {
                return fault(format!("more than {MAX_ELEMENTS} list elements"));
            }
            list.resize(at + 1, Tree::Null);
        }
        if let Some(slot) = list.get_mut(at) {
            *slot = value;
        }
        Ok(())
    }
}

/// What Go's `strconv.Atoi` says of a text that is no index: it stops at the first character that is
/// no digit, or where the number leaves 64 bits.
fn atoi_fault(text: &str) -> &'static str {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut number = 0_u64;
    for character in digits.chars() {
        let Some(digit) = character.to_digit(10) else {
            return "invalid syntax";
        };
        let next = number.checked_mul(10);
        match next.and_then(|next| next.checked_add(u64::from(digit))) {
            Some(next) => number = next,
            None => return "value out of range",
        }
    }
    match digits.is_empty() {
        true => "invalid syntax",
        false => "value out of range",
    }
}

/// Leaves an element as it was changed before a fault, if it was there before.
fn put_back(list: &mut [Tree], index: i64, value: Tree) {
    if let Some(slot) = slot(list, index)
        && !matches!((&*slot, &value), (Tree::Null, Tree::List(items)) if items.is_empty())
    {
        *slot = value;
    }
}

fn slot(list: &mut [Tree], index: i64) -> Option<&mut Tree> {
    list.get_mut(usize::try_from(index).ok()?)
}

/// Helm drops what has an empty key.
fn set(data: &mut Entries, key: &str, value: Tree) {
    if !key.is_empty() {
        data.insert(key.into(), value);
    }
}

/// The text of the Go panic that Helm catches here.
fn unexpected<T>(found: &Tree, wanted: &str) -> Parsed<T> {
    let found = match found {
        Tree::Null => "nil",
        Tree::Bool(_) => "bool",
        Tree::Int64(_) => "int64",
        Tree::Float64(_) => "float64",
        Tree::String(_) => "string",
        Tree::List(_) => "[]interface {}",
        Tree::Map(_) => "map[string]interface {}",
    };
    fault(format!(
        "unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}"
    ))
}

fn quote(text: &str) -> String {
    crate::text::quote(text)
}

/// Go's `%q` of a list of characters.
fn quote_chars(text: &str) -> String {
    let quoted: Vec<String> = text
        .chars()
        .map(|c| gotmpl::strconv::quote_rune(u32::from(c)))
        .collect();
    format!("[{}]", quoted.join(" "))
}

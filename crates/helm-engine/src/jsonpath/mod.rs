//! JSONPath as kubectl knows it: what `show values --jsonpath` takes.
//!
//! The language, and the text of every error, is that of the package `util/jsonpath` of client-go 0.37, which Helm
//! 4.3.1 uses. Text outside of braces is printed as it is, and each pair of braces prints what its expression finds:
//!
//! | expression | finds |
//! |---|---|
//! | `@`, `$`, nothing | the current value |
//! | `.name`, `['a\.b']` | the value of a key |
//! | `[0]`, `[-1]`, `[1:3]`, `[::2]`, `[*]` | elements of a list |
//! | `[0,2]`, `['a','b']` | what each of the parts finds |
//! | `.*` | the values of a map, the elements of a list, the bytes of a string |
//! | `..` | each map, list and string that is not empty, from the outside in |
//! | `[?(@.a=="x")]`, `[?(@.a)]` | elements that compare with `<`, `<=`, `==`, `!=`, `>=`, `>`, or that have a key |
//! | `"text"`, `'text'`, `1`, `1.5`, `true` | itself |
//! | `range` … `end` | what stands between the two, for each value that was found |
//!
//! Values that one expression finds are printed with a blank between them: maps and lists as JSON, all else as Go's
//! `fmt` has it.
//!
//! # Where it is not as in Go
//! - Go finds the values of a map in random order for `.*` and `..`; here they come in the order of the keys.
//! - The number of ranges within each other, of steps and of printed bytes is bounded.
//! - Where Go's package ends the program, there is an error: a range over nothing, within a range over nothing.

mod compare;
mod eval;
mod parse;
#[cfg(test)]
mod tests;

use goyaml::Tree;

use eval::{Evaluation, Item};

/// How many values an evaluation may find, and nodes it may visit: hundreds of times as many as a large `values.yaml`
/// has, in 100 MB of memory.
const MAX_STEPS: usize = 4 << 20;

/// How many bytes may be printed: what a chart may have at most.
const MAX_OUTPUT: usize = 100 << 20;

/// How deep ranges, and expressions within filters and unions, may be nested: what fits the stack of any thread.
const MAX_DEPTH: usize = 100;

/// A parsed template.
///
/// ```
/// use helm_engine::jsonpath::JsonPath;
///
/// let values = goyaml::read(b"ports: [{name: http, port: 80}, {name: tls, port: 443}]").unwrap();
/// let path = JsonPath::parse("{range .ports[*]}{.name}={.port} {end}").unwrap();
/// assert_eq!(path.execute(&values).unwrap(), b"http=80 tls=443 ");
///
/// let error = JsonPath::parse("{.ports[0}").unwrap_err();
/// assert_eq!(error.to_string(), "unterminated array");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// An opening brace without a closing one on its line.
    #[error("unclosed action")]
    UnclosedAction,
    /// A character that begins nothing; as Go's `%#U` prints it.
    #[error("unrecognized character in action: {0}")]
    Unrecognized(String),
    /// `....`
    #[error("invalid multiple recursive descent")]
    MultipleDescents,
    /// What begins as a number and is none.
    #[error("cannot parse number {0}")]
    Number(String),
    /// `[` without `]`
    #[error("unterminated array")]
    UnterminatedArray,
    /// Neither an index, a slice, a quoted key nor a union.
    #[error("invalid array index {0}")]
    ArrayIndex(String),
    /// A bound of a slice that does not fit 64 bits, or a sign without digits.
    #[error("array index {0} is not a number")]
    IndexNumber(String),
    /// `[?(` without `)`
    #[error("unterminated filter")]
    UnterminatedFilter,
    /// A filter without `]`.
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    /// A quote without its pair.
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    /// A quoted text with an escape that there is not.
    #[error("unquote string {0} error invalid syntax")]
    Quote(String),
    /// Filters and unions within each other.
    #[error("jsonpath nests more than {MAX_DEPTH} expressions; write it with fewer filters")]
    TooDeep,
}

/// Why a template cannot be executed. Helm prints nothing then, and takes it for no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// client-go's error, in its words: a key that is not there, an index out of bounds, values that cannot be compared.
    #[error("{0}")]
    Data(String),
    /// What ends the process of helm.
    #[error("jsonpath takes a part of no value; check what the range around it goes over")]
    NoValue,
    /// A bound of this program's.
    #[error("jsonpath {0}; ask for less")]
    Limit(&'static str),
}

/// A part of a template. Lists of nodes are evaluated one after the other, each on what the one before has found.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// Text, from outside of braces or from quotes.
    Text(Vec<u8>),
    /// What stands between braces.
    List(Vec<Self>),
    Field(String),
    Slice(Slice),
    Union(Vec<Vec<Self>>),
    Filter(Box<Filter>),
    Wildcard,
    Recursive,
    Int(i64),
    Float(f64),
    Bool(bool),
    /// `range`, `end`, or an error when it is evaluated.
    Identifier(String),
}

/// Elements of a list; `None` is the start, the end, and a step of one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// Whether it is one element: the end is derived from the start.
    is_index: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Node>,
    /// The operator and its right side; nothing where it is asked whether the left side exists.
    comparison: Option<(String, Vec<Node>)>,
}

impl JsonPath {
    /// Reads a template.
    ///
    /// # Errors
    /// The text of client-go.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let nodes = parse::template(text, 0)?;
        Ok(Self { nodes })
    }

    /// What the template prints for the data.
    ///
    /// # Errors
    /// Nothing is printed if any of the expressions fails.
    pub fn execute(&self, data: &Tree) -> Result<Vec<u8>, ExecError> {
        let found = Evaluation::new(&self.nodes).run(Item::Tree(data))?;
        let mut out = Vec::new();
        for items in found {
            for (position, item) in items.into_iter().enumerate() {
                if position > 0 {
                    out.push(b' ');
                }
                print(&mut out, item)?;
                if out.len() > MAX_OUTPUT {
                    return Err(ExecError::Limit("prints more than 100 MiB"));
                }
            }
        }
        Ok(out)
    }
}

fn print(out: &mut Vec<u8>, item: Item<'_>) -> Result<(), ExecError> {
    match item {
        Item::Nothing => out.extend_from_slice(b"<no value>"),
        Item::Text(text) => out.extend_from_slice(text),
        Item::Tree(Tree::String(text)) => out.extend_from_slice(text),
        Item::Tree(tree) if tree.is_null() => out.extend_from_slice(b"null"),
        Item::Tree(tree @ (Tree::List(_) | Tree::Map(_))) => {
            let json = goyaml::to_json_tree(tree);
            out.extend(json.map_err(|error| ExecError::Data(error.to_string()))?);
        }
        _ => out.extend_from_slice(&eval::shown(item)),
    }
    Ok(())
}

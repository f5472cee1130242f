//! Go's text/template in Rust: values, lexer, parser, execution and fmt.
//!
//! The behaviour, and the text of every error, is that of Go 1.26.
//!
//! ```
//! use gotmpl::{Budget, Functions, Map, Options, TemplateSet, Value};
//!
//! let functions = Functions::new();
//! let mut set = TemplateSet::new("gotpl");
//! set.parse("greeting", "{{define \"hello\"}}Hello, {{.}}!{{end}}", &functions).unwrap();
//! set.parse("page", "{{range .names}}{{template \"hello\" .}} {{end}}", &functions).unwrap();
//! let names = Value::list(vec!["Ann".into(), "Bob".into()]);
//! let data = Value::Map(Map::from_entries([("names", names)]));
//! let page = set.execute(
//!     "page", &data, &functions, &mut (), Options::default(), &mut Budget::default(),
//! );
//! assert_eq!(page.unwrap(), b"Hello, Ann! Hello, Bob! ");
//! ```

mod budget;
mod builtin;
mod compare;
mod complex;
mod error;
pub mod escape;
mod exec;
pub mod fmt;
mod function;
mod lexer;
mod parser;
mod set;
mod stack;
mod str;
pub mod strconv;
mod texts;
mod tree;
mod types;
pub mod unicode;
mod value;

pub use budget::{Budget, Exceeded, GROWTH, Limits};
pub use compare::{equal, is_true, less};
pub use error::{ErrorKind, ExecError, Location, ParseError};
pub use function::{Body, Call, Function, FunctionError, Functions, Signature};
pub use set::{MissingKey, Options, TemplateSet};
pub use str::Str;
pub use types::Type;
pub use value::{CycleGuard, Entries, List, Map, NamedMap, Object, Value, unfolded_size};

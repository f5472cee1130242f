//! Go's text/template in Rust: values, lexer, parser, execution and fmt.

mod function;
mod str;
mod types;
mod value;

pub use function::{Body, Call, Function, FunctionError, Functions};
pub use str::Str;
pub use types::Type;
pub use value::{List, Map, Object, Value};

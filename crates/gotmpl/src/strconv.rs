//! Go's `strconv`: quoting and numbers as text.

mod float;
mod number;
mod quote;

pub use float::{append_float, append_float32, format_float};
pub use number::{NumberError, parse_float, parse_int};
pub(crate) use number::{parse_complex, parse_uint};
pub use quote::{append_quoted, quote, quote_rune, unquote_body};
pub(crate) use quote::{append_quoted_rune, can_backquote, unquote, unquote_char};

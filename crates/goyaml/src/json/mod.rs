//! JSON as `encoding/json` reads and writes it.

mod read;
mod write;

pub(crate) use read::{decode, decode_lenient, decode_prefix};
pub(crate) use write::{Style, cycle, encode};

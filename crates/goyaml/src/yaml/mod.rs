//! Reading YAML 1.1 as go-yaml v2 does: source, scanner, parser, composer, resolver, decoder.

mod block;
mod build;
pub(crate) mod chars;
mod compose;
mod cursor;
mod decode;
mod directive;
mod flow;
mod gosyntax;
mod parser;
mod plain;
pub(crate) mod resolve;
mod scanner;
mod source;
mod tag;
mod timestamp;
mod token;

pub(crate) use build::Build;
pub(crate) use decode::{decode, decode_bare, decode_head, unsupported_number};

//! Writing YAML as go-yaml's emitters do.

mod analysis;
mod keys;
mod letters;
mod output;
mod scalar;
mod writer;

pub(crate) use writer::{Dialect, Stop, encode};

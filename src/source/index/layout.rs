//! Where the entry of each chart lies in an index.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::Range;

use super::{json, yaml};

/// Byte ranges of the entries, by chart name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::source) struct Layout {
    /// Whether the index is JSON: entries are then JSON arrays, else YAML block sequences.
    pub(in crate::source) is_json: bool,
    /// The range of the versions of each chart, without its key.
    pub(in crate::source) charts: BTreeMap<String, Range<u64>>,
}

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::source) enum IndexError {
    /// Nothing is in it.
    #[error("empty index.yaml file")]
    Empty,
    /// Helm's words for an index without `apiVersion`.
    #[error("no API version specified")]
    NoApiVersion,
    /// A chart stands there twice: which one counts would be a matter of the reader.
    #[error("the chart {0:?} is listed twice")]
    Duplicate(String),
    /// Not the shape of an index.
    #[error("line {line}: {what}")]
    Shape {
        /// Line, from 1 (0 in JSON).
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A limit was reached.
    #[error("{0}: the limit was reached")]
    TooLarge(&'static str),
    /// The file cannot be read.
    #[error("the index cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Finds the entries of an index in one pass.
///
/// # Errors
/// See [`IndexError`].
pub(in crate::source) fn scan(mut reader: impl BufRead) -> Result<Layout, IndexError> {
    let start = skip_space(&mut reader)?;
    match reader.fill_buf()? {
        [] => Err(IndexError::Empty),
        text if text.trim_ascii_start().starts_with(b"{") => json::scan(reader, start),
        _ => yaml::scan(reader, start),
    }
}

/// Skips a byte order mark and blank space in front; returns how many bytes that were.
fn skip_space(reader: &mut impl BufRead) -> Result<u64, IndexError> {
    let mut skipped = 0_u64;
    if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
        skipped += 3;
    }
    loop {
        let buffer = reader.fill_buf()?;
        let blank = buffer
            .iter()
            .take_while(|byte| matches!(byte, b'\n' | b'\r'))
            .count();
        let more = blank > 0 && blank == buffer.len();
        reader.consume(blank);
        skipped += blank as u64;
        if !more {
            return Ok(skipped);
        }
    }
}

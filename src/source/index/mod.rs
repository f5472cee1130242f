//! The index of a Helm repository (`index.yaml`), read as a stream.
//!
//! Public indexes have up to 100 MB. One pass over the file finds where each chart's entry lies;
//! only the entry that is asked for is ever parsed, one version at a time, so that neither time
//! nor memory follow the size of the file.

mod entry;
mod json;
mod layout;
mod select;
#[cfg(test)]
mod tests;
mod yaml;

pub(super) use entry::{ChartVersion, versions};
pub(super) use layout::{IndexError, Layout, scan};
pub(super) use select::{Selection, nearest, select};

/// Longest line or token that is held in memory.
const MAX_LINE: usize = 4 << 20;
/// Most charts of an index.
const MAX_CHARTS: usize = 200_000;
/// Most versions of one chart.
const MAX_VERSIONS: usize = 100_000;

//! The size of records: checked before anything is applied, and cut where it can be.

use std::fmt::Write;

use goyaml::Tree;
use helm_engine::Release;
use helm_engine::record::StoredFile;

use crate::error::{ActionError, Reason};

/// The most that a record may have as the data of a Secret or ConfigMap: 1 MiB less some room.
pub const MAX_RECORD_SIZE: usize = 1_048_576 - 256;

/// The room that is left for what hooks and descriptions add while the action runs.
const RESERVE: usize = 16 * 1024;

/// Makes a record small enough to be stored. What the operation of the release does not need is
/// left out, in this order and only as far as it must: other files of the chart, templates, the
/// schema. Returns what was left out.
///
/// # Errors
/// It is still too large; the text has the size of each part.
pub fn fit(release: &mut Release) -> Result<Vec<&'static str>, ActionError> {
    let mut dropped = Vec::new();
    let mut cuts = CUTS.iter();
    loop {
        let size = encoded_size(release)?;
        if size <= MAX_RECORD_SIZE - RESERVE {
            return Ok(dropped);
        }
        let Some((what, cut)) = cuts.next() else {
            return Err(too_large(release, size));
        };
        cut(release);
        dropped.push(*what);
    }
}

type Cut = (&'static str, fn(&mut Release));

const CUTS: [Cut; 3] = [
    ("files", |release| release.chart.files.clear()),
    ("templates", |release| release.chart.templates.clear()),
    ("schema", |release| release.chart.schema = None),
];

/// The size that the record has when it is stored. Packing takes time, and most records are so
/// small that they fit even unpacked: those are not packed twice.
fn encoded_size(release: &Release) -> Result<usize, ActionError> {
    let rough = rough_size(release);
    if rough < MAX_RECORD_SIZE / 3 {
        return Ok(rough);
    }
    release.encode().map(|text| text.len()).map_err(|error| {
        ActionError::new(
            Reason::InvalidRecord,
            format!("{error}: cannot encode the release record"),
        )
    })
}

/// An upper bound of the JSON's size in bytes, escapes aside.
fn rough_size(release: &Release) -> usize {
    parts(release).iter().map(|(_, size)| size).sum::<usize>() + 4096
}

fn parts(release: &Release) -> [(&'static str, usize); 7] {
    let hooks = release
        .hooks
        .iter()
        .map(|hook| hook.manifest.len() + 512)
        .sum::<usize>();
    let values = release.chart.values.as_ref().map_or(0, tree_size);
    let schema = release
        .chart
        .schema
        .as_ref()
        .map_or(0, |schema| schema.as_bytes().len());
    [
        ("manifest", release.manifest.len()),
        ("hooks", hooks),
        ("notes", release.info.notes.len()),
        ("values", release.config.as_ref().map_or(0, tree_size)),
        ("default values", values),
        ("templates", files_size(&release.chart.templates)),
        (
            "other files and schema",
            files_size(&release.chart.files) + schema * 4 / 3,
        ),
    ]
}

fn files_size(files: &[StoredFile]) -> usize {
    let size = |file: &StoredFile| file.data.as_ref().map_or(0, |data| data.as_bytes().len());
    files
        .iter()
        .map(|file| size(file) * 4 / 3 + file.name.len() + 64)
        .sum()
}

fn tree_size(tree: &Tree) -> usize {
    match tree {
        Tree::String(text) => text.as_bytes().len() + 4,
        Tree::List(items) => items.iter().map(tree_size).sum::<usize>() + 4,
        Tree::Map(entries) => entries
            .iter()
            .map(|(key, value)| key.as_bytes().len() + tree_size(value) + 6)
            .sum(),
        _ => 24,
    }
}

fn too_large(release: &Release, size: usize) -> ActionError {
    let mut message = format!("the release record has {size} bytes and may have {MAX_RECORD_SIZE}");
    let mut parts = parts(release);
    parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    for (at, (name, size)) in parts.iter().filter(|(_, size)| *size > 0).enumerate() {
        let separator = if at == 0 { " (unpacked: " } else { ", " };
        // Writing to a string cannot fail.
        write!(message, "{separator}{name} {size}").ok();
    }
    message.push_str("): nothing was applied: make the chart smaller, or split it");
    ActionError::new(Reason::ReleaseTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that does not pack well.
    fn noise(len: usize) -> String {
        let mut state = 1_u64;
        (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(33 + u8::try_from((state >> 33) % 90).unwrap_or(0))
            })
            .collect()
    }

    fn file(name: &str, len: usize) -> StoredFile {
        StoredFile {
            name: name.to_owned(),
            data: Some(noise(len).into()),
            modified: None,
        }
    }

    #[test]
    fn a_small_record_is_left_alone() {
        let mut release = Release::default();
        release.chart.files.push(file("README.md", 1000));
        assert!(fit(&mut release).unwrap().is_empty());
        assert_eq!(release.chart.files.len(), 1);
    }

    #[test]
    fn only_what_must_go_is_left_out() {
        let mut release = Release::default();
        release.chart.files.push(file("README.md", 900_000));
        release
            .chart
            .templates
            .push(file("templates/a.yaml", 300_000));
        assert_eq!(fit(&mut release).unwrap(), ["files"]);
        assert_eq!(release.chart.templates.len(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_cut_is_refused_with_its_sizes() {
        let mut release = Release {
            manifest: noise(2_000_000),
            ..Release::default()
        };
        let error = fit(&mut release).unwrap_err();
        assert_eq!(error.reason, Reason::ReleaseTooLarge);
        assert!(error.message.contains("manifest 2000000"), "{error}");
    }
}

//! The versions of one chart.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use goyaml::Tree;
use sprig::semver::Version;

use super::layout::{IndexError, Layout};
use super::yaml::is_item;
use super::{MAX_LINE, MAX_VERSIONS};

/// What is kept of one version of a chart.
#[derive(Clone, Debug)]
pub(in crate::source) struct ChartVersion {
    /// The version, parsed; entries whose version is none are skipped, as Helm does.
    pub(in crate::source) version: Version,
    /// Where the archive is, relative to the repository or absolute; the first counts.
    pub(in crate::source) urls: Vec<String>,
    /// `sha256` of the archive in hex, where the index gives it.
    pub(in crate::source) digest: Option<String>,
    /// The version of the application.
    pub(in crate::source) app_version: String,
    /// One line on what the chart is.
    pub(in crate::source) description: String,
    /// Whether the chart is no longer maintained.
    pub(in crate::source) deprecated: bool,
}

/// The versions of a chart, newest first; `None` if the index has no such chart.
///
/// Versions that are no semantic versions, and entries that are no chart, are left out, as Helm
/// does: one bad entry must not hide the others.
///
/// # Errors
/// The file cannot be read, or the entry is no list.
pub(in crate::source) fn versions(
    mut index: impl Read + Seek,
    layout: &Layout,
    name: &str,
) -> Result<Option<Vec<ChartVersion>>, IndexError> {
    let Some(range) = layout.charts.get(name) else {
        return Ok(None);
    };
    index.seek(SeekFrom::Start(range.start))?;
    let part = BufReader::with_capacity(64 << 10, index.take(range.end - range.start));
    let mut found = match layout.is_json {
        true => read_json(part, name)?,
        false => read_yaml(part, name)?,
    };
    found.sort_by(|left, right| right.version.cmp(&left.version));
    Ok(Some(found))
}

fn read_json(mut part: impl BufRead, name: &str) -> Result<Vec<ChartVersion>, IndexError> {
    let mut text = Vec::new();
    let limit = (MAX_LINE * 16) as u64;
    part.by_ref().take(limit).read_to_end(&mut text)?;
    if text.len() as u64 == limit {
        return Err(IndexError::TooLarge("the entry of the chart"));
    }
    let tree = goyaml::read_json(&text).map_err(|error| not_an_entry(name, &error))?;
    let items = tree.as_list().unwrap_or_default();
    Ok(items
        .iter()
        .take(MAX_VERSIONS)
        .filter_map(|item| chart_version(item, name))
        .collect())
}

/// Reads the items of the block sequence one by one: each is dropped before the next is read.
fn read_yaml(mut part: impl BufRead, name: &str) -> Result<Vec<ChartVersion>, IndexError> {
    let mut found = Vec::new();
    let mut item = Vec::new();
    let mut line = Vec::new();
    let mut column = None;
    // The first line is the key.
    part.read_until(b'\n', &mut line)?;
    loop {
        line.clear();
        if part.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let starts = is_item(line.trim_ascii_end(), indent);
        if starts && *column.get_or_insert(indent) == indent {
            push(&mut found, &item, name)?;
            item.clear();
            if let Some(dash) = line.get_mut(indent) {
                *dash = b' ';
            }
        }
        if item.len() + line.len() > MAX_LINE {
            return Err(IndexError::TooLarge("the entry of one version"));
        }
        item.extend_from_slice(&line);
    }
    push(&mut found, &item, name)?;
    Ok(found)
}

fn push(found: &mut Vec<ChartVersion>, item: &[u8], name: &str) -> Result<(), IndexError> {
    if item.trim_ascii().is_empty() {
        return Ok(());
    }
    if found.len() >= MAX_VERSIONS {
        return Err(IndexError::TooLarge("the number of versions of the chart"));
    }
    let tree = goyaml::read(item).map_err(|error| not_an_entry(name, &error))?;
    found.extend(chart_version(&tree, name));
    Ok(())
}

/// An entry, if it is one: a name that is the chart's, and a version.
fn chart_version(tree: &Tree, name: &str) -> Option<ChartVersion> {
    let text = |key: &str| {
        let value = tree.get(key).and_then(Tree::as_str);
        value.map(|text| text.to_text().into_owned())
    };
    if text("name").is_some_and(|found| found != name) {
        return None;
    }
    let urls = tree.get("urls").and_then(Tree::as_list).unwrap_or_default();
    let urls = urls
        .iter()
        .filter_map(Tree::as_str)
        .map(|url| url.to_text().into_owned());
    Some(ChartVersion {
        version: Version::parse(&text("version")?).ok()?,
        urls: urls.take(8).collect(),
        digest: text("digest").filter(|digest| !digest.is_empty()),
        app_version: text("appVersion").unwrap_or_default(),
        description: text("description").unwrap_or_default(),
        deprecated: tree
            .get("deprecated")
            .and_then(Tree::as_bool)
            .unwrap_or_default(),
    })
}

fn not_an_entry(name: &str, error: &goyaml::Error) -> IndexError {
    IndexError::Shape {
        line: 0,
        what: format!("the entry of the chart {name:?} is not readable: {error}"),
    }
}

//! Values files: several documents, merged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gotmpl::Str;

use crate::{Error, Tree, read_map};

/// Reads and merges all documents of a values file.
pub(crate) fn read_values(text: &[u8]) -> Result<BTreeMap<Str, Tree>, Error> {
    let mut values = BTreeMap::new();
    let mut documents = Documents { rest: text };
    while let Some(document) = documents.next_document()? {
        let entries = read_map(&document)
            .map_err(|error| error.prefixed("cannot unmarshal yaml document"))?;
        merge(&mut values, entries);
    }
    Ok(values)
}

/// Puts entries over others: maps merge, anything else is replaced, by `null` too.
fn merge(values: &mut BTreeMap<Str, Tree>, entries: BTreeMap<Str, Tree>) {
    if values.is_empty() {
        *values = entries;
        return;
    }
    for (key, value) in entries {
        match (values.get_mut(&key), value) {
            (Some(Tree::Map(known)), Tree::Map(more)) => merge(known, more),
            (_, value) => {
                values.insert(key, value);
            }
        }
    }
}

/// The documents of a text as Kubernetes' `YAMLReader` cuts them: at every line that begins with
/// `---`, even inside a block scalar. Such a line belongs to the document only at its start.
struct Documents<'t> {
    rest: &'t [u8],
}

impl<'t> Documents<'t> {
    fn next_document(&mut self) -> Result<Option<Cow<'t, [u8]>>, Error> {
        let text = self.rest;
        let mut length = 0;
        while let Some(line) = self.next_line() {
            if let Some(after) = line.strip_prefix(b"---") {
                check_separator(after)?;
                if length > 0 {
                    break;
                }
            }
            length += line.len();
        }
        let document = text.get(..length).unwrap_or_default();
        Ok((length > 0).then(|| unix_lines(document)))
    }

    fn next_line(&mut self) -> Option<&'t [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |at| at + 1);
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(line)
    }
}

/// Only blanks and a comment may follow a `---`.
fn check_separator(after: &[u8]) -> Result<(), Error> {
    let after = String::from_utf8_lossy(after);
    let after = after.trim();
    if after.is_empty() || after.starts_with('#') {
        return Ok(());
    }
    Err(Error::new(format!(
        "error reading yaml document: invalid Yaml document separator: {after}"
    )))
}

/// The document with `\n` after every line, the last one included.
fn unix_lines(document: &[u8]) -> Cow<'_, [u8]> {
    let complete = document.ends_with(b"\n");
    if complete && memchr::memchr(b'\r', document).is_none() {
        return Cow::Borrowed(document);
    }
    let mut text = Vec::with_capacity(document.len() + 1);
    for line in document.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
            None => text.extend_from_slice(line),
        }
    }
    if !complete {
        text.push(b'\n');
    }
    Cow::Owned(text)
}

//! The block form that every tool writes: `entries:`, below it a key per chart, below that a
//! sequence of versions.

use std::io::{BufRead, Read as _};
use std::ops::Range;

use super::layout::{IndexError, Layout};
use super::{MAX_CHARTS, MAX_LINE};

/// Finds the entries of a YAML index; `offset` is where the reader stands in the file.
pub(super) fn scan(mut reader: impl BufRead, offset: u64) -> Result<Layout, IndexError> {
    let mut scan = Scan {
        offset,
        ..Scan::default()
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = reader.by_ref().take(limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            return scan.finish();
        }
        if read > MAX_LINE {
            return Err(IndexError::TooLarge("a line of the index"));
        }
        scan.line += 1;
        scan.take(&line)?;
        scan.offset += read as u64;
    }
}

#[derive(Default)]
struct Scan {
    layout: Layout,
    offset: u64,
    line: u64,
    has_api_version: bool,
    in_entries: bool,
    has_content: bool,
    /// Columns of the keys of the charts, once the first was seen.
    indent: Option<usize>,
    /// The chart that is being read, and where its versions start.
    open: Option<(String, u64)>,
}

impl Scan {
    fn take(&mut self, line: &[u8]) -> Result<(), IndexError> {
        let content = line.trim_ascii_end();
        let indent = content.iter().take_while(|byte| **byte == b' ').count();
        match content.get(indent) {
            None | Some(b'#') => return Ok(()),
            Some(b'\t') => return Err(self.shape("a tab stands where indentation is expected")),
            Some(_) => self.has_content = true,
        }
        if indent == 0 {
            return self.top(content);
        }
        if !self.in_entries {
            return Ok(());
        }
        let keys = *self.indent.get_or_insert(indent);
        let is_key = indent == keys && !is_item(content, indent);
        match is_key {
            true => self.chart(content.get(indent..).unwrap_or_default()),
            false if indent < keys => Err(self.shape("a line stands left of the charts' names")),
            false => Ok(()),
        }
    }

    /// A line without indentation: a key of the index, or a document marker.
    fn top(&mut self, content: &[u8]) -> Result<(), IndexError> {
        if self.in_entries && is_item(content, 0) {
            return Err(self.shape("entries is a list: a map of chart names is expected"));
        }
        self.close();
        self.in_entries = false;
        if content == b"---" || content == b"..." || content.starts_with(b"%") {
            return Ok(());
        }
        let Some((key, rest)) = split_key(content) else {
            return Ok(());
        };
        match key.as_str() {
            "apiVersion" => self.has_api_version = !rest.is_empty(),
            "entries" => self.open_entries(rest)?,
            _ => {}
        }
        Ok(())
    }

    fn open_entries(&mut self, rest: &[u8]) -> Result<(), IndexError> {
        match rest {
            b"" => self.in_entries = true,
            b"{}" | b"null" | b"~" => {}
            _ => return Err(self.shape("entries is not written as a block")),
        }
        Ok(())
    }

    fn chart(&mut self, content: &[u8]) -> Result<(), IndexError> {
        self.close();
        let Some((name, rest)) = split_key(content) else {
            return Err(self.shape("a chart name with a colon is expected"));
        };
        match rest {
            b"" => {}
            b"[]" | b"null" | b"~" => {}
            _ => return Err(self.shape("the versions of a chart are not written as a block")),
        }
        if self.layout.charts.contains_key(&name) {
            return Err(IndexError::Duplicate(name));
        }
        if self.layout.charts.len() >= MAX_CHARTS {
            return Err(IndexError::TooLarge("the number of charts of the index"));
        }
        // The line is not counted yet: the versions start behind it.
        self.layout.charts.insert(name.clone(), 0..0);
        self.open = Some((name, self.offset));
        Ok(())
    }

    fn close(&mut self) {
        if let Some((name, start)) = self.open.take() {
            let range: Range<u64> = start..self.offset;
            self.layout.charts.insert(name, range);
        }
    }

    fn finish(mut self) -> Result<Layout, IndexError> {
        self.close();
        match (self.has_content, self.has_api_version) {
            (false, _) => Err(IndexError::Empty),
            (true, false) => Err(IndexError::NoApiVersion),
            (true, true) => Ok(self.layout),
        }
    }

    fn shape(&self, what: &str) -> IndexError {
        IndexError::Shape {
            line: self.line,
            what: what.to_owned(),
        }
    }
}

/// Whether a sequence item starts at this column.
pub(super) fn is_item(content: &[u8], indent: usize) -> bool {
    content.get(indent) == Some(&b'-') && matches!(content.get(indent + 1), None | Some(b' '))
}

/// The key of a line `key: rest`, unquoted, and what follows, without comment.
fn split_key(content: &[u8]) -> Option<(String, &[u8])> {
    let (key, rest) = match content.first()? {
        quote @ (b'"' | b'\'') => {
            let close = content.iter().skip(1).position(|byte| byte == quote)? + 1;
            (content.get(1..close)?, content.get(close + 1..)?)
        }
        _ => {
            let colon = (0..content.len()).find(|at| {
                content.get(*at) == Some(&b':') && matches!(content.get(at + 1), None | Some(b' '))
            })?;
            content.split_at(colon)
        }
    };
    let rest = rest.strip_prefix(b":")?.trim_ascii();
    let rest = if rest.starts_with(b"#") { b"" } else { rest };
    Some((String::from_utf8(key.to_vec()).ok()?, rest))
}

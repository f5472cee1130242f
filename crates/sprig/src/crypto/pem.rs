//! PEM blocks as Go's `encoding/pem` reads and writes them.

use crate::encoding::{decode_base64, encode_base64};

/// A block: what stands after `BEGIN`, and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) label: String,
    pub(super) bytes: Vec<u8>,
}

/// Writes a block, 64 characters a line.
pub(super) fn encode(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = encode_base64(bytes);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(64.min(rest.len()));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

/// The first block of a text.
pub(super) fn decode(text: &[u8]) -> Option<Block> {
    let text = String::from_utf8_lossy(text);
    let mut rest = &*text;
    loop {
        let (_, after) = rest.split_once("-----BEGIN ")?;
        rest = after;
        if let Some(block) = block(after) {
            return Some(block);
        }
    }
}

fn block(after: &str) -> Option<Block> {
    let (first, rest) = after.split_once('\n')?;
    let label = first.trim_end().strip_suffix("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let mut lines = body.lines().peekable();
    // Headers, such as `Proc-Type`, stand before the body.
    while lines.peek().is_some_and(|line| line.contains(':')) {
        lines.next();
    }
    let body: String = lines
        .flat_map(|line| {
            line.chars()
                .filter(|character| !character.is_ascii_whitespace())
        })
        .collect();
    Some(Block {
        label: label.to_owned(),
        bytes: decode_base64(body.as_bytes()).ok()?,
    })
}

//! The heads of manifests.

use std::collections::BTreeMap;

use gotmpl::Str;

use crate::yaml::decode_head;
use crate::{Error, Node, read_node};

/// What Helm looks at in each rendered document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`, or nothing.
    pub api_version: Str,
    /// `kind`, or nothing.
    pub kind: Str,
    /// `metadata.name`, or nothing.
    pub name: Str,
    /// `metadata.annotations`; numbers and booleans are strings by now.
    pub annotations: Option<BTreeMap<Str, Str>>,
    /// Whether there is a `metadata` that is not null.
    pub has_metadata: bool,
}

const METADATA_TYPE: &str = r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;

/// Reads a head; see [`crate::read_head`].
pub(crate) fn read_head(text: &[u8]) -> Result<Head, Error> {
    let mut reader = HeadReader::default();
    let (mut node, non_finite) = decode_head(text)?;
    if non_finite {
        // It depends on where the number stands.
        node = read_node(text)?;
    }
    match node {
        Node::Null => {}
        Node::Map(entries) => reader.fields(&entries),
        other => {
            reader.check_finite(&other);
            reader.mismatch(Error::mismatch(other.kind(), "util.SimpleHead"));
        }
    }
    // JSON is written before it is read: a number that it cannot have comes first.
    match reader.non_finite.or(reader.mismatch) {
        Some(error) => Err(error),
        None => Ok(reader.head),
    }
}

#[derive(Default)]
struct HeadReader {
    head: Head,
    non_finite: Option<Error>,
    mismatch: Option<Error>,
}

impl HeadReader {
    /// Of several names that match, the last in byte order wins.
    fn fields(&mut self, entries: &BTreeMap<Str, Node>) {
        for (key, value) in entries {
            match fold(key).as_slice() {
                b"apiversion" => {
                    if let Some(text) = self.string(value, "SimpleHead.apiVersion") {
                        self.head.api_version = text;
                    }
                }
                b"kind" => {
                    if let Some(text) = self.string(value, "SimpleHead.kind") {
                        self.head.kind = text;
                    }
                }
                b"metadata" => self.metadata(value),
                _ => self.check_finite(value),
            }
        }
    }

    fn metadata(&mut self, value: &Node) {
        match value {
            Node::Null => self.head.has_metadata = false,
            Node::Map(entries) => {
                self.head.has_metadata = true;
                for (key, value) in entries {
                    match fold(key).as_slice() {
                        b"name" => {
                            if let Some(text) = self.string(value, ".metadata.name") {
                                self.head.name = text;
                            }
                        }
                        b"annotations" => self.annotations(value),
                        _ => self.check_finite(value),
                    }
                }
            }
            other => {
                self.check_finite(other);
                self.mismatch(Error::field_mismatch(
                    other.kind(),
                    "SimpleHead.metadata",
                    METADATA_TYPE,
                ));
            }
        }
    }

    fn annotations(&mut self, value: &Node) {
        const PATH: &str = ".metadata.annotations";
        match value {
            Node::Null => self.head.annotations = None,
            Node::Map(entries) => {
                for (key, value) in entries {
                    let text = self.string(value, PATH).unwrap_or_default();
                    self.head
                        .annotations
                        .get_or_insert_default()
                        .insert(key.clone(), text);
                }
                self.head.annotations.get_or_insert_default();
            }
            other => {
                self.check_finite(other);
                self.mismatch(Error::field_mismatch(
                    other.kind(),
                    PATH,
                    "map[string]string",
                ));
            }
        }
    }

    /// The string that a scalar becomes; `null` becomes none.
    fn string(&mut self, value: &Node, path: &str) -> Option<Str> {
        let text = value.to_go_string();
        if text.is_none() && *value != Node::Null {
            self.check_finite(value);
            self.mismatch(Error::field_mismatch(value.kind(), path, "string"));
        }
        text
    }

    fn mismatch(&mut self, error: Error) {
        self.mismatch.get_or_insert(error);
    }

    fn check_finite(&mut self, value: &Node) {
        if self.non_finite.is_none() {
            self.non_finite = value.check_finite().err();
        }
    }
}

/// Whether a top-level name is one of the head's.
pub(crate) fn is_field(name: &[u8]) -> bool {
    // A name in other letters folds to fewer bytes.
    matches!(name.len(), 4..=12)
        && matches!(fold(name).as_slice(), b"apiversion" | b"kind" | b"metadata")
}

/// A name in the form in which Go compares it: JSON names match in any case.
fn fold(name: &[u8]) -> Vec<u8> {
    let mut folded = name.to_ascii_lowercase();
    // The Kelvin sign and the long s are the only others that fold to ASCII letters.
    for (sign, letter) in [("\u{212A}", b'k'), ("\u{17F}", b's')] {
        while let Some(at) = folded
            .windows(sign.len())
            .position(|window| window == sign.as_bytes())
        {
            folded.splice(at..at + sign.len(), [letter]);
        }
    }
    folded
}

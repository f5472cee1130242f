//! Tokens: what the scanner hands to the parser.

use std::borrow::Cow;

/// A token and the line that it starts on, counted from 0.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) line: u32,
    /// The flow level, counted from 1, at which a simple key may start with this token; 0 if none
    /// does.
    pub(crate) key_level: u32,
}

#[derive(Debug)]
pub(crate) enum TokenKind<'a> {
    StreamEnd,
    /// `%YAML`; whether it is 1.1.
    Version(bool),
    /// `%TAG`: handle and prefix.
    TagDirective(Box<(Vec<u8>, Vec<u8>)>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a [u8]),
    Anchor(&'a [u8]),
    /// Handle and suffix.
    Tag(Box<(Vec<u8>, Vec<u8>)>),
    /// A scalar, and whether it is plain.
    Scalar(Cow<'a, [u8]>, bool),
}

/// Why scanning or parsing stopped.
#[derive(Debug)]
pub(crate) enum Fault {
    /// By the scanner, at a line counted from 0.
    Scanner(u32, &'static str),
    /// By the parser, at a token on a line counted from 0.
    Parser(u32, &'static str),
    /// By the reader: a bad character.
    Reader(&'static str),
    /// By the composer.
    Compose(String),
}

impl From<Fault> for crate::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            // go-yaml adds one to the line of scanner errors only, and drops line 0.
            Fault::Scanner(0, problem) => Self::at(1, format!("yaml: {problem}")),
            Fault::Scanner(line, problem) => {
                Self::at(line + 1, format!("yaml: line {}: {problem}", line + 1))
            }
            Fault::Parser(0, problem) => Self::at(1, format!("yaml: {problem}")),
            Fault::Parser(line, problem) => {
                Self::at(line + 1, format!("yaml: line {line}: {problem}"))
            }
            Fault::Reader(problem) => Self::new(format!("yaml: {problem}")),
            Fault::Compose(problem) => Self::new(format!("yaml: {problem}")),
        }
    }
}

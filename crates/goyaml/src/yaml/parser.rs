//! The parser: from tokens to events.

use std::borrow::Cow;
use std::collections::HashMap;

use super::scanner::Scanner;
use super::source::Source;
use super::token::{Fault, TokenKind};

/// The namespace of YAML's own tags.
pub(crate) const YAML_TAGS: &[u8] = b"tag:yaml.org,2002:";

/// What a node starts or ends with, and its line, counted from 0.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind<'a>,
    pub(crate) line: u32,
}

#[derive(Debug)]
pub(crate) enum EventKind<'a> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a [u8]),
    Scalar(Scalar<'a>, Option<&'a [u8]>),
    /// With its anchor.
    SequenceStart(Option<&'a [u8]>),
    SequenceEnd,
    /// With its anchor.
    MappingStart(Option<&'a [u8]>),
    MappingEnd,
}

/// A scalar as it was written.
#[derive(Debug)]
pub(crate) struct Scalar<'a> {
    pub(crate) value: Cow<'a, [u8]>,
    /// The full tag, if it has one.
    pub(crate) tag: Option<Box<[u8]>>,
    /// Plain and without a tag, or with the tag `!`.
    pub(crate) implicit: bool,
}

impl Scalar<'_> {
    fn empty() -> Self {
        Self {
            value: Cow::Borrowed(b""),
            tag: None,
            implicit: true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirstEntry,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirstKey,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowSequencePairKey,
    FlowSequencePairValue,
    FlowSequencePairEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(crate) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// The prefixes of this document's handles.
    tags: HashMap<Vec<u8>, Vec<u8>>,
}

/// Where a node may stand.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Block,
    /// After a key, where a sequence need not be indented.
    BlockOrIndentless,
    Flow,
}

/// What stands before a node's content.
#[derive(Default)]
struct Properties<'a> {
    anchor: Option<&'a [u8]>,
    tag: Option<Box<[u8]>>,
    /// Line of the first property.
    line: Option<u32>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(source: &'a Source<'_>) -> Self {
        Self {
            scanner: Scanner::new(source),
            state: State::ImplicitDocumentStart,
            states: Vec::new(),
            tags: HashMap::new(),
        }
    }

    pub(crate) fn next_event(&mut self) -> Result<Event<'a>, Fault> {
        match self.state {
            State::ImplicitDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(Place::Block),
            State::BlockSequenceFirstEntry => self.first(Self::block_sequence_entry),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirstKey => self.first(Self::block_mapping_key),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => self.first(|parser| parser.flow_sequence_entry(true)),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowSequencePairKey => self.flow_sequence_pair_key(),
            State::FlowSequencePairValue => self.flow_sequence_pair_value(),
            State::FlowSequencePairEnd => self.flow_sequence_pair_end(),
            State::FlowMappingFirstKey => self.first(|parser| parser.flow_mapping_key(true)),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let line = self.scanner.peek()?.line;
                Ok(self.empty_scalar(State::FlowMappingKey, line))
            }
            State::End => Ok(event(EventKind::StreamEnd, 0)),
        }
    }

    /// Takes the token that opens a collection, then goes on.
    fn first(
        &mut self,
        next: impl FnOnce(&mut Self) -> Result<Event<'a>, Fault>,
    ) -> Result<Event<'a>, Fault> {
        self.scanner.next()?;
        next(self)
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn empty_scalar(&mut self, next: State, line: u32) -> Event<'a> {
        self.state = next;
        event(EventKind::Scalar(Scalar::empty(), None), line)
    }

    /// A node after which the parser is in the state `next`.
    fn node_then(&mut self, place: Place, next: State) -> Result<Event<'a>, Fault> {
        self.states.push(next);
        self.node(place)
    }

    /// Takes the token that ends a collection.
    fn end(&mut self, kind: EventKind<'a>) -> Result<Event<'a>, Fault> {
        let line = self.scanner.next()?.line;
        self.pop_state();
        Ok(event(kind, line))
    }

    fn document_start(&mut self, implicit: bool) -> Result<Event<'a>, Fault> {
        if !implicit {
            while let TokenKind::DocumentEnd = self.scanner.peek()?.kind {
                self.scanner.next()?;
            }
        }
        let token = self.scanner.peek()?;
        let line = token.line;
        match token.kind {
            TokenKind::StreamEnd => {
                self.state = State::End;
                return Ok(event(EventKind::StreamEnd, line));
            }
            TokenKind::Version(_) | TokenKind::TagDirective(_) | TokenKind::DocumentStart => {}
            _ if implicit => {
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                return Ok(event(EventKind::DocumentStart, line));
            }
            _ => {}
        }
        self.directives()?;
        let token = self.scanner.peek()?;
        if !matches!(token.kind, TokenKind::DocumentStart) {
            return Err(Fault::Parser(
                token.line,
                "did not find expected <document start>",
            ));
        }
        self.scanner.next()?;
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        Ok(event(EventKind::DocumentStart, line))
    }

    fn document_content(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::Version(_)
            | TokenKind::TagDirective(_)
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                let line = token.line;
                self.pop_state();
                Ok(event(EventKind::Scalar(Scalar::empty(), None), line))
            }
            _ => self.node(Place::Block),
        }
    }

    fn document_end(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        let line = token.line;
        if let TokenKind::DocumentEnd = token.kind {
            self.scanner.next()?;
        }
        self.tags.clear();
        self.state = State::DocumentStart;
        Ok(event(EventKind::DocumentEnd, line))
    }

    fn directives(&mut self) -> Result<(), Fault> {
        let mut version_seen = false;
        loop {
            let token = self.scanner.peek()?;
            let line = token.line;
            match token.kind {
                TokenKind::Version(_) if version_seen => {
                    return Err(Fault::Parser(line, "found duplicate %YAML directive"));
                }
                TokenKind::Version(false) => {
                    return Err(Fault::Parser(line, "found incompatible YAML document"));
                }
                TokenKind::Version(true) => {
                    version_seen = true;
                    self.scanner.next()?;
                }
                TokenKind::TagDirective(_) => self.tag_directive()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn tag_directive(&mut self) -> Result<(), Fault> {
        let token = self.scanner.next()?;
        if let TokenKind::TagDirective(tag) = token.kind {
            if self.tags.contains_key(&tag.0) {
                return Err(Fault::Parser(token.line, "found duplicate %TAG directive"));
            }
            self.tags.insert(tag.0, tag.1);
        }
        Ok(())
    }

    /// What a handle stands for: as the document says, or by itself.
    fn tag_prefix(&self, handle: &[u8]) -> Option<&[u8]> {
        let own = self.tags.get(handle).map(Vec::as_slice);
        own.or(match handle {
            b"!" => Some(b"!"),
            b"!!" => Some(YAML_TAGS),
            _ => None,
        })
    }

    fn node(&mut self, place: Place) -> Result<Event<'a>, Fault> {
        if let TokenKind::Alias(name) = self.scanner.peek()?.kind {
            let line = self.scanner.next()?.line;
            self.pop_state();
            return Ok(event(EventKind::Alias(name), line));
        }
        let properties = self.properties()?;
        let token = self.scanner.peek()?;
        let line = properties.line.unwrap_or(token.line);
        let anchor = properties.anchor;
        let (kind, state) = match token.kind {
            TokenKind::Scalar(..) => return self.scalar(properties, line),
            TokenKind::BlockEntry if place == Place::BlockOrIndentless => (
                EventKind::SequenceStart(anchor),
                State::IndentlessSequenceEntry,
            ),
            TokenKind::FlowSequenceStart => (
                EventKind::SequenceStart(anchor),
                State::FlowSequenceFirstEntry,
            ),
            TokenKind::FlowMappingStart => {
                (EventKind::MappingStart(anchor), State::FlowMappingFirstKey)
            }
            TokenKind::BlockSequenceStart if place != Place::Flow => (
                EventKind::SequenceStart(anchor),
                State::BlockSequenceFirstEntry,
            ),
            TokenKind::BlockMappingStart if place != Place::Flow => {
                (EventKind::MappingStart(anchor), State::BlockMappingFirstKey)
            }
            _ if anchor.is_some() || properties.tag.is_some() => {
                self.pop_state();
                let scalar = Scalar {
                    implicit: properties.tag.is_none(),
                    tag: properties.tag,
                    ..Scalar::empty()
                };
                return Ok(event(EventKind::Scalar(scalar, anchor), line));
            }
            _ => {
                return Err(Fault::Parser(
                    token.line,
                    "did not find expected node content",
                ));
            }
        };
        self.state = state;
        Ok(event(kind, line))
    }

    /// Takes the anchor and the tag before a node, in either order.
    fn properties(&mut self) -> Result<Properties<'a>, Fault> {
        let mut properties = Properties::default();
        let mut tag = None;
        loop {
            let token = self.scanner.peek()?;
            let line = token.line;
            match &token.kind {
                TokenKind::Anchor(name) if properties.anchor.is_none() => {
                    properties.anchor = Some(*name);
                    self.scanner.next()?;
                }
                TokenKind::Tag(_) if tag.is_none() => {
                    if let TokenKind::Tag(parts) = self.scanner.next()?.kind {
                        tag = Some((parts, line));
                    }
                }
                _ => break,
            }
            properties.line.get_or_insert(line);
        }
        if let Some((parts, line)) = tag {
            properties.tag = Some(self.full_tag(*parts, line)?);
        }
        Ok(properties)
    }

    fn full_tag(
        &self,
        (handle, suffix): (Vec<u8>, Vec<u8>),
        line: u32,
    ) -> Result<Box<[u8]>, Fault> {
        if handle.is_empty() {
            return Ok(suffix.into());
        }
        match self.tag_prefix(&handle) {
            Some(prefix) => Ok([prefix, &suffix].concat().into()),
            None => Err(Fault::Parser(line, "found undefined tag handle")),
        }
    }

    fn scalar(&mut self, properties: Properties<'a>, line: u32) -> Result<Event<'a>, Fault> {
        let TokenKind::Scalar(value, plain) = self.scanner.next()?.kind else {
            return Err(Fault::Parser(line, "did not find expected node content"));
        };
        self.pop_state();
        let implicit = match properties.tag.as_deref() {
            None => plain,
            Some(tag) => tag == b"!",
        };
        let scalar = Scalar {
            value,
            tag: properties.tag,
            implicit,
        };
        Ok(event(EventKind::Scalar(scalar, properties.anchor), line))
    }

    fn block_sequence_entry(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::BlockEntry => {
                let line = self.scanner.next()?.line;
                match self.scanner.peek()?.kind {
                    TokenKind::BlockEntry | TokenKind::BlockEnd => {
                        Ok(self.empty_scalar(State::BlockSequenceEntry, line))
                    }
                    _ => self.node_then(Place::Block, State::BlockSequenceEntry),
                }
            }
            TokenKind::BlockEnd => self.end(EventKind::SequenceEnd),
            _ => Err(Fault::Parser(
                token.line,
                "did not find expected '-' indicator",
            )),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        let line = token.line;
        let TokenKind::BlockEntry = token.kind else {
            self.pop_state();
            return Ok(event(EventKind::SequenceEnd, line));
        };
        self.scanner.next()?;
        match self.scanner.peek()?.kind {
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                Ok(self.empty_scalar(State::IndentlessSequenceEntry, line))
            }
            _ => self.node_then(Place::Block, State::IndentlessSequenceEntry),
        }
    }

    fn block_mapping_key(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::Key => {
                let line = self.scanner.next()?.line;
                self.block_mapping_part(State::BlockMappingValue, line)
            }
            TokenKind::BlockEnd => self.end(EventKind::MappingEnd),
            _ => Err(Fault::Parser(token.line, "did not find expected key")),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        let line = token.line;
        match token.kind {
            TokenKind::Value => {
                self.scanner.next()?;
                self.block_mapping_part(State::BlockMappingKey, line)
            }
            _ => Ok(self.empty_scalar(State::BlockMappingKey, line)),
        }
    }

    /// What follows a key's or a value's indicator.
    fn block_mapping_part(&mut self, next: State, line: u32) -> Result<Event<'a>, Fault> {
        match self.scanner.peek()?.kind {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                Ok(self.empty_scalar(next, line))
            }
            _ => self.node_then(Place::BlockOrIndentless, next),
        }
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::FlowSequenceEnd => return self.end(EventKind::SequenceEnd),
            TokenKind::FlowEntry if !first => {
                self.scanner.next()?;
            }
            _ if first => {}
            _ => {
                return Err(Fault::Parser(
                    token.line,
                    "did not find expected ',' or ']'",
                ));
            }
        }
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::FlowSequenceEnd => self.end(EventKind::SequenceEnd),
            TokenKind::Key => {
                let line = self.scanner.next()?.line;
                self.state = State::FlowSequencePairKey;
                Ok(event(EventKind::MappingStart(None), line))
            }
            _ => self.node_then(Place::Flow, State::FlowSequenceEntry),
        }
    }

    fn flow_sequence_pair_key(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                // go-yaml takes the token with it, so that the pair has no value.
                let line = self.scanner.next()?.line;
                Ok(self.empty_scalar(State::FlowSequencePairValue, line))
            }
            _ => self.node_then(Place::Flow, State::FlowSequencePairValue),
        }
    }

    fn flow_sequence_pair_value(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        let line = token.line;
        if let TokenKind::Value = token.kind {
            self.scanner.next()?;
            let token = self.scanner.peek()?;
            if !matches!(
                token.kind,
                TokenKind::FlowEntry | TokenKind::FlowSequenceEnd
            ) {
                return self.node_then(Place::Flow, State::FlowSequencePairEnd);
            }
        }
        Ok(self.empty_scalar(State::FlowSequencePairEnd, line))
    }

    fn flow_sequence_pair_end(&mut self) -> Result<Event<'a>, Fault> {
        let line = self.scanner.peek()?.line;
        self.state = State::FlowSequenceEntry;
        Ok(event(EventKind::MappingEnd, line))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::FlowMappingEnd => return self.end(EventKind::MappingEnd),
            TokenKind::FlowEntry if !first => {
                self.scanner.next()?;
            }
            _ if first => {}
            _ => {
                return Err(Fault::Parser(
                    token.line,
                    "did not find expected ',' or '}'",
                ));
            }
        }
        match self.scanner.peek()?.kind {
            TokenKind::FlowMappingEnd => self.end(EventKind::MappingEnd),
            TokenKind::Key => {
                self.scanner.next()?;
                self.flow_mapping_part(State::FlowMappingValue)
            }
            _ => self.node_then(Place::Flow, State::FlowMappingEmptyValue),
        }
    }

    /// What follows a key's indicator.
    fn flow_mapping_part(&mut self, next: State) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => {
                let line = token.line;
                Ok(self.empty_scalar(next, line))
            }
            _ => self.node_then(Place::Flow, next),
        }
    }

    fn flow_mapping_value(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.scanner.peek()?;
        let line = token.line;
        if !matches!(token.kind, TokenKind::Value) {
            return Ok(self.empty_scalar(State::FlowMappingKey, line));
        }
        self.scanner.next()?;
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::FlowEntry | TokenKind::FlowMappingEnd => {
                let line = token.line;
                Ok(self.empty_scalar(State::FlowMappingKey, line))
            }
            _ => self.node_then(Place::Flow, State::FlowMappingKey),
        }
    }
}

fn event(kind: EventKind<'_>, line: u32) -> Event<'_> {
    Event { kind, line }
}

//! The composer: from events to nodes.

use std::collections::HashMap;

use super::parser::{EventKind, Parser, Scalar};
use super::source::Source;
use super::token::Fault;

/// The nodes of a document in the order in which they start.
pub(crate) struct Document<'a> {
    pub(crate) nodes: Vec<DocumentNode<'a>>,
}

pub(crate) struct DocumentNode<'a> {
    pub(crate) kind: NodeKind<'a>,
    /// Line, counted from 0.
    pub(crate) line: u32,
    /// The first node after this one and all that it holds.
    pub(crate) end: u32,
}

pub(crate) enum NodeKind<'a> {
    Scalar(Scalar<'a>),
    Sequence,
    Mapping,
    /// The anchor's name and its node.
    Alias(&'a [u8], u32),
}

impl<'a> Document<'a> {
    /// The first document; `None` if there is none.
    pub(crate) fn compose(source: &'a Source<'_>) -> Result<Option<Self>, Fault> {
        let mut parser = Parser::new(source);
        if matches!(parser.next_event()?.kind, EventKind::StreamEnd) {
            return Ok(None);
        }
        let mut composer = Composer::new(source.text.len());
        loop {
            composer.add(&mut parser)?;
            if composer.open.is_empty() {
                break;
            }
        }
        // The end of the document: what follows its last node must make sense.
        parser.next_event()?;
        Ok(Some(Self {
            nodes: composer.nodes,
        }))
    }
}

struct Composer<'a> {
    nodes: Vec<DocumentNode<'a>>,
    /// Collections that have not ended.
    open: Vec<u32>,
    anchors: HashMap<&'a [u8], u32>,
}

impl<'a> Composer<'a> {
    fn new(length: usize) -> Self {
        Self {
            nodes: Vec::with_capacity((length / 16).min(4096)),
            open: Vec::new(),
            anchors: HashMap::new(),
        }
    }

    /// Adds what the next event tells.
    fn add(&mut self, parser: &mut Parser<'a>) -> Result<(), Fault> {
        let event = parser.next_event()?;
        let (kind, anchor, open) = match event.kind {
            EventKind::Scalar(scalar, anchor) => (NodeKind::Scalar(scalar), anchor, false),
            EventKind::SequenceStart(anchor) => (NodeKind::Sequence, anchor, true),
            EventKind::MappingStart(anchor) => (NodeKind::Mapping, anchor, true),
            EventKind::Alias(name) => (self.alias(name)?, None, false),
            EventKind::SequenceEnd | EventKind::MappingEnd => {
                self.close();
                return Ok(());
            }
            EventKind::DocumentStart | EventKind::DocumentEnd | EventKind::StreamEnd => {
                self.open.clear();
                return Ok(());
            }
        };
        let Ok(index) = u32::try_from(self.nodes.len()) else {
            return Err(Fault::Compose("document is too large".into()));
        };
        if let Some(name) = anchor {
            self.anchors.insert(name, index);
        }
        if open {
            self.open.push(index);
        }
        self.nodes.push(DocumentNode {
            kind,
            line: event.line,
            end: index + 1,
        });
        Ok(())
    }

    fn close(&mut self) {
        let end = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        if let Some(index) = self.open.pop()
            && let Some(node) = self.nodes.get_mut(index as usize)
        {
            node.end = end;
        }
    }

    fn alias(&self, name: &'a [u8]) -> Result<NodeKind<'a>, Fault> {
        match self.anchors.get(name) {
            Some(&index) => Ok(NodeKind::Alias(name, index)),
            None => Err(Fault::Compose(format!(
                "unknown anchor '{}' referenced",
                String::from_utf8_lossy(name)
            ))),
        }
    }
}

//! The scanner: from characters to tokens.

use std::collections::VecDeque;

use super::chars;
use super::cursor::{Cursor, Mark};
use super::source::Source;
use super::token::{Fault, Token, TokenKind};

/// How many flow collections, and how many block collections, may be open at a time.
const MAX_LEVELS: usize = 10_000;
const TOO_DEEP: &str = "exceeded max depth of 10000";
/// How long a simple key may be, in characters.
const MAX_SIMPLE_KEY: u32 = 1024;
const KEY_WITHOUT_VALUE: &str = "could not find expected ':'";

/// A place where a key without a `?` may have started.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Nothing else can be here: block context, at the indentation of the mapping.
    required: bool,
    token: usize,
    mark: Mark,
}

pub(crate) struct Scanner<'a> {
    pub(super) cursor: Cursor<'a>,
    tokens: VecDeque<Token<'a>>,
    /// How many tokens the parser has taken.
    taken: usize,
    /// Whether the first token of the queue is sure not to become a key.
    ready: bool,
    ended: bool,
    pub(super) flow_level: usize,
    pub(super) simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    /// The column of the innermost block collection, or -1.
    pub(super) indent: i64,
    indents: Vec<i64>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(source: &'a Source<'_>) -> Self {
        Self {
            cursor: Cursor::new(source),
            tokens: VecDeque::new(),
            taken: 0,
            ready: false,
            ended: false,
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            indent: -1,
            indents: Vec::new(),
        }
    }

    /// The next token, which stays the next.
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>, Fault> {
        if !self.ready {
            self.fetch_tokens()?;
            self.ready = true;
        }
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.fault("no token")),
        }
    }

    /// Takes the next token.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, Fault> {
        self.peek()?;
        self.ready = false;
        self.taken += 1;
        match self.tokens.pop_front() {
            Some(token) => Ok(token),
            None => Err(self.fault("no token")),
        }
    }

    /// An error at the current place.
    pub(super) fn fault(&self, problem: &'static str) -> Fault {
        Fault::Scanner(self.cursor.mark.line, problem)
    }

    /// Fetches tokens until the first of the queue is sure not to become a key.
    fn fetch_tokens(&mut self) -> Result<(), Fault> {
        while self.wants_token()? {
            self.fetch_token()?;
        }
        Ok(())
    }

    fn wants_token(&mut self) -> Result<bool, Fault> {
        let Some(first) = self.tokens.front() else {
            return Ok(true);
        };
        let Some(level) = (first.key_level as usize).checked_sub(1) else {
            return Ok(false);
        };
        match self.simple_keys.get(level) {
            Some(key) if key.token == self.taken => self.is_valid_key(level),
            _ => Ok(false),
        }
    }

    fn fetch_token(&mut self) -> Result<(), Fault> {
        self.skip_to_token();
        self.cursor.check()?;
        self.unroll_indent(i64::from(self.cursor.mark.column));
        self.cursor.check_ahead(4)?;
        if self.cursor.at_end() {
            return self.fetch_stream_end();
        }
        let first = self.cursor.byte();
        if self.cursor.mark.column == 0 {
            match first {
                b'%' => return self.fetch_directive(),
                b'-' if self.cursor.at_document_indicator() => {
                    return self.fetch_document_indicator(TokenKind::DocumentStart);
                }
                b'.' if self.cursor.at_document_indicator() => {
                    return self.fetch_document_indicator(TokenKind::DocumentEnd);
                }
                _ => {}
            }
        }
        self.fetch_content(first)
    }

    fn fetch_content(&mut self, first: u8) -> Result<(), Fault> {
        let in_flow = self.flow_level > 0;
        match first {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.blank_follows() => self.fetch_block_entry(),
            b'?' if in_flow || self.blank_follows() => self.fetch_key(),
            b':' if in_flow || self.blank_follows() => self.fetch_value(),
            b'*' | b'&' => self.fetch_anchor(first == b'*'),
            b'!' => self.fetch_tag(),
            b'|' | b'>' if !in_flow => self.fetch_block_scalar(first == b'|'),
            b'\'' | b'"' => self.fetch_quoted(first == b'\''),
            b'|' | b'>' | b'#' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.fault("found character that cannot start any token"))
            }
            _ => self.fetch_plain(),
        }
    }

    fn blank_follows(&self) -> bool {
        chars::is_blankz(self.cursor.rest().get(1..).unwrap_or_default())
    }

    /// Goes over blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            self.cursor.skip_bom();
            // A tab may not stand where it could be taken for indentation.
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            self.cursor.skip_blanks(tabs);
            if self.cursor.byte() == b'#' {
                self.cursor.skip_to_break();
            }
            if self.cursor.take_break().is_empty() {
                return;
            }
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn push(&mut self, kind: TokenKind<'a>, line: u32) {
        self.tokens.push_back(Token {
            kind,
            line,
            key_level: 0,
        });
    }

    /// Puts a token before the `position`th of the queue; at its end if there is none.
    fn insert(&mut self, position: Option<usize>, token: Token<'a>) {
        let end = self.tokens.len();
        self.tokens.insert(position.unwrap_or(end).min(end), token);
    }

    /// The number that the next token in the queue will have.
    fn next_number(&self) -> usize {
        self.taken + self.tokens.len()
    }

    /// Adds a token that may turn out to be a key, if one may start at `key`.
    fn push_with_key(&mut self, kind: TokenKind<'a>, line: u32, key: Option<u32>) {
        self.tokens.push_back(Token {
            kind,
            line,
            key_level: key.unwrap_or(0),
        });
    }

    /// Notes that a simple key may start here; tells the level at which it is noted.
    fn save_simple_key(&mut self) -> Result<Option<u32>, Fault> {
        if !self.simple_key_allowed {
            return Ok(None);
        }
        let mark = self.cursor.mark;
        let key = SimpleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == i64::from(mark.column),
            token: self.next_number(),
            mark,
        };
        self.remove_simple_key()?;
        if let Some(last) = self.simple_keys.last_mut() {
            *last = key;
        }
        Ok(u32::try_from(self.simple_keys.len()).ok())
    }

    /// Drops the simple key that may have started at this level.
    fn remove_simple_key(&mut self) -> Result<(), Fault> {
        if let Some(key) = self.simple_keys.last_mut()
            && key.possible
        {
            if key.required {
                return Err(self.fault(KEY_WITHOUT_VALUE));
            }
            key.possible = false;
        }
        Ok(())
    }

    /// Whether the simple key of a level still stands; a line break or its length ends it.
    fn is_valid_key(&mut self, level: usize) -> Result<bool, Fault> {
        let now = self.cursor.mark;
        let Some(key) = self.simple_keys.get_mut(level) else {
            return Ok(false);
        };
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < now.line || key.mark.index.saturating_add(MAX_SIMPLE_KEY) < now.index {
            if key.required {
                return Err(self.fault(KEY_WITHOUT_VALUE));
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    /// Opens a block collection at a column, if none is open there yet; its token goes before the
    /// `position`th of the queue.
    fn roll_indent(
        &mut self,
        column: u32,
        position: Option<usize>,
        kind: TokenKind<'a>,
        line: u32,
    ) -> Result<(), Fault> {
        if self.flow_level > 0 || self.indent >= i64::from(column) {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = i64::from(column);
        if self.indents.len() > MAX_LEVELS {
            return Err(self.fault(TOO_DEEP));
        }
        let token = Token {
            kind,
            line,
            key_level: 0,
        };
        self.insert(position, token);
        Ok(())
    }

    /// Closes the block collections that are indented deeper than a column.
    fn unroll_indent(&mut self, column: i64) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.cursor.mark.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Fault> {
        if self.ended {
            return Err(self.fault("no token"));
        }
        if self.cursor.mark.column != 0 {
            self.cursor.mark.column = 0;
            self.cursor.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.ended = true;
        self.push(TokenKind::StreamEnd, self.cursor.mark.line);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Fault> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.cursor.mark.line;
        let kind = self.scan_directive()?;
        self.push(kind, line);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(kind, self.cursor.mark.line);
        self.cursor.advance(3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        let key = self.save_simple_key()?;
        self.simple_keys.push(SimpleKey {
            token: self.next_number(),
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return Err(self.fault(TOO_DEEP));
        }
        self.simple_key_allowed = true;
        self.push_with_key(kind, self.cursor.mark.line, key);
        self.cursor.advance(1);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.forget_last_key();
        }
        self.simple_key_allowed = false;
        self.push(kind, self.cursor.mark.line);
        self.cursor.advance(1);
        Ok(())
    }

    /// Drops the innermost level of simple keys.
    ///
    /// A level without a key of its own carries the number of the collection's token, and go-yaml
    /// forgets the key that starts there: `{}` and `[]` are handed on before it is clear whether
    /// they are keys.
    fn forget_last_key(&mut self) {
        if let Some(key) = self.simple_keys.pop()
            && let Some(position) = key.token.checked_sub(self.taken)
            && let Some(token) = self.tokens.get_mut(position)
        {
            token.key_level = 0;
        }
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Fault> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push(TokenKind::FlowEntry, self.cursor.mark.line);
        self.cursor.advance(1);
        Ok(())
    }

    /// Opens a block collection for an indicator that stands here, if it may.
    fn start_block(&mut self, kind: TokenKind<'a>, problem: &'static str) -> Result<(), Fault> {
        if self.flow_level > 0 {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return Err(self.fault(problem));
        }
        let mark = self.cursor.mark;
        self.roll_indent(mark.column, None, kind, mark.line)
    }

    fn fetch_block_entry(&mut self) -> Result<(), Fault> {
        self.start_block(
            TokenKind::BlockSequenceStart,
            "block sequence entries are not allowed in this context",
        )?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push(TokenKind::BlockEntry, self.cursor.mark.line);
        self.cursor.advance(1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Fault> {
        self.start_block(
            TokenKind::BlockMappingStart,
            "mapping keys are not allowed in this context",
        )?;
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push(TokenKind::Key, self.cursor.mark.line);
        self.cursor.advance(1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Fault> {
        let level = self.simple_keys.len().saturating_sub(1);
        let key = match self.is_valid_key(level)? {
            true => self.simple_keys.last().copied(),
            false => None,
        };
        if let Some(key) = key {
            self.insert_key(&key)?;
            self.simple_key_allowed = false;
        } else {
            self.start_block(
                TokenKind::BlockMappingStart,
                "mapping values are not allowed in this context",
            )?;
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push(TokenKind::Value, self.cursor.mark.line);
        self.cursor.advance(1);
        Ok(())
    }

    /// Puts the key's token, and that of the mapping that it may open, before what the key is.
    fn insert_key(&mut self, key: &SimpleKey) -> Result<(), Fault> {
        let position = key.token.checked_sub(self.taken);
        let token = Token {
            kind: TokenKind::Key,
            line: key.mark.line,
            key_level: 0,
        };
        self.insert(position, token);
        self.roll_indent(
            key.mark.column,
            position,
            TokenKind::BlockMappingStart,
            key.mark.line,
        )?;
        if let Some(last) = self.simple_keys.last_mut() {
            last.possible = false;
        }
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<(), Fault> {
        let key = self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.cursor.mark.line;
        let name = self.scan_anchor()?;
        let kind = match alias {
            true => TokenKind::Alias(name),
            false => TokenKind::Anchor(name),
        };
        self.push_with_key(kind, line, key);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Result<(), Fault> {
        let key = self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.cursor.mark.line;
        let tag = self.scan_tag()?;
        self.push_with_key(TokenKind::Tag(Box::new(tag)), line, key);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Fault> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let line = self.cursor.mark.line;
        let value = self.scan_block_scalar(literal)?;
        self.push(TokenKind::Scalar(value.into(), false), line);
        Ok(())
    }

    fn fetch_quoted(&mut self, single: bool) -> Result<(), Fault> {
        let key = self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.cursor.mark.line;
        let value = self.scan_quoted(single)?;
        self.push_with_key(TokenKind::Scalar(value, false), line, key);
        Ok(())
    }

    fn fetch_plain(&mut self) -> Result<(), Fault> {
        let key = self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.cursor.mark.line;
        let value = self.scan_plain()?;
        self.push_with_key(TokenKind::Scalar(value, true), line, key);
        Ok(())
    }
}

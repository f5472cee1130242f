//! Text into tokens.

use memchr::memchr;

use crate::unicode;
use crate::{Value, fmt};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The text is wrong; the lexer holds what is wrong with it.
    Error,
    Bool,
    /// A printable character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    /// `.` by itself counts among the keywords.
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl TokenKind {
    fn keyword(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::End,
            b"if" => Self::If,
            b"nil" => Self::Nil,
            b"range" => Self::Range,
            b"template" => Self::Template,
            b"with" => Self::With,
            _ => return None,
        })
    }

    pub(crate) fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Break
                | Self::Continue
                | Self::Dot
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Nil
                | Self::Range
                | Self::Template
                | Self::With
        )
    }
}

/// A piece of the text, or its end. Texts are smaller than 4 GiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Where it begins, in bytes.
    pub(crate) start: u32,
    /// Where it ends.
    pub(crate) end: u32,
}

impl Token {
    /// What stands in for a token before any is read: its line is Go's zero. No text is that long.
    pub(crate) const NONE: Self = Self {
        kind: TokenKind::Error,
        start: u32::MAX,
        end: u32::MAX,
    };
}

const LEFT: &[u8] = b"{{";
const RIGHT: &[u8] = b"}}";
/// A trim marker and the space at its side.
const TRIM: usize = 2;

/// Reads tokens one by one, as the parser asks for them.
pub(crate) struct Lexer<'t> {
    input: &'t [u8],
    position: usize,
    start: usize,
    paren_depth: usize,
    inside_action: bool,
    /// `break` is a keyword, as there is no function of that name.
    pub(crate) break_is_keyword: bool,
    /// `continue` is a keyword.
    pub(crate) continue_is_keyword: bool,
    error: String,
    failed: bool,
}

/// What a step of the lexer found: a token, or that it has to go on.
type Step = Option<Token>;

impl<'t> Lexer<'t> {
    pub(crate) fn new(input: &'t [u8]) -> Self {
        Self {
            input,
            position: 0,
            start: 0,
            paren_depth: 0,
            inside_action: false,
            break_is_keyword: true,
            continue_is_keyword: true,
            error: String::new(),
            failed: false,
        }
    }

    /// What is wrong, after a token of kind [`TokenKind::Error`].
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// The bytes of a token.
    #[inline]
    pub(crate) fn text(&self, token: Token) -> &'t [u8] {
        let range = token.start as usize..token.end as usize;
        self.input.get(range).unwrap_or_default()
    }

    /// The line on which a token begins, from 1. Only complaints ask, so nobody counts before.
    pub(crate) fn line(&self, token: Token) -> usize {
        let before = self.input.get(..token.start as usize);
        before.map_or(0, |before| 1 + memchr::memchr_iter(b'\n', before).count())
    }

    pub(crate) fn next_token(&mut self) -> Token {
        if self.failed {
            return self.token_here(TokenKind::Eof);
        }
        loop {
            let step = if self.inside_action {
                Some(self.inside_action())
            } else {
                self.outside_action()
            };
            if let Some(token) = step {
                return token;
            }
        }
    }

    #[inline]
    fn rest(&self) -> &'t [u8] {
        self.input.get(self.position..).unwrap_or_default()
    }

    #[inline]
    fn peek_byte(&self) -> Option<u8> {
        self.input.get(self.position).copied()
    }

    fn peek(&self) -> Option<u32> {
        let (code, length) = unicode::decode(self.rest());
        (length > 0).then_some(code)
    }

    fn advance(&mut self) -> Option<u32> {
        let (code, length) = unicode::decode(self.rest());
        if length == 0 {
            return None;
        }
        self.position += length;
        Some(code)
    }

    #[inline]
    fn token_here(&self, kind: TokenKind) -> Token {
        // Longer texts are refused before they come here.
        let offset = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Token {
            kind,
            start: offset(self.start),
            end: offset(self.position),
        }
    }

    #[inline]
    fn emit(&mut self, kind: TokenKind) -> Token {
        let token = self.token_here(kind);
        self.start = self.position;
        token
    }

    /// Skips what has been passed over.
    fn ignore(&mut self) {
        self.start = self.position;
    }

    fn fail(&mut self, error: impl Into<String>) -> Token {
        self.error = error.into();
        self.failed = true;
        self.token_here(TokenKind::Error)
    }

    fn outside_action(&mut self) -> Step {
        let Some(found) = find_left_delimiter(self.rest()) else {
            self.position = self.input.len();
            if self.position > self.start {
                return Some(self.emit(TokenKind::Text));
            }
            return Some(self.emit(TokenKind::Eof));
        };
        if found == 0 {
            return self.left_delimiter();
        }
        self.position += found;
        let after = self.rest().get(LEFT.len()..).unwrap_or_default();
        let trimmed = if has_left_trim_marker(after) {
            let text = self
                .input
                .get(self.start..self.position)
                .unwrap_or_default();
            text.len() - text.trim_ascii_end_of_spaces().len()
        } else {
            0
        };
        self.position -= trimmed;
        let token = self.emit(TokenKind::Text);
        self.position += trimmed;
        self.ignore();
        (token.end > token.start).then_some(token)
    }

    fn left_delimiter(&mut self) -> Step {
        self.position += LEFT.len();
        let marker = if has_left_trim_marker(self.rest()) {
            TRIM
        } else {
            0
        };
        let after_marker = self.rest().get(marker..).unwrap_or_default();
        if after_marker.starts_with(b"/*") {
            self.position += marker;
            self.ignore();
            return self.comment();
        }
        let token = self.emit(TokenKind::LeftDelim);
        self.inside_action = true;
        self.position += marker;
        self.ignore();
        self.paren_depth = 0;
        Some(token)
    }

    fn comment(&mut self) -> Step {
        self.position += 2;
        let Some(found) = memchr::memmem::find(self.rest(), b"*/") else {
            return Some(self.fail("unclosed comment"));
        };
        self.position += found + 2;
        let Some(trims) = self.at_right_delimiter() else {
            return Some(self.fail("comment ends before closing delimiter"));
        };
        if trims {
            self.position += TRIM;
        }
        self.position += RIGHT.len();
        if trims {
            self.skip_spaces();
        }
        self.ignore();
        None
    }

    /// Whether the closing delimiter stands here, and if so, whether it trims.
    fn at_right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if is_trimming_right_delimiter(rest) {
            Some(true)
        } else if rest.starts_with(RIGHT) {
            Some(false)
        } else {
            None
        }
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        let spaces = rest.iter().take_while(|&&byte| is_space(byte)).count();
        self.position += spaces;
    }

    fn right_delimiter(&mut self, trims: bool) -> Token {
        if trims {
            self.position += TRIM;
            self.ignore();
        }
        self.position += RIGHT.len();
        let token = self.emit(TokenKind::RightDelim);
        if trims {
            self.skip_spaces();
            self.ignore();
        }
        self.inside_action = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trims) = self.at_right_delimiter() {
            if self.paren_depth == 0 {
                return self.right_delimiter(trims);
            }
            return self.fail("unclosed left paren");
        }
        let Some(byte) = self.peek_byte() else {
            return self.fail("unclosed action");
        };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return self.space(),
            b'.' if !matches!(self.rest().get(1), None | Some(b'0'..=b'9')) => {
                self.position += 1;
                return self.field_or_variable(TokenKind::Field);
            }
            b'.' | b'+' | b'-' | b'0'..=b'9' => return self.number(),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => return self.identifier(),
            0x80.. => return self.beyond_ascii(),
            _ => self.position += 1,
        }
        match byte {
            b'=' => self.emit(TokenKind::Assign),
            b':' => {
                if self.advance() == Some(u32::from(b'=')) {
                    self.emit(TokenKind::Declare)
                } else {
                    self.fail("expected :=")
                }
            }
            b'|' => self.emit(TokenKind::Pipe),
            b'"' => self.quoted(b'"', TokenKind::String, "unterminated quoted string"),
            b'\'' => self.quoted(
                b'\'',
                TokenKind::CharConstant,
                "unterminated character constant",
            ),
            b'`' => self.raw_string(),
            b'$' => self.variable(),
            b'(' => {
                self.paren_depth += 1;
                self.emit(TokenKind::LeftParen)
            }
            b')' => match self.paren_depth.checked_sub(1) {
                None => self.fail("unexpected right paren"),
                Some(depth) => {
                    self.paren_depth = depth;
                    self.emit(TokenKind::RightParen)
                }
            },
            0x20..0x7F => self.emit(TokenKind::Char),
            _ => self.fail(unrecognized(u32::from(byte))),
        }
    }

    fn beyond_ascii(&mut self) -> Token {
        match self.peek() {
            Some(code) if unicode::is_alphanumeric(code) => self.identifier(),
            code => self.fail(unrecognized(code.unwrap_or(unicode::REPLACEMENT))),
        }
    }

    fn space(&mut self) -> Token {
        let rest = self.rest();
        let spaces = rest.iter().take_while(|&&byte| is_space(byte)).count();
        // The last space may belong to a closing delimiter that trims.
        let before_last = rest.get(spaces - 1..).unwrap_or_default();
        let trims = is_trimming_right_delimiter(before_last);
        if trims && spaces == 1 {
            return self.right_delimiter(true);
        }
        self.position += if trims { spaces - 1 } else { spaces };
        self.emit(TokenKind::Space)
    }

    /// Passes over letters, digits and underscores.
    fn pass_alphanumeric(&mut self) {
        loop {
            let rest = self.rest();
            let plain = rest.iter().take_while(|&&byte| class(byte) & NAME != 0);
            self.position += plain.count();
            if self.peek_byte().is_none_or(|byte| byte < 0x80) {
                return;
            }
            match unicode::decode(self.rest()) {
                (code, length) if unicode::is_alphanumeric(code) => self.position += length,
                _ => return,
            }
        }
    }

    fn identifier(&mut self) -> Token {
        self.pass_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let word = self.text(self.token_here(TokenKind::Identifier));
        self.emit(match TokenKind::keyword(word) {
            Some(TokenKind::Break) if !self.break_is_keyword => TokenKind::Identifier,
            Some(TokenKind::Continue) if !self.continue_is_keyword => TokenKind::Identifier,
            Some(keyword) => keyword,
            None if word == b"true" || word == b"false" => TokenKind::Bool,
            None => TokenKind::Identifier,
        })
    }

    fn variable(&mut self) -> Token {
        if self.at_terminator() {
            return self.emit(TokenKind::Variable);
        }
        self.field_or_variable(TokenKind::Variable)
    }

    /// A name after `.` or `$`.
    fn field_or_variable(&mut self, kind: TokenKind) -> Token {
        if self.at_terminator() {
            return self.emit(if kind == TokenKind::Variable {
                kind
            } else {
                TokenKind::Dot
            });
        }
        self.pass_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    /// Whether a name may end here.
    fn at_terminator(&self) -> bool {
        match self.peek_byte() {
            None => true,
            Some(byte) => class(byte) & TERMINATOR != 0 || self.rest().starts_with(RIGHT),
        }
    }

    fn bad_character(&mut self) -> Token {
        let code = self.peek().unwrap_or(unicode::REPLACEMENT);
        self.fail(format!("bad character {}", unicode_text(code)))
    }

    fn quoted(&mut self, quote: u8, kind: TokenKind, unterminated: &str) -> Token {
        loop {
            let rest = self.rest();
            let Some(found) = rest
                .iter()
                .position(|&byte| byte == quote || byte == b'\\' || byte == b'\n')
            else {
                return self.fail(unterminated);
            };
            self.position += found + 1;
            match rest.get(found) {
                Some(&byte) if byte == quote => return self.emit(kind),
                Some(b'\\') if !matches!(self.peek_byte(), None | Some(b'\n')) => {
                    self.position += 1;
                }
                _ => return self.fail(unterminated),
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        let Some(found) = memchr(b'`', self.rest()) else {
            return self.fail("unterminated raw quoted string");
        };
        self.position += found + 1;
        self.emit(TokenKind::RawString)
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if !matches!(self.peek_byte(), Some(b'+' | b'-')) {
            return self.emit(TokenKind::Number);
        }
        // A complex number: no spaces, and an `i` at the end.
        let scanned = self.scan_number();
        let last = self
            .position
            .checked_sub(1)
            .and_then(|at| self.input.get(at));
        if !scanned || last != Some(&b'i') {
            return self.bad_number();
        }
        self.emit(TokenKind::Complex)
    }

    fn bad_number(&mut self) -> Token {
        let text = self.text(self.token_here(TokenKind::Number));
        let quoted = crate::strconv::quote(text);
        self.fail(format!("bad number syntax: {quoted}"))
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let accepted = self.peek_byte().is_some_and(|byte| set.contains(&byte));
        self.position += usize::from(accepted);
        accepted
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    /// Not strict: what is no number after all, conversion will find.
    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        let mut hex = false;
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = b"0123456789abcdefABCDEF_";
                hex = true;
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if digits == DECIMAL && self.accept(b"eE") || hex && self.accept(b"pP") {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        if self.peek().is_some_and(unicode::is_alphanumeric) {
            self.advance();
            return false;
        }
        true
    }
}

fn unrecognized(code: u32) -> String {
    format!("unrecognized character in action: {}", unicode_text(code))
}

/// `U+0021 '!'`
fn unicode_text(code: u32) -> String {
    let value = Value::Int64(i64::from(code));
    fmt::sprintf(b"%#U", &[value])
        .map_or_else(|_| String::new(), |text| text.to_text().into_owned())
}

/// A space, a tab or a line end.
const SPACE: u8 = 1;
/// A letter, a digit or an underscore, of those in ASCII.
const NAME: u8 = 2;
/// What may follow a name.
const TERMINATOR: u8 = 4;

/// What each byte is.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u8;
        let space = matches!(value, b' ' | b'\t' | b'\r' | b'\n');
        let ends = matches!(value, b'.' | b',' | b'|' | b':' | b')' | b'(');
        let name = value == b'_' || value.is_ascii_alphanumeric();
        classes[byte] =
            space as u8 * (SPACE | TERMINATOR) + ends as u8 * TERMINATOR + name as u8 * NAME;
        byte += 1;
    }
    classes
};

#[inline]
fn class(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or_default()
}

#[inline]
fn is_space(byte: u8) -> bool {
    class(byte) & SPACE != 0
}

/// Where the next `{{` is. A single brace is rare, so looking for the first one is quickest.
fn find_left_delimiter(text: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let found = start + memchr(LEFT[0], text.get(start..)?)?;
        if text.get(found + 1) == Some(&LEFT[1]) {
            return Some(found);
        }
        start = found + 1;
    }
}

fn has_left_trim_marker(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if is_space(*space))
}

fn is_trimming_right_delimiter(text: &[u8]) -> bool {
    matches!(text, [space, b'-', b'}', b'}', ..] if is_space(*space))
}

trait TrimSpaces {
    fn trim_ascii_end_of_spaces(&self) -> &Self;
}

impl TrimSpaces for [u8] {
    /// Without the spaces, tabs and line ends at the end; other white space stays.
    fn trim_ascii_end_of_spaces(&self) -> &Self {
        let end = self
            .iter()
            .rposition(|&byte| !is_space(byte))
            .map_or(0, |last| last + 1);
        self.get(..end).unwrap_or(self)
    }
}

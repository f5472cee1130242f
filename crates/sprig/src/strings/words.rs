//! `camelcase`, `snakecase`, `kebabcase`: the word splitter of xstrings 1.5.

use gotmpl::{Functions, Type, Value};

use crate::arguments::{define, string};
use crate::unicode::{
    REPLACEMENT, decode, is_letter, is_number, is_punctuation, is_space, is_upper, push, runes,
    to_lower, to_upper,
};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "camelcase", &[Type::String], |_, a| {
        Ok(Value::string(camel_case(string(a, 0)?)))
    });
    define(functions, "snakecase", &[Type::String], |_, a| {
        Ok(Value::string(Joiner::join(string(a, 0)?, b'_')))
    });
    define(functions, "kebabcase", &[Type::String], |_, a| {
        Ok(Value::string(Joiner::join(string(a, 0)?, b'-')))
    });
}

fn is_connector(character: char) -> bool {
    character == '-' || character == '_' || is_space(character)
}

/// A letter that is no CJK ideograph.
fn is_alphabetic(character: char) -> bool {
    is_letter(character)
        && !matches!(
            character,
            '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}'
        )
}

/// Upper case at the start of every word, connectors dropped except at the start and in runs.
fn camel_case(text: &[u8]) -> Vec<u8> {
    let mut cased = Vec::with_capacity(text.len());
    let mut characters = runes(text).map(|(character, _)| character);
    let mut last = None;
    for character in characters.by_ref() {
        if !is_connector(character) {
            last = Some(character);
            break;
        }
        push(&mut cased, character);
    }
    let Some(first) = last else {
        // Only connectors: the last one is written twice, as xstrings does.
        if let Some((character, _)) = runes(text).last() {
            push(&mut cased, character);
        }
        return cased;
    };
    let mut upper_run = is_upper(first);
    let mut previous = to_upper(first);
    for character in characters {
        let mut current = character;
        if is_connector(current) && is_connector(previous) {
            push(&mut cased, previous);
            previous = current;
            continue;
        }
        if is_connector(previous) {
            upper_run = is_upper(current);
            current = to_upper(current);
        } else {
            if upper_run && is_upper(current) {
                current = to_lower(current);
            } else {
                upper_run = false;
            }
            push(&mut cased, previous);
        }
        previous = current;
    }
    push(&mut cased, previous);
    cased
}

/// What a run of characters is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// The next character that is valid, and the bytes up to its end; the one before at the end.
fn next_valid(text: &[u8], previous: char) -> (char, usize) {
    let mut size = 0;
    while let Some((character, length)) = decode(text.get(size..).unwrap_or_default()) {
        size += length;
        if character != REPLACEMENT {
            return (character, size);
        }
    }
    (previous, size)
}

/// How many bytes from an offset on belong to a run, and the character that ended it.
fn run(text: &[u8], start: usize, first: char, belongs: impl Fn(char) -> bool) -> (usize, char) {
    let (mut end, mut last) = (start, first);
    while end < text.len() {
        let (character, size) = next_valid(text.get(end..).unwrap_or_default(), last);
        last = character;
        if !belongs(character) {
            break;
        }
        end += size;
    }
    (end, last)
}

/// The kind of the first word and its length.
fn next_word(text: &[u8]) -> (Kind, usize) {
    if text.is_empty() {
        return (Kind::Invalid, 0);
    }
    let (first, size) = next_valid(text, REPLACEMENT);
    if first == REPLACEMENT {
        return (Kind::Invalid, size);
    }
    let lower = |character| is_alphabetic(character) && !is_upper(character);
    if is_connector(first) {
        (Kind::Connector, run(text, size, first, is_connector).0)
    } else if is_punctuation(first) {
        (Kind::Punctuation, run(text, size, first, is_punctuation).0)
    } else if is_upper(first) {
        (Kind::Upper, upper_word(text, size, first))
    } else if is_alphabetic(first) {
        (Kind::Alphabet, run(text, size, first, lower).0)
    } else if is_number(first) {
        (Kind::Number, run(text, size, first, is_number).0)
    } else {
        let other = |character| {
            !(is_connector(character)
                || is_alphabetic(character)
                || is_number(character)
                || is_punctuation(character))
        };
        (Kind::Other, run(text, size, first, other).0)
    }
}

/// The length of a word that starts in upper case: an acronym ends before the capital of the word
/// that follows, as in `HTTPStatus`.
fn upper_word(text: &[u8], size: usize, first: char) -> usize {
    if size >= text.len() {
        return size;
    }
    let (second, _) = next_valid(text.get(size..).unwrap_or_default(), first);
    if !is_upper(second) {
        let lower = |character| is_alphabetic(character) && !is_upper(character);
        return run(text, size, first, lower).0;
    }
    let (end, follower) = run(text, size, first, is_upper);
    if end < text.len() && is_alphabetic(follower) {
        return end - last_length(text.get(size..end).unwrap_or_default());
    }
    end
}

/// The length of the last character of a run, with invalid bytes before it.
fn last_length(run: &[u8]) -> usize {
    let mut rest = run;
    let mut length = 0;
    while !rest.is_empty() {
        let (_, size) = next_valid(rest, REPLACEMENT);
        length = size;
        rest = rest.get(size..).unwrap_or_default();
    }
    length
}

/// Writes words with a connector between them.
struct Joiner<'a> {
    joined: Vec<u8>,
    connector: u8,
    kind: Kind,
    word: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Joiner<'a> {
    fn join(text: &'a [u8], connector: u8) -> Vec<u8> {
        let mut joiner = Self {
            joined: Vec::with_capacity(text.len() + text.len() / 4),
            connector,
            kind: Kind::Invalid,
            word: b"",
            rest: text,
        };
        joiner.advance();
        while !joiner.rest.is_empty() {
            joiner.step();
        }
        joiner.write(joiner.kind, joiner.word);
        joiner.joined
    }

    fn advance(&mut self) {
        let (kind, length) = next_word(self.rest);
        self.kind = kind;
        (self.word, self.rest) = self.rest.split_at(length.min(self.rest.len()));
    }

    fn step(&mut self) {
        let (previous, last) = (self.kind, self.word);
        if previous != Kind::Connector {
            self.write(previous, last);
        }
        self.advance();
        match previous {
            Kind::Number => {
                self.write_word_run();
                self.connect_unless(&[Kind::Invalid, Kind::Punctuation, Kind::Connector]);
            }
            Kind::Connector => self.write(previous, last),
            Kind::Punctuation => {}
            _ => self.after_word(),
        }
    }

    /// After a word a number may belong to it, to the next one, or stand alone.
    fn after_word(&mut self) {
        if self.kind != Kind::Number {
            self.connect_unless(&[Kind::Connector, Kind::Punctuation]);
            return;
        }
        if self.rest.is_empty() {
            return;
        }
        let number = self.word;
        self.advance();
        if self.kind != Kind::Alphabet {
            self.write(Kind::Number, number);
            self.connect_unless(&[Kind::Connector, Kind::Punctuation]);
            return;
        }
        self.joined.push(self.connector);
        self.write(Kind::Number, number);
        self.write_word_run();
        self.connect_unless(&[Kind::Invalid, Kind::Connector, Kind::Punctuation]);
    }

    fn write_word_run(&mut self) {
        while matches!(self.kind, Kind::Alphabet | Kind::Number) {
            self.write(self.kind, self.word);
            self.advance();
        }
    }

    fn connect_unless(&mut self, kinds: &[Kind]) {
        if !kinds.contains(&self.kind) {
            self.joined.push(self.connector);
        }
    }

    fn write(&mut self, kind: Kind, word: &[u8]) {
        if kind != Kind::Upper && kind != Kind::Connector {
            self.joined.extend_from_slice(word);
            return;
        }
        for (character, _) in runes(word) {
            if is_connector(character) {
                self.joined.push(self.connector);
            } else if is_upper(character) {
                push(&mut self.joined, to_lower(character));
            } else {
                push(&mut self.joined, character);
            }
        }
    }
}

//! From Go's syntax to that of the `regex` crate.

use std::fmt::Write as _;

use super::class;

/// How deep groups may be nested. Go allows 1000; the compiler below takes stack for each.
const GROUP_DEPTH: usize = 200;

/// The largest number of copies that repetitions of repetitions may ask for.
const REPEAT_LIMIT: u32 = 1000;

/// A pattern for the `regex` crate, and the names of its groups.
#[derive(Debug)]
pub(super) struct Translation {
    /// The pattern; all groups in it are unnamed.
    pub(super) pattern: String,
    /// The name of every group, the whole match first.
    pub(super) names: Vec<String>,
    /// Whether there is a `\B` in it, which looks at bytes where Go looks at characters.
    pub(super) splits_characters: bool,
}

/// Go's error for a pattern that is none: `error parsing regexp: missing closing ): …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    code: &'static str,
    expression: String,
}

impl SyntaxError {
    pub(super) fn new(code: &'static str, expression: &str) -> Self {
        Self {
            code,
            expression: expression.to_owned(),
        }
    }
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "error parsing regexp: {}: `{}`",
            self.code, self.expression
        )
    }
}

type Parsed<T> = Result<T, SyntaxError>;

/// Reads a pattern as Go's `regexp.Compile` does.
pub(super) fn translate(expression: &[u8]) -> Parsed<Translation> {
    let text = std::str::from_utf8(expression).map_err(|error| {
        let rest = expression.get(error.valid_up_to()..).unwrap_or_default();
        SyntaxError::new("invalid UTF-8", &String::from_utf8_lossy(rest))
    })?;
    let mut translator = Translator {
        whole: text,
        rest: text,
        output: String::with_capacity(text.len() + 16),
        names: vec![String::new()],
        groups: Vec::new(),
        flags: Flags::default(),
        fold_written: false,
        atom: None,
        alternative_repeats: 1,
        last_repeat: None,
        splits_characters: false,
    };
    translator.run()?;
    Ok(Translation {
        pattern: translator.output,
        names: translator.names,
        splits_characters: translator.splits_characters,
    })
}

#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`
    fold: bool,
    /// `m`
    lines: bool,
    /// `s`
    dot_all: bool,
    /// `U`
    lazy: bool,
}

/// What stands outside of a group while it is read.
struct Group {
    flags: Flags,
    fold_written: bool,
    start: usize,
    repeats: u32,
}

/// The last thing that a repetition could apply to.
#[derive(Clone, Copy)]
struct Atom {
    start: usize,
    /// Whether a repetition operator may follow its text as it is.
    plain: bool,
    /// How many copies the repetitions in it ask for.
    repeats: u32,
}

struct Translator<'a> {
    whole: &'a str,
    rest: &'a str,
    output: String,
    names: Vec<String>,
    groups: Vec<Group>,
    flags: Flags,
    /// Whether case folding is on at this place of the output.
    fold_written: bool,
    atom: Option<Atom>,
    /// The most copies that anything in the current group asks for.
    alternative_repeats: u32,
    /// Where the repetition operator begins that was read just before.
    last_repeat: Option<&'a str>,
    splits_characters: bool,
}

impl<'a> Translator<'a> {
    fn run(&mut self) -> Parsed<()> {
        while let Some(first) = self.rest.chars().next() {
            let here = self.rest;
            let repeated = self.step(first)?;
            self.last_repeat = repeated.then_some(here);
        }
        if self.groups.is_empty() {
            Ok(())
        } else {
            Err(SyntaxError::new("missing closing )", self.whole))
        }
    }

    /// Reads one element; `true` if it was a repetition.
    fn step(&mut self, first: char) -> Parsed<bool> {
        match first {
            '(' if self.rest.starts_with("(?") => self.extension()?,
            '(' => {
                self.names.push(String::new());
                self.advance(1);
                self.open("(")?;
            }
            ')' => self.close()?,
            '|' => {
                self.advance(1);
                self.output.push('|');
                self.atom = None;
            }
            '^' => {
                self.advance(1);
                self.push(if self.flags.lines { "(?m:^)" } else { r"\A" }, false);
            }
            '$' => {
                self.advance(1);
                self.push(if self.flags.lines { "(?m:$)" } else { r"\z" }, false);
            }
            '.' => {
                self.advance(1);
                self.push(if self.flags.dot_all { "(?s:.)" } else { "." }, true);
            }
            '[' => {
                let (class, rest) = class::bracketed(self.rest)?;
                self.rest = rest;
                self.push(&class, true);
            }
            '*' => return self.repeat(1, "*", 0, 0).map(|()| true),
            '+' => return self.repeat(1, "+", 1, 1).map(|()| true),
            '?' => return self.repeat(1, "?", 0, 0).map(|()| true),
            '{' => return self.counted(),
            '\\' => self.escape()?,
            literal => {
                self.advance(literal.len_utf8());
                self.literal(literal);
            }
        }
        Ok(false)
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// What was read between a place and here.
    fn read_since(&self, start: &'a str) -> &'a str {
        let length = start.len().saturating_sub(self.rest.len());
        start.get(..length).unwrap_or(start)
    }

    /// Writes an atom, after a change of case folding if it needs one.
    fn push(&mut self, text: &str, plain: bool) {
        if self.flags.fold != self.fold_written {
            self.output
                .push_str(if self.flags.fold { "(?i)" } else { "(?-i)" });
            self.fold_written = self.flags.fold;
        }
        self.atom = Some(Atom {
            start: self.output.len(),
            plain,
            repeats: 1,
        });
        self.output.push_str(text);
    }

    fn literal(&mut self, literal: char) {
        if regex_syntax::is_meta_character(literal) {
            self.push(&format!("\\{literal}"), true);
        } else {
            self.push(literal.encode_utf8(&mut [0; 4]), true);
        }
    }

    fn open(&mut self, text: &str) -> Parsed<()> {
        if self.groups.len() >= GROUP_DEPTH {
            return Err(SyntaxError::new("expression nests too deeply", self.whole));
        }
        self.groups.push(Group {
            flags: self.flags,
            fold_written: self.fold_written,
            start: self.output.len(),
            repeats: self.alternative_repeats,
        });
        self.alternative_repeats = 1;
        self.output.push_str(text);
        self.atom = None;
        Ok(())
    }

    fn close(&mut self) -> Parsed<()> {
        let Some(group) = self.groups.pop() else {
            return Err(SyntaxError::new("unexpected )", self.whole));
        };
        self.advance(1);
        self.output.push(')');
        self.atom = Some(Atom {
            start: group.start,
            plain: true,
            repeats: self.alternative_repeats,
        });
        self.flags = group.flags;
        self.fold_written = group.fold_written;
        self.alternative_repeats = self.alternative_repeats.max(group.repeats);
        Ok(())
    }

    /// `(?P<name>`, `(?<name>`, `(?flags)`, `(?flags:`.
    fn extension(&mut self) -> Parsed<()> {
        let start = self.rest;
        let named = ["(?P<", "(?<"]
            .iter()
            .find_map(|open| start.strip_prefix(open));
        if let Some(after) = named.filter(|after| !after.is_empty()) {
            return self.named_group(start, after);
        }
        self.advance(2);
        let (mut set, mut negative, mut seen) = (self.flags, false, false);
        while let Some(character) = self.rest.chars().next() {
            self.advance(character.len_utf8());
            match character {
                'i' => set.fold = !negative,
                'm' => set.lines = !negative,
                's' => set.dot_all = !negative,
                'U' => set.lazy = !negative,
                '-' if !negative => {
                    negative = true;
                    seen = false;
                    continue;
                }
                ':' | ')' if !negative || seen => {
                    if character == ':' {
                        self.open("(?:")?;
                    }
                    self.flags = set;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        Err(SyntaxError::new(
            "invalid or unsupported Perl syntax",
            self.read_since(start),
        ))
    }

    fn named_group(&mut self, start: &'a str, after: &'a str) -> Parsed<()> {
        let invalid = |text| SyntaxError::new("invalid named capture", text);
        let (name, rest) = after.split_once('>').ok_or_else(|| invalid(start))?;
        self.rest = rest;
        let word = |character: char| character == '_' || character.is_ascii_alphanumeric();
        if name.is_empty() || !name.chars().all(word) {
            return Err(invalid(self.read_since(start)));
        }
        self.names.push(name.to_owned());
        self.open("(")
    }

    /// `{n}`, `{n,}`, `{n,m}`, or a brace that stands for itself.
    fn counted(&mut self) -> Parsed<bool> {
        let Some((least, most, length)) = count(self.rest) else {
            self.advance(1);
            self.push(r"\{", true);
            return Ok(false);
        };
        let text = self.rest.get(..length).unwrap_or_default();
        let invalid = || SyntaxError::new("invalid repeat count", text);
        let least = least.ok_or_else(invalid)?;
        let (bound, operator) = match most {
            Bound::None => (least, format!("{{{least},}}")),
            Bound::TooLarge => return Err(invalid()),
            Bound::Some(most) if most < least || most > REPEAT_LIMIT => return Err(invalid()),
            Bound::Some(most) => (most, format!("{{{least},{most}}}")),
        };
        if least > REPEAT_LIMIT {
            return Err(invalid());
        }
        self.repeat(length, &operator, least, bound)?;
        Ok(true)
    }

    /// Applies a repetition to the last atom.
    fn repeat(&mut self, length: usize, operator: &str, least: u32, most: u32) -> Parsed<()> {
        let start = self.rest;
        self.advance(length);
        let lazy = self.rest.starts_with('?');
        self.advance(usize::from(lazy));
        if let Some(previous) = self.last_repeat {
            return Err(SyntaxError::new(
                "invalid nested repetition operator",
                self.read_since(previous),
            ));
        }
        let text = self.read_since(start);
        let Some(atom) = self.atom else {
            return Err(SyntaxError::new(
                "missing argument to repetition operator",
                text,
            ));
        };
        let repeats = atom.repeats.saturating_mul(most.max(1));
        if (least >= 2 || most >= 2) && repeats > REPEAT_LIMIT {
            return Err(SyntaxError::new("invalid repeat count", text));
        }
        if !atom.plain {
            self.output.insert_str(atom.start, "(?:");
            self.output.push(')');
        }
        self.output.push_str(operator);
        if lazy != self.flags.lazy {
            self.output.push('?');
        }
        self.atom = Some(Atom {
            plain: false,
            repeats,
            ..atom
        });
        self.alternative_repeats = self.alternative_repeats.max(repeats);
        Ok(())
    }

    fn escape(&mut self) -> Parsed<()> {
        let assertion = match self.rest.as_bytes().get(1) {
            Some(b'A') => Some(r"\A"),
            Some(b'z') => Some(r"\z"),
            Some(b'b') => Some(r"(?-u:\b)"),
            Some(b'B') => {
                self.splits_characters = true;
                Some(r"(?-u:\B)")
            }
            Some(b'C') => return Err(SyntaxError::new("invalid escape sequence", r"\C")),
            Some(b'Q') => {
                self.quoted();
                return Ok(());
            }
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.advance(2);
            self.push(assertion, false);
            return Ok(());
        }
        if let Some((class, rest)) = class::escaped(self.rest)? {
            self.rest = rest;
            self.push(&class, true);
            return Ok(());
        }
        let (code, rest) = class::character(self.rest)?;
        self.rest = rest;
        match char::from_u32(code) {
            Some(literal) => self.literal(literal),
            // A surrogate is in no text.
            None => self.push(class::NOTHING, true),
        }
        Ok(())
    }

    /// `\Q…\E`
    fn quoted(&mut self) {
        let after = self.rest.get(2..).unwrap_or_default();
        let (literal, rest) = after.split_once(r"\E").unwrap_or((after, ""));
        for character in literal.chars() {
            self.literal(character);
        }
        self.rest = rest;
    }
}

/// The upper bound of a counted repetition.
enum Bound {
    None,
    Some(u32),
    TooLarge,
}

/// Reads `{n}`, `{n,}` or `{n,m}`: the lower bound, `None` if too large, the upper one, the length.
fn count(text: &str) -> Option<(Option<u32>, Bound, usize)> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let length = inner.len() + 2;
    let (least, most) = match inner.split_once(',') {
        None => {
            let number = number(inner)?;
            (number, number.map_or(Bound::TooLarge, Bound::Some))
        }
        Some((least, "")) => (number(least)?, Bound::None),
        Some((least, most)) => (
            number(least)?,
            number(most)?.map_or(Bound::TooLarge, Bound::Some),
        ),
    };
    Some((least, most, length))
}

/// A number without leading zeros; `Some(None)` if it is too large.
fn number(text: &str) -> Option<Option<u32>> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || text.len() > 1 && text.starts_with('0') {
        return None;
    }
    Some(text.parse().ok())
}

/// Appends a character in a way that has no special meaning anywhere in a class.
pub(super) fn append_code(output: &mut String, code: u32) {
    // Writing to a string cannot fail.
    let _ = write!(output, "\\x{{{code:x}}}");
}

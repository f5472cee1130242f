//! Compiled expressions, kept between calls.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use foldhash::fast::RandomState;
use gotmpl::{Call, FunctionError, Str};
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::translate::{SyntaxError, translate};
use crate::unicode::decode;

/// How many expressions are kept.
const CACHE_SIZE: usize = 1_000;

/// Longer expressions are not kept.
const CACHED_LENGTH: usize = 4_096;

/// What an expression may take when compiled.
const SIZE_LIMIT: usize = 10 << 20;

/// The bytes that compiling an expression is charged for, besides those of its text.
const COMPILE_CHARGE: usize = 16 << 10;

/// How many bytes a parsed expression takes for each of its text, which only long ones are charged for.
const PARSED: usize = 256;

/// What is charged for one that turns out to be too large.
const TOO_LARGE_CHARGE: usize = 4 << 20;

/// A Go regular expression.
pub(super) struct Expression {
    regex: Regex,
    names: Vec<String>,
    /// Whether the expression may match between the bytes of a character, as `\B` does.
    splits_characters: bool,
}

type Cache = RwLock<HashMap<Str, Arc<Expression>, RandomState>>;

static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// The expression of a pattern, compiled now or before. The inner error is that of Go for a bad
/// pattern, the outer one that of a budget that is used up.
pub(super) fn compile(
    call: &mut dyn Call,
    pattern: &Str,
) -> Result<Result<Arc<Expression>, SyntaxError>, FunctionError> {
    let cache = CACHE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = cache.get(pattern) {
        return Ok(Ok(Arc::clone(found)));
    }
    drop(cache);
    let factor = if pattern.len() > CACHED_LENGTH {
        PARSED
    } else {
        16
    };
    call.charge(COMPILE_CHARGE.saturating_add(pattern.len().saturating_mul(factor)))?;
    let translation = match translate(pattern) {
        Ok(translation) => translation,
        Err(error) => return Ok(Err(error)),
    };
    let Some(regex) = build(&translation.pattern) else {
        call.charge(TOO_LARGE_CHARGE)?;
        return Ok(Err(SyntaxError::new(
            "expression too large",
            &pattern.to_text(),
        )));
    };
    let expression = Arc::new(Expression {
        regex,
        names: translation.names,
        splits_characters: translation.splits_characters,
    });
    keep(pattern, &expression);
    Ok(Ok(expression))
}

/// Templates match a pattern against a few short texts. Tables that are worked out before the first
/// match take longer than they save; those that grow with the matches do not. `None` if the
/// expression is too large.
fn build(pattern: &str) -> Option<Regex> {
    let configuration = Regex::config()
        .nfa_size_limit(Some(SIZE_LIMIT))
        .utf8_empty(false)
        .onepass(false)
        .dfa(false);
    let syntax = syntax::Config::new().utf8(false).nest_limit(2_000);
    Regex::builder()
        .configure(configuration)
        .syntax(syntax)
        .build(pattern)
        .ok()
}

fn keep(pattern: &Str, expression: &Arc<Expression>) {
    if pattern.len() > CACHED_LENGTH {
        return;
    }
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHE_SIZE {
        cache.clear();
    }
    cache.insert(pattern.clone(), Arc::clone(expression));
}

/// How many matches are charged for at once.
const MATCH_STEP: usize = 64;

/// The bounds of a match and of its groups.
pub(super) type Groups = Vec<Option<Range<usize>>>;

impl Expression {
    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        match self.splits_characters {
            true => self.find_at(text, 0).is_some(),
            false => self.regex.is_match(text),
        }
    }

    /// The first match.
    pub(super) fn find<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        self.find_at(text, 0)
            .and_then(|range| text.get(range))
            .unwrap_or_default()
    }

    /// The first match from a position on. Go goes character by character: an empty match inside of
    /// one is none.
    fn find_at(&self, text: &[u8], position: usize) -> Option<Range<usize>> {
        let mut position = position;
        loop {
            let found = self
                .regex
                .search(&Input::new(text).range(position..))?
                .range();
            if !self.splits_characters || is_boundary(text, found.start) {
                return Some(found);
            }
            position = found.start + 1;
        }
    }

    /// The groups of a name.
    pub(super) fn named(&self, name: &[u8]) -> Vec<usize> {
        let names = self.names.iter().enumerate();
        names
            .filter(|(_, found)| found.as_bytes() == name)
            .map(|(index, _)| index)
            .collect()
    }

    /// All matches that Go finds: an empty match right after another match is none.
    pub(super) fn find_all(
        &self,
        call: &mut dyn Call,
        text: &[u8],
        limit: usize,
    ) -> Result<Vec<Range<usize>>, FunctionError> {
        let mut found = Vec::new();
        let (mut position, mut previous_end) = (0, None);
        while found.len() < limit && position <= text.len() {
            let Some(range) = self.find_at(text, position) else {
                break;
            };
            let accepted = range.end != position || Some(range.start) != previous_end;
            position = match range.end == position {
                true => position + width(text, position).max(1),
                false => range.end,
            };
            previous_end = Some(range.end);
            if accepted {
                if (found.len() + 1) % MATCH_STEP == 0 {
                    call.charge(MATCH_STEP * size_of::<Range<usize>>())?;
                }
                found.push(range);
            }
        }
        Ok(found)
    }

    /// Calls back for every match that Go's `ReplaceAll` replaces, in order.
    pub(super) fn each_replaced(
        &self,
        text: &[u8],
        groups_wanted: bool,
        mut each: impl FnMut(&Groups) -> Result<(), FunctionError>,
    ) -> Result<(), FunctionError> {
        let (mut last_end, mut position) = (0, 0);
        while position <= text.len() {
            let Some(groups) = self.groups_at(text, position, groups_wanted) else {
                break;
            };
            let Some(Some(whole)) = groups.first() else {
                break;
            };
            let whole = whole.clone();
            if whole.end > last_end || whole.start == 0 {
                each(&groups)?;
            }
            last_end = whole.end;
            let next = position + width(text, position).max(1);
            position = if next > whole.end { next } else { whole.end };
        }
        Ok(())
    }

    fn groups_at(&self, text: &[u8], position: usize, wanted: bool) -> Option<Groups> {
        let found = match wanted && !self.splits_characters {
            true => position,
            false => {
                let found = self.find_at(text, position)?;
                if !wanted {
                    return Some(vec![Some(found)]);
                }
                found.start
            }
        };
        let mut captures = self.regex.create_captures();
        let input = Input::new(text).range(found..);
        self.regex.search_captures(&input, &mut captures);
        captures.is_match().then(|| {
            let groups = captures.iter();
            groups.map(|group| group.map(|span| span.range())).collect()
        })
    }
}

/// Whether a place is not between the bytes of a character.
fn is_boundary(text: &[u8], position: usize) -> bool {
    (1..4.min(position + 1)).all(|back| {
        let start = text.get(position - back..).unwrap_or_default();
        decode(start).is_none_or(|(_, length)| length <= back)
    })
}

/// How long the character at a place is; 0 at the end.
fn width(text: &[u8], position: usize) -> usize {
    decode(text.get(position..).unwrap_or_default()).map_or(0, |(_, length)| length)
}

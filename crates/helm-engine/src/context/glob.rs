//! Patterns of `.Files.Glob`, as gobwas/glob reads them with `/` as separator.

/// A compiled pattern: `*` and `?` stop at `/`, `**` does not, `[a-z]`, `[!abc]`, `{a,b}`, `\`.
pub(super) struct Glob(Vec<Item>);

enum Item {
    Literal(char),
    /// `?`
    Single,
    /// `*`
    Segment,
    /// `**`
    Any,
    /// `[abc]` and `[a-z]`, perhaps negated by `!`
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `{a,b}`
    Alternatives(Vec<Vec<Self>>),
}

/// A pattern that is malformed.
pub(super) struct BadGlob;

/// How deep braces may nest.
const MAX_DEPTH: usize = 32;
/// How many places of name and pattern may be compared before a match is given up.
const MAX_STEPS: usize = 1_000_000;

impl Glob {
    pub(super) fn parse(pattern: &str) -> Result<Self, BadGlob> {
        let mut rest = pattern.chars();
        let (items, end) = sequence(&mut rest, 0)?;
        match end {
            None => Ok(Self(items)),
            Some(_) => Err(BadGlob),
        }
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let mut steps = MAX_STEPS;
        matches(&[&self.0], &name, &mut steps)
    }
}

/// Items up to the end, or inside braces up to `,` or `}`, which is returned.
fn sequence(
    rest: &mut std::str::Chars<'_>,
    depth: usize,
) -> Result<(Vec<Item>, Option<char>), BadGlob> {
    let mut items = Vec::new();
    while let Some(c) = rest.next() {
        items.push(match c {
            '*' if rest.as_str().starts_with('*') => {
                rest.next();
                Item::Any
            }
            '*' => Item::Segment,
            '?' => Item::Single,
            '[' => class(rest)?,
            '{' => alternatives(rest, depth + 1)?,
            ',' | '}' if depth > 0 => return Ok((items, Some(c))),
            '\\' => Item::Literal(rest.next().ok_or(BadGlob)?),
            c => Item::Literal(c),
        });
    }
    // A brace that is not closed is closed by the end.
    Ok((items, None))
}

fn alternatives(rest: &mut std::str::Chars<'_>, depth: usize) -> Result<Item, BadGlob> {
    if depth > MAX_DEPTH {
        return Err(BadGlob);
    }
    let mut found = Vec::new();
    loop {
        let (items, end) = sequence(rest, depth)?;
        found.push(items);
        if end != Some(',') {
            return Ok(Item::Alternatives(found));
        }
    }
}

/// Behind `[`: either one range `a-z` or a list of characters.
fn class(rest: &mut std::str::Chars<'_>) -> Result<Item, BadGlob> {
    let (body, after) = rest.as_str().split_once(']').ok_or(BadGlob)?;
    *rest = after.chars();
    let (negated, body) = match body.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, body),
    };
    let chars: Vec<char> = body.chars().collect();
    let ranges = match chars.as_slice() {
        [] => return Err(BadGlob),
        [low, '-', high] if low <= high => vec![(*low, *high)],
        [_, '-', _] => return Err(BadGlob),
        list => list
            .iter()
            .filter(|c| **c != '\\')
            .map(|c| (*c, *c))
            .collect(),
    };
    Ok(Item::Class { negated, ranges })
}

/// Matches a stack of sequences, innermost last, against a name.
fn matches(stack: &[&[Item]], name: &[char], steps: &mut usize) -> bool {
    let Some(left) = steps.checked_sub(1) else {
        return false;
    };
    *steps = left;
    let Some((items, outer)) = stack.split_last() else {
        return name.is_empty();
    };
    let Some((item, rest)) = items.split_first() else {
        return matches(outer, name, steps);
    };
    let mut next = outer.to_vec();
    next.push(rest);
    match item {
        Item::Alternatives(choices) => choices.iter().any(|choice| {
            let mut stack = next.clone();
            stack.push(choice);
            matches(&stack, name, steps)
        }),
        Item::Any => skips(name, |_| true, &next, steps),
        Item::Segment => skips(name, |c| c != '/', &next, steps),
        single => match name.split_first() {
            Some((first, tail)) => single.accepts(*first) && matches(&next, tail, steps),
            None => false,
        },
    }
}

/// Whether the rest matches after some run of characters that are allowed.
fn skips(
    name: &[char],
    allowed: impl Fn(char) -> bool,
    next: &[&[Item]],
    steps: &mut usize,
) -> bool {
    let mut tail = name;
    loop {
        if matches(next, tail, steps) {
            return true;
        }
        match tail.split_first() {
            Some((first, rest)) if allowed(*first) => tail = rest,
            _ => return false,
        }
    }
}

impl Item {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Literal(wanted) => *wanted == c,
            Self::Single => c != '/',
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            Self::Segment | Self::Any | Self::Alternatives(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs_match_as_gobwas_glob_does() {
        for (pattern, name, wanted) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "config/a.yaml", false),
            ("**.yaml", "config/a.yaml", true),
            ("config/*", "config/a.yaml", true),
            ("config/*", "config/x/a.yaml", false),
            ("config/**", "config/x/a.yaml", true),
            ("config/**/a.yaml", "config/x/y/a.yaml", true),
            ("config/**/a.yaml", "config/a.yaml", false),
            ("{a,b}.txt", "b.txt", true),
            ("{a,b*}.txt", "bcd.txt", true),
            ("{a,b}.txt", "c.txt", false),
            ("?.txt", "a.txt", true),
            ("[a-c].txt", "b.txt", true),
            ("[!a-c].txt", "b.txt", false),
            ("[ab].txt", "b.txt", true),
            ("a\\*b", "a*b", true),
            ("story/**", "story/author.txt", true),
            ("{a,b", "b", true),
            ("a}", "a}", true),
            ("", "", true),
            ("", "a", false),
        ] {
            let glob = Glob::parse(pattern).ok().unwrap();
            assert_eq!(glob.matches(name), wanted, "{pattern} on {name}");
        }
    }

    #[test]
    fn malformed_globs_are_refused() {
        for pattern in ["[a", "[]", "[z-a]", "a\\"] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_hostile_glob_ends() {
        let glob = Glob::parse(&"**a".repeat(30)).ok().unwrap();
        assert!(!glob.matches(&"a".repeat(200).replace("aa", "ab")));
    }
}

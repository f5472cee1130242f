//! Go's `filepath.Match`: `*` and `?` that stop at `/`, `[a-z]`, and `\` as escape.

/// A pattern that is not well formed; its text is Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Whether the whole name matches the pattern.
///
/// # Errors
/// The pattern is malformed, as far as it was looked at: Go finds a fault behind the place of a
/// mismatch too.
pub(crate) fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let chunks = parse(pattern)?;
    let name: Vec<char> = name.chars().collect();
    Ok(match_chunks(&chunks, &name))
}

enum Item {
    Literal(char),
    AnyChar,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Items between stars; `star` says whether one stands before them.
struct Chunk {
    star: bool,
    items: Vec<Item>,
}

fn parse(pattern: &str) -> Result<Vec<Chunk>, BadPattern> {
    let mut chunks = vec![Chunk {
        star: false,
        items: Vec::new(),
    }];
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        let item = match c {
            '*' => {
                chunks.push(Chunk {
                    star: true,
                    items: Vec::new(),
                });
                continue;
            }
            '?' => Item::AnyChar,
            '[' => class(&mut rest)?,
            '\\' => Item::Literal(rest.next().ok_or(BadPattern)?),
            c => Item::Literal(c),
        };
        if let Some(chunk) = chunks.last_mut() {
            chunk.items.push(item);
        }
    }
    Ok(chunks)
}

fn class(rest: &mut std::str::Chars<'_>) -> Result<Item, BadPattern> {
    let mut ahead = rest.clone();
    let negated = ahead.next() == Some('^');
    if negated {
        *rest = ahead;
    }
    let mut ranges = Vec::new();
    loop {
        let mut ahead = rest.clone();
        if ahead.next() == Some(']') && !ranges.is_empty() {
            *rest = ahead;
            return Ok(Item::Class { negated, ranges });
        }
        let low = class_char(rest)?;
        let mut ahead = rest.clone();
        let high = if ahead.next() == Some('-') {
            *rest = ahead;
            class_char(rest)?
        } else {
            low
        };
        ranges.push((low, high));
    }
}

fn class_char(rest: &mut std::str::Chars<'_>) -> Result<char, BadPattern> {
    let found = match rest.next() {
        None | Some('-' | ']') => return Err(BadPattern),
        Some('\\') => rest.next().ok_or(BadPattern)?,
        Some(c) => c,
    };
    // Go wants something behind every character of a class: a class must be closed.
    if rest.as_str().is_empty() {
        return Err(BadPattern);
    }
    Ok(found)
}

/// Matches greedily from star to star: the first place where a chunk fits is as good as any, as a
/// later star can take up what a longer match would have taken. Linear in name times pattern.
fn match_chunks(chunks: &[Chunk], name: &[char]) -> bool {
    let mut rest = name;
    for (at, chunk) in chunks.iter().enumerate() {
        let last = at + 1 == chunks.len();
        let Some(after) = place(chunk, rest, last) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

fn place<'a>(chunk: &Chunk, name: &'a [char], last: bool) -> Option<&'a [char]> {
    let reach = if chunk.star {
        name.iter().position(|c| *c == '/').unwrap_or(name.len())
    } else {
        0
    };
    if last && chunk.star && chunk.items.is_empty() {
        return name.get(reach..).filter(|rest| rest.is_empty());
    }
    (0..=reach)
        .filter_map(|skip| name.get(skip..).and_then(|tail| fits(&chunk.items, tail)))
        .find(|rest| !last || rest.is_empty())
}

fn fits<'a>(items: &[Item], name: &'a [char]) -> Option<&'a [char]> {
    let mut rest = name;
    for item in items {
        let (first, after) = rest.split_first()?;
        if !item.accepts(*first) {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

impl Item {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Literal(wanted) => *wanted == c,
            Self::AnyChar => c != '/',
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadPattern, matches};

    #[test]
    fn patterns_match_as_gos_filepath_match_does() {
        for (pattern, name, wanted) in [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a", true),
            ("a*", "ab/c", false),
            ("a*/b", "abc/b", true),
            ("a*/b", "a/c/b", false),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/f", true),
            ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", false),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("a*b?c*x", "abxbbxdbxebxczzy", false),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[e-g]", "abc", false),
            ("ab[^c]", "abc", false),
            ("ab[^e-g]", "abc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a?b", "a☺b", true),
            ("a[^a]b", "a☺b", true),
            ("a???b", "a☺b", false),
            ("[a-ζ]*", "α", true),
            ("*[a-ζ]", "A", false),
            ("a?b", "a/b", false),
            ("a*b", "a/b", false),
            ("[\\]a]", "]", true),
            ("[\\-]", "-", true),
            ("[x\\-]", "x", true),
            ("*x", "xxx", true),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), Ok(wanted), "{pattern} on {name}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in [
            "[]a]", "[-]", "[x-]", "[-x]", "\\", "[a-b-c]", "[", "[^", "[^bc", "a[",
        ] {
            assert_eq!(matches(pattern, "a"), Err(BadPattern), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(200);
        let name = "a".repeat(5_000) + "b";
        assert_eq!(matches(&pattern, &name), Ok(false));
    }
}

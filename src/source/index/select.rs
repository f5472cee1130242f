//! Which version a reference means.

use sprig::semver::{Constraints, Version};

/// What was chosen among versions.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::source) enum Selection {
    /// The version at this place.
    Found(usize),
    /// No version matches; the places of the ones to name in the message, newest first.
    None(Vec<usize>),
    /// What was asked for is neither a version nor a range.
    NotARange(String),
}

/// Versions that a message names.
const NAMED: usize = 3;

/// Longest name that is compared; real ones are far shorter.
const LONGEST_NAME: usize = 128;

/// Chooses among versions (newest first) as Helm does: nothing asked means any release; the same
/// text wins; then the newest that satisfies the range.
pub(in crate::source) fn select(versions: &[&Version], wanted: Option<&str>) -> Selection {
    let wanted = wanted.filter(|text| !text.is_empty()).unwrap_or("*");
    if let Some(at) = versions
        .iter()
        .position(|version| version.original() == wanted)
    {
        return Selection::Found(at);
    }
    let range = match Constraints::parse(wanted) {
        Ok(range) => range,
        Err(error) => return Selection::NotARange(error.to_string()),
    };
    match versions.iter().position(|version| range.check(version)) {
        Some(at) => Selection::Found(at),
        None => Selection::None(near(versions, wanted)),
    }
}

/// The newest versions that share most numbers with what was asked for, else the newest of all.
fn near(versions: &[&Version], wanted: &str) -> Vec<usize> {
    let digits = wanted.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let mut stem = digits.split(|c| !number(c)).next().unwrap_or_default();
    while let Some((shorter, _)) = stem.rsplit_once('.') {
        let prefix = format!("{shorter}.");
        let alike = versions
            .iter()
            .enumerate()
            .filter(|(_, it)| it.to_string().starts_with(&prefix));
        let alike: Vec<usize> = alike.map(|(at, _)| at).take(NAMED).collect();
        if !alike.is_empty() {
            return alike;
        }
        stem = shorter;
    }
    (0..versions.len()).take(NAMED).collect()
}

/// The names most like `wanted`, at most three, the nearest first.
pub(in crate::source) fn nearest<'a>(
    names: impl Iterator<Item = &'a str>,
    wanted: &str,
) -> Vec<&'a str> {
    let limit = wanted.len() / 2 + 1;
    if wanted.len() > LONGEST_NAME {
        return Vec::new();
    }
    let mut scored: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= LONGEST_NAME)
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit || name.contains(wanted))
        .map(|name| (distance(name, wanted), name))
        .filter(|(score, name)| *score <= limit || name.contains(wanted))
        .collect();
    scored.sort_unstable();
    scored
        .into_iter()
        .take(NAMED)
        .map(|(_, name)| name)
        .collect()
}

/// The edit distance of two short names (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

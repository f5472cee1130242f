//! Ranges of versions.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use super::scan::{Parts, scan};
use super::version::{Version, compare_prereleases};

/// How long a constraint may be, in bytes.
const LENGTH_LIMIT: usize = 512;

/// How many alternatives a constraint may have.
const GROUP_LIMIT: usize = 32;

/// Why a text is no constraint; the texts are those of Masterminds/semver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// This part of it does not look like one.
    #[error("improper constraint: {}", gotmpl::strconv::quote(.0.as_bytes()))]
    Improper(String),
    /// A version in it is none.
    #[error("constraint parser error")]
    Version,
    /// It is longer than 512 bytes.
    #[error("constraint string is too long (max {LENGTH_LIMIT} bytes)")]
    TooLong,
    /// It has more than 32 alternatives.
    #[error("too many constraint groups (max {GROUP_LIMIT})")]
    TooManyGroups,
}

/// A range of versions: alternatives separated by `||`, each a list of comparisons that all hold,
/// separated by spaces or commas.
///
/// Prereleases are in the range only if a comparison of the same alternative names one.
#[derive(Clone, Debug)]
pub struct Constraints {
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    comparisons: Vec<Comparison>,
    prereleases: bool,
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// The operator and the version as they were given.
    sign: &'static str,
    given: String,
    wildcard: Wildcard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// `=` or no sign.
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// The first number of a constraint's version that is left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    Nothing,
    Major,
    Minor,
    Patch,
}

impl Constraints {
    /// Reads a constraint: operators `= != > < >= => <= =< ~ ~> ^` or none, versions with wildcards
    /// `x X *` or missing numbers, hyphen ranges `1.2 - 2.3`.
    ///
    /// # Errors
    /// The text is no constraint; the error has the text of Masterminds/semver.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > LENGTH_LIMIT {
            return Err(ConstraintError::TooLong);
        }
        let text = rewrite_ranges(text);
        if text.split("||").count() > GROUP_LIMIT {
            return Err(ConstraintError::TooManyGroups);
        }
        let groups = text
            .split("||")
            .map(Group::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether the version is in the range.
    #[must_use]
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.check(version))
    }

    /// Why the version is not in the range: one line for every comparison that failed, in the words
    /// of Masterminds/semver. Empty if it is in the range.
    #[must_use]
    pub fn mismatches(&self, version: &Version) -> Vec<String> {
        if self.check(version) {
            return Vec::new();
        }
        let mut reasons = Vec::new();
        let mut said = false;
        for group in &self.groups {
            let hidden = !version.prerelease().is_empty() && !group.prereleases;
            for comparison in &group.comparisons {
                match comparison.holds(version) {
                    _ if hidden && said => {}
                    _ if hidden => {
                        reasons.push(Mismatch::Prerelease.text(version, comparison));
                        said = true;
                    }
                    Ok(()) => {}
                    Err(mismatch) => reasons.push(mismatch.text(version, comparison)),
                }
            }
        }
        reasons
    }
}

impl fmt::Display for Constraints {
    /// The comparisons as they were given, alternatives separated by ` || `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            for (index, comparison) in group.comparisons.iter().enumerate() {
                let space = if index > 0 { " " } else { "" };
                write!(f, "{space}{}{}", comparison.sign, comparison.given)?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Constraints {
    type Err = ConstraintError;
    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        Self::parse(text)
    }
}

impl Group {
    fn parse(text: &str) -> Result<Self, ConstraintError> {
        let improper = || ConstraintError::Improper(text.to_owned());
        let mut scanned = Vec::new();
        let mut rest = trim_start(text);
        loop {
            let (sign, operator, after) = Operator::split(rest);
            let after = trim_start(after);
            let parts = scan(after, is_number).ok_or_else(improper)?;
            scanned.push((sign, operator, parts));
            let after = after.get(parts.text.len()..).unwrap_or_default();
            if trim_start(after).is_empty() {
                break;
            }
            rest = separated(after).ok_or_else(improper)?;
        }
        let comparisons: Vec<_> = scanned
            .into_iter()
            .map(|(sign, operator, parts)| Comparison::new(sign, operator, &parts))
            .collect::<Result<_, _>>()?;
        let prereleases = comparisons
            .iter()
            .any(|comparison| !comparison.version.prerelease().is_empty());
        Ok(Self {
            comparisons,
            prereleases,
        })
    }

    fn check(&self, version: &Version) -> bool {
        (version.prerelease().is_empty() || self.prereleases)
            && self
                .comparisons
                .iter()
                .all(|comparison| comparison.holds(version).is_ok())
    }
}

/// What follows white space, a comma or both; `None` if there is neither.
fn separated(text: &str) -> Option<&str> {
    let trimmed = trim_start(text);
    match trimmed.strip_prefix(',') {
        Some(after) => Some(trim_start(after)),
        None => (trimmed.len() < text.len()).then_some(trimmed),
    }
}

/// Go's `\s`, which has no vertical tab.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\x0c' | '\r')
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// A byte of a number or wildcard inside a constraint; the bar is a slip of the library's.
fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'*' | b'|')
}

/// Turns each `A - B` into `>= A, <= B `.
fn rewrite_ranges(text: &str) -> std::borrow::Cow<'_, str> {
    let mut rewritten = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < text.len() {
        let Some((length, replacement)) = text.get(at..).and_then(hyphen_range) else {
            at += 1;
            continue;
        };
        rewritten.push_str(text.get(copied..at).unwrap_or_default());
        rewritten.push_str(&replacement);
        at += length;
        copied = at;
    }
    if copied == 0 {
        return text.into();
    }
    rewritten.push_str(text.get(copied..).unwrap_or_default());
    rewritten.into()
}

/// The length of a hyphen range at the start of a text, spaces around it included, and what it
/// stands for.
fn hyphen_range(text: &str) -> Option<(usize, String)> {
    let low = trim_start(text);
    let from = scan(low, is_number)?;
    let rest = low.get(from.text.len()..)?;
    let rest = spaces(rest)?.strip_prefix('-')?;
    let high = spaces(rest)?;
    let to = scan(high, is_number)?;
    let rest = trim_start(high.get(to.text.len()..)?);
    let replacement = format!(">= {}, <= {} ", from.text, to.text);
    Some((text.len() - rest.len(), replacement))
}

/// What follows at least one space.
fn spaces(text: &str) -> Option<&str> {
    let rest = trim_start(text);
    (rest.len() < text.len()).then_some(rest)
}

impl Operator {
    /// The operator at the start of a text, its sign first, and what follows.
    fn split(text: &str) -> (&'static str, Self, &str) {
        const LONGEST_FIRST: [(&str, Operator); 11] = [
            ("!=", Operator::NotEqual),
            (">=", Operator::GreaterEqual),
            ("=>", Operator::GreaterEqual),
            ("<=", Operator::LessEqual),
            ("=<", Operator::LessEqual),
            ("~>", Operator::Tilde),
            ("=", Operator::Equal),
            (">", Operator::Greater),
            ("<", Operator::Less),
            ("~", Operator::Tilde),
            ("^", Operator::Caret),
        ];
        LONGEST_FIRST
            .iter()
            .find_map(|(sign, operator)| Some((*sign, *operator, text.strip_prefix(sign)?)))
            .unwrap_or(("", Self::Equal, text))
    }
}

impl Comparison {
    fn new(
        sign: &'static str,
        operator: Operator,
        parts: &Parts<'_>,
    ) -> Result<Self, ConstraintError> {
        let wildcard = Wildcard::of(parts);
        let [major, minor, _] = parts.numbers.map(Option::unwrap_or_default);
        let prerelease = match parts.prerelease {
            Some(prerelease) => format!("-{prerelease}"),
            None => String::new(),
        };
        let text = match wildcard {
            Wildcard::Nothing => parts.text.to_owned(),
            Wildcard::Major => format!("0.0.0{prerelease}"),
            Wildcard::Minor => format!("{major}.0.0{prerelease}"),
            Wildcard::Patch => format!("{major}.{minor}.0{prerelease}"),
        };
        Ok(Self {
            operator,
            version: Version::parse(&text).map_err(|_| ConstraintError::Version)?,
            sign,
            given: parts.text.to_owned(),
            wildcard,
        })
    }

    /// Whether the version holds, without the rule on prereleases.
    fn holds(&self, version: &Version) -> Result<(), Mismatch> {
        match self.operator {
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater => self.greater(version),
            Operator::Less if *version < self.version => Ok(()),
            Operator::Less => Err(Mismatch::GreaterOrEqual),
            Operator::GreaterEqual if *version >= self.version => Ok(()),
            Operator::GreaterEqual => Err(Mismatch::Less),
            Operator::LessEqual => self.less_or_equal(version),
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
            Operator::Equal if self.wildcard != Wildcard::Nothing => self.tilde(version),
            Operator::Equal if *version == self.version => Ok(()),
            Operator::Equal => Err(Mismatch::NotEqual),
        }
    }

    fn not_equal(&self, version: &Version) -> Result<(), Mismatch> {
        let wanted = &self.version;
        let differs = match self.wildcard {
            Wildcard::Nothing => version != wanted,
            // `!=*` compares like `!=0.0.0`: a quirk of the library.
            Wildcard::Major => version != wanted,
            Wildcard::Minor => version.major != wanted.major,
            Wildcard::Patch => {
                (version.major, version.minor) != (wanted.major, wanted.minor)
                    || compare_prereleases(version.prerelease(), wanted.prerelease())
                        != Ordering::Equal
            }
        };
        if differs {
            Ok(())
        } else {
            Err(Mismatch::Equal)
        }
    }

    fn greater(&self, version: &Version) -> Result<(), Mismatch> {
        let wanted = &self.version;
        let greater = match self.wildcard {
            Wildcard::Nothing => version > wanted,
            _ if version.major != wanted.major => version.major > wanted.major,
            Wildcard::Minor => false,
            Wildcard::Patch => version.minor > wanted.minor,
            Wildcard::Major => version > wanted,
        };
        if greater {
            Ok(())
        } else {
            Err(Mismatch::LessOrEqual)
        }
    }

    fn less_or_equal(&self, version: &Version) -> Result<(), Mismatch> {
        let wanted = &self.version;
        let greater = match self.wildcard {
            Wildcard::Nothing => version > wanted,
            Wildcard::Minor => version.major > wanted.major,
            Wildcard::Major | Wildcard::Patch => {
                (version.major, version.minor) > (wanted.major, wanted.minor)
            }
        };
        if greater {
            Err(Mismatch::Greater)
        } else {
            Ok(())
        }
    }

    fn tilde(&self, version: &Version) -> Result<(), Mismatch> {
        let wanted = &self.version;
        if version < wanted {
            return Err(Mismatch::Less);
        }
        let open = matches!(self.wildcard, Wildcard::Minor | Wildcard::Patch);
        // `~0.0.0` stands for every version, as `*` does.
        if !open && (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0) {
            return Ok(());
        }
        if version.major != wanted.major {
            return Err(Mismatch::Major);
        }
        if version.minor != wanted.minor && self.wildcard != Wildcard::Minor {
            return Err(Mismatch::MajorAndMinor);
        }
        Ok(())
    }

    fn caret(&self, version: &Version) -> Result<(), Mismatch> {
        let wanted = &self.version;
        if version < wanted {
            return Err(Mismatch::Less);
        }
        if version.major != wanted.major {
            return Err(Mismatch::Major);
        }
        if wanted.major > 0 || self.wildcard == Wildcard::Minor {
            return Ok(());
        }
        if wanted.minor > 0 || self.wildcard == Wildcard::Patch {
            return match version.minor == wanted.minor {
                true => Ok(()),
                false => Err(Mismatch::MinorOfZero),
            };
        }
        match (version.minor, version.patch == wanted.patch) {
            (0, true) => Ok(()),
            (0, false) => Err(Mismatch::PatchOfZero),
            _ => Err(Mismatch::Minor),
        }
    }
}

impl Wildcard {
    fn of(parts: &Parts<'_>) -> Self {
        let open = |part: Option<&str>| matches!(part, None | Some("x" | "X" | "*"));
        match parts.numbers.map(open) {
            [true, ..] => Self::Major,
            [_, true, _] => Self::Minor,
            [_, _, true] => Self::Patch,
            _ => Self::Nothing,
        }
    }
}

/// Why a comparison does not hold.
#[derive(Clone, Copy, Debug)]
enum Mismatch {
    Prerelease,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Major,
    Minor,
    MajorAndMinor,
    MinorOfZero,
    PatchOfZero,
}

impl Mismatch {
    fn text(self, version: &Version, comparison: &Comparison) -> String {
        let (version, given) = (version.to_string(), &comparison.given);
        let sentence = |middle: &str| format!("\"{version}\" {middle} \"{given}\"");
        match self {
            Self::Prerelease => format!(
                "\"{version}\" is a prerelease version and the constraint is only looking for release versions"
            ),
            Self::Equal => sentence("is equal to"),
            Self::NotEqual => sentence("is not equal to"),
            Self::Less => sentence("is less than"),
            Self::LessOrEqual => sentence("is less than or equal to"),
            Self::Greater => sentence("is greater than"),
            Self::GreaterOrEqual => sentence("is greater than or equal to"),
            Self::Major => sentence("does not have same major version as"),
            Self::Minor => sentence("does not have same minor version as"),
            Self::MajorAndMinor => sentence("does not have same major and minor version as"),
            Self::MinorOfZero => format!(
                "{}. Expected minor versions to match when constraint major version is 0",
                sentence("does not have same minor version as")
            ),
            Self::PatchOfZero => format!(
                "{}. Expect version and constraint to equal when major and minor versions are 0",
                sentence("does not equal")
            ),
        }
    }
}

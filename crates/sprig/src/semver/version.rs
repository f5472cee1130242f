//! One version.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use super::scan::scan;

/// How long a version may be, in bytes.
const LENGTH_LIMIT: usize = 256;

/// Why a text is no version; the texts are those of Masterminds/semver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VersionError {
    /// It does not look like a version.
    #[error("invalid semantic version")]
    Invalid,
    /// Strict only: it is empty.
    #[error("version string empty")]
    Empty,
    /// Strict only: a number has other characters.
    #[error("invalid characters in version")]
    InvalidCharacters,
    /// A numeric part starts with 0.
    #[error("version segment starts with 0")]
    SegmentStartsZero,
    /// Strict only: what follows `+` is malformed.
    #[error("invalid metadata string")]
    InvalidMetadata,
    /// What follows `-` is malformed.
    #[error("invalid prerelease string")]
    InvalidPrerelease,
    /// It is longer than 256 bytes.
    #[error("version string is too long (max {LENGTH_LIMIT} bytes)")]
    TooLong,
    /// A number does not fit 64 bits.
    #[error(
        "error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range"
    )]
    OutOfRange(String),
    /// Strict only: a number does not fit 64 bits.
    #[error("strconv.ParseUint: parsing \"{0}\": value out of range")]
    StrictOutOfRange(String),
}

/// A semantic version, read leniently: `v1`, `1.2` and `01.2.3` are versions too.
///
/// Comparison and equality follow precedence and leave metadata out.
#[derive(Clone, Debug)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number; 0 where the text has none.
    pub minor: u64,
    /// The third number; 0 where the text has none.
    pub patch: u64,
    prerelease: String,
    metadata: String,
    original: String,
}

impl Version {
    /// Reads a version: an optional `v`, one to three numbers, `-prerelease`, `+metadata`.
    ///
    /// # Errors
    /// The text is no version; the error has the text of Masterminds/semver.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > LENGTH_LIMIT {
            return Err(VersionError::TooLong);
        }
        let parts = scan(text, |byte| byte.is_ascii_digit()).ok_or(VersionError::Invalid)?;
        if parts.text.len() != text.len() {
            return Err(VersionError::Invalid);
        }
        let [major, minor, patch] = parts.numbers;
        let version = Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            prerelease: parts.prerelease.unwrap_or_default().to_owned(),
            metadata: parts.metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        check_prerelease(&version.prerelease)?;
        Ok(version)
    }

    /// Reads a version that keeps to the letter of the specification: three numbers without leading
    /// zeros, no `v`.
    ///
    /// # Errors
    /// The text is no such version; the error has the text of Masterminds/semver.
    pub fn parse_strict(text: &str) -> Result<Self, VersionError> {
        match text.len() {
            0 => return Err(VersionError::Empty),
            length if length > LENGTH_LIMIT => return Err(VersionError::TooLong),
            _ => {}
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VersionError::Invalid);
        };
        let (rest, metadata) = cut(rest, '+');
        check_identifiers(metadata, VersionError::InvalidMetadata)?;
        let (patch, prerelease) = cut(rest, '-');
        check_identifiers(prerelease, VersionError::InvalidPrerelease)?;
        check_prerelease(prerelease.unwrap_or_default())?;
        for part in [major, minor, patch] {
            check_strict_number(part)?;
        }
        Ok(Self {
            major: strict_number(major)?,
            minor: strict_number(minor)?,
            patch: strict_number(patch)?,
            prerelease: prerelease.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        })
    }

    /// What follows `-`, or an empty text.
    #[must_use]
    pub fn prerelease(&self) -> &str {
        &self.prerelease
    }

    /// What follows `+`, or an empty text.
    #[must_use]
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The text that was read.
    #[must_use]
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The next version after this one in which only `bump` is larger; `None` at the end of numbers.
    pub(super) fn next(&self, bump: Bump) -> Option<Self> {
        let (major, minor, patch) = (self.major, self.minor, self.patch);
        let (major, minor, patch) = match bump {
            Bump::Major => (major.checked_add(1)?, 0, 0),
            Bump::Minor => (major, minor.checked_add(1)?, 0),
            Bump::Patch if !self.prerelease.is_empty() => (major, minor, patch),
            Bump::Patch => (major, minor, patch.checked_add(1)?),
        };
        Some(self.with(major, minor, patch, "", ""))
    }

    /// This version with another prerelease.
    pub(super) fn with_prerelease(&self, prerelease: &str) -> Result<Self, VersionError> {
        let given = (!prerelease.is_empty()).then_some(prerelease);
        check_identifiers(given, VersionError::InvalidPrerelease)?;
        check_prerelease(prerelease)?;
        Ok(self.with(
            self.major,
            self.minor,
            self.patch,
            prerelease,
            &self.metadata,
        ))
    }

    /// This version with other metadata.
    pub(super) fn with_metadata(&self, metadata: &str) -> Result<Self, VersionError> {
        let given = (!metadata.is_empty()).then_some(metadata);
        check_identifiers(given, VersionError::InvalidMetadata)?;
        Ok(self.with(
            self.major,
            self.minor,
            self.patch,
            &self.prerelease,
            metadata,
        ))
    }

    fn with(&self, major: u64, minor: u64, patch: u64, prerelease: &str, metadata: &str) -> Self {
        let mut next = Self {
            major,
            minor,
            patch,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: String::new(),
        };
        let prefix = if self.original.starts_with('v') {
            "v"
        } else {
            ""
        };
        next.original = format!("{prefix}{next}");
        next
    }
}

/// Which number of a version to raise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bump {
    Major,
    Minor,
    Patch,
}

impl fmt::Display for Version {
    /// Three numbers, prerelease and metadata, without a leading `v`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Version {
    type Err = VersionError;
    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| precedence(&self.prerelease, &other.prerelease))
    }
}

/// The order of two prereleases; none at all comes last.
fn precedence(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_prereleases(left, right),
    }
}

/// The order of two prereleases, identifier by identifier; a missing identifier comes first.
pub(super) fn compare_prereleases(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (left, right) => {
                compare_identifiers(left.unwrap_or_default(), right.unwrap_or_default())
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_identifiers(left: &str, right: &str) -> Ordering {
    if left == right || left.is_empty() || right.is_empty() {
        return left.len().min(1).cmp(&right.len().min(1));
    }
    match (left.parse::<u64>(), right.parse::<u64>()) {
        (Ok(left), Ok(right)) if left > right => Ordering::Greater,
        // Different texts of one number are told apart as the library does: the left one is less.
        (Ok(_), Ok(_)) => Ordering::Less,
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

fn number(part: Option<&str>) -> Result<u64, VersionError> {
    let Some(part) = part else {
        return Ok(0);
    };
    part.parse()
        .map_err(|_| VersionError::OutOfRange(part.to_owned()))
}

fn strict_number(part: &str) -> Result<u64, VersionError> {
    part.parse()
        .map_err(|_| VersionError::StrictOutOfRange(part.to_owned()))
}

fn check_strict_number(part: &str) -> Result<(), VersionError> {
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::InvalidCharacters);
    }
    starts_with_zero(part)
}

fn starts_with_zero(part: &str) -> Result<(), VersionError> {
    if part.len() > 1 && part.starts_with('0') {
        return Err(VersionError::SegmentStartsZero);
    }
    Ok(())
}

/// Numeric identifiers of a prerelease have no leading zero; the rest is the scanner's to check.
fn check_prerelease(prerelease: &str) -> Result<(), VersionError> {
    prerelease
        .split('.')
        .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        .try_for_each(starts_with_zero)
}

fn check_identifiers(text: Option<&str>, error: VersionError) -> Result<(), VersionError> {
    let valid = text.is_none_or(|text| {
        text.split('.').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    });
    if valid { Ok(()) } else { Err(error) }
}

fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

//! The shared grammar of versions and of the versions inside constraints.

/// The parts of a version text, each without its separator; absent parts are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// The numbers, or wildcards in a constraint.
    pub(super) numbers: [Option<&'a str>; 3],
    /// What follows `-`.
    pub(super) prerelease: Option<&'a str>,
    /// What follows `+`.
    pub(super) metadata: Option<&'a str>,
    /// The text of all parts, with a leading `v`.
    pub(super) text: &'a str,
}

/// Reads `v? N (.N)? (.N)? (-ids)? (+ids)?` at the start of a text, each part as long as it can be.
pub(super) fn scan(text: &str, number: fn(u8) -> bool) -> Option<Parts<'_>> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip(b'v');
    let major = cursor.take(number)?;
    let minor = cursor.after(b'.', |cursor| cursor.take(number));
    let patch = minor.and_then(|_| cursor.after(b'.', |cursor| cursor.take(number)));
    let prerelease = cursor.after(b'-', Cursor::identifiers);
    let metadata = cursor.after(b'+', Cursor::identifiers);
    Some(Parts {
        numbers: [Some(major), minor, patch],
        prerelease,
        metadata,
        text: text.get(..cursor.at)?,
    })
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, byte: u8) -> bool {
        let found = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, accept: fn(u8) -> bool) -> Option<&'a str> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let length = rest.iter().take_while(|byte| accept(**byte)).count();
        let taken = self.text.get(self.at..self.at + length)?;
        self.at += length;
        (length > 0).then_some(taken)
    }

    /// Reads a separator and what follows it, or nothing of either.
    fn after(
        &mut self,
        separator: u8,
        part: impl Fn(&mut Self) -> Option<&'a str>,
    ) -> Option<&'a str> {
        let start = self.at;
        let found = self.skip(separator).then(|| part(self)).flatten();
        if found.is_none() {
            self.at = start;
        }
        found
    }

    fn identifiers(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.take(is_identifier)?;
        while self
            .after(b'.', |cursor| cursor.take(is_identifier))
            .is_some()
        {}
        self.text.get(start..self.at)
    }
}

/// A byte of an identifier after `-` or `+`.
fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

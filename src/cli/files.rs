//! Files that flags name, read up to a limit.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

/// The largest file of values or keys, in bytes: as large as a chart may be.
pub(super) const LARGEST: u64 = 100 << 20;

/// The content of a file of at most `limit` bytes.
///
/// # Errors
/// It cannot be read, or [`ErrorKind::FileTooLarge`].
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    read_from(File::open(path)?, limit)
}

/// All that a reader gives, at most `limit` bytes.
///
/// # Errors
/// As [`read`].
pub(super) fn read_from(reader: impl Read, limit: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_from(&b"four"[..], 4).unwrap(), b"four");
        assert!(read_from(&b"fives"[..], 4).is_err());
    }
}

//! A chart in a gzipped tar archive.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use gotmpl::Str;
use jiff::Timestamp;
use tar::{Archive, Entry, EntryType};

use super::directory::{BOM, io as io_error, without_bom};
use super::{Limits, LoadError, Loaded, files};
use crate::chart::ChartFile;

/// Loads a chart from a `.tgz`.
///
/// The stream is read once, and no more of it is kept than the limits allow. Links are not
/// followed: a link becomes an empty file, as in Helm.
///
/// # Errors
/// The stream is no archive, holds too much, holds paths that lead elsewhere, or is no chart.
pub fn load_archive(reader: impl Read, limits: &Limits) -> Result<Loaded, LoadError> {
    load_buffered(BufReader::new(reader), limits)
}

fn load_buffered(reader: impl BufRead, limits: &Limits) -> Result<Loaded, LoadError> {
    let mut remaining = limits.total_bytes;
    let files = unpack(reader, limits, &mut remaining)?;
    let Some(chart_file) = files.iter().find(|file| file.name == "Chart.yaml") else {
        return Err(LoadError::NoChartInArchive);
    };
    files::check_version(&chart_file.data)?;
    files::assemble(files, limits)
}

/// The files of a chart archive below its first directory, within the limits, in its order.
///
/// # Errors
/// As [`load_archive`], except that nothing of the chart is read.
pub fn read_archive(reader: impl Read, limits: &Limits) -> Result<Vec<ChartFile>, LoadError> {
    let mut remaining = limits.total_bytes;
    unpack(BufReader::new(reader), limits, &mut remaining)
}

/// Loads a chart from the file of an archive, with Helm's words for files that are none.
pub(super) fn load_archive_file(path: &Path, limits: &Limits) -> Result<Loaded, LoadError> {
    load_buffered(open(path)?, limits)
}

/// The files of an archive as they are.
pub(super) fn read_archive_file(path: &Path, limits: &Limits) -> Result<Vec<ChartFile>, LoadError> {
    let mut remaining = limits.total_bytes;
    unpack(open(path)?, limits, &mut remaining)
}

/// A file that begins like an archive.
fn open(path: &Path) -> Result<impl BufRead + use<>, LoadError> {
    let mut file = File::open(path).map_err(io_error("open", path))?;
    let mut magic = Vec::new();
    (&mut file)
        .take(512)
        .read_to_end(&mut magic)
        .map_err(io_error("read", path))?;
    if !magic.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(LoadError::NotAnArchive(not_an_archive(path, &magic)));
    }
    let file = BufReader::with_capacity(PIECE, file);
    Ok(io::Cursor::new(magic).chain(file))
}

fn not_an_archive(path: &Path, start: &[u8]) -> String {
    let name = path.display();
    let is_yaml = path
        .extension()
        .is_some_and(|extension| extension == "yml" || extension == "yaml");
    if is_yaml {
        return format!("file '{name}' seems to be a YAML file, but expected a gzipped archive");
    }
    let kind = sniff(start);
    format!("file '{name}' does not appear to be a gzipped archive; got '{kind}'")
}

/// How files of some kinds begin.
const SIGNATURES: [(&[u8], &str); 9] = [
    (b"PK\x03\x04", "application/zip"),
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x00asm", "application/wasm"),
];

/// What Go's `http.DetectContentType` says of the contents that people mistake for charts. Go looks
/// at 512 bytes of which a short file leaves the rest zero.
fn sniff(start: &[u8]) -> &'static str {
    let text = start.trim_ascii_start();
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if text
        .get(..14)
        .is_some_and(|head| head.eq_ignore_ascii_case(b"<!DOCTYPE HTML"))
        || text
            .get(..5)
            .is_some_and(|head| head.eq_ignore_ascii_case(b"<html"))
    {
        "text/html; charset=utf-8"
    } else if text.starts_with(b"<?xml") {
        "text/xml; charset=utf-8"
    } else if let Some((_, kind)) = SIGNATURES
        .iter()
        .find(|(signature, _)| start.starts_with(signature))
    {
        kind
    } else if start.len() < 512 || start.iter().any(is_binary) {
        "application/octet-stream"
    } else {
        "text/plain; charset=utf-8"
    }
}

/// How much is read and decompressed at once: in pieces of this size it is as fast as in one.
const PIECE: usize = 64 * 1024;

/// What has been decompressed and not been asked for yet. Unlike `BufReader`, it keeps its memory
/// as it is instead of clearing it before each piece.
struct Pieces<R> {
    reader: R,
    piece: Box<[u8]>,
    taken: usize,
    filled: usize,
    /// How many bytes were handed out or passed over.
    position: u64,
}

impl<R: Read> Pieces<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            piece: vec![0; PIECE].into(),
            taken: 0,
            filled: 0,
            position: 0,
        }
    }

    /// What there is of the piece; of the next one, if nothing is left.
    fn rest(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = self.reader.read(&mut self.piece)?;
        }
        Ok(self.piece.get(self.taken..self.filled).unwrap_or_default())
    }
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, wanted: &mut [u8]) -> io::Result<usize> {
        let count = if self.taken == self.filled && wanted.len() >= self.piece.len() {
            self.reader.read(wanted)?
        } else {
            let count = self.rest()?.read(wanted)?;
            self.taken += count;
            count
        };
        self.position += count as u64;
        Ok(count)
    }
}

impl<R: Read> Seek for Pieces<R> {
    /// Forwards only, from where it is: how `tar` passes over padding without a buffer of its own.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Current(distance) = to else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let distance = u64::try_from(distance).map_err(|_| io::ErrorKind::Unsupported)?;
        let mut left = distance;
        while left > 0 {
            let rest = self.rest()?.len();
            if rest == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let step = usize::try_from(left).map_or(rest, |left| left.min(rest));
            self.taken += step;
            left -= step as u64;
        }
        self.position += distance;
        Ok(self.position)
    }
}

/// The files of an archive, in its order. Their bytes are taken from what `remaining` allows.
pub(super) fn unpack(
    reader: impl BufRead,
    limits: &Limits,
    remaining: &mut u64,
) -> Result<Vec<ChartFile>, LoadError> {
    // The archive's own headers and padding count too: a tar of empty files has an end.
    let tar = MultiGzDecoder::new(reader).take(raw_limit(limits));
    let mut archive = Archive::new(Pieces::new(tar));
    let mut files = Vec::new();
    for entry in archive.entries_with_seek().map_err(LoadError::Archive)? {
        let entry = entry.map_err(LoadError::Archive)?;
        if is_skipped(&entry) {
            continue;
        }
        if files.len() >= limits.files {
            return Err(LoadError::TooManyFiles(limits.files));
        }
        files.push(read_entry(entry, limits, remaining)?);
    }
    if files.is_empty() {
        return Err(LoadError::Empty);
    }
    Ok(files)
}

/// The most bytes of tar that are looked at: the data, and for each file at most four blocks of
/// header and padding.
fn raw_limit(limits: &Limits) -> u64 {
    let blocks = (limits.files as u64).saturating_mul(4 * 512);
    limits.total_bytes.saturating_add(blocks)
}

fn is_skipped<R: Read>(entry: &Entry<'_, R>) -> bool {
    let header = entry.header();
    matches!(
        header.entry_type(),
        EntryType::Directory | EntryType::XGlobalHeader | EntryType::XHeader
    ) || entry.path_bytes().ends_with(b"/")
}

fn read_entry<R: Read>(
    entry: Entry<'_, R>,
    limits: &Limits,
    remaining: &mut u64,
) -> Result<ChartFile, LoadError> {
    let header_name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let name = inner_path(&header_name)?;
    let size = entry.size();
    let too_large = || LoadError::ArchiveTooLarge(limits.total_bytes);
    if size > *remaining {
        return Err(too_large());
    }
    if size > limits.file_bytes {
        return Err(LoadError::FileTooLarge {
            name: header_name,
            limit: limits.file_bytes,
        });
    }
    *remaining -= size;
    if *remaining == 0 {
        return Err(too_large());
    }
    let seconds = entry.header().mtime().ok();
    Ok(ChartFile {
        name,
        data: read_data(entry, size).map_err(LoadError::Archive)?,
        modified: seconds
            .and_then(|seconds| i64::try_from(seconds).ok())
            .and_then(|seconds| Timestamp::from_second(seconds).ok()),
    })
}

/// Sizes up to this are believed, and their memory is taken before the bytes have come.
const BELIEVED: u64 = 16 * 1024 * 1024;

fn read_data(mut reader: impl Read, size: u64) -> io::Result<Str> {
    if size > BELIEVED {
        let mut data = Vec::new();
        reader.take(size).read_to_end(&mut data)?;
        if (data.len() as u64) < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok(without_bom(&data));
    }
    let size = usize::try_from(size).unwrap_or(0);
    let mut data: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
    if let Some(data) = Arc::get_mut(&mut data) {
        reader.read_exact(data)?;
    }
    if data.starts_with(BOM) {
        return Ok(without_bom(&data));
    }
    Ok(data.into())
}

/// The path below the archive's one folder, whatever that is called.
fn inner_path(header_name: &str) -> Result<String, LoadError> {
    let delimiter = if header_name.contains('\\') {
        '\\'
    } else {
        '/'
    };
    let (base, inner) = header_name
        .split_once(delimiter)
        .unwrap_or((header_name, ""));
    let inner = inner.replace(delimiter, "/");
    if inner.starts_with('/') {
        return Err(LoadError::AbsolutePath);
    }
    let inner = clean(&inner);
    if inner == "." {
        return Err(LoadError::OutsideBase(header_name.to_owned()));
    }
    if inner.starts_with("..") {
        return Err(LoadError::ParentPath);
    }
    let mut chars = inner.chars();
    let drive =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.as_str().starts_with(":/");
    if drive {
        return Err(LoadError::IllegalName);
    }
    if base == "Chart.yaml" {
        return Err(LoadError::NotInBase);
    }
    Ok(inner)
}

/// Go's `path.Clean` for a relative path.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return ".".to_owned();
    }
    parts.join("/")
}

//! A chart in a directory.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use gotmpl::Str;
use jiff::Timestamp;

use super::ignore::Rules;
use super::{Limits, LoadError, Loaded, files};
use crate::chart::ChartFile;

/// Loads the chart in a directory, as the `helm` command does: `.helmignore` applies, symbolic links
/// are followed, entries are taken in the order of their names.
///
/// Links may lead out of the directory, which is right for a person's own machine and wrong for a
/// checkout of somebody's repository: for those use [`load_files`](super::load_files).
///
/// # Errors
/// Something cannot be read, is too large, or is no chart.
pub fn load_directory(path: &Path, limits: &Limits) -> Result<Loaded, LoadError> {
    detect(&root(path)?, limits)?;
    files::assemble(read_files(path, limits)?, limits)
}

fn root(path: &Path) -> Result<PathBuf, LoadError> {
    let root = std::path::absolute(path).map_err(io("stat", path))?;
    Ok(clean(&root))
}

/// The files of a directory that are not ignored.
pub(super) fn read_files(path: &Path, limits: &Limits) -> Result<Vec<ChartFile>, LoadError> {
    let root = root(path)?;
    let ignore_file = root.join(".helmignore");
    let rules = match read_bounded(&ignore_file, limits) {
        Ok(text) => Rules::parse(&text)?,
        Err(_) if fs::metadata(&ignore_file).is_err() => Rules::parse(b"")?,
        Err(cause) => return Err(io("open", &ignore_file)(cause)),
    };
    let mut walk = Walk {
        rules,
        limits,
        remaining: limits.total_bytes,
        links: 0,
        files: Vec::new(),
    };
    walk.directory(&root, "")?;
    Ok(walk.files)
}

/// The check that Helm makes before anything else: there is a `Chart.yaml` of a known version.
fn detect(root: &Path, limits: &Limits) -> Result<(), LoadError> {
    let path = root.join("Chart.yaml");
    let text = read_bounded(&path, limits).map_err(|cause| LoadError::NoChartFile {
        path: path.clone(),
        cause: Box::new(io("open", &path)(cause)),
    })?;
    files::check_version(&text)
}

/// A file as far as it may be; one that is too large is empty here, as what reads it with the others refuses it.
fn read_bounded(path: &Path, limits: &Limits) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    let limit = limits.file_bytes.saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut data)?;
    if data.len() as u64 > limits.file_bytes {
        data.clear();
    }
    Ok(data)
}

/// Removes `.` and `..` by text, as Go's `filepath.Abs` does.
fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

struct Walk<'a> {
    rules: Rules,
    limits: &'a Limits,
    remaining: u64,
    links: usize,
    files: Vec<ChartFile>,
}

/// Links inside links that lead to directories: more than any chart has, less than hurts.
const MAX_LINKED_DEPTH: usize = 64;

impl Walk<'_> {
    fn directory(&mut self, path: &Path, name: &str) -> Result<(), LoadError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(io("open", path))? {
            names.push(entry.map_err(io("readdir", path))?.file_name());
        }
        names.sort();
        for entry in names {
            let path = path.join(&entry);
            let entry = entry.to_string_lossy();
            let name = if name.is_empty() {
                entry.into_owned()
            } else {
                format!("{name}/{entry}")
            };
            self.entry(&path, name)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: String) -> Result<(), LoadError> {
        let about = fs::symlink_metadata(path).map_err(io("lstat", path))?;
        if about.is_symlink() {
            return self.link(path, name);
        }
        self.plain(path, name, &about)
    }

    fn link(&mut self, path: &Path, name: String) -> Result<(), LoadError> {
        let about = fs::metadata(path).map_err(|cause| link_fault(path, cause))?;
        if self.links >= MAX_LINKED_DEPTH {
            return Err(endless(path));
        }
        self.links += 1;
        let done = self.plain(path, name, &about);
        self.links -= 1;
        done
    }

    fn plain(&mut self, path: &Path, name: String, about: &fs::Metadata) -> Result<(), LoadError> {
        if self.rules.ignores(&name, about.is_dir()) {
            return Ok(());
        }
        if about.is_dir() {
            return self.directory(path, &name);
        }
        if !about.is_file() {
            return Err(LoadError::Irregular(path.to_owned()));
        }
        let data = self.read(path, &name, about.len())?;
        self.files.push(ChartFile {
            data: without_bom(&data),
            modified: modified(about),
            name,
        });
        Ok(())
    }

    fn read(&mut self, path: &Path, name: &str, size: u64) -> Result<Vec<u8>, LoadError> {
        let fault = |cause| LoadError::File {
            name: name.to_owned(),
            cause: Box::new(cause),
        };
        if self.files.len() >= self.limits.files {
            return Err(LoadError::TooManyFiles(self.limits.files));
        }
        let data = self.bounded(path, name, size).map_err(fault)?;
        self.remaining -= data.len() as u64;
        Ok(data)
    }

    fn bounded(&self, path: &Path, name: &str, size: u64) -> Result<Vec<u8>, LoadError> {
        let allowed = self.remaining.min(self.limits.file_bytes);
        let mut data = Vec::new();
        if size <= allowed {
            let file = File::open(path).map_err(io("open", path))?;
            data.reserve_exact(usize::try_from(size).unwrap_or(0));
            // One more than allowed: the file may have grown since it was looked at.
            file.take(allowed + 1)
                .read_to_end(&mut data)
                .map_err(io("read", path))?;
        }
        if size.max(data.len() as u64) > self.remaining {
            return Err(LoadError::DirectoryTooLarge(self.limits.total_bytes));
        }
        if size.max(data.len() as u64) > allowed {
            return Err(LoadError::FileTooLarge {
                name: name.to_owned(),
                limit: self.limits.file_bytes,
            });
        }
        Ok(data)
    }
}

/// Why a link cannot be followed: Go does that by itself, one link after the other.
fn link_fault(link: &Path, cause: std::io::Error) -> LoadError {
    let mut at = link.to_owned();
    for _ in 0..255 {
        match fs::read_link(&at) {
            Ok(target) => at = clean(&at.parent().unwrap_or(&at).join(target)),
            // More links on the way than the system takes: this is no fault of the link's own.
            Err(refused) if is_loop(&refused) => return io("open", link)(refused),
            Err(_) if is_loop(&cause) => return io("open", link)(cause),
            Err(_) => {
                let missing = first_missing(&at);
                return LoadError::Link {
                    path: link.to_owned(),
                    cause: Box::new(io("lstat", &missing)(cause)),
                };
            }
        }
    }
    endless(link)
}

fn endless(link: &Path) -> LoadError {
    LoadError::Link {
        path: link.to_owned(),
        cause: Box::new(LoadError::LinkLoop),
    }
}

fn is_loop(error: &std::io::Error) -> bool {
    // ELOOP of Linux, for which the standard library has no stable name yet.
    error.raw_os_error() == Some(40)
}

/// The first part of a path that is not there.
fn first_missing(path: &Path) -> PathBuf {
    let parts: Vec<&Path> = path.ancestors().collect();
    let missing = parts
        .into_iter()
        .rev()
        .find(|part| fs::symlink_metadata(part).is_err());
    missing.unwrap_or(path).to_owned()
}

/// A byte order mark in UTF-8.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) fn without_bom(data: &[u8]) -> Str {
    data.strip_prefix(BOM).unwrap_or(data).into()
}

fn modified(about: &fs::Metadata) -> Option<Timestamp> {
    about.modified().ok().and_then(|time| time.try_into().ok())
}

pub(super) fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> LoadError {
    let path = path.to_owned();
    move |cause| LoadError::Io {
        action,
        path: path.clone(),
        cause,
    }
}

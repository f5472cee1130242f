//! Loading a chart: from a directory, from an archive, from any list of files.

mod archive;
mod directory;
mod files;
pub(crate) mod ignore;
pub(crate) mod wildcard;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::LogLine;
use crate::chart::{Chart, ChartFile};

pub use archive::{load_archive, read_archive};
pub use directory::load_directory;
pub use files::load_files;

/// Bounds on what a chart may unpack to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together; Helm's is 100 MiB. The archives inside `charts/` may unpack to as
    /// much again, all together.
    pub total_bytes: u64,
    /// Bytes of one file. Helm 4.3 has no limit of its own for it, so it is that of the total.
    pub file_bytes: u64,
    /// How many files there may be.
    pub files: usize,
    /// How deep subcharts may lie in subcharts.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total_bytes: 100 * 1024 * 1024,
            file_bytes: 100 * 1024 * 1024,
            files: 20_000,
            depth: 32,
        }
    }
}

/// A chart and what its loading has to say about it.
///
/// Warnings are Helm's log lines without their time and source.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The chart.
    pub chart: Chart,
    /// What a person should know.
    pub warnings: Vec<LogLine>,
}

/// Why a chart could not be loaded. The texts are Helm's.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file system refused.
    #[error("{action} {}: {}", .path.display(), go_io_error(.cause))]
    Io {
        /// The system call, as Go names it: `open`, `stat`, `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Its refusal.
        cause: std::io::Error,
    },
    /// The chart's `Chart.yaml` cannot be read.
    #[error("unable to detect chart at {}: {cause}", .path.display())]
    NoChartFile {
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be read.
        cause: Box<Self>,
    },
    /// A symbolic link leads nowhere, or in circles.
    #[error("error evaluating symlink {}: {cause}", .path.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Why it cannot be followed.
        cause: Box<Self>,
    },
    /// Links that lead from one to the next without an end.
    #[error("EvalSymlinks: too many links")]
    LinkLoop,
    /// A device, a socket or a pipe.
    #[error("cannot load irregular file {} as it has file mode type bits set", .0.display())]
    Irregular(PathBuf),
    /// A file in a directory could not be read, or is too large.
    #[error("error reading {name}: {cause}")]
    File {
        /// Its path from the chart's root.
        name: String,
        /// Why.
        cause: Box<Self>,
    },
    /// A directory holds more than [`Limits::total_bytes`].
    #[error("chart exceeds maximum decompressed size of {0} bytes")]
    DirectoryTooLarge(u64),
    /// An archive unpacks to more than [`Limits::total_bytes`].
    #[error("decompressed chart is larger than the maximum size {0}")]
    ArchiveTooLarge(u64),
    /// A file is larger than [`Limits::file_bytes`].
    #[error("chart file {name:?} is larger than the maximum file size {limit}")]
    FileTooLarge {
        /// Its name.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// More files than [`Limits::files`].
    #[error("chart has more than the maximum of {0} files")]
    TooManyFiles(usize),
    /// Subcharts nest deeper than [`Limits::depth`].
    #[error("chart nests subcharts deeper than the maximum of {0} levels")]
    TooDeep(usize),
    /// A pattern of `.helmignore` is wrong.
    #[error(transparent)]
    Ignore(#[from] ignore::IgnoreError),
    /// An archive without files.
    #[error("no files in chart archive")]
    Empty,
    /// An absolute path in an archive.
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    /// A file outside the chart's folder in an archive.
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideBase(String),
    /// A path with `..` in an archive.
    #[error("chart illegally references parent directory")]
    ParentPath,
    /// A Windows path in an archive.
    #[error("chart contains illegally named files")]
    IllegalName,
    /// `Chart.yaml` is not in a folder of the archive.
    #[error("chart yaml not in base directory")]
    NotInBase,
    /// A file that is no gzip archive.
    #[error("{0}")]
    NotAnArchive(String),
    /// An archive that is damaged.
    #[error("unable to load chart archive")]
    Archive(std::io::Error),
    /// As [`LoadError::Archive`], where Helm says what is wrong.
    #[error("{0}")]
    Damaged(String),
    /// An archive without `Chart.yaml`.
    #[error("unable to detect chart version, no Chart.yaml found")]
    NoChartInArchive,
    /// Neither `v1` nor `v2`.
    #[error("unsupported chart version")]
    UnsupportedVersion,
    /// `v3`, which Helm reads and then has no use for.
    #[error("invalid chart apiVersion")]
    NextVersion,
    /// A file that should be YAML.
    #[error("cannot load {file}: {cause}")]
    Yaml {
        /// Its name.
        file: &'static str,
        /// Go's text.
        cause: goyaml::Error,
    },
    /// No `Chart.yaml`.
    #[error("Chart.yaml file is missing")]
    Missing,
    /// `Chart.yaml` says something that it must not.
    #[error("validation: {0}")]
    Invalid(String),
    /// A subchart could not be loaded.
    #[error("error unpacking subchart {name} in {parent}: {cause}")]
    Subchart {
        /// Its name under `charts/`.
        name: String,
        /// The chart that holds it.
        parent: String,
        /// Why.
        cause: Box<Self>,
    },
    /// A path that only looks like the archive of a subchart.
    #[error("error unpacking subchart tar in {parent}: expected {name}, got {found}")]
    SubchartPath {
        /// The chart that holds it.
        parent: String,
        /// The name under `charts/`.
        name: String,
        /// The path that was found.
        found: String,
    },
}

/// Loads a chart from a directory or an archive, whichever `path` is.
///
/// # Errors
/// See [`load_directory`] and [`load_archive`]; and the path does not exist.
pub fn load(path: &Path, limits: &Limits) -> Result<Loaded, LoadError> {
    let about = std::fs::metadata(path).map_err(|cause| LoadError::Io {
        action: "stat",
        path: path.to_owned(),
        cause,
    })?;
    if about.is_dir() {
        load_directory(path, limits)
    } else {
        archive::load_archive_file(path, limits)
    }
}

/// [`load`] as `helm show`, `lint` and `dependency` do it: without a look at the version of the
/// chart first.
///
/// # Errors
/// As of [`load`].
pub fn load_of_any_version(path: &Path, limits: &Limits) -> Result<Loaded, LoadError> {
    let files = if path.is_dir() {
        directory::read_files(path, limits)?
    } else {
        archive::read_archive_file(path, limits).map_err(plainly)?
    };
    files::assemble(files, limits)
}

/// What is wrong with an archive, in the words of Go's packages.
fn plainly(error: LoadError) -> LoadError {
    let LoadError::Archive(cause) = error else {
        return error;
    };
    let text = cause.to_string();
    LoadError::Damaged(if cause.kind() == std::io::ErrorKind::UnexpectedEof {
        "unexpected EOF".to_owned()
    } else if text.contains("gzip header") {
        "gzip: invalid header".to_owned()
    } else if text.contains("checksum") {
        "gzip: invalid checksum".to_owned()
    } else {
        text
    })
}

/// The files of a chart, whatever is wrong with it: what `lint` looks at. Of a directory, those that
/// `.helmignore` leaves.
///
/// # Errors
/// The directory or archive cannot be read, or is too large.
pub fn load_chart_files(path: &Path, limits: &Limits) -> Result<Vec<ChartFile>, LoadError> {
    if path.is_dir() {
        return directory::read_files(path, limits);
    }
    let file = std::fs::File::open(path).map_err(directory::io("open", path))?;
    archive::read_archive(file, limits).map_err(plainly)
}

/// Whether a path matches a pattern of Go's `filepath.Match`; `false` for a malformed pattern.
#[must_use]
pub fn path_matches(pattern: &str, path: &str) -> bool {
    wildcard::matches(pattern, path).unwrap_or(false)
}

/// The text that Go has for an error of the operating system.
#[must_use]
pub fn go_io_error(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => {
            // Rust's text is `Too many levels of symbolic links (os error 40)`.
            let text = error.to_string();
            let text = text.split(" (os error ").next().unwrap_or_default();
            let mut letters = text.chars();
            letters.next().map_or_else(String::new, |first| {
                first.to_lowercase().chain(letters).collect()
            })
        }
    }
}

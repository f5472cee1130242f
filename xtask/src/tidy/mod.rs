//! The habits that no compiler holds. `ARCHITECTURE.md` and `STYLE.md` give the reasons.

mod faults;
mod imports;
mod packages;
mod reasons;
mod sources;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cargo::{packages as all_packages, root};

/// One thing to put right.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Complaint {
    /// The file, relative to the root.
    file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    line: usize,
    text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.text),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.text),
        }
    }
}

pub(crate) fn run() -> Result<()> {
    let complaints = complaints()?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("{} complaints", complaints.len());
    }
    println!("tidy");
    Ok(())
}

fn complaints() -> Result<Vec<Complaint>> {
    let mut complaints = packages::check(&all_packages()?);
    complaints.extend(faults::check(root()));
    complaints.extend(reasons::check(root()));
    for file in rust_files(root())? {
        let text = fs::read_to_string(root().join(&file))
            .with_context(|| format!("reading {}", file.display()))?;
        let source = sources::Source::new(file, &text);
        complaints.extend(sources::check(&source));
        complaints.extend(imports::check(&source));
    }
    complaints.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(complaints)
}

/// The Rust files of the workspace, relative to the root.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = ["src", "crates", "xtask", "tests", "benches"]
        .map(PathBuf::from)
        .to_vec();
    while let Some(directory) = directories.pop() {
        // Not every directory of the list has to be there.
        let Ok(entries) = fs::read_dir(root.join(&directory)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("reading {}", directory.display()))?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_tidy() {
        let complaints = complaints().unwrap();
        let lines: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}

//! Finding paths in a commit, and reading the files of a chart out of it.
//!
//! There is no worktree: names and links are looked up in tree objects, so that nothing of a repository can ever be a
//! path on this machine. Links that stay inside the repository are followed, as Helm follows them; any other is an
//! error.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use gix::{
    ObjectId,
    objs::{Kind, TreeRefIter, tree::EntryKind},
};

use super::{
    Limits, Reason, SourceError,
    store::{Reader, StoreError},
};

/// Most links that one path may lead through.
const MAX_LINKS: usize = 40;
/// Longest target of a link, in bytes.
const MAX_LINK: u64 = 4096;
/// Most entries of one directory.
const MAX_DIRECTORY: usize = 1_000_000;

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// File, link, directory or submodule.
    pub(crate) kind: EntryKind,
    /// The id of its object.
    pub(crate) id: ObjectId,
}

/// The entries of one directory by name, each kept once however many paths lead through it.
type Directory = Arc<HashMap<Box<[u8]>, Entry>>;

/// One commit, looked at.
pub(crate) struct Tree<'r> {
    reader: &'r mut Reader,
    root: ObjectId,
    directories: HashMap<ObjectId, Directory>,
}

/// Where a path of a repository leads, links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The entry there.
    pub(crate) entry: Entry,
    /// The path without links.
    pub(crate) path: Vec<String>,
}

impl<'r> Tree<'r> {
    /// The tree `root`.
    pub(crate) fn new(reader: &'r mut Reader, root: ObjectId) -> Self {
        Self {
            reader,
            root,
            directories: HashMap::new(),
        }
    }

    /// Looks at another commit, keeping the directories that are known.
    pub(crate) fn set_root(&mut self, root: ObjectId) {
        self.root = root;
    }

    /// Where `path` leads; `None` when there is nothing. `.` and the empty path are the root.
    ///
    /// # Errors
    /// `PathNotFound` for a path or link that leaves the repository or leads in circles.
    pub(crate) fn find(&mut self, path: &str) -> Result<Option<Found>, SourceError> {
        let mut links = 0;
        // What is still to walk, in reverse.
        let mut rest: Vec<String> = parts(path).rev().map(str::to_owned).collect();
        let mut walked: Vec<(String, ObjectId)> = Vec::new();
        let root = Entry {
            kind: EntryKind::Tree,
            id: self.root,
        };
        let mut current = root;
        while let Some(part) = rest.pop() {
            if part == ".." {
                if walked.pop().is_none() {
                    return Err(leaves(path));
                }
                current = walked.last().map_or(root, |(_, id)| Entry {
                    kind: EntryKind::Tree,
                    id: *id,
                });
                continue;
            }
            if current.kind != EntryKind::Tree {
                return Ok(None);
            }
            let Some(entry) = self.directory(current.id)?.get(part.as_bytes()).copied() else {
                return Ok(None);
            };
            if entry.kind == EntryKind::Link {
                links += 1;
                if links > MAX_LINKS {
                    return Err(circles(path));
                }
                let target = self.link_target(entry.id)?;
                if target.starts_with('/') {
                    return Err(leaves(path));
                }
                rest.extend(parts(&target).rev().map(str::to_owned));
                continue;
            }
            walked.push((part, entry.id));
            current = entry;
        }
        let path = walked.into_iter().map(|(part, _)| part).collect();
        Ok(Some(Found {
            entry: current,
            path,
        }))
    }

    fn link_target(&mut self, id: ObjectId) -> Result<String, SourceError> {
        if self.reader.header(id)?.1 > MAX_LINK {
            return Err(SourceError::new(
                Reason::TooLarge,
                "a symbolic link is longer than 4096 bytes",
            ));
        }
        let target = self.reader.read(id, Kind::Blob)?;
        String::from_utf8(target.to_vec()).map_err(|_| {
            SourceError::new(
                Reason::InvalidData,
                "the target of a symbolic link is not UTF-8",
            )
        })
    }

    fn directory(&mut self, id: ObjectId) -> Result<Directory, SourceError> {
        if let Some(known) = self.directories.get(&id) {
            return Ok(Arc::clone(known));
        }
        let data = self.reader.read(id, Kind::Tree)?;
        let mut entries = HashMap::new();
        for entry in TreeRefIter::from_bytes(data, gix::hash::Kind::Sha1) {
            let entry = entry.map_err(|error| {
                StoreError::Damaged(format!("tree {id} cannot be read: {error}"))
            })?;
            if entries.len() >= MAX_DIRECTORY {
                return Err(SourceError::new(
                    Reason::TooLarge,
                    format!("a directory has more than {MAX_DIRECTORY} entries"),
                ));
            }
            let found = Entry {
                kind: entry.mode.kind(),
                id: entry.oid.to_owned(),
            };
            entries.insert(entry.filename.to_vec().into_boxed_slice(), found);
        }
        let entries = Arc::new(entries);
        self.directories.insert(id, Arc::clone(&entries));
        Ok(entries)
    }

    /// The bytes of the file at `path`; `None` when there is none.
    ///
    /// # Errors
    /// As [`find`](Self::find), and `TooLarge`.
    pub(crate) fn file(
        &mut self,
        path: &str,
        limits: &Limits,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        match self.find(path)? {
            Some(Found { entry, .. }) if is_file(entry.kind) => {
                self.blob(entry.id, path, limits.file_bytes).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn blob(&mut self, id: ObjectId, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let (_, size) = self.reader.header(id)?;
        if size > limit {
            return Err(SourceError::new(
                Reason::TooLarge,
                format!("file {path} has {size} bytes, the limit is {limit}"),
            ));
        }
        Ok(self.reader.read(id, Kind::Blob)?.to_vec())
    }

    /// Lists all files below `directory` (a directory, links followed), without reading them.
    ///
    /// # Errors
    /// `TooLarge`, `InvalidData` for names that no file may have, `PathNotFound` for broken links.
    pub(crate) fn walk(&mut self, directory: &Found, limits: &Limits) -> Result<Walk, SourceError> {
        let mut walk = Walk {
            base: directory.path.clone(),
            ..Walk::default()
        };
        let mut trail = vec![directory.path.clone()];
        self.walk_into(directory, "", &mut trail, limits, &mut walk)?;
        Ok(walk)
    }

    fn walk_into(
        &mut self,
        directory: &Found,
        prefix: &str,
        trail: &mut Vec<Vec<String>>,
        limits: &Limits,
        walk: &mut Walk,
    ) -> Result<(), SourceError> {
        if trail.len() > limits.depth {
            return Err(SourceError::new(
                Reason::TooLarge,
                format!("{prefix} lies deeper than {} directories", limits.depth),
            ));
        }
        let entries = self.directory(directory.entry.id)?;
        let mut names: Vec<_> = entries
            .iter()
            .map(|(name, entry)| (&**name, *entry))
            .collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        for (name, entry) in names {
            walk.count += 1;
            if walk.count > limits.chart_entries {
                return Err(SourceError::new(
                    Reason::TooLarge,
                    format!(
                        "the chart has more than {} files and directories",
                        limits.chart_entries
                    ),
                ));
            }
            let name = checked_name(name)?;
            let logical = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}/{name}")
            };
            let mut path = directory.path.clone();
            path.push(name.to_owned());
            let mut found = Found { entry, path };
            if entry.kind == EntryKind::Link {
                found = self.follow(&found, &logical, walk)?;
            }
            match found.entry.kind {
                EntryKind::Tree if trail.contains(&found.path) => return Err(circles(&logical)),
                EntryKind::Tree => {
                    trail.push(found.path.clone());
                    self.walk_into(&found, &logical, trail, limits, walk)?;
                    trail.pop();
                }
                EntryKind::Commit => {
                    walk.submodules
                        .insert(found.path.join("/"), (logical, found.entry.id));
                }
                _ => walk.files.push((logical, found.entry.id)),
            }
        }
        Ok(())
    }

    /// Follows the link `link`, and notes where it leads if that is outside the chart.
    fn follow(
        &mut self,
        link: &Found,
        logical: &str,
        walk: &mut Walk,
    ) -> Result<Found, SourceError> {
        let target = self.link_target(link.entry.id)?;
        if target.starts_with('/') {
            return Err(leaves(logical));
        }
        let parent = link
            .path
            .split_last()
            .map(|(_, parent)| parent.join("/"))
            .unwrap_or_default();
        let path = format!("{parent}/{target}");
        let found = self
            .find(&path)
            .map_err(|error| error.context(format!("link {logical}")))?;
        let found = found.ok_or_else(|| {
            SourceError::new(
                Reason::PathNotFound,
                format!("link {logical} leads to {target}, which does not exist"),
            )
        })?;
        if !found.path.starts_with(&walk.base) {
            walk.outside.push(path);
        }
        Ok(found)
    }

    /// Reads the files of a walk.
    ///
    /// # Errors
    /// `TooLarge`, looked at before anything is unpacked; `LfsPointer`.
    pub(crate) fn read(
        &mut self,
        walk: &Walk,
        limits: &Limits,
    ) -> Result<Vec<(String, Vec<u8>)>, SourceError> {
        let mut total = 0;
        for (path, id) in &walk.files {
            let (_, size) = self.reader.header(*id)?;
            total += size;
            if size > limits.file_bytes {
                return Err(SourceError::new(
                    Reason::TooLarge,
                    format!(
                        "file {path} has {size} bytes, the limit is {}",
                        limits.file_bytes
                    ),
                ));
            }
            if total > limits.chart_bytes {
                return Err(SourceError::new(
                    Reason::TooLarge,
                    format!("the chart has more than {} bytes", limits.chart_bytes),
                ));
            }
        }
        let mut files = Vec::with_capacity(walk.files.len());
        for (path, id) in &walk.files {
            let data = self.blob(*id, path, limits.file_bytes)?;
            check_lfs(path, &data)?;
            files.push((path.clone(), data));
        }
        Ok(files)
    }
}

/// The files below a directory, not yet read.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    base: Vec<String>,
    count: usize,
    /// Path below the directory, and the blob.
    pub(crate) files: Vec<(String, ObjectId)>,
    /// Submodules: by their path in the repository, the path below the directory and the commit.
    pub(crate) submodules: BTreeMap<String, (String, ObjectId)>,
    /// Paths outside the directory that links lead to, as the links say it.
    pub(crate) outside: Vec<String>,
}

/// The parts of a path, without empty ones and `.`.
fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
}

fn is_file(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable)
}

fn leaves(path: &str) -> SourceError {
    SourceError::new(
        Reason::PathNotFound,
        format!("{path} leads out of the repository"),
    )
}

fn circles(path: &str) -> SourceError {
    SourceError::new(
        Reason::PathNotFound,
        format!("{path} leads in circles through symbolic links"),
    )
}

/// A name that git itself would refuse to check out is a crafted one.
fn checked_name(name: &[u8]) -> Result<&str, SourceError> {
    let crafted = |why: &str| {
        Err(SourceError::new(
            Reason::InvalidData,
            format!(
                "the repository has a file name {why}: {:?}",
                String::from_utf8_lossy(name)
            ),
        ))
    };
    let Ok(text) = std::str::from_utf8(name) else {
        return crafted("that is not UTF-8");
    };
    if text.is_empty() || matches!(text, "." | "..") || text.contains(['/', '\\', '\0']) {
        return crafted("that is no name");
    }
    if text.eq_ignore_ascii_case(".git") {
        return crafted("that git forbids");
    }
    Ok(text)
}

/// A pointer where a chart needs content is told apart from bad content.
fn check_lfs(path: &str, data: &[u8]) -> Result<(), SourceError> {
    let pointer =
        data.len() < 1024 && data.starts_with(b"version https://git-lfs.github.com/spec/v1\n");
    let needed = !path.contains('/')
        || ["templates/", "crds/", "charts/"]
            .iter()
            .any(|d| path.starts_with(d));
    if pointer && needed {
        return Err(SourceError::new(
            Reason::LfsPointer,
            format!(
                "{path} is an LFS pointer: store the file in git itself, LFS objects are not fetched"
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gix::objs::Write;

    use super::*;
    use crate::gitsync::store::Store;

    /// A repository made of raw objects, so that it can hold what git would refuse.
    struct Fixture {
        _directory: tempfile::TempDir,
        store: Store,
    }

    type Item<'a> = (&'a str, &'a str, ObjectId);

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = Store::create(&directory.path().join("m"), 200 << 20).unwrap();
            Self {
                _directory: directory,
                store,
            }
        }

        fn blob(&self, data: impl AsRef<[u8]>) -> ObjectId {
            self.store
                .objects()
                .write_buf(Kind::Blob, data.as_ref())
                .unwrap()
        }

        fn tree(&self, items: &[Item<'_>]) -> ObjectId {
            let mut data = Vec::new();
            for (mode, name, id) in items {
                data.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                data.extend_from_slice(id.as_slice());
            }
            self.store.objects().write_buf(Kind::Tree, &data).unwrap()
        }

        fn files(&self, root: ObjectId, path: &str) -> Result<Vec<(String, Vec<u8>)>, SourceError> {
            self.files_within(root, path, &Limits::default())
        }

        fn files_within(
            &self,
            root: ObjectId,
            path: &str,
            limits: &Limits,
        ) -> Result<Vec<(String, Vec<u8>)>, SourceError> {
            let mut reader = self.store.reader();
            let mut tree = Tree::new(&mut reader, root);
            let found = tree.find(path)?.expect("the path exists");
            let walk = tree.walk(&found, limits)?;
            tree.read(&walk, limits)
        }
    }

    const FILE: &str = "100644";
    const LINK: &str = "120000";
    const DIRECTORY: &str = "40000";

    fn names(files: &[(String, Vec<u8>)]) -> Vec<&str> {
        files.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn files_are_listed_with_their_paths_below_the_chart() {
        let f = Fixture::new();
        let templates = f.tree(&[(FILE, "a.yaml", f.blob("a"))]);
        let chart = f.tree(&[
            (FILE, "Chart.yaml", f.blob("c")),
            (DIRECTORY, "templates", templates),
        ]);
        let root = f.tree(&[(DIRECTORY, "chart", chart)]);
        for path in ["chart", "./chart/", "chart/../chart", "/chart"] {
            let files = f.files(root, path).unwrap();
            assert_eq!(names(&files), ["Chart.yaml", "templates/a.yaml"], "{path}");
        }
        assert_eq!(
            names(&f.files(root, ".").unwrap()),
            ["chart/Chart.yaml", "chart/templates/a.yaml"]
        );
    }

    #[test]
    fn a_missing_path_is_none_and_a_file_is_no_directory() {
        let f = Fixture::new();
        let root = f.tree(&[(FILE, "a", f.blob("a"))]);
        let mut reader = f.store.reader();
        let mut tree = Tree::new(&mut reader, root);
        assert_eq!(tree.find("b").unwrap(), None);
        assert_eq!(tree.find("a/b").unwrap(), None);
        assert_eq!(tree.find("A").unwrap(), None, "names are case-sensitive");
    }

    #[test]
    fn s02_links_that_stay_inside_are_followed_and_noted() {
        let f = Fixture::new();
        let common = f.tree(&[(FILE, "labels.tpl", f.blob("labels"))]);
        let chart = f.tree(&[
            (LINK, "inside", f.blob("values.yaml")),
            (LINK, "shared", f.blob("../common")),
            (FILE, "values.yaml", f.blob("a: 1")),
        ]);
        let root = f.tree(&[(DIRECTORY, "chart", chart), (DIRECTORY, "common", common)]);
        let files = f.files(root, "chart").unwrap();
        assert_eq!(
            names(&files),
            ["inside", "shared/labels.tpl", "values.yaml"]
        );
        let mut reader = f.store.reader();
        let mut tree = Tree::new(&mut reader, root);
        let found = tree.find("chart").unwrap().unwrap();
        assert_eq!(
            tree.walk(&found, &Limits::default()).unwrap().outside,
            ["chart/../common"]
        );
    }

    #[test]
    fn s02_links_that_leave_the_repository_are_refused() {
        let f = Fixture::new();
        for target in [
            "/etc/passwd",
            "/proc/self/environ",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "../../x",
            "../../../../../../etc/passwd",
            "a/../../..",
        ] {
            let chart = f.tree(&[(LINK, "values.yaml", f.blob(target))]);
            let root = f.tree(&[(DIRECTORY, "chart", chart)]);
            let error = f.files(root, "chart").unwrap_err();
            assert_eq!(error.reason(), Reason::PathNotFound, "{target}: {error}");
        }
        let root = f.tree(&[(FILE, "a", f.blob("a"))]);
        let mut reader = f.store.reader();
        let mut tree = Tree::new(&mut reader, root);
        for path in ["../x", "../../etc/passwd", "a/../../x"] {
            assert!(tree.find(path).is_err(), "{path}");
        }
    }

    #[test]
    fn s03_loops_and_long_chains_of_links_end() {
        let f = Fixture::new();
        let mut items = vec![
            (LINK, "a".to_owned(), f.blob("b")),
            (LINK, "b".to_owned(), f.blob("a")),
        ];
        for index in 0..100 {
            items.push((
                LINK,
                format!("c{index:03}"),
                f.blob(format!("c{:03}", index + 1)),
            ));
        }
        let items: Vec<Item<'_>> = items
            .iter()
            .map(|(m, n, id)| (*m, n.as_str(), *id))
            .collect();
        let chart = f.tree(&items);
        let root = f.tree(&[(DIRECTORY, "chart", chart)]);
        assert_eq!(
            f.files(root, "chart").unwrap_err().reason(),
            Reason::PathNotFound
        );
        let mut reader = f.store.reader();
        let mut tree = Tree::new(&mut reader, root);
        for path in ["chart/a", "chart/c000"] {
            assert!(
                tree.find(path).unwrap_err().to_string().contains("circles"),
                "{path}"
            );
        }
        let up = f.tree(&[(LINK, "self", f.blob(".")), (LINK, "up", f.blob(".."))]);
        let root = f.tree(&[(DIRECTORY, "chart", up)]);
        let error = f.files(root, "chart").unwrap_err();
        assert!(error.to_string().contains("circles"), "{error}");
    }

    #[test]
    fn s03_a_link_to_a_device_is_a_link_out_of_the_repository() {
        let f = Fixture::new();
        let root = f.tree(&[(LINK, "values.yaml", f.blob("/dev/zero"))]);
        assert!(
            f.files(root, ".")
                .unwrap_err()
                .to_string()
                .contains("leads out of the repository")
        );
    }

    #[test]
    fn s01_names_that_escape_are_refused() {
        let f = Fixture::new();
        for name in ["..", ".", ".git", ".GIT", "a/b", "../../etc/passwd", "a\\b"] {
            let root = f.tree(&[(FILE, name, f.blob("x"))]);
            let error = f.files(root, ".").unwrap_err();
            assert_eq!(error.reason(), Reason::InvalidData, "{name}: {error}");
        }
    }

    #[test]
    fn s06_limits_hold_before_anything_is_unpacked() {
        let f = Fixture::new();
        let limits = Limits {
            file_bytes: 100,
            chart_bytes: 150,
            chart_entries: 5,
            depth: 3,
            ..Limits::default()
        };
        let small = f.blob([b'x'; 80]);
        let large = f.tree(&[(FILE, "values.yaml", f.blob([b'x'; 101]))]);
        let many_bytes = f.tree(&[(FILE, "a", small), (FILE, "b", small)]);
        let many = f.tree(&["a", "b", "c", "d", "e", "f"].map(|name| (FILE, name, small)));
        let deep = (0..4).fold(small, |inner, level| {
            f.tree(&[(if level == 0 { FILE } else { DIRECTORY }, "d", inner)])
        });
        for (root, text) in [
            (large, "file values.yaml has 101 bytes"),
            (many_bytes, "more than 150 bytes"),
            (many, "more than 5 files"),
            (deep, "deeper than 3"),
        ] {
            let error = f.files_within(root, ".", &limits).unwrap_err();
            assert_eq!(error.reason(), Reason::TooLarge);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn s07_names_are_compared_as_bytes() {
        let f = Fixture::new();
        let root = f.tree(&[
            (FILE, "CHART.yaml", f.blob("1")),
            (FILE, "Chart.yaml", f.blob("2")),
            (FILE, "caf\u{e9}.YAML", f.blob("3")),
            (FILE, "cafe\u{301}.YAML", f.blob("4")),
        ]);
        assert_eq!(f.files(root, ".").unwrap().len(), 4);
    }

    #[test]
    fn an_lfs_pointer_where_content_is_needed_is_told() {
        let f = Fixture::new();
        let pointer =
            f.blob("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
        let root = f.tree(&[(FILE, "values.yaml", pointer)]);
        let error = f.files(root, ".").unwrap_err();
        assert_eq!(error.reason(), Reason::LfsPointer);
        assert!(
            error
                .to_string()
                .starts_with("values.yaml is an LFS pointer"),
            "{error}"
        );
        let docs = f.tree(&[(FILE, "picture.png", pointer)]);
        let root = f.tree(&[(DIRECTORY, "docs", docs)]);
        assert!(
            f.files(root, ".").is_ok(),
            "a pointer that no template needs is a file"
        );
    }

    #[test]
    fn s15_an_object_that_is_not_what_its_id_says_is_damage() {
        let f = Fixture::new();
        let id = f.blob("honest");
        let other = f.blob("forged");
        let path = |id: ObjectId| {
            let hex = id.to_string();
            f.store
                .directory()
                .join("objects")
                .join(&hex[..2])
                .join(&hex[2..])
        };
        std::fs::remove_file(path(id)).unwrap();
        std::fs::copy(path(other), path(id)).unwrap();
        let root = f.tree(&[(FILE, "a", id)]);
        let error = f.files(root, ".").unwrap_err();
        assert_eq!(error.reason(), Reason::StorageFailed);
        assert!(error.to_string().contains("has the content of"), "{error}");
    }
}

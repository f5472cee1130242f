//! The disk side of a mirror: a bare git repository that any git can read.
//!
//! Nothing on disk is trusted. Every object is checked against its id when it is read, so that a chart is what its
//! commit says or is not read at all; whatever does not fit is [damage](StoreError::Damaged), and the mirror is fetched
//! anew. Files are written beside their place and renamed, so that a kill leaves nothing half-written under a name that
//! is looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use gix::{ObjectId, objs::Kind, odb::Header as _};

use super::{Reason, SourceError};

/// Most bytes of `packed-refs` and `shallow`.
const MAX_TEXT: u64 = 64 << 20;

/// Why the store cannot do what it should.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum StoreError {
    /// What is on disk is not what was written: fetch anew.
    #[error("the mirror is damaged: {0}")]
    Damaged(String),
    /// A limit was reached.
    #[error("{0}")]
    TooLarge(String),
    /// The disk refuses.
    #[error("the cache directory cannot be used: {0}")]
    Disk(String),
}

impl From<StoreError> for SourceError {
    fn from(error: StoreError) -> Self {
        let reason = match error {
            StoreError::Damaged(_) | StoreError::Disk(_) => Reason::StorageFailed,
            StoreError::TooLarge(_) => Reason::TooLarge,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

/// A ref of the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tip {
    /// What the ref points at on the remote.
    pub(crate) id: ObjectId,
    /// The commit, after annotated tags are followed.
    pub(crate) commit: ObjectId,
}

/// The refs of a mirror by their full names (`HEAD` among them).
pub(crate) type Refs = BTreeMap<String, Tip>;

/// Room for packs: those that are there, and as many as are added before all are packed into one. Each takes a hundred
/// bytes, used or not.
const SLOTS: gix::odb::store::init::Slots = gix::odb::store::init::Slots::AsNeededByDiskState {
    multiplier: 2.0,
    minimum: 128,
};

/// A bare repository on disk, open for reading.
pub(crate) struct Store {
    directory: PathBuf,
    /// A handle has buffers of its own for what it unpacks, so there is one only while someone reads.
    objects: Arc<gix::odb::Store>,
    object_limit: u64,
    bytes: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Makes an empty store in `directory`, which must not exist.
    ///
    /// # Errors
    /// `Disk`.
    pub(crate) fn create(directory: &Path, object_limit: u64) -> Result<Self, StoreError> {
        for part in [
            "",
            "objects",
            "objects/pack",
            "objects/info",
            "refs",
            "refs/heads",
        ] {
            private_directory(&directory.join(part))?;
        }
        write_atomically(
            &directory.join("config"),
            b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
        )?;
        write_atomically(&directory.join("HEAD"), b"ref: refs/heads/main\n")?;
        Self::open(directory, object_limit)
    }

    /// Opens the store in `directory` and sweeps what a kill left there.
    ///
    /// # Errors
    /// `Damaged` when it is none, `Disk`.
    pub(crate) fn open(directory: &Path, object_limit: u64) -> Result<Self, StoreError> {
        if fs::symlink_metadata(directory)?.file_type().is_symlink() {
            return Err(StoreError::Damaged(
                "its directory is a symbolic link".into(),
            ));
        }
        if !directory.join("HEAD").is_file() {
            return Err(StoreError::Damaged("it has no HEAD".into()));
        }
        sweep(&directory.join("objects/pack"))?;
        let options = gix::odb::store::init::Options {
            slots: SLOTS,
            use_multi_pack_index: false,
            alloc_limit_bytes: usize::try_from(object_limit).ok(),
            ..Default::default()
        };
        let objects = gix::odb::at_opts(
            directory.join("objects"),
            gix::hash::Kind::Sha1,
            [],
            options,
        )?;
        let store = Self {
            directory: directory.to_owned(),
            objects: objects.into_inner().store(),
            object_limit,
            bytes: AtomicU64::new(0),
        };
        store.measure();
        Ok(store)
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A handle for one thread.
    pub(crate) fn objects(&self) -> gix::odb::Handle {
        self.objects.to_cache()
    }

    /// True when the object is there; its content is not looked at.
    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        use gix::objs::Exists;
        self.objects().exists(&id)
    }

    /// A reader for one thread.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            objects: self.objects(),
            limit: self.object_limit,
            buffer: Vec::new(),
        }
    }

    /// Bytes on disk, as last measured.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Counts the packs, and measures the bytes on disk.
    pub(crate) fn measure(&self) -> usize {
        let mut packs = 0;
        let mut bytes = 0;
        let entries = fs::read_dir(self.directory.join("objects/pack"))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            packs += usize::from(entry.path().extension().is_some_and(|e| e == "pack"));
        }
        self.bytes
            .store(bytes, std::sync::atomic::Ordering::Relaxed);
        packs
    }

    /// The refs as they were saved last.
    ///
    /// # Errors
    /// `Damaged` when the file does not parse to its end.
    pub(crate) fn refs(&self) -> Result<Refs, StoreError> {
        match read_bounded(&self.directory.join("packed-refs"))? {
            Some(text) => parse_refs(&text),
            None => Ok(Refs::new()),
        }
    }

    /// Saves the refs, all at once.
    ///
    /// # Errors
    /// `Disk`.
    pub(crate) fn save_refs(&self, refs: &Refs) -> Result<(), StoreError> {
        Ok(write_atomically(
            &self.directory.join("packed-refs"),
            format_refs(refs).as_bytes(),
        )?)
    }

    /// Commits whose parents are missing on purpose.
    ///
    /// # Errors
    /// `Damaged` when the file does not parse.
    pub(crate) fn shallow(&self) -> Result<BTreeSet<ObjectId>, StoreError> {
        let Some(text) = read_bounded(&self.directory.join("shallow"))? else {
            return Ok(BTreeSet::new());
        };
        text.lines().map(parse_id).collect()
    }

    /// Saves the commits whose parents are missing on purpose.
    ///
    /// # Errors
    /// `Disk`.
    pub(crate) fn save_shallow(&self, shallow: &BTreeSet<ObjectId>) -> Result<(), StoreError> {
        let text: String = shallow.iter().map(|id| format!("{id}\n")).collect();
        Ok(write_atomically(
            &self.directory.join("shallow"),
            text.as_bytes(),
        )?)
    }
}

/// Reads objects, each checked against its id.
pub(crate) struct Reader {
    objects: gix::odb::Handle,
    limit: u64,
    buffer: Vec<u8>,
}

impl Reader {
    /// Kind and size of an object, without unpacking it.
    ///
    /// # Errors
    /// `Damaged` when it is missing or unreadable.
    pub(crate) fn header(&self, id: ObjectId) -> Result<(Kind, u64), StoreError> {
        match self.objects.try_header(&id) {
            Ok(Some(header)) => Ok((header.kind(), header.size())),
            Ok(None) => Err(missing(id)),
            Err(error) => Err(damaged(id, &error)),
        }
    }

    /// The content of an object that must be of this kind.
    ///
    /// # Errors
    /// `Damaged` when it is missing, of another kind, or not what its id says; `TooLarge`.
    pub(crate) fn read(&mut self, id: ObjectId, wanted: Kind) -> Result<&[u8], StoreError> {
        let (kind, size) = self.header(id)?;
        if size > self.limit {
            let limit = self.limit;
            return Err(StoreError::TooLarge(format!(
                "object {id} has {size} bytes, the limit is {limit}"
            )));
        }
        if kind != wanted {
            return Err(StoreError::Damaged(format!(
                "object {id} is a {kind} and not a {wanted}"
            )));
        }
        let found = gix::objs::Find::try_find(&self.objects, &id, &mut self.buffer);
        let data = match found {
            Ok(Some(data)) if data.kind == wanted => data.data,
            Ok(Some(_)) => {
                return Err(StoreError::Damaged(format!("object {id} changed its kind")));
            }
            Ok(None) => return Err(missing(id)),
            Err(error) => return Err(damaged(id, &error)),
        };
        check_id(id, kind, data)?;
        Ok(data)
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn tree_of(&mut self, commit: ObjectId) -> Result<ObjectId, StoreError> {
        let data = self.read(commit, Kind::Commit)?;
        gix::objs::CommitRefIter::from_bytes(data, gix::hash::Kind::Sha1)
            .tree_id()
            .map_err(|error| damaged(commit, &error))
    }

    /// The commit that `id` names, through any annotated tags.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Damaged` when it leads to no commit.
    pub(crate) fn peel(&mut self, id: ObjectId) -> Result<ObjectId, StoreError> {
        let mut id = id;
        for _ in 0..16 {
            match self.header(id)?.0 {
                Kind::Commit => return Ok(id),
                Kind::Tag => {
                    let data = self.read(id, Kind::Tag)?;
                    id = gix::objs::TagRefIter::from_bytes(data, gix::hash::Kind::Sha1)
                        .target_id()
                        .map_err(|error| damaged(id, &error))?;
                }
                other => return Err(StoreError::Damaged(format!("{id} is a {other}, no commit"))),
            }
        }
        Err(StoreError::Damaged(format!(
            "{id} is a tag of a tag of a tag …"
        )))
    }

    /// The one commit whose id starts with these digits; `None` when there is none or more than one.
    pub(crate) fn by_prefix(&self, digits: &str) -> Option<ObjectId> {
        let prefix = gix::hash::Prefix::from_hex(digits).ok()?;
        let mut candidates = Some(std::collections::HashSet::new());
        let found = self
            .objects
            .lookup_prefix(prefix, candidates.as_mut())
            .ok()??;
        if let Ok(id) = found {
            return self.is_commit(id).then_some(id);
        }
        // Several objects: git then takes the only commit among them.
        let mut commits = candidates
            .into_iter()
            .flatten()
            .filter(|id| self.is_commit(*id));
        commits.next().filter(|_| commits.next().is_none())
    }

    fn is_commit(&self, id: ObjectId) -> bool {
        self.header(id).is_ok_and(|(kind, _)| kind == Kind::Commit)
    }
}

/// Checks content against its id, with detection of SHA-1 collision attacks.
fn check_id(id: ObjectId, kind: Kind, data: &[u8]) -> Result<(), StoreError> {
    match gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, data) {
        Ok(actual) if actual == id => Ok(()),
        Ok(actual) => Err(StoreError::Damaged(format!(
            "object {id} has the content of {actual}"
        ))),
        Err(error) => Err(damaged(id, &error)),
    }
}

fn missing(id: ObjectId) -> StoreError {
    StoreError::Damaged(format!("object {id} is missing"))
}

fn damaged(id: ObjectId, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("object {id} cannot be read: {error}"))
}

/// Makes a directory for this user only, unless it is there.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

/// Writes a file for this user only, beside its place, and renames it there.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&temporary, path)
}

/// Removes what is no pack with an index: temporary files, and halves of a pair.
fn sweep(packs: &Path) -> io::Result<()> {
    for entry in fs::read_dir(packs)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let partner = match path.extension().and_then(|extension| extension.to_str()) {
            Some("pack") => Some("idx"),
            Some("idx") => Some("pack"),
            _ => None,
        };
        let whole = name.is_some_and(|name| name.starts_with("pack-"))
            && partner.is_some_and(|partner| path.with_extension(partner).is_file());
        if !whole {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn read_bounded(path: &Path) -> Result<Option<String>, StoreError> {
    use std::io::Read;
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut bytes)?;
    let damaged = || StoreError::Damaged(format!("{} is not text", path.display()));
    String::from_utf8(bytes).map(Some).map_err(|_| damaged())
}

const REFS_HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

fn format_refs(refs: &Refs) -> String {
    let mut text = REFS_HEADER.to_owned();
    for (name, tip) in refs {
        text.extend([&tip.id.to_string(), " ", name, "\n"]);
        if tip.commit != tip.id {
            text.extend(["^", &tip.commit.to_string(), "\n"]);
        }
    }
    text.push_str("# end\n");
    text
}

/// The counterpart of [`format_refs`]. A cut file lacks its last line, and is damage rather than fewer refs.
fn parse_refs(text: &str) -> Result<Refs, StoreError> {
    let damaged = || StoreError::Damaged("packed-refs is cut or changed".into());
    let body = text
        .strip_prefix(REFS_HEADER)
        .and_then(|text| text.strip_suffix("# end\n"));
    let mut refs = Refs::new();
    let mut last: Option<String> = None;
    for line in body.ok_or_else(damaged)?.lines() {
        if let Some(commit) = line.strip_prefix('^') {
            let tip = last
                .take()
                .and_then(|name| refs.get_mut(&name))
                .ok_or_else(damaged)?;
            tip.commit = parse_id(commit)?;
            continue;
        }
        let (id, name) = line.split_once(' ').ok_or_else(damaged)?;
        let id = parse_id(id)?;
        refs.insert(name.to_owned(), Tip { id, commit: id });
        last = Some(name.to_owned());
    }
    Ok(refs)
}

fn parse_id(text: &str) -> Result<ObjectId, StoreError> {
    ObjectId::from_hex(text.as_bytes())
        .map_err(|_| StoreError::Damaged("an object id is not forty hex digits".into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn id(digit: char) -> ObjectId {
        ObjectId::from_hex(digit.to_string().repeat(40).as_bytes()).unwrap()
    }

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("m"), 1 << 20).unwrap();
        (directory, store)
    }

    #[test]
    fn refs_survive_a_round_trip() {
        let (_directory, store) = store();
        assert_eq!(store.refs().unwrap(), Refs::new());
        let refs = Refs::from([
            (
                "HEAD".to_owned(),
                Tip {
                    id: id('1'),
                    commit: id('1'),
                },
            ),
            (
                "refs/tags/v1".to_owned(),
                Tip {
                    id: id('2'),
                    commit: id('1'),
                },
            ),
            (
                "refs/heads/a".to_owned(),
                Tip {
                    id: id('3'),
                    commit: id('3'),
                },
            ),
            (
                "refs/heads/a/b".to_owned(),
                Tip {
                    id: id('3'),
                    commit: id('3'),
                },
            ),
        ]);
        store.save_refs(&refs).unwrap();
        assert_eq!(store.refs().unwrap(), refs);
    }

    #[test]
    fn r17_a_cut_or_changed_packed_refs_is_damage_and_not_fewer_refs() {
        let tip = Tip {
            id: id('2'),
            commit: id('1'),
        };
        let whole = format_refs(&Refs::from([("refs/tags/v1".to_owned(), tip)]));
        for cut in 0..whole.len() {
            assert!(parse_refs(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(parse_refs(&whole.replace("refs", "^efs")).is_err());
    }

    #[test]
    fn shallow_commits_survive_a_round_trip() {
        let (_directory, store) = store();
        assert!(store.shallow().unwrap().is_empty());
        let shallow = BTreeSet::from([id('1'), id('2')]);
        store.save_shallow(&shallow).unwrap();
        assert_eq!(store.shallow().unwrap(), shallow);
    }

    #[test]
    fn s36_files_and_directories_are_for_this_user_only() {
        let (_directory, store) = store();
        store.save_refs(&Refs::new()).unwrap();
        let mode = |path: &str| {
            fs::metadata(store.directory().join(path))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        for path in ["", "objects", "objects/pack", "refs"] {
            assert_eq!(mode(path), 0o700, "{path}");
        }
        for path in ["config", "HEAD", "packed-refs"] {
            assert_eq!(mode(path), 0o600, "{path}");
        }
    }

    #[test]
    fn s36_a_planted_link_is_replaced_and_not_followed() {
        let (directory, store) = store();
        let target = directory.path().join("canary");
        fs::write(&target, "canary").unwrap();
        for name in ["packed-refs", "packed-refs.new"] {
            let _ = fs::remove_file(store.directory().join(name));
            std::os::unix::fs::symlink(&target, store.directory().join(name)).unwrap();
            store.save_refs(&Refs::new()).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), "canary", "{name}");
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(store.directory(), &link).unwrap();
        assert!(matches!(Store::open(&link, 1), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn opening_sweeps_what_a_kill_left() {
        let (_directory, store) = store();
        let packs = store.directory().join("objects/pack");
        for name in [
            "tmpAb12",
            "pack-1.pack",
            "pack-2.idx",
            "pack-3.keep",
            "pack-4.pack",
            "pack-4.idx",
        ] {
            fs::write(packs.join(name), "x").unwrap();
        }
        sweep(&packs).unwrap();
        let mut left: Vec<_> = fs::read_dir(&packs)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["pack-4.idx", "pack-4.pack"]);
    }

    #[test]
    fn s14_a_collision_attack_on_sha1_is_refused() {
        // The first 320 bytes of the two files of the SHAttered attack (2017): equal SHA-1, different content.
        let prefix = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033203020522f547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f7253706163652037203020522f4c656e6774682038203020522f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        };
        let first = "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1";
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&bytes(prefix));
        assert!(hasher.clone().try_finalize().is_ok());
        hasher.update(&bytes(first));
        assert!(
            hasher.try_finalize().is_err(),
            "the hash that check_id uses finds the attack"
        );
    }
}

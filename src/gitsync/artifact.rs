//! What a source gives: the files of one chart, and what they are called.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use gix::ObjectId;

use super::{GitSource, mirror::MirrorKey};

/// One file of a chart: its path below the chart directory, with `/` between the parts, and its bytes.
pub type ChartFile = (String, Vec<u8>);

/// The files of a chart at one revision, ready for the engine's loader.
///
/// Cloning is cheap: the files are shared.
#[derive(Debug, Clone)]
pub struct ChartArtifact {
    /// Names the content: equal digests mean equal files. For git the tree id of the chart directory (plus the ids of
    /// what it reaches outside itself); for an archive `sha256:…`.
    pub digest: String,
    /// What status and Events call the revision: the full commit id, or the chart version for a repository.
    pub revision: String,
    /// The files sorted by path, so that two loads of one tree are equal.
    pub files: Arc<Vec<ChartFile>>,
    /// Name and version as `Chart.yaml` says, when it could be read.
    pub chart: Option<ChartName>,
    /// Other files can be meant tomorrow with nothing that tells of it: a dependency is a range, and no lock file says
    /// which version.
    pub can_move: bool,
}

/// Name and version of a chart, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartName {
    /// `name` of `Chart.yaml`.
    pub name: String,
    /// `version` of `Chart.yaml`.
    pub version: String,
}

impl ChartArtifact {
    /// Bytes of all files together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.files
            .iter()
            .map(|(path, data)| path.len() + data.len())
            .sum()
    }

    /// The bytes of the file at `path`, if the chart has it.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        let at = self
            .files
            .binary_search_by(|(name, _)| name.as_str().cmp(path))
            .ok()?;
        self.files.get(at).map(|(_, data)| data.as_slice())
    }
}

type ArtifactKey = (MirrorKey, ObjectId, GitSource);

#[derive(Debug, Default)]
struct Kept {
    artifacts: HashMap<ArtifactKey, ChartArtifact>,
    oldest_first: VecDeque<ArtifactKey>,
    bytes: usize,
}

/// Charts that were read a short while ago: when a commit wakes many releases of one chart, it is read once.
#[derive(Debug)]
pub(crate) struct ArtifactCache {
    limit: usize,
    kept: Mutex<Kept>,
}

impl ArtifactCache {
    /// A cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Mutex::default(),
        }
    }

    /// The chart, if it is kept.
    pub(crate) fn get(
        &self,
        mirror: &MirrorKey,
        commit: ObjectId,
        source: &GitSource,
    ) -> Option<ChartArtifact> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.artifacts
            .get(&(mirror.clone(), commit, source.clone()))
            .cloned()
    }

    /// Keeps a chart, in place of the oldest ones.
    pub(crate) fn put(
        &self,
        mirror: &MirrorKey,
        commit: ObjectId,
        source: &GitSource,
        artifact: &ChartArtifact,
    ) {
        let size = artifact.size();
        if size > self.limit / 2 {
            return;
        }
        let key = (mirror.clone(), commit, source.clone());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept
            .artifacts
            .insert(key.clone(), artifact.clone())
            .is_some()
        {
            return;
        }
        kept.oldest_first.push_back(key);
        kept.bytes += size;
        while kept.bytes > self.limit {
            let Some(oldest) = kept.oldest_first.pop_front() else {
                break;
            };
            if let Some(dropped) = kept.artifacts.remove(&oldest) {
                kept.bytes -= dropped.size();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gitsync::{RepositoryUrl, mirror::CredentialKey};

    fn artifact(bytes: usize) -> ChartArtifact {
        ChartArtifact {
            digest: "d".into(),
            revision: "r".into(),
            files: Arc::new(vec![("a".to_owned(), vec![0; bytes - 1])]),
            chart: None,
            can_move: false,
        }
    }

    #[test]
    fn the_cache_keeps_its_limit_and_drops_the_oldest() {
        let cache = ArtifactCache::new(100);
        let key = MirrorKey {
            url: "u".into(),
            credential: CredentialKey::Daemon,
        };
        let id = ObjectId::null(gix::hash::Kind::Sha1);
        let source =
            |path: &str| GitSource::new(RepositoryUrl::parse("https://h/x").unwrap(), path);
        for path in ["a", "b", "c"] {
            cache.put(&key, id, &source(path), &artifact(40));
        }
        assert!(cache.get(&key, id, &source("a")).is_none());
        assert!(cache.get(&key, id, &source("c")).is_some());
        cache.put(&key, id, &source("huge"), &artifact(90));
        assert!(
            cache.get(&key, id, &source("huge")).is_none(),
            "it would push out everything else"
        );
        let other = MirrorKey {
            credential: CredentialKey::Url([1; 32]),
            ..key
        };
        assert!(
            cache.get(&other, id, &source("c")).is_none(),
            "another credential, another cache entry"
        );
    }
}

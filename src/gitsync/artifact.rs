//! What a source gives: the files of one chart, and what they are called.

use std::sync::Arc;

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

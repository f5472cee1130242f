//! One chart at one commit: which paths it is made of, what that content is called, and its files.

use std::collections::BTreeSet;

use gix::{ObjectId, objs::tree::EntryKind};
use sha2::{Digest, Sha256};

use super::{
    ChartArtifact, ChartFile, ChartName, GitSource, Limits, Reason, SourceError,
    store::Reader,
    submodules::{self, Submodule},
    tree::{Entry, Found, Tree, Walk},
};

/// Most paths outside its directory that one chart may depend on.
const MAX_OUTSIDE: usize = 256;
/// How deep `file://` dependencies may depend on each other.
const MAX_NESTING: usize = 8;

/// What a chart is made of: its directory first, then what it reaches outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Paths in the repository.
    paths: Vec<String>,
    /// What is at each of them.
    entries: Vec<Option<Entry>>,
}

impl Footprint {
    /// True when every path still has the same content in `tree`: the one look-up per release and commit.
    pub(crate) fn is_same_in(&self, tree: &mut Tree<'_>) -> bool {
        self.paths.iter().zip(&self.entries).all(|(path, entry)| {
            // A path that became an error (a link out of the repository) is a change too.
            tree.find(path)
                .is_ok_and(|found| found.map(|found| found.entry) == *entry)
        })
    }

    /// The name of this content: the tree id of the chart, and a hash of the rest if there is any.
    pub(crate) fn digest(&self) -> String {
        let Some((Some(chart), rest)) = self.entries.split_first() else {
            return String::new();
        };
        if rest.is_empty() {
            return chart.id.to_string();
        }
        let mut hash = Sha256::new();
        for (path, entry) in self.paths.iter().skip(1).zip(rest) {
            hash.update(path.as_bytes());
            hash.update([0]);
            hash.update(
                entry
                    .map_or(ObjectId::null(gix::hash::Kind::Sha1), |e| e.id)
                    .as_slice(),
            );
        }
        let hash = hash.finalize();
        let short: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{}-{short}", chart.id)
    }
}

/// A chart found in a commit, not yet read.
#[derive(Debug)]
pub(crate) struct ChartTree {
    /// What it is made of.
    pub(crate) footprint: Footprint,
    walk: Walk,
    dependencies: Vec<Dependency>,
}

/// A `file://` dependency that is taken from the repository.
#[derive(Debug)]
struct Dependency {
    name: String,
    walk: Walk,
    dependencies: Vec<Self>,
}

/// Finds the chart of `source` in `tree`.
///
/// # Errors
/// `PathNotFound` when it is not there, and what a walk has against it.
pub(crate) fn inspect(
    tree: &mut Tree<'_>,
    source: &GitSource,
    limits: &Limits,
) -> Result<ChartTree, SourceError> {
    let Some(found) = tree.find(&source.path)? else {
        return Err(missing(&source.path, "no directory"));
    };
    if found.entry.kind != EntryKind::Tree {
        return Err(missing(&source.path, "a file and no directory"));
    }
    let walk = tree.walk(&found, limits)?;
    let mut outside: BTreeSet<String> = walk.outside.iter().cloned().collect();
    let chart = found.path.join("/");
    for path in &source.watch {
        outside.insert(format!("{chart}/{path}"));
    }
    let dependencies = if source.skip_dep_update {
        Vec::new()
    } else {
        local_dependencies(tree, &found, &walk, limits, &mut outside, MAX_NESTING)?
    };
    if !walk.submodules.is_empty() && source.submodules {
        outside.insert(".gitmodules".to_owned());
    }
    if outside.len() > MAX_OUTSIDE {
        return Err(SourceError::new(
            Reason::TooLarge,
            format!("the chart reaches more than {MAX_OUTSIDE} paths outside its directory"),
        ));
    }
    let footprint = footprint(tree, &source.path, outside)?;
    Ok(ChartTree {
        footprint,
        walk,
        dependencies,
    })
}

/// What to watch for a chart that is not there or cannot be walked: its path alone.
pub(crate) fn minimal_footprint(tree: &mut Tree<'_>, source: &GitSource) -> Footprint {
    let entry = tree
        .find(&source.path)
        .ok()
        .flatten()
        .map(|found| found.entry);
    Footprint {
        paths: vec![source.path.clone()],
        entries: vec![entry],
    }
}

fn footprint(
    tree: &mut Tree<'_>,
    chart: &str,
    outside: BTreeSet<String>,
) -> Result<Footprint, SourceError> {
    let paths: Vec<String> = std::iter::once(chart.to_owned()).chain(outside).collect();
    let mut entries = Vec::with_capacity(paths.len());
    for path in &paths {
        entries.push(tree.find(path)?.map(|found| found.entry));
    }
    Ok(Footprint { paths, entries })
}

fn missing(path: &str, what: &str) -> SourceError {
    SourceError::new(
        Reason::PathNotFound,
        format!(
            "no such file or directory: the commit has {what} `{path}`: check spec.chart.path (upper and lower case count)"
        ),
    )
}

/// The `file://` dependencies of the chart at `chart` that are directories of the repository.
fn local_dependencies(
    tree: &mut Tree<'_>,
    chart: &Found,
    walk: &Walk,
    limits: &Limits,
    outside: &mut BTreeSet<String>,
    nesting: usize,
) -> Result<Vec<Dependency>, SourceError> {
    let mut dependencies = Vec::new();
    let base = chart.path.join("/");
    for (name, relative) in declared(tree, &base, limits)? {
        let vendored = format!("charts/{name}/");
        if walk
            .files
            .iter()
            .any(|(path, _)| path.starts_with(&vendored))
        {
            continue;
        }
        let path = if relative.starts_with('/') {
            return Err(dependency_error(&name, "its path is absolute"));
        } else {
            format!("{base}/{relative}")
        };
        let found = tree
            .find(&path)
            .map_err(|error| error.context(format!("dependency {name}")))?;
        let Some(found) = found.filter(|found| found.entry.kind == EntryKind::Tree) else {
            return Err(dependency_error(
                &name,
                &format!("the repository has no directory {relative}"),
            ));
        };
        if nesting == 0 {
            return Err(dependency_error(&name, "dependencies nest too deep"));
        }
        let walk = tree.walk(&found, limits)?;
        outside.insert(path);
        outside.extend(walk.outside.iter().cloned());
        let nested = local_dependencies(tree, &found, &walk, limits, outside, nesting - 1)?;
        dependencies.push(Dependency {
            name,
            walk,
            dependencies: nested,
        });
    }
    Ok(dependencies)
}

fn dependency_error(name: &str, why: &str) -> SourceError {
    SourceError::new(
        Reason::PathNotFound,
        format!("dependency {name} (file://): {why}"),
    )
}

/// Name and relative path of each `file://` dependency that the chart at `base` declares.
fn declared(
    tree: &mut Tree<'_>,
    base: &str,
    limits: &Limits,
) -> Result<Vec<(String, String)>, SourceError> {
    let mut found = Vec::new();
    for file in ["Chart.yaml", "requirements.yaml"] {
        let Some(text) = tree.file(&format!("{base}/{file}"), limits)? else {
            continue;
        };
        // Most charts have none; those are not parsed here.
        if !contains(&text, b"file://") {
            continue;
        }
        // What is wrong in it is told by the loader, in Helm's words.
        let Ok(document) = goyaml::read(&text) else {
            continue;
        };
        let list = document
            .get("dependencies")
            .and_then(goyaml::Tree::as_list)
            .unwrap_or_default();
        for entry in list.iter().take(MAX_OUTSIDE) {
            let text = |key: &str| {
                entry
                    .get(key)?
                    .as_str()
                    .map(|text| text.to_text().into_owned())
            };
            let path =
                text("repository").and_then(|r| r.strip_prefix("file://").map(str::to_owned));
            if let (Some(name), Some(path)) = (text("name"), path) {
                check_name(&name)?;
                found.push((name, path));
            }
        }
    }
    Ok(found)
}

/// A dependency's name becomes a directory of the chart.
fn check_name(name: &str) -> Result<(), SourceError> {
    if name.is_empty() || name.starts_with(['.', '_']) || name.contains(['/', '\\', '\0']) {
        return Err(SourceError::new(
            Reason::InvalidData,
            format!("a dependency has a name that is none: {name:?}"),
        ));
    }
    Ok(())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

/// Reads the files of `chart`.
///
/// # Errors
/// `TooLarge`, `LfsPointer`, and damage.
pub(crate) fn load(
    tree: &mut Tree<'_>,
    chart: &ChartTree,
    limits: &Limits,
) -> Result<Vec<ChartFile>, SourceError> {
    let mut files = tree.read(&chart.walk, limits)?;
    for dependency in &chart.dependencies {
        add_dependency(tree, dependency, "charts", limits, &mut files)?;
    }
    let bytes: u64 = files.iter().map(|(_, data)| data.len() as u64).sum();
    if bytes > limits.chart_bytes {
        return Err(SourceError::new(
            Reason::TooLarge,
            format!(
                "the chart and its dependencies have more than {} bytes",
                limits.chart_bytes
            ),
        ));
    }
    files.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    Ok(files)
}

fn add_dependency(
    tree: &mut Tree<'_>,
    dependency: &Dependency,
    prefix: &str,
    limits: &Limits,
    files: &mut Vec<ChartFile>,
) -> Result<(), SourceError> {
    let directory = format!("{prefix}/{}", dependency.name);
    // As `helm dependency update` does, the archive of an older version gives way.
    files.retain(|(path, _)| !is_archive_of(path, prefix, &dependency.name));
    for (path, data) in tree.read(&dependency.walk, limits)? {
        files.push((format!("{directory}/{path}"), data));
    }
    for nested in &dependency.dependencies {
        add_dependency(tree, nested, &format!("{directory}/charts"), limits, files)?;
    }
    Ok(())
}

/// `charts/common-1.2.3.tgz` is an archive of `common`; `charts/common-extra-1.0.0.tgz` is not.
fn is_archive_of(path: &str, prefix: &str, name: &str) -> bool {
    let version = path
        .strip_prefix(prefix)
        .and_then(|rest| {
            rest.strip_prefix('/')?
                .strip_prefix(name)?
                .strip_prefix('-')
        })
        .and_then(|rest| rest.strip_suffix(".tgz"));
    version.is_some_and(|version| semver::Version::parse(version).is_ok())
}

/// A chart that was read, and what it has in other repositories.
pub(crate) struct Read {
    /// The chart without its submodules.
    pub(crate) artifact: ChartArtifact,
    /// Its submodules, if the source wants them.
    pub(crate) submodules: Vec<Submodule>,
}

/// Everything of one chart at one commit.
///
/// # Errors
/// As [`inspect`] and [`load`].
pub(crate) fn read(
    reader: &mut Reader,
    commit: ObjectId,
    source: &GitSource,
    limits: &Limits,
) -> Result<Read, SourceError> {
    let root = reader.tree_of(commit)?;
    let mut tree = Tree::new(reader, root);
    let chart = inspect(&mut tree, source, limits)?;
    let files = load(&mut tree, &chart, limits)?;
    let submodules = submodules_of(&mut tree, &chart, source, limits)?;
    let artifact = ChartArtifact {
        digest: chart.footprint.digest(),
        revision: commit.to_string(),
        chart: chart_name(&files),
        files: std::sync::Arc::new(files),
        can_move: false,
    };
    Ok(Read {
        artifact,
        submodules,
    })
}

fn submodules_of(
    tree: &mut Tree<'_>,
    chart: &ChartTree,
    source: &GitSource,
    limits: &Limits,
) -> Result<Vec<Submodule>, SourceError> {
    if !source.submodules || chart.walk.submodules.is_empty() {
        return Ok(Vec::new());
    }
    let modules = tree.file(".gitmodules", limits)?.unwrap_or_default();
    submodules::resolve(&modules, &source.url, &chart.walk.submodules)
}

/// Puts the files of a submodule into its place in a chart.
///
/// # Errors
/// `TooLarge`.
pub(crate) fn add_submodule(
    chart: &mut ChartArtifact,
    path: &str,
    files: &[ChartFile],
    limits: &Limits,
) -> Result<(), SourceError> {
    let mut all = chart.files.to_vec();
    all.extend(
        files
            .iter()
            .map(|(name, data)| (format!("{path}/{name}"), data.clone())),
    );
    all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    let bytes: u64 = all.iter().map(|(_, data)| data.len() as u64).sum();
    if bytes > limits.chart_bytes || all.len() > limits.chart_entries {
        return Err(SourceError::new(
            Reason::TooLarge,
            format!(
                "the chart with its submodules has {} files and {bytes} bytes, the limits are {} and {}",
                all.len(),
                limits.chart_entries,
                limits.chart_bytes
            ),
        ));
    }
    chart.files = std::sync::Arc::new(all);
    Ok(())
}

fn chart_name(files: &[ChartFile]) -> Option<ChartName> {
    let (_, text) = files.iter().find(|(path, _)| path == "Chart.yaml")?;
    let document = goyaml::read(text).ok()?;
    let text = |key: &str| {
        document
            .get(key)?
            .as_str()
            .map(|text| text.to_text().into_owned())
    };
    Some(ChartName {
        name: text("name")?,
        version: text("version")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_archives_of_the_dependency_itself_give_way() {
        assert!(is_archive_of("charts/common-1.2.3.tgz", "charts", "common"));
        assert!(is_archive_of(
            "charts/common-1.2.3-rc.1+b.tgz",
            "charts",
            "common"
        ));
        assert!(!is_archive_of(
            "charts/common-extra-1.0.0.tgz",
            "charts",
            "common"
        ));
        assert!(!is_archive_of(
            "charts/common/Chart.yaml",
            "charts",
            "common"
        ));
        assert!(!is_archive_of("x/common-1.2.3.tgz", "charts", "common"));
    }

    #[test]
    fn s19_a_dependency_name_is_never_a_path() {
        for hostile in ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", ".hidden"] {
            assert!(check_name(hostile).is_err(), "{hostile:?}");
        }
        assert!(check_name("common-lib").is_ok());
    }
}

//! The dependencies of git charts, as `helm dependency build` and `update` would put them into
//! `charts/`.
//!
//! What lies in `charts/` and fits is used as it is. Any failure ends here, before anything is
//! compared or applied: a chart is never rendered without its dependencies.

use std::sync::Arc;

use helm_engine::{Chart, Dependency, helm2_lock_digest};
use sha2::{Digest as _, Sha256};
use sprig::semver::{Constraints, Version};

use super::cache::digest_of;
use super::charts::Charts;
use super::fresh::Freshness;
use super::imported::alias_of;
use super::{ChartArtifact, ChartFile, Reason, SourceError};

/// Most dependencies of a chart.
const MOST: usize = 256;

/// A dependency that is not in `charts/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) repository: String,
}

/// Adds to `charts/` what the chart asks for and does not have. The digest of the result covers
/// what was added, so that a new content of a dependency is a change of the chart.
///
/// # Errors
/// `InvalidData` for a chart that cannot be read, `PathNotFound` for a local dependency that is not
/// there, and whatever the repositories answer.
pub(super) async fn complete(
    charts: &Charts,
    artifact: ChartArtifact,
    freshness: Freshness,
) -> Result<ChartArtifact, SourceError> {
    if !mentions_dependencies(&artifact) {
        return Ok(artifact);
    }
    let files = Arc::clone(&artifact.files);
    let task = tokio::task::spawn_blocking(move || missing(&load(&files)?));
    let wanted = task
        .await
        .unwrap_or_else(|error| Err(SourceError::new(Reason::InvalidData, error.to_string())))?;
    if wanted.is_empty() {
        return Ok(artifact);
    }
    let mut added = Vec::with_capacity(wanted.len());
    for dependency in &wanted {
        added.push(fetch(charts, dependency, freshness).await?);
    }
    Ok(with_archives(artifact, &wanted, added))
}

async fn fetch(
    charts: &Charts,
    wanted: &Wanted,
    freshness: Freshness,
) -> Result<ChartFile, SourceError> {
    let Wanted {
        name,
        version,
        repository,
    } = wanted;
    let context = |error: SourceError| error.context(format!("dependency {name} {version}"));
    let place = charts.place(repository, name).map_err(context)?;
    let access = charts.imported_access(&place);
    let found = charts
        .archive(&place, &access, name, Some(version), freshness)
        .await;
    let (version, content) = found.map_err(context)?;
    Ok((format!("charts/{name}-{version}.tgz"), content.to_vec()))
}

fn with_archives(
    artifact: ChartArtifact,
    wanted: &[Wanted],
    added: Vec<ChartFile>,
) -> ChartArtifact {
    let mut hash = Sha256::new();
    hash.update(&artifact.digest);
    for (path, content) in &added {
        hash.update(path);
        hash.update(digest_of(content));
    }
    let replaced = |path: &str| wanted.iter().any(|it| is_archive_of(path, &it.name));
    let kept = artifact
        .files
        .iter()
        .filter(|(path, _)| !replaced(path))
        .cloned();
    let mut files: Vec<ChartFile> = kept.chain(added).collect();
    files.sort_by(|left, right| left.0.cmp(&right.0));
    files.dedup_by(|left, right| left.0 == right.0);
    let hex: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ChartArtifact {
        digest: format!("{}+sha256:{hex}", artifact.digest),
        files: Arc::new(files),
        can_move: wanted.iter().any(|it| !is_exact(&it.version)),
        ..artifact
    }
}

/// Whether the text names one version and will never mean another.
fn is_exact(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    Version::parse_strict(text).is_ok()
}

/// Whether a path is an archive of another version of this chart.
fn is_archive_of(path: &str, name: &str) -> bool {
    let version = path.strip_prefix("charts/").and_then(|rest| {
        rest.strip_prefix(name)?
            .strip_prefix('-')?
            .strip_suffix(".tgz")
    });
    version.is_some_and(|text| Version::parse(text).is_ok())
}

/// A look at the text, so that charts without dependencies cost nothing.
fn mentions_dependencies(artifact: &ChartArtifact) -> bool {
    let chart = artifact.file("Chart.yaml").unwrap_or_default();
    let word = b"dependencies";
    chart.windows(word.len()).any(|window| window == word)
        || artifact.file("requirements.yaml").is_some()
}

fn load(files: &[ChartFile]) -> Result<Chart, SourceError> {
    let files = files
        .iter()
        .map(|(path, content)| (path.as_str(), content.as_slice()));
    let loaded = helm_engine::load_files(files, &helm_engine::Limits::default());
    loaded.map(|loaded| loaded.chart).map_err(|error| {
        SourceError::new(
            Reason::InvalidData,
            format!("the chart is not usable: {error}"),
        )
    })
}

/// What has to be fetched. The lock file says which versions, if it was written for these
/// dependencies; else the ranges of `Chart.yaml` do, as they did in 1.4.
pub(super) fn missing(chart: &Chart) -> Result<Vec<Wanted>, SourceError> {
    let requested = requested(chart);
    if requested.len() > MOST {
        let text = format!(
            "the chart has {} dependencies, the limit is {MOST}",
            requested.len()
        );
        return Err(SourceError::new(Reason::TooLarge, text));
    }
    let locked = locked(chart, &requested);
    let mut wanted = Vec::new();
    for (at, dependency) in requested.iter().enumerate() {
        let version = locked
            .get(at)
            .map_or(&dependency.version, |locked| &locked.version);
        if is_present(chart, &dependency.name, version)? {
            continue;
        }
        if dependency.repository.is_empty() || dependency.repository.starts_with("file://") {
            return Err(not_there(chart, dependency, version));
        }
        let one = Wanted {
            name: dependency.name.clone(),
            version: version.clone(),
            repository: dependency.repository.clone(),
        };
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    Ok(wanted)
}

/// The dependencies of `Chart.yaml`, without the nulls that stand for none.
fn requested(chart: &Chart) -> Vec<Dependency> {
    chart.requested().cloned().collect()
}

/// The locked dependencies in the order of the requested ones; none if the lock is not for them.
fn locked<'a>(chart: &'a Chart, requested: &[Dependency]) -> Vec<&'a Dependency> {
    let Some(lock) = &chart.lock else {
        return Vec::new();
    };
    let is_old = chart.metadata.api_version != "v2" && lock.digest == helm2_lock_digest(requested);
    let entries: Vec<_> = lock.dependencies.iter().flatten().flatten().collect();
    let names_agree = entries.len() == requested.len()
        && entries
            .iter()
            .zip(requested)
            .all(|(locked, asked)| locked.name == asked.name);
    // An alias of a repository is hashed by its address, which only the writer of the lock knew.
    let has_alias = requested
        .iter()
        .any(|asked| alias_of(&asked.repository).is_some());
    match names_agree && (is_old || has_alias || lock.is_in_sync(requested)) {
        true => entries,
        false => Vec::new(),
    }
}

/// Whether `charts/` has the chart in a version that fits.
fn is_present(chart: &Chart, name: &str, version: &str) -> Result<bool, SourceError> {
    let found = chart.dependencies.iter().filter(|it| it.name() == name);
    let mut versions = found.map(|it| it.metadata.version.as_str()).peekable();
    if versions.peek().is_none() {
        return Ok(false);
    }
    let range = Constraints::parse(version).map_err(|error| {
        let text = format!("dependency {name:?} has an invalid version/constraint format: {error}");
        SourceError::new(Reason::InvalidData, text)
    })?;
    Ok(versions.any(|found| {
        found == version || Version::parse(found).is_ok_and(|found| range.check(&found))
    }))
}

fn not_there(chart: &Chart, dependency: &Dependency, version: &str) -> SourceError {
    let name = &dependency.name;
    let has = chart.dependencies.iter().find(|it| it.name() == name);
    let why = match has {
        Some(found) => format!("charts/ has it in version {}", found.metadata.version),
        None => "charts/ does not have it".to_owned(),
    };
    let hint = match dependency.repository.as_str() {
        "" => "commit it to charts/, or name its repository".to_owned(),
        path => format!("nothing was found at {path}"),
    };
    let text = format!("dependency {name} {version} is missing: {why}: {hint}");
    SourceError::new(Reason::PathNotFound, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(files: &[(&str, &str)]) -> Chart {
        let files: Vec<ChartFile> = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect();
        load(&files).unwrap()
    }

    const TWO: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n\
        - name: one\n  version: ^1.0.0\n  repository: https://charts.example\n\
        - name: two\n  version: 2.x\n  repository: https://charts.example\n";
    const ONE: (&str, &str) = (
        "charts/one/Chart.yaml",
        "apiVersion: v2\nname: one\nversion: 1.4.0\n",
    );

    fn wanted(chart: &Chart) -> Vec<(String, String)> {
        missing(chart)
            .unwrap()
            .into_iter()
            .map(|it| (it.name, it.version))
            .collect()
    }

    #[test]
    fn what_lies_in_charts_and_fits_is_not_fetched() {
        let two = (
            "charts/two/Chart.yaml",
            "apiVersion: v2\nname: two\nversion: 2.0.9\n",
        );
        assert_eq!(
            missing(&chart(&[("Chart.yaml", TWO), ONE, two])).unwrap(),
            []
        );
        let old = (
            "charts/two/Chart.yaml",
            "apiVersion: v2\nname: two\nversion: 1.9.9\n",
        );
        let found = wanted(&chart(&[("Chart.yaml", TWO), ONE, old]));
        assert_eq!(found, [("two".to_owned(), "2.x".to_owned())]);
    }

    #[test]
    fn a_lock_in_sync_says_which_version() {
        let plain = chart(&[("Chart.yaml", TWO)]);
        let pin = |name: &str, version: &str| {
            Some(Dependency {
                name: name.to_owned(),
                version: version.to_owned(),
                repository: "https://charts.example".to_owned(),
                ..Dependency::default()
            })
        };
        let locked = [pin("one", "1.2.3"), pin("two", "2.0.0")];
        let digest = helm_engine::lock_digest(&requested(&plain), &locked);
        let lock = format!(
            "dependencies:\n- name: one\n  repository: https://charts.example\n  version: 1.2.3\n\
             - name: two\n  repository: https://charts.example\n  version: 2.0.0\n\
             digest: {digest}\ngenerated: \"2026-01-01T00:00:00Z\"\n"
        );
        let versions = |lock: &str| -> Vec<String> {
            let chart = chart(&[("Chart.yaml", TWO), ("Chart.lock", lock)]);
            wanted(&chart)
                .into_iter()
                .map(|(_, version)| version)
                .collect()
        };
        assert_eq!(versions(&lock), ["1.2.3", "2.0.0"]);
        assert_eq!(versions(&lock.replace("2.0.0", "2.0.1")), ["^1.0.0", "2.x"]);
    }

    #[test]
    fn a_dependency_without_repository_must_be_there() {
        let text = TWO.replace("https://charts.example", "\"\"");
        let error = missing(&chart(&[("Chart.yaml", &text), ONE])).unwrap_err();
        assert_eq!(error.reason(), Reason::PathNotFound);
        assert!(
            error
                .to_string()
                .starts_with("dependency two 2.x is missing"),
            "{error}"
        );
    }

    #[test]
    fn only_archives_of_the_same_chart_are_replaced() {
        for (path, expected) in [
            ("charts/one-1.0.0.tgz", true),
            ("charts/one-v1.0.0-rc.1+b.tgz", true),
            ("charts/one-extra-1.0.0.tgz", false),
            ("charts/one/Chart.yaml", false),
            ("one-1.0.0.tgz", false),
        ] {
            assert_eq!(is_archive_of(path, "one"), expected, "{path}");
        }
    }

    #[test]
    fn the_digest_of_the_result_covers_what_was_added() {
        let artifact = ChartArtifact {
            digest: "tree".to_owned(),
            revision: "commit".to_owned(),
            files: Arc::new(vec![("Chart.yaml".to_owned(), Vec::new())]),
            chart: None,
            can_move: false,
        };
        let add = |content: &[u8]| {
            let added = vec![("charts/one-1.0.0.tgz".to_owned(), content.to_vec())];
            with_archives(artifact.clone(), &[], added)
        };
        assert_ne!(add(b"a").digest, add(b"b").digest);
        assert_eq!(add(b"a").digest, add(b"a").digest);
        assert_eq!(add(b"a").files.len(), 2);
    }
}

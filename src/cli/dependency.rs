//! `helm-operator dependency`: lists, fetches and updates what a chart depends on, as `helm
//! dependency`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use helm_engine::{
    Chart, Dependency, Limits, Lock, LockTime, helm2_lock_digest, load, load_directory,
    load_of_any_version, lock_digest, lock_yaml, package,
};
use sprig::semver::{Constraints, Version};

use super::charts::{LoginFlags, block_on};
use super::output::print;
use super::table::cut_table;
use crate::source::{ChartPlace, Charts, Freshness, alias_of};

/// Manage a chart's dependencies.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::DEPENDENCY)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// List the dependencies of a chart and whether charts/ has them
    #[command(visible_alias = "ls")]
    List {
        /// The chart
        #[arg(default_value = ".")]
        chart: PathBuf,
    },
    /// Rebuild the charts/ directory from the Chart.lock file
    Build(Target),
    /// Update charts/ from the contents of Chart.yaml
    #[command(visible_alias = "up")]
    Update(Target),
}

#[derive(Args, Clone, Debug)]
struct Target {
    /// The chart's directory
    #[arg(default_value = ".")]
    chart: PathBuf,

    /// do not refresh the local repository cache
    #[arg(long)]
    skip_refresh: bool,

    #[command(flatten)]
    login: LoginFlags,

    /// Whether nothing is told of what is done.
    #[arg(skip)]
    is_quiet: bool,
}

impl Target {
    fn tell(&self, text: &str) -> Result<()> {
        if self.is_quiet {
            return Ok(());
        }
        print(text)
    }
}

/// Does what the verb says.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::List { chart } => list(chart),
        Verb::Build(target) => block_on(build(target)),
        Verb::Update(target) => block_on(update(target)),
    }
}

/// What `--dependency-update` does first. `package` tells nothing of it.
pub(super) fn update_before(chart: &Path, login: &LoginFlags, is_quiet: bool) -> Result<()> {
    block_on(update(&Target {
        chart: chart.to_owned(),
        skip_refresh: false,
        login: login.clone(),
        is_quiet,
    }))
}

fn requested(chart: &Chart) -> Vec<Dependency> {
    chart.requested().cloned().collect()
}

fn list(path: &Path) -> Result<()> {
    let chart = load_of_any_version(path, &Limits::default())?.chart;
    let all = requested(&chart);
    if all.is_empty() {
        let directory = without_dots(&path.join("charts"));
        let shown = directory.display();
        return print(&format!("WARNING: no dependencies at {shown}\n"));
    }
    let mut rows = vec![["NAME", "VERSION", "REPOSITORY", "STATUS"].map(str::to_owned)];
    for dependency in &all {
        let state = state(path, dependency, &chart).to_owned();
        let Dependency {
            name,
            version,
            repository,
            ..
        } = dependency.clone();
        rows.push([name, version, repository, state]);
    }
    print(&format!(
        "{}\n{}",
        cut_table(&rows, 80),
        strangers(path, &all)
    ))
}

/// A path without the `.` that stand for nothing.
fn without_dots(path: &Path) -> PathBuf {
    let parts = path.components();
    parts
        .filter(|part| !matches!(part, std::path::Component::CurDir))
        .collect()
}

/// What helm calls the state of a dependency in `charts/`.
fn state(path: &Path, dependency: &Dependency, chart: &Chart) -> &'static str {
    let archives = archives_of(path, &dependency.name);
    let strict = |archive: &&PathBuf| {
        let stem = archive
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let version = stem
            .strip_prefix(&format!("{}-", dependency.name))
            .map(str::to_owned);
        version.is_some_and(|text| Version::parse_strict(&text).is_ok())
    };
    let versions: Vec<&PathBuf> = archives.iter().filter(strict).collect();
    match (archives.as_slice(), versions.as_slice()) {
        ([one], _) => return archive_state(one, dependency),
        ([_, _, ..], [one]) => return archive_state(one, dependency),
        ([_, _, ..], [_, _, ..]) => return "too many matches",
        _ => {}
    }
    let found = chart
        .dependencies
        .iter()
        .rfind(|it| it.name() == dependency.name);
    match found {
        None => "missing",
        Some(found) => fits(&found.metadata.version, &dependency.version).unwrap_or("unpacked"),
    }
}

fn archive_state(archive: &Path, dependency: &Dependency) -> &'static str {
    let Ok(loaded) = load(archive, &Limits::default()) else {
        return "corrupt";
    };
    if loaded.chart.name() != dependency.name {
        return "misnamed";
    }
    fits(&loaded.chart.metadata.version, &dependency.version).unwrap_or("ok")
}

/// `None` if the version fits the range, else why not.
fn fits(version: &str, range: &str) -> Option<&'static str> {
    if version == range {
        return None;
    }
    match (Constraints::parse(range), Version::parse(version)) {
        (Ok(range), Ok(version)) => (!range.check(&version)).then_some("wrong version"),
        _ => Some("invalid version"),
    }
}

fn archives_of(path: &Path, name: &str) -> Vec<PathBuf> {
    let prefix = format!("{name}-");
    let mut found: Vec<PathBuf> = entries(path)
        .into_iter()
        .filter(|path| {
            let file = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            file.starts_with(&prefix) && file.ends_with(".tgz")
        })
        .collect();
    found.sort();
    found
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(path.join("charts"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Warnings about what lies in `charts/` and is asked for by nobody.
fn strangers(path: &Path, all: &[Dependency]) -> String {
    let is_chart = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|it| it == "tgz");
    let warning = |path: PathBuf| {
        let shown = path.display();
        match load(&path, &Limits::default()) {
            Err(_) => Some(format!("WARNING: \"{shown}\" is not a chart.\n")),
            Ok(loaded) if all.iter().all(|it| it.name != loaded.chart.name()) => {
                Some(format!("WARNING: \"{shown}\" is not in Chart.yaml.\n"))
            }
            Ok(_) => None,
        }
    };
    entries(path)
        .into_iter()
        .filter(is_chart)
        .filter_map(warning)
        .collect()
}

async fn build(target: &Target) -> Result<()> {
    let chart = open(&target.chart)?;
    let Some(lock) = &chart.lock else {
        return update(target).await;
    };
    let mut all = requested(&chart);
    let is_old = chart.metadata.api_version != "v2";
    let old_digest = helm2_lock_digest(&all);
    let charts = target.login.charts(&registries(&all))?;
    resolve_aliases(&charts, &mut all)?;
    if !(lock.is_in_sync(&all) || is_old && lock.digest == old_digest) {
        match is_old {
            true => bail!(
                "the lock file (requirements.lock) is out of sync with the dependencies file (requirements.yaml). Please update the dependencies"
            ),
            false => bail!(
                "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies with 'helm dependency update'"
            ),
        }
    }
    let mut locked: Vec<Dependency> = lock
        .dependencies
        .iter()
        .flatten()
        .flatten()
        .cloned()
        .collect();
    download(target, &charts, &mut locked).await
}

async fn update(target: &Target) -> Result<()> {
    let chart = open(&target.chart)?;
    let mut all = requested(&chart);
    if all.is_empty() {
        return Ok(());
    }
    let charts = target.login.charts(&registries(&all))?;
    resolve_aliases(&charts, &mut all)?;
    let mut locked = Vec::with_capacity(all.len());
    for dependency in &all {
        locked.push(resolve(target, &charts, dependency).await?);
    }
    download(target, &charts, &mut locked).await?;
    let entries: Vec<Option<Dependency>> = locked.into_iter().map(Some).collect();
    let digest = lock_digest(&all, &entries);
    if chart.lock.as_ref().is_some_and(|old| old.digest == digest) {
        return Ok(());
    }
    let lock = Lock {
        generated: Some(LockTime::now()),
        digest,
        dependencies: Some(entries),
    };
    write_lock(&target.chart, &lock, chart.metadata.api_version != "v2")
}

fn open(path: &Path) -> Result<Chart> {
    let metadata =
        fs::metadata(path).with_context(|| format!("could not find {}", path.display()))?;
    if !metadata.is_dir() {
        bail!("only unpacked charts can be updated");
    }
    Ok(load_directory(path, &Limits::default())?.chart)
}

fn registries(all: &[Dependency]) -> Vec<&str> {
    all.iter()
        .map(|dependency| dependency.repository.as_str())
        .collect()
}

/// Replaces aliases of repositories by their addresses: that is what the lock's digest is over.
fn resolve_aliases(charts: &Charts, all: &mut [Dependency]) -> Result<()> {
    for dependency in all {
        let text = &dependency.repository;
        if alias_of(text).is_some() {
            let ChartPlace::Repository(url) = charts.place(text, &dependency.name)? else {
                continue;
            };
            dependency.repository = url.as_str().trim_end_matches('/').to_owned();
        }
    }
    Ok(())
}

fn is_local(dependency: &Dependency) -> bool {
    dependency.repository.is_empty() || dependency.repository.starts_with("file://")
}

/// The locked form of a dependency: its newest version that fits.
async fn resolve(target: &Target, charts: &Charts, dependency: &Dependency) -> Result<Dependency> {
    let Dependency {
        name,
        version,
        repository,
        ..
    } = dependency;
    let unpacked = target.chart.join("charts").join(name);
    if repository.is_empty() && !unpacked.exists() {
        let unpacked = std::path::absolute(unpacked)?;
        bail!("directory {} not found", unpacked.display());
    }
    let version = match is_local(dependency) {
        true => version.clone(),
        false => {
            let place = charts.place(repository, name)?;
            let access = target.login.access(charts, &place)?;
            let found = charts.resolve(&place, &access, name, Some(version)).await;
            found.with_context(|| format!("can't get a valid version for 1 subchart(s): {name:?} (repository {repository:?}, version {version:?})"))?
        }
    };
    Ok(Dependency {
        name: name.clone(),
        version,
        repository: repository.clone(),
        ..Dependency::default()
    })
}

/// Gets every archive first and changes `charts/` only then, so that a failure changes nothing.
async fn download(target: &Target, charts: &Charts, locked: &mut [Dependency]) -> Result<()> {
    let directory = target.chart.join("charts");
    if directory.exists() && !directory.is_dir() {
        bail!("{:?} is not a directory", directory.display().to_string());
    }
    target.tell(&format!("Saving {} charts\n", locked.len()))?;
    let mut saved = BTreeMap::new();
    for dependency in locked.iter_mut() {
        fetch(target, charts, dependency, &mut saved).await?;
    }
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, content) in &saved {
        let path = directory.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    target.tell("Deleting outdated charts\n")?;
    delete_outdated(target, locked, &saved)
}

async fn fetch(
    target: &Target,
    charts: &Charts,
    dependency: &mut Dependency,
    saved: &mut BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    let Dependency {
        name,
        version,
        repository,
        ..
    } = &*dependency;
    if repository.is_empty() {
        target.tell(&format!(
            "Dependency {name} did not declare a repository. Assuming it exists in the charts directory\n"
        ))?;
        return check_local(&target.chart.join("charts").join(name), dependency);
    }
    if let Some(path) = repository.strip_prefix("file://") {
        let (version, content) = pack(&target.chart.join(path), dependency)?;
        saved.insert(format!("{name}-{version}.tgz"), content);
        dependency.version = version;
        return Ok(());
    }
    let place = charts.place(repository, name)?;
    let access = target.login.access(charts, &place)?;
    target.tell(&format!("Downloading {name} from repo {repository}\n"))?;
    let freshness = Freshness::by_interval();
    let found = charts
        .archive(&place, &access, name, Some(version), freshness)
        .await;
    let (version, content) = found.with_context(|| format!("could not download {name}"))?;
    saved.insert(format!("{name}-{version}.tgz"), content.to_vec());
    Ok(())
}

fn check_local(path: &Path, dependency: &Dependency) -> Result<()> {
    let shown = path.display();
    let loaded = load_directory(path, &Limits::default())
        .with_context(|| format!("unable to load chart '{shown}'"))?;
    let found = &loaded.chart.metadata.version;
    match fits(found, &dependency.version) {
        None => Ok(()),
        Some(_) => bail!(
            "dependency {} at version {found} does not satisfy the constraint {}",
            dependency.name,
            dependency.version
        ),
    }
}

/// Packs a chart beside this one.
fn pack(path: &Path, dependency: &Dependency) -> Result<(String, Vec<u8>)> {
    let loaded = load_directory(path, &Limits::default())
        .with_context(|| format!("directory {} not found", path.display()))?;
    let version = loaded.chart.metadata.version.clone();
    if fits(&version, &dependency.version).is_some() {
        bail!(
            "can't get a valid version for dependency {}",
            dependency.name
        );
    }
    let mut content = Vec::new();
    package(&loaded.chart, None, &mut content)?;
    Ok((version, content))
}

/// Removes archives that nothing asks for any more; unpacked charts stay.
fn delete_outdated(
    target: &Target,
    locked: &[Dependency],
    saved: &BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    let is_local = |name: &str| {
        locked
            .iter()
            .any(|it| it.name == name && it.repository.is_empty())
    };
    for entry in entries(&target.chart) {
        let name = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if entry.is_dir() || saved.contains_key(&name) {
            continue;
        }
        match load(&entry, &Limits::default()) {
            Err(error) => target.tell(&format!(
                "Could not verify {} for deletion: {error} (Skipping)\n",
                entry.display()
            ))?,
            Ok(loaded) if is_local(loaded.chart.name()) => {}
            Ok(_) => fs::remove_file(&entry)
                .with_context(|| format!("cannot delete {}", entry.display()))?,
        }
    }
    Ok(())
}

fn write_lock(chart: &Path, lock: &Lock, is_old: bool) -> Result<()> {
    let name = if is_old {
        "requirements.lock"
    } else {
        "Chart.lock"
    };
    let path = chart.join(name);
    if let Ok(target) = fs::read_link(&path) {
        bail!(
            "the {name} file is a symlink to {:?}",
            target.display().to_string()
        );
    }
    fs::write(&path, lock_yaml(lock)).with_context(|| format!("cannot write {}", path.display()))
}
